//! The tables of a track: the samples with their times, sizes and offsets (ISO/IEC 14496-12 sections 8.6 and 8.7).
//!
//! The input is a file that may be hostile: counts are checked against the available bytes, and sums do not overflow.
//! No step is taken for each sample unless the sample has bytes of its own in a table.

use super::Mp4Fault;

/// Reads a 32-bit number, big-endian.
pub fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Mp4Fault> {
    let four = at.checked_add(4).and_then(|end| bytes.get(at..end)).and_then(|four| four.try_into().ok());
    four.map(u32::from_be_bytes).ok_or(Mp4Fault("an atom is too small"))
}

/// Reads a 64-bit number, big-endian.
pub fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Mp4Fault> {
    Ok(u64::from(u32_at(bytes, at)?) << 32 | u64::from(u32_at(bytes, at + 4)?))
}

/// The rows of a table: version and flags, `skip` further bytes, the number of rows, and the rows.
pub fn rows(body: &[u8], skip: usize, width: usize) -> Result<std::slice::ChunksExact<'_, u8>, Mp4Fault> {
    let count = u32_at(body, 4 + skip)? as usize;
    let bytes = count.checked_mul(width).and_then(|len| body.get(8 + skip..)?.get(..len));
    bytes.map(|bytes| bytes.chunks_exact(width)).ok_or(Mp4Fault("a table is larger than its atom"))
}

/// A run of samples that have the same value (`stts`, `ctts`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRun {
    /// The number of samples.
    pub count: u64,
    /// The value, as it is written.
    pub value: u32,
}

/// Reads `stts` or `ctts`.
pub fn runs(body: &[u8]) -> Result<Vec<SampleRun>, Mp4Fault> {
    rows(body, 0, 8)?.map(|row| Ok(SampleRun { count: u32_at(row, 0)?.into(), value: u32_at(row, 4)? })).collect()
}

/// The number of samples that end by `time`, beginning at sample `from`; all of them if their total is shorter.
pub fn samples_until(runs: &[SampleRun], from: u64, time: u64) -> u64 {
    let (mut at, mut left) = (0_u64, time);
    let mut found = 0;
    for run in runs {
        let here = (at + run.count).saturating_sub(from.max(at)).min(run.count);
        at += run.count;
        let whole = if run.value == 0 { here } else { (left / u64::from(run.value)).min(here) };
        found += whole;
        left -= whole * u64::from(run.value);
        if whole < here {
            break;
        }
    }
    found
}

/// The duration of the samples from `from` to before `to`.
pub fn time_of(runs: &[SampleRun], from: u64, to: u64) -> u64 {
    let times = crop(runs, from, to).into_iter().map(|run| run.count.saturating_mul(run.value.into()));
    times.fold(0, u64::saturating_add)
}

/// The runs of the samples from `from` to before `to`. If there are samples at all, there is a run.
pub fn crop(runs: &[SampleRun], from: u64, to: u64) -> Vec<SampleRun> {
    let mut at = 0_u64;
    let mut out = Vec::new();
    for run in runs {
        let end = at + run.count;
        let count = end.min(to).saturating_sub(at.max(from));
        if count > 0 || out.is_empty() && at <= from && from < end {
            out.push(SampleRun { count, ..*run });
        }
        at = end;
    }
    out
}

/// Consecutive chunks with the same number of samples (`stsc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRun {
    /// The number of the first chunk, from 0.
    pub first: u64,
    /// The number of samples of each chunk; more than 0 in a table that was read.
    pub samples: u32,
    /// The index of the sample description.
    pub description: u32,
}

/// Reads `stsc` of a track with this number of chunks.
pub fn chunk_runs(body: &[u8], chunks: u64) -> Result<Vec<ChunkRun>, Mp4Fault> {
    let mut out: Vec<ChunkRun> = Vec::new();
    for row in rows(body, 0, 12)? {
        let first = u64::from(u32_at(row, 0)?).checked_sub(1).ok_or(Mp4Fault("zero chunk in stsc"))?;
        let (samples, description) = (u32_at(row, 4)?, u32_at(row, 8)?);
        let expected = out.last().map_or(first == 0, |before| before.first < first);
        if !expected || samples == 0 || first > chunks {
            return Err(Mp4Fault("a wrong entry in stsc"));
        }
        out.push(ChunkRun { first, samples, description });
    }
    if out.is_empty() { Err(Mp4Fault("no entries in stsc")) } else { Ok(out) }
}

