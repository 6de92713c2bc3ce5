//! Tests: reads that write the access time of a file are left to the pool.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::BytesMut;
use rustix::fs::OFlags;

use super::fake::*;
use crate::files::{Aio, Cursor, OpenFile, SendResult};

const LONG_AGO: i64 = 1_000_000;
const LEN: usize = 10_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A mount with these options, on which no file has been read since it was written.
fn bench(options: &str) -> Bench {
    Bench::mounted("ext4", options, "", |plan| {
        plan.atime = Some(LONG_AGO);
        plan.atime_after = Some(now() + 10);
    })
}

fn open(bench: &Bench, path: &std::ffi::CStr) -> Arc<OpenFile> {
    bench.fs.try_open_now(path, &bench.aio).unwrap().unwrap()
}

fn reads_at_once(bench: &Bench, file: &OpenFile) -> bool {
    bench.fs.try_read_now(file, 0, &mut [0; LEN], &bench.aio).is_some()
}

fn sends_at_once(bench: &Bench, file: &OpenFile) -> bool {
    let (out, _to) = sockets();
    bench.fs.send_now(file, &mut Cursor::default(), out.as_fd(), 0, LEN as u64, &bench.aio).unwrap()
        != SendResult::NeedsPool
}

fn read_pooled(bench: &Bench, file: &Arc<OpenFile>) {
    let read = block_on(bench.fs.read_at(file, 0, LEN, BytesMut::new(), bench.via())).unwrap();
    assert_eq!(read, pattern(LEN));
}

#[test]
fn the_first_read_is_the_pools_and_touches_nothing_before() {
    let bench = bench("rw,relatime");
    let path = bench.dir.write("a", &pattern(LEN));
    let file = open(&bench, &path);
    assert!(!reads_at_once(&bench, &file) && !sends_at_once(&bench, &file));
    assert_eq!((bench.fake.probes(), bench.fake.calls.sendfile.load(SeqCst)), (0, 0));
    read_pooled(&bench, &file);
    assert_eq!(bench.pool.status().served, 1);
    assert!(reads_at_once(&bench, &file) && sends_at_once(&bench, &file));
    read_pooled(&bench, &file);
    assert_eq!(bench.pool.status().served, 1);
    // This is what the next caller that opens the file sees.
    assert!(reads_at_once(&bench, &open(&bench, &path)));
}

#[test]
fn the_first_sending_is_the_pools() {
    let bench = bench("rw,relatime");
    let file = open(&bench, &bench.dir.write("a", &pattern(LEN)));
    assert!(!sends_at_once(&bench, &file));
    let (out, mut to) = sockets();
    let mut cursor = Cursor::default();
    let sent = block_on(bench.fs.send_pooled(&file, &mut cursor, out, 0, LEN as u64, bench.via()));
    assert_eq!(sent, Ok(SendResult::Bytes(LEN as u64)));
    assert_eq!(receive(&mut to, LEN), pattern(LEN));
    assert!(sends_at_once(&bench, &file) && reads_at_once(&bench, &file));
}

#[test]
fn a_day_later_it_is_due_again() {
    let bench = bench("rw,relatime");
    bench.fake.change(|plan| plan.atime = plan.atime_after);
    let file = open(&bench, &bench.dir.write("a", &pattern(LEN)));
    assert!(sends_at_once(&bench, &file));
    bench.pass(DAY / 2);
    assert!(sends_at_once(&bench, &file));
    bench.pass(DAY);
    assert!(!sends_at_once(&bench, &file) && !reads_at_once(&bench, &file));
    bench.fake.change(|plan| plan.atime_after = Some(now() + 20));
    read_pooled(&bench, &file);
    assert!(sends_at_once(&bench, &file) && reads_at_once(&bench, &file));
}

