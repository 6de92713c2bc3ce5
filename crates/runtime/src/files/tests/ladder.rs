//! Tests of every rung of the ladder of probes, of their density, and of the trust that builds up.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use freerun_sys::mincore::page_size;
use rustix::io::Errno;

use super::fake::*;
use crate::files::probe::Ahead;
use crate::files::{Cursor, OpenFile};
use crate::mounts::{Density, Rung};

const MIB: u64 = 1 << 20;

/// A file that was found in memory as a whole is looked at again after this time.
const WHOLE: Duration = Duration::from_millis(20);

fn ready(bench: &Bench, file: &OpenFile, offset: u64, len: u64) -> u64 {
    ready_with(bench, file, &mut Cursor::default(), offset, len)
}

/// How many of `len` bytes could be sent at once, in any way.
fn ready_with(bench: &Bench, file: &OpenFile, cursor: &mut Cursor, offset: u64, len: u64) -> u64 {
    let now = bench.fs.now_ms();
    match bench.fs.ahead(file, cursor, offset, len, now) {
        Ahead::Ready(n) => n,
        Ahead::Unsure => bench.fs.take(file, cursor, offset, &mut vec![0; len as usize], now) as u64,
        Ahead::Pool => 0,
    }
}

fn pages(n: u64) -> u64 {
    n * page_size() as u64
}

#[test]
fn memory_needs_no_probe() {
    for fs_type in ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs", "rootfs"] {
        let bench = Bench::new(fs_type);
        let file = bench.file(100_000);
        assert_eq!(ready(&bench, &file, 10, 99_990), 99_990);
        assert_eq!((bench.fake.probes(), bench.mount().rung), (0, Rung::Memory));
    }
}

#[test]
fn kernel_generated_and_remote_files_always_go_to_the_pool() {
    for fs_type in ["proc", "fuse.x", "nfs", "something_new"] {
        let bench = Bench::new(fs_type);
        let file = bench.file(100_000);
        assert_eq!(ready(&bench, &file, 0, 100_000), 0);
        assert_eq!((bench.fake.probes(), bench.mount().rung), (0, Rung::Pool));
    }
}

#[test]
fn one_byte_reads_find_the_first_missing_page() {
    let bench = Bench::new("ext4");
    let file = bench.file(pages(20) as usize);
    assert_eq!(ready(&bench, &file, 0, pages(20)), pages(20));
    bench.fake.change(|plan| plan.missing = [7].into());
    bench.pass(WHOLE);
    assert_eq!(ready(&bench, &file, pages(8), pages(12)), pages(12));
    assert_eq!(bench.mount().misses, 0);
    // The first page of the range is looked at even when it starts within the page.
    assert_eq!(ready(&bench, &file, pages(7) + 5, 100), 0);
    assert_eq!(bench.mount().misses, 1);
    let file = bench.file(pages(20) as usize);
    assert_eq!(ready(&bench, &file, 5, pages(20) - 5), pages(7) - 5);
}

#[test]
fn probes_that_do_not_exist_lead_to_the_next_rung_and_stay_given_up() {
    // Not known by the file system; not known by the kernel; forbidden; an old kernel.
    for errno in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::PERM, Errno::INVAL] {
        let bench = Bench::with("ext4", "", |plan| plan.nowait = Some(errno));
        let file = bench.file(pages(8) as usize);
        bench.fake.change(|plan| plan.missing = [5].into());
        // The operation that finds this out goes to the pool.
        assert_eq!(ready(&bench, &file, 0, pages(8)), 0);
        assert_eq!(bench.mount().rung, Rung::Mincore);
        assert_eq!(bench.fake.probes(), 1);
        assert_eq!(ready(&bench, &file, 0, pages(8)), pages(5));
        assert_eq!(ready(&bench, &file, 100, pages(2)), pages(2));
        assert_eq!(ready(&bench, &file, pages(5), 1), 0);
        assert_eq!(bench.fake.probes(), 0);
    }
}

