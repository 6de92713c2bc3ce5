//! Runs of datagrams: datagrams of one size to one peer, which leave as one message that the kernel takes apart.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

use freerun_sys::datagrams::{Ecn, Message};

/// The most datagrams of a run (`UDP_MAX_SEGMENTS` of Linux before 6.8).
const MOST: usize = 64;

/// The most bytes of a run, which the kernel takes for one packet until it takes it apart: the bytes of a packet, less
/// the headers of IPv6 and UDP.
const LONGEST: usize = 65_535 - 48;

const _: () = assert!(LONGEST <= u16::MAX as usize, "the kernel is told the length of a datagram in sixteen bits");

/// The most datagrams of this size that leave as one message.
pub fn most_in_run(size: usize) -> usize {
    (LONGEST / size.max(1)).clamp(1, MOST)
}

/// Target of a datagram, and the details of sending it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramTarget {
    /// The peer's address; `None` on a connected socket.
    pub to: Option<SocketAddr>,
    /// The address of this machine to send from; `None`: the socket's.
    pub from: Option<IpAddr>,
    /// The ECN bits.
    pub ecn: Ecn,
}

/// Datagrams that leave as one message.
#[derive(Debug, Clone)]
pub(super) struct DatagramRun {
    pub(super) target: DatagramTarget,
    /// The bytes of all of them.
    pub(super) len: usize,
    /// The bytes of each; the last one may have fewer. 0: it is a single one, which no other one joins.
    pub(super) segment: usize,
    /// Number of datagrams.
    pub(super) count: usize,
}

impl DatagramRun {
    /// A run of datagrams that follow each other in memory: `len` bytes in all, `segment` in each. With 0 it is a single
    /// one, which no other one joins.
    fn new(target: DatagramTarget, len: usize, segment: usize) -> DatagramRun {
        debug_assert!(segment <= len);
        let count = if segment == 0 { 1 } else { len.div_ceil(segment) };
        debug_assert!(count <= MOST, "the kernel takes no {count} datagrams at once");
        DatagramRun { target, len, segment, count }
    }

    /// Adds a datagram of `len` bytes, if it may belong to the run.
    pub(super) fn join(&mut self, target: &DatagramTarget, len: usize) -> bool {
        // A datagram that is shorter than the others is the last one, and an empty one is always alone.
        let is_open = self.len == self.segment * self.count && self.segment > 0;
        let fits = len > 0 && len <= self.segment && self.count < MOST && self.len + len <= LONGEST;
        if !is_open || !fits || self.target != *target {
            return false;
        }
        self.len += len;
        self.count += 1;
        true
    }

    /// The message, whose bytes are these.
    pub(super) fn message<'a>(&self, parts: &'a [IoSlice<'a>]) -> Message<'a> {
        let DatagramTarget { to, from, ecn } = self.target;
        // The length of a run, and so of its datagrams, fits 16 bits.
        let segment = (self.count > 1).then(|| u16::try_from(self.segment).unwrap_or(u16::MAX));
        Message { parts, to, from, ecn, segment }
    }
}

/// Calls `each` with a run for each piece of `bytes` that may be one message. A run is a single datagram, or datagrams
/// of `segment` bytes whose last may be shorter, as the kernel has put them together.
pub(super) fn split<'a>(
    target: DatagramTarget,
    bytes: &'a [u8],
    segment: Option<usize>,
    mut each: impl FnMut(DatagramRun, &'a [u8]),
) {
    let segment = segment.unwrap_or(bytes.len());
    if bytes.is_empty() || segment == 0 || segment >= bytes.len() {
        return each(DatagramRun::new(target, bytes.len(), bytes.len()), bytes);
    }
    let in_one = segment * most_in_run(segment);
    for piece in bytes.chunks(in_one) {
        each(DatagramRun::new(target, piece.len(), segment.min(piece.len())), piece);
    }
}

/// Datagrams that leave soon, in the memory that they came in.
#[derive(Debug, Default)]
pub struct Runs<'a> {
    pub(super) runs: Vec<DatagramRun>,
    /// The bytes of all runs, one after the other.
    pub(super) parts: Vec<IoSlice<'a>>,
    /// The number of parts of each run.
    pub(super) counts: Vec<usize>,
}

impl<'a> Runs<'a> {
    /// Appends a datagram, or several of `segment` bytes each that follow each other in `bytes`.
    pub fn push(&mut self, target: DatagramTarget, bytes: &'a [u8], segment: Option<usize>) {
        if segment.is_none_or(|segment| segment >= bytes.len())
            && let (Some(run), Some(count)) = (self.runs.last_mut(), self.counts.last_mut())
            && run.join(&target, bytes.len())
        {
            self.parts.push(IoSlice::new(bytes));
            *count += 1;
            return;
        }
        split(target, bytes, segment, |run, piece| {
            self.runs.push(run);
            self.parts.push(IoSlice::new(piece));
            self.counts.push(1);
        });
    }

