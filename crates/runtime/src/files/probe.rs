//! Part of a file that can be sent without waiting.
//!
//! `sendfile(2)` has no non-blocking form: it waits for pages that are not in the page cache, or that are there but
//! still being read. So the range is probed first, with the best probe that the mount supports ([`Rung`]), as densely
//! as the mount's recent misses and the file's own record require. If neither of them gives enough confidence, the
//! bytes are not sent by `sendfile(2)` at all, but copied (`copy.rs`).

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use freerun_sys::mincore::page_size;
use rustix::io::Errno;

use super::FileSystem;
use super::trust::REGION;
use super::types::OpenFile;
use crate::mounts::{Density, Rung};

/// Range of one probe, in bytes. Pages that are probed long before they are sent may have left memory already.
const WINDOW: u64 = 4 << 20;
/// Range of a probe by `RWF_NOWAIT` while the mount misses, in bytes: no further than the bytes that are sent next.
const DENSE_WINDOW: u64 = 512 << 10;
/// Time for which the result of a probe holds for a response, in milliseconds.
const CURSOR_MS: u64 = 500;
/// Time for which the result of a probe holds while the mount misses, in milliseconds: the reads of 200 clients can
/// replace the whole page cache within three seconds.
const DENSE_MS: u64 = 5;
/// With fewer probed bytes left than this, the next part is probed before sending, so that sends stay large.
const ENOUGH: u64 = 256 << 10;

/// Time for which a whole file that one response found in memory is not probed again, in milliseconds. Pages that were
/// read so recently are the last that the kernel evicts.
pub(super) const WHOLE_MS: u64 = 20;
/// Number of times in a row that a file was found if it is not probed although its mount has just missed: many clients
/// request it.
pub(super) const HOT_TIMES: u32 = 4;
/// Looks that are further apart than this, in milliseconds, are not in a row.
const HOT_GAP_MS: u64 = 500;

/// Distance of the probes in a trusted region while its mount misses, in bytes. The kernel evicts a file's pages in
/// runs: most runs are met by one of these probes, at 7 % of the cost of sending.
const TRUSTED_STEP: u64 = 128 << 10;

/// File systems that keep a file's data in the cache of the inode that is open; on others (overlay) `cachestat` reports
/// that nothing is there.
const CACHESTAT_TRUE: [&str; 6] = ["ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs"];

/// The result of the probes for one response body, and how its bytes are sent; see [`FileSystem::send_now`].
#[derive(Debug, Clone, Default)]
pub struct Cursor {
    /// The bytes are copied before they are sent, whatever is known of them.
    pub(super) copies: bool,
    /// The range that was probed and may be sent, and the time of the probe.
    from: u64,
    until: u64,
    probed_ms: u64,
    /// The bytes behind it were missing: they are looked for again when the rest has been sent, not with each send.
    missed: bool,
    /// The range that was found without a gap, by probes or by copying: in the end that may be the whole file.
    whole: ProbeRun,
    /// The part of the current region that was copied: responses are sent in pieces that do not end where regions do.
    region: ProbeRun,
}

impl Cursor {
    /// A cursor for a body whose every byte is read from the file before it is sent. The pages that `sendfile(2)` has
    /// queued still belong to the file, and change with it until they are on their way.
    pub fn copying() -> Cursor {
        Cursor { copies: true, ..Cursor::default() }
    }

    /// Whether the bytes are copied before they are sent.
    pub fn copies(&self) -> bool {
        self.copies
    }

    /// The bytes from `offset` on that need no new probe.
    fn known(&self, offset: u64, density: Density, now_ms: u64) -> u64 {
        let valid = self.from <= offset && offset < self.until && self.is_fresh(density, now_ms);
        if valid { self.until - offset } else { 0 }
    }

    /// Whether the result of the probe still holds.
    fn is_fresh(&self, density: Density, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.probed_ms) < if density == Density::Dense { DENSE_MS } else { CURSOR_MS }
    }

    /// Forgets the result.
    pub(super) fn clear(&mut self) {
        *self = Cursor { copies: self.copies, ..Cursor::default() };
    }
}

/// A stretch without a gap, found piece by piece.
#[derive(Debug, Clone, Default)]
struct ProbeRun {
    from: u64,
    until: u64,
    /// Moment at which its beginning was probed: the rest may be probed much later, for a slow client.
    since_ms: u64,
}