/// The chunks that hold a range of samples.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunks {
    /// The number of the first chunk, from 0.
    pub first: u64,
    /// The number of chunks.
    pub count: u64,
    /// The number of samples of the first chunk that are left out before the wanted ones.
    pub skipped: u64,
    /// The number of wanted samples of the last chunk, without samples that are left out at its beginning.
    pub in_last: u64,
    /// The distribution of the wanted samples, with chunks counted from the first of them.
    pub runs: Vec<ChunkRun>,
}

/// The chunks of the samples from `from` to before `to`.
pub fn crop_chunks(runs: &[ChunkRun], chunks: u64, from: u64, to: u64) -> Result<Chunks, Mp4Fault> {
    let mut sample = 0_u64;
    let mut out: Option<Chunks> = None;
    for (index, run) in runs.iter().enumerate() {
        let end = runs.get(index + 1).map_or(chunks, |next| next.first);
        let per = u64::from(run.samples);
        let after = sample + (end - run.first) * per;
        let starts_here = out.is_none() && (sample..after).contains(&from);
        if starts_here || out.is_some() && sample < to {
            let begin = from.max(sample);
            let (first, skipped) = (run.first + (begin - sample) / per, (begin - sample) % per);
            let stop = to.min(after).max(begin);
            let wanted = stop - begin;
            let chunks = out.get_or_insert(Chunks { first, count: 0, skipped, in_last: 0, runs: Vec::new() });
            let mut at = first - chunks.first;
            let mut push = |first: u64, samples: u64| {
                let samples = u32::try_from(samples).unwrap_or(u32::MAX);
                chunks.runs.push(ChunkRun { first, samples, description: run.description });
            };
            // First the first chunk, if it is partial; then whole ones; then the last one, if it is partial.
            let mut left = wanted;
            let lead = if skipped > 0 || wanted < per { (per - skipped).min(left) } else { 0 };
            if skipped > 0 || wanted < per {
                push(at, lead);
                chunks.in_last = lead;
                at += 1;
                left -= lead;
            }
            if left >= per {
                push(at, per);
                at += left / per;
                chunks.in_last = per;
            }
            if !left.is_multiple_of(per) {
                push(at, left % per);
                at += 1;
                chunks.in_last = left % per;
            }
            chunks.count = at;
        }
        sample = after;
    }
    let out = out.ok_or(Mp4Fault("start time is out of the chunks"))?;
    if sample < to { Err(Mp4Fault("end time is out of the chunks")) } else { Ok(out) }
}

/// The sizes of samples (`stsz`).
pub struct Sizes<'a> {
    uniform: u32,
    count: u64,
    rows: &'a [u8],
}

impl<'a> Sizes<'a> {
    /// Reads `stsz`.
    pub fn read(body: &'a [u8]) -> Result<Sizes<'a>, Mp4Fault> {
        let (uniform, count) = (u32_at(body, 4)?, u64::from(u32_at(body, 8)?));
        let rows = match uniform {
            0 => {
                let count = rows(body, 4, 4)?.len();
                body.get(12..12 + count * 4).unwrap_or_default()
            }
            _ => &[],
        };
        Ok(Sizes { uniform, count, rows })
    }

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The common size if all samples have the same; otherwise 0.
    pub fn uniform(&self) -> u32 {
        self.uniform
    }

    /// The sizes as they are written, of samples with separate sizes.
    pub fn of(&self, from: u64, to: u64) -> Result<&'a [u8], Mp4Fault> {
        let fault = Mp4Fault("time is out of the samples");
        if from > to || to > self.count {
            return Err(fault);
        }
        if self.uniform != 0 {
            return Ok(&[]);
        }
        let (from, to) = (usize::try_from(from).map_err(|_| fault)?, usize::try_from(to).map_err(|_| fault)?);
        self.rows.get(from * 4..to * 4).ok_or(fault)
    }

    /// The number of bytes of the samples from `from` to before `to`.
    pub fn sum(&self, from: u64, to: u64) -> Result<u64, Mp4Fault> {
        let own = self.of(from, to)?;
        if self.uniform != 0 {
            return (to - from).checked_mul(self.uniform.into()).ok_or(Mp4Fault("too many samples"));
        }
        Ok(own.chunks_exact(4).filter_map(|size| u32_at(size, 0).ok()).map(u64::from).sum())
    }
}
