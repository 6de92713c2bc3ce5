//! Tests of files that get their names when they are whole.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;

use super::fake::Bench;
use crate::files::change::is_temporary;
use crate::pool::Tag;

fn names(bench: &Bench, folder: &str) -> Vec<String> {
    let names = std::fs::read_dir(bench.dir.0.join(folder)).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_has_its_name_when_it_is_whole_and_not_before() {
    let bench = Bench::new("ext4");
    let target = bench.dir.path("c/29/name");
    let pieces: Vec<Bytes> = (0..600u32).map(|n| vec![n as u8; n as usize % 7].into()).collect();
    let all = pieces.concat();
    for round in 0..2 {
        let file = bench.fs.make_unnamed(&target, 0o600, 0o700, Tag::default()).unwrap();
        // The fake kernel writes 1000 bytes at a time.
        file.write(&pieces, 5).unwrap();
        file.write(&[Bytes::from_static(b"01234")], 0).unwrap();
        assert_eq!(names(&bench, "c/29").len(), round);
        let file = file.name_it(&target, all.len() as u64 + 5).unwrap();
        assert_eq!(file.size(), all.len() as u64 + 5);
        assert_eq!(names(&bench, "c/29"), ["name"]);
        let text = std::fs::read(std::ffi::OsStr::from_bytes(target.to_bytes())).unwrap();
        assert!(text[..5] == *b"01234" && text[5..] == all);
    }
}

#[test]
fn what_fails_or_is_dropped_leaves_nothing() {
    let bench = Bench::new("ext4");
    let target = bench.dir.path("name");
    let file = bench.fs.make_unnamed(&target, 0o600, 0o700, Tag::default()).unwrap();
    bench.fake.change(|plan| plan.write = Some(Errno::NOSPC));
    let error = file.write(&[Bytes::from_static(b"x")], 0).unwrap_err();
    assert!(error.is_full_disk());
    drop(file);
    // A folder cannot be replaced.
    std::fs::create_dir(bench.dir.0.join("name")).unwrap();
    let file = bench.fs.make_unnamed(&target, 0o600, 0o700, Tag::default()).unwrap();
    let reader = file.file().clone();
    assert!(file.name_it(&target, 0).is_err());
    assert_eq!(names(&bench, ""), ["name"]);
    assert!(Arc::strong_count(&reader) == 1);
}

#[test]
fn temporary_names_tell_whose_they_are() {
    for (name, process) in [
        (&b".freerun-12-0"[..], Some(12)),
        (b".freerun-12", None),
        (b".freerun-x-1", None),
        (b"freerun-12-0", None),
        (b"", None),
    ] {
        assert_eq!(is_temporary(name), process);
    }
}
