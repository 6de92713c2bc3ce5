//! Cuts a movie: makes a `moov` atom for a part of it, and finds the bytes of the file that the part needs.

use super::Mp4Fault;
use super::tables::{self, Chunks, SampleRun, Sizes, u32_at, u64_at};

/// The part that is wanted, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackPart {
    /// The beginning of the part.
    pub start: u64,
    /// The length of the part; `None`: up to the end.
    pub length: Option<u64>,
    /// Whether tracks begin with a key frame.
    pub key_frame: bool,
}

impl TrackPart {
    /// Whether it is the whole movie.
    pub fn is_all(self) -> bool {
        self.start == 0 && self.length.is_none()
    }
}

/// The result of cutting.
#[derive(Debug)]
pub struct Cut {
    /// The bytes before the data: `ftyp`, `moov`, and the head of `mdat`. If empty, the data is the whole file.
    pub head: Vec<u8>,
    /// The offset of the data in the file.
    pub start: u64,
    /// The number of bytes of the data.
    pub len: u64,
}

/// The most tracks of a movie.
const MAX_TRACKS: usize = 256;
/// The most atoms of one level.
const MAX_ATOMS: usize = 1024;

type Name = [u8; 4];

/// An atom: its name, and all of its bytes. The first eight are the header.
#[derive(Clone, Copy)]
struct Atom<'a> {
    name: Name,
    whole: &'a [u8],
}

impl<'a> Atom<'a> {
    fn body(&self) -> &'a [u8] {
        self.whole.get(8..).unwrap_or_default()
    }
}

/// Parses consecutive atoms.
fn atoms(mut bytes: &[u8]) -> Result<Vec<Atom<'_>>, Mp4Fault> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let size = u32_at(bytes, 0)? as usize;
        let name = bytes.get(4..8).and_then(|name| name.try_into().ok()).ok_or(Mp4Fault("an atom is too small"))?;
        if size < 8 || size > bytes.len() || out.len() >= MAX_ATOMS {
            return Err(Mp4Fault("an atom is too small or too large"));
        }
        let (whole, rest) = bytes.split_at(size);
        out.push(Atom { name, whole });
        bytes = rest;
    }
    Ok(out)
}

fn find<'a>(atoms: &[Atom<'a>], name: &Name) -> Option<Atom<'a>> {
    atoms.iter().find(|atom| atom.name == *name).copied()
}

fn need<'a>(atoms: &[Atom<'a>], name: &Name) -> Result<Atom<'a>, Mp4Fault> {
    find(atoms, name).ok_or(Mp4Fault("an atom is missing"))
}

/// The positions of the times in `mvhd`, `mdhd` and `tkhd`.
#[derive(Clone, Copy)]
struct Clock {
    /// The time scale; `None`: the track uses the time scale of the movie.
    timescale: Option<u32>,
    duration: u64,
    /// The offset of the duration in the atom, and its size in bytes.
    at: usize,
    wide: bool,
}

impl Clock {
    fn read(atom: Atom<'_>) -> Result<Clock, Mp4Fault> {
        let body = atom.body();
        let wide = *body.first().ok_or(Mp4Fault("an atom is too small"))? == 1;
        let is_track = atom.name == *b"tkhd";
        let (scale, at) = match (is_track, wide) {
            (false, false) => (Some(12), 16),
            (false, true) => (Some(20), 24),
            (true, false) => (None, 20),
            (true, true) => (None, 28),
        };
        let duration = if wide { u64_at(body, at)? } else { u32_at(body, at)?.into() };
        let timescale = scale.map(|scale| u32_at(body, scale)).transpose()?;
        Ok(Clock { timescale, duration, at: at + 8, wide })
    }

    /// The atom with another duration.
    fn rewrite(&self, atom: Atom<'_>, duration: u64) -> Result<Vec<u8>, Mp4Fault> {
        let mut out = atom.whole.to_vec();
        let wide = duration.to_be_bytes();
        let bytes = if self.wide { &wide[..] } else { &wide[4..] };
        let end = self.at + bytes.len();
        out.get_mut(self.at..end).ok_or(Mp4Fault("an atom is too small"))?.copy_from_slice(bytes);
        Ok(out)
    }
}