#[test]
fn mincore_is_not_believed_for_files_of_others() {
    let bench = Bench::with("overlay", "", |plan| {
        plan.nowait = Some(Errno::OPNOTSUPP);
        plan.mincore_lies = true;
    });
    let theirs = bench.file(pages(8) as usize);
    assert_eq!(ready(&bench, &theirs, 0, pages(8)), 0);
    assert_eq!(bench.fake.calls.resident.load(SeqCst), 0);
    // Other files of the mount may be owned by this process.
    assert_eq!(bench.mount().rung, Rung::Mincore);
    assert_eq!(ready(&bench, &theirs, 0, pages(8)), 0);
    assert_eq!(bench.fake.calls.resident.load(SeqCst), 0);
    bench.fake.change(|plan| plan.mincore_lies = false);
    let ours = bench.file(pages(8) as usize);
    assert_eq!(ready(&bench, &ours, 0, pages(8)), pages(8));
    assert_eq!(ready(&bench, &theirs, 0, pages(8)), 0);
}

#[test]
fn without_mincore_everything_goes_to_the_pool() {
    for errno in [Errno::NODEV, Errno::NOSYS, Errno::PERM, Errno::OPNOTSUPP] {
        let bench = Bench::with("zfs", "", |plan| {
            plan.nowait = Some(Errno::OPNOTSUPP);
            plan.resident = Some(errno);
        });
        let file = bench.file(pages(8) as usize);
        for _ in 0..2 {
            assert_eq!(ready(&bench, &file, 0, pages(8)), 0);
        }
        assert_eq!(bench.mount().rung, Rung::Pool);
        assert_eq!((bench.fake.probes(), bench.fake.calls.resident.load(SeqCst)), (1, 1));
    }
}

#[test]
fn a_shortage_of_memory_gives_up_no_rung() {
    let bench = Bench::with("overlay", "", |plan| {
        plan.nowait = Some(Errno::OPNOTSUPP);
        plan.resident = Some(Errno::AGAIN);
    });
    let file = bench.file(pages(8) as usize);
    assert_eq!(ready(&bench, &file, 0, pages(8)), 0);
    bench.fake.change(|plan| plan.resident = None);
    assert_eq!(ready(&bench, &file, 0, pages(8)), pages(8));
}

#[test]
fn an_error_of_the_disk_is_left_for_the_pool_to_find() {
    let bench = Bench::with("ext4", "", |plan| plan.nowait = Some(Errno::IO));
    let file = bench.file(pages(8) as usize);
    assert_eq!(ready(&bench, &file, 0, pages(8)), 0);
    assert_eq!(bench.mount().rung, Rung::Nowait);
}

#[test]
fn where_cachestat_is_allowed_a_cold_file_is_found_out_without_starting_to_read_it() {
    let bench = Bench::with("ext4", "", |plan| plan.cached = Some(0));
    let file = bench.file(pages(8) as usize);
    assert_eq!(ready(&bench, &file, 0, pages(8)), 0);
    assert_eq!((bench.fake.probes(), bench.mount().misses), (0, 1));
    // That a page is in the cache proves nothing: it may still be being read.
    bench.fake.change(|plan| {
        plan.cached = Some(1);
        plan.missing = [0].into();
    });
    assert_eq!(ready(&bench, &file, 0, pages(8)), 0);
    assert_eq!(bench.fake.probes(), 1);
    // On an overlay the answer is always that nothing is there.
    let bench = Bench::with("overlay", "", |plan| plan.cached = Some(0));
    let file = bench.file(pages(8) as usize);
    assert_eq!(ready(&bench, &file, 0, pages(8)), pages(8));
    assert_eq!(bench.fake.calls.cached.load(SeqCst), 0);
}

#[test]
fn a_file_for_which_cachestat_is_forbidden_is_asked_about_once() {
    let bench = Bench::new("ext4");
    let file = bench.file(pages(8) as usize);
    for _ in 0..3 {
        bench.pass(Duration::from_secs(2));
        assert_eq!(ready(&bench, &file, 0, pages(8)), pages(8));
    }
    assert_eq!(bench.fake.calls.cached.load(SeqCst), 1);
}

/// How a file was examined while it was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// All of it was copied.
    Copied,
    /// It was probed this many times.
    Probed(u64),
    Not,
}
use Looked::{Copied, Not, Probed};

/// Serves `file` once as a response would.
fn serve(bench: &Bench, file: &OpenFile) -> Looked {
    bench.pass(WHOLE);
    serve_from(bench, file, 0)
}