impl ProbeRun {
    fn found(&mut self, from: u64, until: u64, now_ms: u64) {
        if self.until == 0 || from < self.from || self.until < from {
            *self = ProbeRun { from, until, since_ms: now_ms };
        }
        self.until = self.until.max(until);
    }
}

/// Manner in which the next bytes of a file can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// A number of bytes (more than 0) that are in memory, and will be when they are sent, as far as can be told.
    Ready(u64),
    /// The probes are not enough: copying checks and takes the bytes in one step.
    Unsure,
    /// The pool has to send them, or the file ends here.
    Pool,
}

/// The result of the probes of one stretch.
struct ProbeResult {
    /// The end of the part that is in memory.
    until: u64,
    /// The bytes behind `until` are missing; otherwise they were not probed, or the file ends.
    missed: bool,
    end_of_file: bool,
    probes: u64,
    /// The bytes of files without a record that were found in memory.
    warm: u64,
}

impl ProbeResult {
    fn at(offset: u64) -> ProbeResult {
        ProbeResult { until: offset, missed: false, end_of_file: false, probes: 0, warm: 0 }
    }

    fn goes_on(&self) -> bool {
        !self.missed && !self.end_of_file
    }
}

/// The result of one probe.
enum PageProbe {
    Ready,
    Missing,
    EndOfFile,
    /// Absence of this probe here.
    NoProbe,
}

/// Whether a response found all of `file` in memory so recently that no probe is needed.
fn was_just_seen(file: &OpenFile, now: u64) -> bool {
    let seen = file.whole_ms.load(Relaxed);
    let age = now.saturating_sub(seen);
    let counts = match file.mount.density() {
        Density::Dense => age < DENSE_MS && file.whole_times.load(Relaxed) >= HOT_TIMES,
        Density::Medium | Density::Sparse => age < WHOLE_MS,
    };
    seen != 0 && counts && file.mount.rung(now) != Rung::Pool
}

/// Notes that the range from `from` to `until` was found for a response, which may thereby have found all of `file`.
fn found_whole(file: &OpenFile, cursor: &mut Cursor, from: u64, until: u64, now: u64) {
    cursor.whole.found(from, until, now);
    // The body of a stored object begins behind a head.
    let whole = cursor.whole.from < page_size() as u64 && cursor.whole.until >= file.size();
    if whole && now.saturating_sub(cursor.whole.since_ms) < CURSOR_MS {
        saw_whole(file, now);
    }
}

/// Notes that a response found all of `file` in memory. Loops that do so at the same moment may count it once too
/// often, or once too seldom.
fn saw_whole(file: &OpenFile, now: u64) {
    let before = file.whole_ms.swap(now.max(1), Relaxed);
    let gap = now.saturating_sub(file.whole_counted_ms.load(Relaxed));
    if before != 0 && gap < WHOLE_MS {
        return;
    }
    let times = if before == 0 || gap >= HOT_GAP_MS { 0 } else { file.whole_times.load(Relaxed) };
    file.whole_times.store(times.saturating_add(1), Relaxed);
    file.whole_counted_ms.store(now, Relaxed);
}

impl FileSystem {
    /// Number of `len` bytes at `offset` that can be sent (or read) without waiting, and the manner.
    pub(super) fn ahead(&self, file: &OpenFile, cursor: &mut Cursor, offset: u64, len: u64, now: u64) -> Ahead {
        let ready = if was_just_seen(file, now) {
            file.size().saturating_sub(offset)
        } else {
            let mut ready = cursor.known(offset, file.mount.density(), now).min(len);
            while ready < len.min(ENOUGH) && !(ready > 0 && cursor.missed) {
                let from = offset + ready;
                let found = match file.mount.rung(now) {
                    Rung::Memory => return Ahead::Ready(len),
                    Rung::Pool => break,
                    Rung::Nowait if self.is_unsure(file, from, now) => {
                        if ready == 0 {
                            return Ahead::Unsure;
                        }
                        break;
                    }
                    rung => match self.look(rung, file, cursor, from, len - ready, now) {
                        Some(found) => found,
                        // The mount has stepped down.
                        None if file.mount.rung(now) != rung => continue,
                        None => break,
                    },
                };
                if found.missed {
                    self.missed(file, found.until, now);
                } else {
                    file.mount.found_warm(found.warm, found.probes, now);
                }
                if found.until > from {
                    if ready == 0 && (cursor.until != from || from == 0) {
                        cursor.from = from;
                    }
                    (cursor.until, cursor.probed_ms) = (found.until, now);
                    found_whole(file, cursor, from, found.until, now);
                    ready = found.until - offset;
                }
                cursor.missed = found.missed;
                if !found.goes_on() {
                    break;
                }
            }
            ready
        };
        match ready.min(len) {
            0 => Ahead::Pool,
            ready => Ahead::Ready(ready),
        }
    }