/// Converts milliseconds to units of a time scale.
fn ticks(millis: u64, timescale: u32) -> Result<u64, Mp4Fault> {
    millis.checked_mul(timescale.into()).map(|product| product / 1000).ok_or(Mp4Fault("a time is too large"))
}

/// The remaining duration after the cut.
fn rest(duration: u64, part: TrackPart, timescale: u32) -> Result<u64, Mp4Fault> {
    let left = duration.saturating_sub(ticks(part.start, timescale)?);
    Ok(match part.length {
        None => left,
        Some(length) => left.min(ticks(length, timescale)?),
    })
}

/// A track after cutting, without the offsets of its chunks.
struct Track<'a> {
    /// The atom `tkhd` and the atoms before the media.
    head: Vec<u8>,
    mdhd: Vec<u8>,
    hdlr: Option<Atom<'a>>,
    /// The atoms `vmhd`, `smhd` and `dinf`.
    media: Vec<Atom<'a>>,
    /// The sample table without the offsets.
    table: Vec<u8>,
    offsets: Vec<u64>,
    /// Whether the offsets are written with 64 bits.
    wide: bool,
    /// The range of the track's data in the file.
    data: (u64, u64),
}

/// Cuts a movie. `ftyp` is the whole atom, `moov` its body, `mdat` the range of its data in the file.
///
/// # Errors
/// The movie has no such part, or it is broken.
pub fn cut(ftyp: &[u8], moov: &[u8], mdat: (u64, u64), part: TrackPart) -> Result<Cut, Mp4Fault> {
    let movie = atoms(moov)?;
    let mvhd = need(&movie, b"mvhd")?;
    let clock = Clock::read(mvhd)?;
    let timescale = clock.timescale.unwrap_or(0);
    if ticks(part.start, timescale)? > clock.duration {
        return Err(Mp4Fault("start time exceeds file duration"));
    }
    let mut tracks = Vec::new();
    for trak in movie.iter().filter(|atom| atom.name == *b"trak") {
        if tracks.len() >= MAX_TRACKS {
            return Err(Mp4Fault("too many tracks"));
        }
        tracks.extend(track(trak.body(), timescale, part)?);
    }
    let start = tracks.iter().map(|track| track.data.0).min().ok_or(Mp4Fault("no tracks were found"))?;
    let end = match part.length {
        Some(_) => tracks.iter().map(|track| track.data.1).max().unwrap_or(start),
        None => mdat.1,
    };
    if start < mdat.0 || end > mdat.1 || start > end {
        return Err(Mp4Fault("start and end are not inside of the data"));
    }
    let len = end - start;
    let mdat_head = if len + 8 > u64::from(u32::MAX) { 16 } else { 8 };
    let mvhd = clock.rewrite(mvhd, rest(clock.duration, part, timescale)?)?;
    let build = |moved: i64| -> Result<Vec<u8>, Mp4Fault> {
        let mut body = mvhd.clone();
        for track in &tracks {
            body.extend(track.write(moved)?);
        }
        wrap(b"moov", &body)
    };
    let place = ftyp.len() as u64 + build(0)?.len() as u64 + mdat_head;
    let moved = i64::try_from(place).ok().zip(i64::try_from(start).ok()).map(|(place, start)| place - start);
    let mut head = ftyp.to_vec();
    head.extend(build(moved.ok_or(Mp4Fault("an offset is too large"))?)?);
    if mdat_head == 16 {
        head.extend_from_slice(&1_u32.to_be_bytes());
        head.extend_from_slice(b"mdat");
        head.extend_from_slice(&(len + 16).to_be_bytes());
    } else {
        head.extend_from_slice(&u32::try_from(len + 8).unwrap_or(u32::MAX).to_be_bytes());
        head.extend_from_slice(b"mdat");
    }
    Ok(Cut { head, start, len })
}

fn wrap(name: &Name, body: &[u8]) -> Result<Vec<u8>, Mp4Fault> {
    let size = u32::try_from(body.len() + 8).map_err(|_| Mp4Fault("an atom is too large"))?;
    Ok([&size.to_be_bytes()[..], name, body].concat())
}

/// Makes a table with `count` rows.
fn table(name: &Name, before: &[u8], count: usize, rows: &[u8]) -> Result<Vec<u8>, Mp4Fault> {
    let count = u32::try_from(count).map_err(|_| Mp4Fault("a table is too large"))?;
    wrap(name, &[&[0; 4], before, &count.to_be_bytes(), rows].concat())
}

