//! Tests of the fixture itself, through a real mount. They need the permission to mount, and pass with a message
//! without it.

use super::*;
use crate::{TempDir, require};
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::os::unix::fs::FileExt;
use std::time::Duration;

#[test]
fn files_are_there_and_readable() {
    if !require::fuse() {
        return;
    }
    let dir = TempDir::new("fuse");
    let fixture = Fixture::mount(dir.path(), false).expect("mounting");
    fixture.file("a/big", 300_000).file("small", 3);
    assert_eq!(fs::read(dir.path().join("a/big")).expect("reading"), Fixture::content("a/big", 0, 300_000));
    assert_eq!(fs::metadata(dir.path().join("small")).expect("stat").len(), 3);
    let mut names: Vec<_> = fs::read_dir(dir.path()).expect("readdir").map(|e| e.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "small"]);
    assert!(fixture.control().count(Op::Lookup) > 0 && fixture.control().count(Op::Read) > 0);
}

#[test]
fn reads_fail_where_told() {
    if !require::fuse() {
        return;
    }
    let dir = TempDir::new("fuse");
    let fixture = Fixture::mount(dir.path(), true).expect("mounting");
    fixture.file("f", 100_000).control().fail_after(50_000, "f");
    let file = File::open(dir.path().join("f")).expect("opening");
    let mut buffer = [0; 10];
    file.read_exact_at(&mut buffer, 40_000).expect("before the bad place");
    assert_eq!(buffer.as_slice(), Fixture::content("f", 40_000, 10));
    let error = file.read_at(&mut buffer, 60_000).expect_err("behind it");
    assert_eq!(error.raw_os_error(), Some(5), "EIO");
}

#[test]
fn a_shrunken_file_ends_early() {
    if !require::fuse() {
        return;
    }
    let dir = TempDir::new("fuse");
    let fixture = Fixture::mount(dir.path(), false).expect("mounting");
    fixture.file("f", 100_000);
    let mut file = File::open(dir.path().join("f")).expect("opening");
    fixture.tree().shrink("f", 10_000).expect("the file is there");
    assert_eq!(file.metadata().expect("stat").len(), 100_000);
    let mut all = Vec::new();
    file.read_to_end(&mut all).expect("reading");
    assert_eq!(all, Fixture::content("f", 0, 10_000));
}

#[test]
fn a_hanging_open_waits_for_clear_and_the_rest_goes_on() {
    if !require::fuse() {
        return;
    }
    let dir = TempDir::new("fuse");
    let fixture = Fixture::mount(dir.path(), false).expect("mounting");
    fixture.file("stuck/f", 10).file("free/f", 10);
    fixture.control().hang(Op::Open, "stuck/");
    let path = dir.path().join("stuck/f");
    let reader = std::thread::spawn(move || fs::read(path));
    crate::eventually("the open waits", || fixture.control().waiting() == 1);
    assert_eq!(fs::read(dir.path().join("free/f")).expect("another file").len(), 10);
    assert!(!reader.is_finished());
    fixture.control().clear();
    assert_eq!(reader.join().expect("reader").expect("reading").len(), 10);
}

#[test]
fn delays_are_kept() {
    if !require::fuse() {
        return;
    }
    let dir = TempDir::new("fuse");
    let fixture = Fixture::mount(dir.path(), false).expect("mounting");
    fixture.file("f", 10).control().delay(Op::Getattr, Duration::from_millis(30), "f");
    let start = std::time::Instant::now();
    let file = File::open(dir.path().join("f")).expect("opening");
    file.metadata().expect("stat");
    assert!(start.elapsed() >= Duration::from_millis(30), "{:?}", start.elapsed());
}

#[test]
fn writes_hang_and_are_kept() {
    if !require::fuse() {
        return;
    }
    let dir = TempDir::new("fuse");
    let fixture = Fixture::mount(dir.path(), false).expect("mounting");
    fixture.file("log", 0).control().hang(Op::Write, "log");
    let path = dir.path().join("log");
    let writer = std::thread::spawn(move || {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(path).expect("opening");
        log.write_all(b"one").and_then(|()| log.write_all(b"two"))
    });
    crate::eventually("a write hangs", || fixture.control().waiting() == 1);
    assert!(fixture.tree().written("log").is_empty());
    fixture.control().clear();
    writer.join().expect("no panic").expect("writing");
    assert_eq!(fixture.tree().written("log"), b"onetwo");
}