    /// Whether neither the mount's record nor the file's own gives enough confidence in the page at `offset`.
    fn is_unsure(&self, file: &OpenFile, offset: u64, now: u64) -> bool {
        file.mount.density() == Density::Dense && !self.trust.has(file.meta(), offset / REGION, now)
    }

    /// Notes that a page of `file` at `offset` was missing.
    pub(super) fn missed(&self, file: &OpenFile, offset: u64, now: u64) {
        file.mount.missed(now);
        self.distrust(file, offset, offset + 1);
    }

    /// Notes that everything from `from` to `until` was found, page by page.
    pub(super) fn found_all(&self, file: &OpenFile, cursor: &mut Cursor, from: u64, until: u64, now: u64) {
        let page = page_size() as u64;
        file.mount.found_warm(until - from, (until - from).div_ceil(page), now);
        found_whole(file, cursor, from, until, now);
        let mut at = from;
        while at < until {
            let (region, begin) = (at / REGION, at / REGION * REGION);
            let end = begin + REGION;
            if at == begin {
                cursor.region = ProbeRun::default();
            }
            cursor.region.found(at, until.min(end), now);
            // The body of a stored object begins behind a head.
            if cursor.region.from < begin + page && cursor.region.until >= end.min(file.size()) {
                self.trust.give(file.meta(), region, cursor.region.since_ms);
            }
            at = until.min(end);
        }
    }

    pub(super) fn distrust(&self, file: &OpenFile, from: u64, until: u64) {
        file.whole_ms.store(0, Relaxed);
        for region in from / REGION..until.div_ceil(REGION) {
            self.trust.take(file.meta(), region);
        }
    }

    fn look(
        &self,
        rung: Rung,
        file: &OpenFile,
        cursor: &mut Cursor,
        from: u64,
        len: u64,
        now: u64,
    ) -> Option<ProbeResult> {
        match rung {
            Rung::Nowait => self.look_nowait(file, cursor, from, len, now),
            Rung::Mincore => self.look_mincore(file, from, len),
            Rung::Memory | Rung::Pool => None,
        }
    }

    /// Probes by one-byte reads that must not wait; `None` if the mount does not support them.
    fn look_nowait(&self, file: &OpenFile, cursor: &mut Cursor, from: u64, len: u64, now: u64) -> Option<ProbeResult> {
        let page = page_size() as u64;
        let density = file.mount.density();
        // The window ends with a page: the next probe continues where this one ends.
        let window = if density == Density::Dense { DENSE_WINDOW } else { WINDOW };
        let end = from.saturating_add(len.min(window)).checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let mut found = ProbeResult::at(from);
        let mut goes_on = cursor.until == from && !cursor.missed && cursor.is_fresh(density, now);
        while found.until < end && found.goes_on() {
            let begin = found.until;
            let region = begin / REGION;
            let stop = ((region + 1) * REGION).min(end);
            let trusted = self.trust.has(file.meta(), region, now);
            let step = match density {
                Density::Dense if !trusted => break,
                Density::Dense => TRUSTED_STEP.max(page),
                _ if trusted => Density::Sparse.step(page),
                _ => density.step(page),
            };
            if !trusted && !goes_on && self.is_surely_cold(file, begin, page) {
                found.missed = true;
                break;
            }
            self.walk(file, stop, step, goes_on, stop == end, &mut found)?;
            goes_on = true;
            if !trusted {
                found.warm += found.until - begin;
            }
        }
        Some(found)
    }