fn number(number: u64) -> Result<[u8; 4], Mp4Fault> {
    u32::try_from(number).map(u32::to_be_bytes).map_err(|_| Mp4Fault("a number is too large"))
}

/// Cuts a track. `None`: it ends before the part begins.
fn track<'a>(trak: &'a [u8], movie_scale: u32, part: TrackPart) -> Result<Option<Track<'a>>, Mp4Fault> {
    let trak = atoms(trak)?;
    let tkhd = need(&trak, b"tkhd")?;
    let track_clock = Clock::read(tkhd)?;
    if track_clock.duration <= ticks(part.start, movie_scale)? {
        return Ok(None);
    }
    let mdia = atoms(need(&trak, b"mdia")?.body())?;
    let mdhd = need(&mdia, b"mdhd")?;
    let media_clock = Clock::read(mdhd)?;
    let scale = media_clock.timescale.unwrap_or(0);
    let minf = atoms(need(&mdia, b"minf")?.body())?;
    let stbl = atoms(need(&minf, b"stbl")?.body())?;

    let times = tables::runs(need(&stbl, b"stts")?.body())?;
    let sizes = Sizes::read(need(&stbl, b"stsz")?.body())?;
    let samples: u64 = times.iter().map(|run| run.count).sum();
    let asked = tables::samples_until(&times, 0, ticks(part.start, scale)?);
    if asked >= samples || samples > sizes.count() {
        return Err(Mp4Fault("start time is out of the samples"));
    }
    let to = match part.length {
        None => samples,
        Some(length) => (asked + tables::samples_until(&times, asked, ticks(length, scale)?)).min(samples),
    };
    let keys = find(&stbl, b"stss").map(|stss| tables::rows(stss.body(), 0, 4)).transpose()?;
    let keys: Option<Vec<u64>> = keys.map(|rows| rows.filter_map(|row| u32_at(row, 0).ok()).map(u64::from).collect());
    let from = match &keys {
        Some(keys) if part.key_frame => {
            keys.iter().filter_map(|key| key.checked_sub(1)).filter(|key| *key <= asked).max().unwrap_or(asked)
        }
        _ => asked,
    };
    let prefix = tables::time_of(&times, from, asked);

    let (places, wide) = match find(&stbl, b"stco") {
        Some(stco) => (tables::rows(stco.body(), 0, 4)?, false),
        None => (tables::rows(need(&stbl, b"co64")?.body(), 0, 8)?, true),
    };
    let total = places.len() as u64;
    let chunk_runs = tables::chunk_runs(need(&stbl, b"stsc")?.body(), total)?;
    let chunks = tables::crop_chunks(&chunk_runs, total, from, to)?;
    let (offsets, data) = places_of(places, wide, &chunks, &sizes, from, to)?;

    let media = [b"vmhd", b"smhd", b"dinf"].into_iter().filter_map(|name| find(&minf, name)).collect();
    let duration = rest(track_clock.duration, part, movie_scale)?;
    let mut head = track_clock.rewrite(tkhd, duration)?;
    if prefix > 0 {
        head.extend(edit_list(duration, prefix)?);
    }
    let mdhd = media_clock.rewrite(mdhd, rest(media_clock.duration, part, scale)?.saturating_add(prefix))?;
    let table = sample_table(&stbl, &times, keys.as_deref(), &chunks, &sizes, from, to)?;
    Ok(Some(Track { head, mdhd, hdlr: find(&mdia, b"hdlr"), media, table, offsets, wide, data }))
}

/// An edit list: samples before the wanted time are there for the decoder, and are not shown.
fn edit_list(duration: u64, prefix: u64) -> Result<Vec<u8>, Mp4Fault> {
    let version_and_flags = [1, 0, 0, 0];
    let rate = [0, 1, 0, 0];
    let elst = [&version_and_flags[..], &number(1)?, &duration.to_be_bytes(), &prefix.to_be_bytes(), &rate].concat();
    wrap(b"edts", &wrap(b"elst", &elst)?)
}