#[test]
fn where_no_access_times_are_kept_nothing_is_due() {
    for options in ["rw,noatime", "ro,relatime", "rw"] {
        let bench = bench(options);
        let file = open(&bench, &bench.dir.write("a", &pattern(LEN)));
        assert!(sends_at_once(&bench, &file) && reads_at_once(&bench, &file), "{options}");
    }
    let memory = Bench::mounted("tmpfs", "rw,relatime", "", |plan| plan.atime = Some(LONG_AGO));
    let file = open(&memory, &memory.dir.write("a", &pattern(LEN)));
    assert!(sends_at_once(&memory, &file) && reads_at_once(&memory, &file));
}

#[test]
fn with_aio_off_the_loop_reads_as_it_did() {
    let bench = bench("rw,relatime");
    let path = bench.dir.write("a", &pattern(LEN));
    let file = bench.fs.try_open_now(&path, &Aio::Off).unwrap().unwrap();
    assert_eq!(bench.fs.try_read_now(&file, 0, &mut [0; LEN], &Aio::Off), Some(Ok(LEN)));
    assert!(reads_at_once(&bench, &file));
}

#[test]
fn a_mount_that_does_not_write_what_is_due_is_left_alone_for_a_minute() {
    let bench = bench("rw,relatime");
    bench.fake.change(|plan| plan.atime_after = None);
    let path = bench.dir.write("a", &pattern(LEN));
    let (file, other) = (open(&bench, &path), open(&bench, &path));
    read_pooled(&bench, &file);
    assert!(reads_at_once(&bench, &file), "nobody pays for it again");
    assert!(!reads_at_once(&bench, &other), "it was opened before");
    let later = open(&bench, &path);
    assert!(reads_at_once(&bench, &later) && sends_at_once(&bench, &later));
    bench.pass(Duration::from_secs(61));
    assert!(!reads_at_once(&bench, &open(&bench, &path)));
}

#[test]
fn a_time_that_the_clock_of_files_has_not_left_proves_nothing() {
    let bench = bench("rw,relatime");
    let path = bench.dir.write("a", &pattern(LEN));
    // The file is written at this moment, and read before the clock has moved on.
    let written = rustix::fs::stat(&path).unwrap().st_mtime;
    bench.fake.change(|plan| (plan.atime, plan.atime_after) = (Some(written), None));
    let file = open(&bench, &path);
    read_pooled(&bench, &file);
    assert!(!reads_at_once(&bench, &file), "the next read may write it");
    assert!(!reads_at_once(&bench, &open(&bench, &path)), "and so on this mount");
}

#[test]
fn a_file_from_the_future_is_not_the_pools_for_ever() {
    let bench = bench("rw,relatime");
    let path = bench.dir.write("a", &pattern(LEN));
    let file = std::fs::File::options().write(true).open(bench.dir.0.join("a")).unwrap();
    file.set_modified(std::time::SystemTime::now() + DAY).unwrap();
    let file = open(&bench, &path);
    assert!(reads_at_once(&bench, &file) && sends_at_once(&bench, &file));
}

#[test]
fn a_file_whose_date_has_the_next_second_already_was_written_now() {
    let bench = bench("rw,relatime");
    let path = bench.dir.write("a", &pattern(LEN));
    let file = std::fs::File::options().write(true).open(bench.dir.0.join("a")).unwrap();
    file.set_modified(std::time::SystemTime::now() + Duration::from_secs(1)).unwrap();
    let file = open(&bench, &path);
    assert!(!reads_at_once(&bench, &file) && !sends_at_once(&bench, &file));
}

#[test]
fn temporary_files_have_no_access_time_to_write() {
    let bench = bench("rw,relatime");
    let directory = bench.dir.path(".");
    let temp = block_on(bench.fs.create_temp_with(&directory, pattern(LEN), bench.via())).unwrap();
    assert!(rustix::fs::fcntl_getfl(temp.file()).unwrap().contains(OFlags::NOATIME));
    let file = temp.into_file();
    assert!(reads_at_once(&bench, &file) && sends_at_once(&bench, &file));
    let file = open(&bench, &bench.dir.write("a", &pattern(LEN)));
    bench.fs.spare_atime(&file);
    assert!(reads_at_once(&bench, &file) && sends_at_once(&bench, &file));
}