    /// Whether a page is neither in memory nor being read. A read would find that out, too, but reading is left to the
    /// pool. A read takes processor time and can itself wait, for metadata of the file or for a place in the queue of
    /// the disk. It brings in a few single pages where the pool would read a block in large ones. `cachestat` is never
    /// asked whether something *is* ready: it counts pages in flight.
    pub(super) fn is_surely_cold(&self, file: &OpenFile, offset: u64, page: u64) -> bool {
        if file.no_cachestat.load(Relaxed) || !CACHESTAT_TRUE.contains(&file.mount.fs_type()) {
            return false;
        }
        match self.kernel.cached(file.as_fd(), offset / page * page, page) {
            Ok(cached) => cached == 0 && offset < file.size(),
            // The file is another user's, the kernel is old, or there is a filter.
            Err(_) => {
                file.no_cachestat.store(true, Relaxed);
                false
            }
        }
    }

    /// Probes from `found.until` to `end`: a page in each `step`, and the `last` page if it is far from the one before
    /// it. The first page is probed unless this `goes_on` from the probe before.
    fn walk(
        &self,
        file: &OpenFile,
        end: u64,
        step: u64,
        goes_on: bool,
        last: bool,
        found: &mut ProbeResult,
    ) -> Option<()> {
        let page = page_size() as u64;
        let next_on_grid = |offset: u64| (offset / step).saturating_add(1).saturating_mul(step);
        let tail = (end - 1) / page * page;
        let mut before = found.until;
        let mut at = if goes_on && !before.is_multiple_of(step) { next_on_grid(before) } else { before };
        loop {
            if at >= end {
                if !last || before >= tail || tail - before < step / 4 {
                    found.until = end;
                    return Some(());
                }
                at = tail;
            }
            found.probes += 1;
            match self.probe(file, at) {
                // The bytes before the next probe count as ready only once that one was, too.
                PageProbe::Ready => found.until = ((at / page + 1) * page).min(end),
                PageProbe::Missing => found.missed = true,
                PageProbe::EndOfFile => found.end_of_file = true,
                PageProbe::NoProbe => {
                    file.mount.step_down(Rung::Nowait);
                    return None;
                }
            }
            if !found.goes_on() {
                return Some(());
            }
            before = at;
            at = next_on_grid(at);
        }
    }

    fn probe(&self, file: &OpenFile, offset: u64) -> PageProbe {
        loop {
            return match self.kernel.read_nowait(file.as_fd(), &mut [0], offset) {
                Ok(0) => PageProbe::EndOfFile,
                Ok(_) => PageProbe::Ready,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => PageProbe::Missing,
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::INVAL) => PageProbe::NoProbe,
                // It is a directory, or the disk is bad: the pool finds out and reports it.
                Err(_) => PageProbe::Missing,
            };
        }
    }

    /// Probes the whole stretch by `mincore`; `None` if its answer for this file is not reliable, or the mount does not
    /// support it.
    fn look_mincore(&self, file: &OpenFile, from: u64, len: u64) -> Option<ProbeResult> {
        const YES: u8 = 1;
        const NO: u8 = 2;
        let believed = match file.mincore.load(Relaxed) {
            0 => {
                let believed = self.kernel.owns_or_may_write(file.as_fd(), file.meta());
                file.mincore.store(if believed { YES } else { NO }, Relaxed);
                believed
            }
            answer => answer == YES,
        };
        if !believed {
            return None;
        }
        let page = page_size() as u64;
        let begin = from / page * page;
        let end = from.saturating_add(len.min(WINDOW)).min(file.size());
        let mut found = ProbeResult::at(from);
        if end <= from {
            // The file may have grown since: the pool finds out.
            found.missed = true;
            return Some(found);
        }
        let mut pages = Vec::new();
        match self.kernel.resident(file.as_fd(), begin, (end - begin) as usize, &mut pages) {
            Ok(()) => {}
            Err(Errno::NODEV | Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::INVAL) => {
                file.mount.step_down(Rung::Mincore);
                return None;
            }
            // The system is short of memory for the moment.
            Err(_) => return None,
        }
        let ready = pages.iter().take_while(|&&page| page == 1).count() as u64;
        found.until = (begin + ready * page).clamp(from, end);
        found.missed = found.until < end;
        found.probes = 1;
        found.warm = found.until - from;
        Some(found)
    }
}