/// The offsets of the chunks, and the range of the file from the first sample to the last one.
fn places_of(
    places: std::slice::ChunksExact<'_, u8>,
    wide: bool,
    chunks: &Chunks,
    sizes: &Sizes<'_>,
    from: u64,
    to: u64,
) -> Result<(Vec<u64>, (u64, u64)), Mp4Fault> {
    let fault = Mp4Fault("time is out of the chunks");
    let first = usize::try_from(chunks.first).map_err(|_| fault)?;
    let count = usize::try_from(chunks.count).map_err(|_| fault)?;
    let read = |place: &[u8]| if wide { u64_at(place, 0) } else { u32_at(place, 0).map(u64::from) };
    let mut offsets = places.skip(first).take(count).map(read).collect::<Result<Vec<u64>, Mp4Fault>>()?;
    if offsets.len() < count || count == 0 {
        return Err(fault);
    }
    let before = from.checked_sub(chunks.skipped).ok_or(fault)?;
    let skipped = sizes.sum(before, from)?;
    let large = || Mp4Fault("an offset is too large");
    offsets[0] = offsets[0].checked_add(skipped).ok_or_else(large)?;
    let last = to.checked_sub(chunks.in_last).ok_or(fault)?;
    let end = offsets[count - 1].checked_add(sizes.sum(last, to)?).ok_or_else(large)?;
    let start = offsets[0];
    Ok((offsets, (start, end)))
}

fn sample_table(
    stbl: &[Atom<'_>],
    times: &[SampleRun],
    keys: Option<&[u64]>,
    chunks: &Chunks,
    sizes: &Sizes<'_>,
    from: u64,
    to: u64,
) -> Result<Vec<u8>, Mp4Fault> {
    let mut out = need(stbl, b"stsd")?.whole.to_vec();
    let run_table = |name: &Name, runs: &[SampleRun]| {
        let cropped = tables::crop(runs, from, to);
        let mut rows = Vec::with_capacity(cropped.len() * 8);
        for run in &cropped {
            rows.extend_from_slice(&number(run.count)?);
            rows.extend_from_slice(&run.value.to_be_bytes());
        }
        table(name, &[], cropped.len(), &rows)
    };
    out.extend(run_table(b"stts", times)?);
    if let Some(keys) = keys {
        let inside = keys.iter().filter(|key| **key > from && **key <= to);
        let rows: Vec<u8> = inside.map(|key| number(key - from)).collect::<Result<Vec<[u8; 4]>, Mp4Fault>>()?.concat();
        out.extend(table(b"stss", &[], rows.len() / 4, &rows)?);
    }
    if let Some(ctts) = find(stbl, b"ctts") {
        out.extend(run_table(b"ctts", &tables::runs(ctts.body())?)?);
    }
    let mut rows = Vec::new();
    for run in &chunks.runs {
        rows.extend_from_slice(&number(run.first + 1)?);
        rows.extend_from_slice(&run.samples.to_be_bytes());
        rows.extend_from_slice(&run.description.to_be_bytes());
    }
    out.extend(table(b"stsc", &[], chunks.runs.len(), &rows)?);
    let count = usize::try_from(to - from).map_err(|_| Mp4Fault("too many samples"))?;
    out.extend(table(b"stsz", &sizes.uniform().to_be_bytes(), count, sizes.of(from, to)?)?);
    Ok(out)
}

impl Track<'_> {
    /// Writes the atom, with all data moved by this number of bytes in the file.
    fn write(&self, moved: i64) -> Result<Vec<u8>, Mp4Fault> {
        let mut places = Vec::with_capacity(self.offsets.len() * if self.wide { 8 } else { 4 });
        for offset in &self.offsets {
            let place = offset.checked_add_signed(moved).ok_or(Mp4Fault("an offset is too large"))?;
            if self.wide {
                places.extend_from_slice(&place.to_be_bytes())
            } else {
                places.extend_from_slice(&number(place)?)
            }
        }
        let places = table(if self.wide { b"co64" } else { b"stco" }, &[], self.offsets.len(), &places)?;
        let stbl = wrap(b"stbl", &[&self.table[..], &places].concat())?;
        let mut minf: Vec<u8> = self.media.iter().flat_map(|atom| atom.whole.iter().copied()).collect();
        minf.extend(stbl);
        let hdlr = self.hdlr.map(|atom| atom.whole).unwrap_or_default();
        let mdia = wrap(b"mdia", &[&self.mdhd[..], hdlr, &wrap(b"minf", &minf)?].concat())?;
        wrap(b"trak", &[&self.head[..], &mdia].concat())
    }
}