    /// The same datagrams behind a header, which all of them have, or the first one alone.
    pub fn headed<'b>(&'b self, header: &'b [u8], in_each: bool) -> Runs<'b> {
        let mut headed = Runs::default();
        let mut at = 0;
        for (run, count) in self.runs.iter().zip(&self.counts) {
            let parts = &self.parts[at..at + count];
            at += count;
            // Each datagram is in one part, and an empty part is one.
            let pieces = parts.iter().flat_map(|part| {
                let empty = part.is_empty().then_some(&part[..]);
                part.chunks(run.segment.max(1)).chain(empty)
            });
            for piece in pieces {
                if !in_each && !headed.is_empty() {
                    headed.push(run.target, piece, None);
                    continue;
                }
                headed.runs.push(DatagramRun::new(run.target, header.len() + piece.len(), 0));
                headed.parts.extend([IoSlice::new(header), IoSlice::new(piece)]);
                headed.counts.push(2);
            }
        }
        headed
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The number of datagrams, and of their bytes.
    pub fn totals(&self) -> (u64, u64) {
        let sum = |sum: (u64, u64), run: &DatagramRun| (sum.0 + run.count as u64, sum.1 + run.len as u64);
        self.runs.iter().fold((0, 0), sum)
    }

    /// Forgets them; the memory for their descriptions stays.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.parts.clear();
        self.counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(runs: &Runs<'_>) -> Vec<(usize, usize, usize)> {
        runs.runs.iter().map(|run| (run.count, run.len, run.segment)).collect()
    }

    #[test]
    fn datagrams_of_one_size_join_until_a_shorter_one_ends_the_run() {
        let bytes = [0; 200];
        let mut runs = Runs::default();
        for len in [100, 100, 60, 60, 60, 70, 0, 0, 5] {
            runs.push(DatagramTarget::default(), &bytes[..len], None);
        }
        let expected = [(3, 260, 100), (2, 120, 60), (1, 70, 70), (1, 0, 0), (1, 0, 0), (1, 5, 5)];
        assert_eq!(lengths(&runs), expected);
        assert_eq!(runs.counts, [3, 2, 1, 1, 1, 1]);
        assert_eq!(runs.totals(), (9, 455));
        runs.clear();
        assert!(runs.is_empty() && runs.parts.is_empty());
    }

    #[test]
    fn those_to_another_peer_or_with_other_bits_do_not_join() {
        let to =
            |port| DatagramTarget { to: Some(SocketAddr::from(([127, 0, 0, 1], port))), ..DatagramTarget::default() };
        let mut runs = Runs::default();
        for target in [to(1), to(1), to(2), DatagramTarget { ecn: 1, ..to(2) }] {
            runs.push(target, b"abc", None);
        }
        assert_eq!(lengths(&runs), [(2, 6, 3), (1, 3, 3), (1, 3, 3)]);
    }

    #[test]
    fn a_header_is_before_the_first_one_or_before_all() {
        let mut runs = Runs::default();
        for bytes in [&b"aa"[..], b"bb", b"", b"cc"] {
            runs.push(DatagramTarget::default(), bytes, None);
        }
        runs.push(DatagramTarget::default(), b"ddee", Some(2));
        let bytes = |runs: &Runs<'_>| {
            let parts = runs.parts.iter().map(|part| String::from_utf8_lossy(part).into_owned());
            parts.collect::<Vec<_>>().join(",")
        };
        let all = runs.headed(b"H", true);
        assert_eq!((bytes(&all).as_str(), all.totals()), ("H,aa,H,bb,H,,H,cc,H,dd,H,ee", (6, 16)));
        assert!(all.counts.iter().all(|count| *count == 2) && all.runs.iter().all(|run| run.count == 1));
        let first = runs.headed(b"H", false);
        assert_eq!((bytes(&first).as_str(), first.totals()), ("H,aa,bb,,cc,dd,ee", (6, 11)));
        assert_eq!(lengths(&first), [(1, 3, 0), (1, 2, 2), (1, 0, 0), (3, 6, 2)]);
    }

    #[test]
    fn datagrams_that_fill_a_run_are_one_message() {
        assert_eq!([0, 1, 1200, 1452, 1472, 65_487, 65_507].map(most_in_run), [MOST, MOST, 54, 45, 44, 1, 1]);
        let bytes = vec![0; 65_536];
        for size in [1200, 1452, 1472] {
            let mut runs = Runs::default();
            runs.push(DatagramTarget::default(), &bytes[..size * most_in_run(size)], Some(size));
            assert_eq!(lengths(&runs), [(most_in_run(size), size * most_in_run(size), size)]);
        }
    }

    #[test]
    fn a_run_has_an_end_in_number_and_in_bytes() {
        let bytes = vec![0; 65_536];
        let mut runs = Runs::default();
        for _ in 0..MOST + 1 {
            runs.push(DatagramTarget::default(), b"x", None);
        }
        assert_eq!(lengths(&runs), [(MOST, MOST, 1), (1, 1, 1)]);
        let mut runs = Runs::default();
        for _ in 0..3 {
            runs.push(DatagramTarget::default(), &bytes[..30_000], None);
        }
        assert_eq!(lengths(&runs), [(2, 60_000, 30_000), (1, 30_000, 30_000)]);
        // What came in one piece leaves in as many as it takes; the next datagram may join the last one.
        let mut runs = Runs::default();
        runs.push(DatagramTarget::default(), &bytes, Some(1000));
        runs.push(DatagramTarget::default(), b"x", None);
        assert_eq!(lengths(&runs), [(MOST, 64_000, 1000), (2, 1536, 1000), (1, 1, 1)]);
        let mut runs = Runs::default();
        runs.push(DatagramTarget::default(), &bytes[..2000], Some(1000));
        runs.push(DatagramTarget::default(), b"x", None);
        assert_eq!(lengths(&runs), [(3, 2001, 1000)]);
        let mut runs = Runs::default();
        runs.push(DatagramTarget::default(), &bytes, Some(40_000));
        assert_eq!(lengths(&runs), [(1, 40_000, 40_000), (1, 25_536, 25_536)]);
    }
}