/// Serves `file` from `begin` on, while the clock stands still.
fn serve_from(bench: &Bench, file: &OpenFile, begin: u64) -> Looked {
    bench.fake.probes();
    bench.fake.copied();
    let mut offset = begin;
    let mut cursor = Cursor::default();
    while offset < file.size() {
        // Connections do it this way: pieces of a bounded length, and of each as much as the socket takes.
        let n = ready_with(bench, file, &mut cursor, offset, (file.size() - offset).min(MIB));
        assert!(n > 0);
        offset += n.min(300_000);
    }
    match (bench.fake.copied(), bench.fake.probes()) {
        (0, 0) => Not,
        (0, probes) => Probed(probes),
        (copied, _) if copied >= file.size() - begin => Copied,
        (copied, probes) => panic!("{copied} bytes copied, {probes} probes"),
    }
}

/// Serves `file`, while others of its mount miss, so often that it is hot; it was not before.
fn heat(bench: &Bench, file: &OpenFile) {
    miss(bench);
    for _ in 0..4 {
        assert_eq!(serve(bench, file), Copied);
    }
}

fn miss(bench: &Bench) {
    let cold = bench.file(10);
    bench.fake.change(|plan| plan.nowait = Some(Errno::AGAIN));
    assert_eq!(ready(bench, &cold, 0, 10), 0);
    bench.fake.change(|plan| plan.nowait = None);
}

#[test]
fn only_a_hot_file_is_sent_without_a_look_at_each_page_while_its_mount_misses_and_that_for_a_second() {
    let bench = Bench::new("ext4");
    let file = bench.file(3 * MIB as usize + 100);
    heat(&bench, &file);
    miss(&bench);
    assert!(matches!(serve(&bench, &file), Probed(1..40)));
    // Another handle of the same file is the same file.
    let path = bench.dir.path("again");
    std::fs::write(bench.dir.0.join("again"), pattern(MIB as usize)).unwrap();
    let open = || -> Arc<OpenFile> { bench.fs.try_open_now(&path, &bench.aio).unwrap().unwrap() };
    for _ in 0..4 {
        assert_eq!(serve(&bench, &open()), Copied);
    }
    assert!(matches!(serve(&bench, &open()), Probed(1..20)));
    bench.pass(Duration::from_millis(1100));
    miss(&bench);
    assert_eq!(serve(&bench, &file), Copied);
    assert!(matches!(serve(&bench, &file), Probed(1..40)));
    // The file is no longer known to be hot.
    bench.pass(Duration::from_millis(2100));
    heat(&bench, &file);
}

#[test]
fn loops_that_find_a_file_at_the_same_moment_do_not_make_it_hot() {
    let bench = Bench::new("ext4");
    let file = bench.file(MIB as usize);
    miss(&bench);
    for _ in 0..10 {
        assert_eq!(serve_from(&bench, &file, 0), Copied);
    }
}

#[test]
fn a_file_just_found_in_memory_is_not_looked_at_again_unless_its_mount_has_just_missed() {
    // A stored object is like this: the body stands behind a head.
    for begin in [0, 500, pages(1) - 1] {
        let bench = Bench::new("ext4");
        let file = bench.file(3 * MIB as usize + 100);
        assert_eq!(serve_from(&bench, &file, begin), Copied);
        file.mount.set_density(Density::Medium);
        bench.pass(WHOLE - Duration::from_millis(1));
        assert_eq!(serve_from(&bench, &file, begin), Not);
        miss(&bench);
        assert_eq!(serve_from(&bench, &file, begin), Copied);
        file.mount.set_density(Density::Medium);
        bench.pass(WHOLE);
        assert!(matches!(serve_from(&bench, &file, begin), Probed(5..)));
    }
}

#[test]
fn a_file_that_many_ask_for_is_not_looked_at_again_even_right_after_a_miss() {
    let bench = Bench::new("ext4");
    let file = bench.file(MIB as usize);
    let again = |times: u32, gap: Duration| {
        for _ in 0..times {
            bench.pass(gap);
            assert_ne!(serve_from(&bench, &file, 0), Not);
        }
        serve_from(&bench, &file, 0)
    };
    assert_eq!(again(3, WHOLE), Copied);
    assert_eq!(again(1, WHOLE), Not);
    // Looks that lie apart do not count.
    assert_ne!(again(5, Duration::from_millis(500)), Not);
    assert_eq!(again(3, WHOLE), Not);
    // Looks before something was missing do not count, either.
    bench.pass(WHOLE);
    bench.fake.change(|plan| plan.missing = [0].into());
    assert_eq!(ready(&bench, &file, 0, MIB), 0);
    bench.fake.change(|plan| plan.missing.clear());
    assert_eq!(again(3, WHOLE), Copied);
    assert_eq!(again(1, WHOLE), Not);
}

