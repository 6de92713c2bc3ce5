//! Tests of the advice that a pool thread gives before it sends: whole blocks, or ranges.

use freerun_sys::populate::BLOCK;
use rustix::io::Errno;

use super::fake::*;

const MB: u64 = 1 << 20;
/// The place at which a longer block is looked at once more.
const AGAIN: u64 = 256 << 10;

/// The places at which blocks were read, and the ranges that were advised, for a chunk of a response that needs
/// `wanted` bytes.
fn asked(bench: &Bench, len: usize, offset: u64, chunk: u64, wanted: u64) -> (Vec<u64>, Vec<(u64, u64)>) {
    let file = bench.file(len);
    bench.fs.read_ahead(&file, offset, chunk, wanted);
    let calls = &bench.fake.calls;
    (std::mem::take(&mut calls.blocks.lock().unwrap()), std::mem::take(&mut calls.advice.lock().unwrap()))
}

/// The advice for a range that ends at `end`: all of the rest, again and again.
fn advice(from: u64, end: u64) -> Vec<(u64, u64)> {
    (from..end).step_by(128 << 10).map(|at| (at, end - at)).collect()
}

#[test]
fn what_is_sent_whole_is_read_in_blocks() {
    let bench = Bench::new("ext4");
    let len = 5 * MB as usize;
    assert_eq!(asked(&bench, len, 0, MB, 5 * MB), (vec![0, AGAIN], vec![]));
    assert_eq!(asked(&bench, len, 2 * BLOCK, MB, MB), (vec![2 * BLOCK, 2 * BLOCK + AGAIN], vec![]));
    assert_eq!(asked(&bench, 100_000, 0, 100_000, 100_000), (vec![0], vec![]));
    // The body of a stored object begins behind a head.
    assert_eq!(asked(&bench, len, 300, MB, 5 * MB - 300), (vec![0, AGAIN], vec![]));
    // These are the second half of the first block, and the next block.
    assert_eq!(
        asked(&bench, len, BLOCK - 4096, MB, 5 * MB - BLOCK + 4096),
        (vec![BLOCK, BLOCK + AGAIN], advice(BLOCK - 4096, BLOCK))
    );
}

#[test]
fn what_is_not_sent_whole_is_only_advised() {
    let bench = Bench::new("ext4");
    let len = 5 * MB as usize;
    // One range ends before the block does, and one begins behind its beginning.
    assert_eq!(asked(&bench, len, 0, MB, BLOCK - 1), (vec![], advice(0, MB)));
    assert_eq!(asked(&bench, len, MB, MB, 4 * MB), (vec![], advice(MB, 2 * MB)));
    assert_eq!(asked(&bench, 20_000, 0, 20_000, 20_000), (vec![], vec![(0, 20_000)]));
    // The file was shorter when it was opened.
    assert_eq!(asked(&bench, 100, 2 * BLOCK, 10, 10), (vec![], vec![(2 * BLOCK, 10)]));
}

#[test]
fn what_cannot_be_read_in_blocks_is_advised() {
    let bench = Bench::with("ext4", "", |plan| plan.block = Some(Errno::INVAL));
    assert_eq!(asked(&bench, 3 * MB as usize, 0, MB, 3 * MB), (vec![0], advice(0, MB)));
    let bench = Bench::new("fuse");
    assert_eq!(asked(&bench, 3 * MB as usize, 0, MB, 3 * MB), (vec![], advice(0, MB)));
}