#[test]
fn a_part_of_a_file_does_not_vouch_for_the_rest() {
    let bench = Bench::new("ext4");
    let file = bench.file(MIB as usize);
    let mut cursor = Cursor::default();
    assert_eq!(ready_with(&bench, &file, &mut cursor, 0, MIB / 2), MIB / 2);
    assert_eq!(serve_from(&bench, &file, pages(1)), Copied);
    assert_eq!(serve_from(&bench, &file, 0), Copied);
    // A look long ago, for a slow client, does not count, either.
    let file = bench.file(MIB as usize);
    let mut cursor = Cursor::default();
    assert_eq!(ready_with(&bench, &file, &mut cursor, 0, MIB / 2), MIB / 2);
    bench.pass(Duration::from_millis(600));
    assert_eq!(ready_with(&bench, &file, &mut cursor, MIB / 2, MIB / 2), MIB / 2);
    assert_eq!(serve_from(&bench, &file, 0), Copied);
}

#[test]
fn what_was_just_found_in_memory_goes_to_the_pool_all_the_same_once_its_mount_is_demoted() {
    let bench = Bench::new("ext4");
    let file = bench.file(pages(4) as usize);
    let now = 1_000_000;
    for _ in 0..2 {
        assert!(file.mount.stalled(now, Some(true)));
    }
    assert_eq!(bench.mount().rung, Rung::Pool);
    file.whole_ms.store(now, SeqCst);
    assert_eq!(ready(&bench, &file, 0, pages(4)), 0);
}

#[test]
fn a_miss_ends_the_trust_in_the_file() {
    let bench = Bench::new("ext4");
    let file = bench.file(MIB as usize);
    heat(&bench, &file);
    assert!(matches!(serve(&bench, &file), Probed(1..20)));
    bench.fake.change(|plan| plan.missing = [0].into());
    bench.pass(WHOLE);
    assert_eq!(ready(&bench, &file, 0, MIB), 0);
    bench.fake.change(|plan| plan.missing.clear());
    heat(&bench, &file);
}

#[test]
fn a_changed_file_is_another_file() {
    let bench = Bench::new("ext4");
    let path = bench.dir.write("a", &pattern(MIB as usize));
    heat(&bench, &bench.fs.try_open_now(&path, &bench.aio).unwrap().unwrap());
    bench.dir.write("a", &pattern(MIB as usize - 1));
    heat(&bench, &bench.fs.try_open_now(&path, &bench.aio).unwrap().unwrap());
}

#[test]
fn a_warm_mount_is_probed_less_and_less_until_the_next_miss() {
    let bench = Bench::new("ext4");
    let file = bench.file(4 * MIB as usize);
    assert_eq!(serve(&bench, &file), Copied);
    let mut seen = vec![bench.mount().density];
    for _ in 0..100 {
        // Trust runs out, so that counted pages are probed.
        bench.pass(Duration::from_millis(1100));
        serve(&bench, &file);
        if seen.last() != Some(&bench.mount().density) {
            seen.push(bench.mount().density);
        }
    }
    assert_eq!(seen, [Density::Dense, Density::Medium, Density::Sparse]);
    bench.pass(Duration::from_millis(1100));
    assert!(matches!(serve(&bench, &file), Probed(..=12)), "about one probe in 512 KiB");
    miss(&bench);
    assert_eq!(bench.mount().density, Density::Dense);
    // Right after a miss nothing is taken for warm, whatever its size.
    for _ in 0..100 {
        serve_from(&bench, &bench.file(MIB as usize), 0);
    }
    assert_eq!(bench.mount().density, Density::Dense);
}

#[test]
fn a_cold_file_is_found_out_without_starting_to_read_it_on_a_warm_mount_too() {
    let bench = Bench::with("ext4", "", |plan| plan.cached = Some(1));
    let file = bench.file(4 * MIB as usize);
    while bench.mount().density != Density::Sparse {
        bench.pass(Duration::from_millis(1100));
        serve(&bench, &file);
    }
    bench.fake.change(|plan| plan.cached = Some(0));
    assert_eq!(ready(&bench, &bench.file(MIB as usize), 0, MIB), 0);
    assert_eq!((bench.fake.probes(), bench.mount().misses), (0, 1));
}

#[test]
fn sparse_probes_look_at_the_last_page_too() {
    let bench = Bench::new("ext4");
    let file = bench.file(MIB as usize);
    heat(&bench, &file);
    let last = MIB / pages(1) - 1;
    bench.fake.change(|plan| plan.missing = [last].into());
    bench.pass(WHOLE);
    let n = ready(&bench, &file, 0, MIB);
    assert!(n > 0 && n < MIB, "{n}");
}

#[test]
fn two_stalls_within_ten_seconds_send_a_mount_to_the_pool_for_a_minute() {
    let bench = Bench::new("ext4");
    let file = bench.file(pages(4) as usize);
    let stall = || {
        bench.fake.change(|plan| plan.sending_takes = Duration::from_millis(21));
        let (out, _in) = sockets();
        let mut cursor = Cursor::default();
        use std::os::fd::AsFd;
        let sent = bench.fs.send_now(&file, &mut cursor, out.as_fd(), 0, 100, &bench.aio);
        bench.fake.change(|plan| plan.sending_takes = Duration::ZERO);
        sent.unwrap()
    };
    use crate::files::SendResult::{Bytes, NeedsPool};
    bench.fake.change(|plan| plan.sending_waits = true);
    assert_eq!(stall(), Bytes(100));
    bench.pass(Duration::from_secs(11));
    assert_eq!(stall(), Bytes(100));
    assert!(!bench.mount().demoted, "two stalls, but far apart");
    bench.fake.change(|plan| plan.sending_waits = false);
    assert_eq!(stall(), Bytes(100));
    assert!(!bench.mount().demoted, "slow, but only for want of a processor");
    bench.fake.change(|plan| plan.sending_waits = true);
    bench.pass(Duration::from_secs(9));
    assert_eq!(stall(), Bytes(100));
    let status = bench.mount();
    assert!(status.demoted);
    assert_eq!((status.rung, status.stalls, status.demotions), (Rung::Pool, 3, 1));
    assert_eq!(stall(), NeedsPool);
    bench.pass(Duration::from_secs(59));
    assert_eq!(ready(&bench, &file, 0, 10), 0);
    bench.pass(Duration::from_secs(2));
    assert_eq!(ready(&bench, &file, 0, 10), 10);
    assert_eq!(bench.mount().rung, Rung::Nowait);
}

#[test]
fn while_a_mount_misses_little_is_probed_ahead_and_that_counts_for_a_moment() {
    let bench = Bench::new("ext4");
    let file = bench.file(MIB as usize);
    heat(&bench, &file);
    bench.pass(WHOLE);
    let mut cursor = Cursor::default();
    bench.fake.probes();
    let probed = ready_with(&bench, &file, &mut cursor, 0, MIB);
    assert!((1..=MIB / 2).contains(&probed));
    let probes = bench.fake.probes();
    assert!((4..8).contains(&probes));
    bench.pass(Duration::from_millis(4));
    assert_eq!(ready_with(&bench, &file, &mut cursor, 100, MIB / 4), MIB / 4);
    assert_eq!(bench.fake.probes(), 0);
    // The file may have left the cache since.
    bench.pass(Duration::from_millis(1));
    bench.fake.change(|plan| plan.missing = [0].into());
    assert_eq!(ready_with(&bench, &file, &mut cursor, 100, MIB / 4), 0);
}

#[test]
fn while_a_mount_misses_every_look_that_finds_a_hot_file_whole_counts_for_a_moment() {
    let bench = Bench::new("ext4");
    let file = bench.file(MIB as usize);
    for _ in 0..4 {
        bench.pass(WHOLE);
        assert_ne!(serve_from(&bench, &file, 0), Not);
    }
    miss(&bench);
    for _ in 0..4 {
        assert_eq!(serve_from(&bench, &file, 0), Not);
        bench.pass(Duration::from_millis(5));
        assert_ne!(serve_from(&bench, &file, 0), Not);
    }
}
