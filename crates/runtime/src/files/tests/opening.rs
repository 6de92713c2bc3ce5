//! Tests of opening files and asking for attributes.

use std::sync::atomic::Ordering::SeqCst;

use rustix::io::Errno;

use super::fake::*;
use crate::files::{Aio, FileError, Via};

const FUSE_ELSEWHERE: &str = "2 1 0:4242 / /remote rw - fuse.sshfs none rw\n";

#[test]
fn a_path_in_the_lookup_cache_is_opened_at_once() {
    let bench = Bench::new("ext4");
    let path = bench.dir.write("a", b"abc");
    let file = bench.fs.try_open_now(&path, &bench.aio).unwrap().unwrap();
    assert_eq!((file.size(), file.is_file(), file.is_dir()), (3, true, false));
    let meta = bench.fs.try_stat_now(&path, &bench.aio).unwrap().unwrap();
    assert_eq!(&meta, file.meta());
    assert_eq!(bench.pool.status().served, 0);
    assert_eq!(bench.mount().hits, 1);
}

#[test]
fn a_path_that_is_not_cached_goes_to_the_pool() {
    let bench = Bench::with("ext4", "", |plan| {
        plan.open_cached = Some(Errno::AGAIN);
    });
    let path = bench.dir.write("a", b"abc");
    assert!(bench.fs.try_open_now(&path, &bench.aio).is_none());
    assert_eq!(bench.fake.calls.open.load(SeqCst), 0);
    let file = block_on(bench.fs.open(&path, bench.via())).unwrap();
    assert_eq!(file.size(), 3);
    assert_eq!((bench.pool.status().served, bench.mount().pooled), (1, 1));
    bench.fake.change(|plan| plan.name_cached = Some(Errno::AGAIN));
    assert!(bench.fs.try_stat_now(&path, &bench.aio).is_none());
    assert_eq!(block_on(bench.fs.stat(&path, bench.via())).unwrap().size, 3);
    assert_eq!(bench.pool.status().served, 2);
    assert!(bench.fs.has_cached_lookup());
}

#[test]
fn a_kernel_without_cached_lookup_is_asked_once() {
    // ENOSYS: before Linux 5.6, or a filter; EINVAL: before 5.12; EPERM: a filter.
    for errno in [Errno::NOSYS, Errno::INVAL, Errno::PERM] {
        let bench = Bench::with("ext4", "", |plan| {
            plan.name_cached = Some(errno);
            plan.open_cached = Some(errno);
        });
        assert!(!bench.fs.has_cached_lookup());
        let path = bench.dir.write("a", b"abc");
        for _ in 0..3 {
            assert!(bench.fs.try_open_now(&path, &bench.aio).is_none());
            assert!(bench.fs.try_stat_now(&path, &bench.aio).is_none());
        }
        assert_eq!(bench.fake.calls.open_cached.load(SeqCst), 0);
        assert_eq!(bench.fake.calls.name_cached.load(SeqCst), 1);
        assert_eq!(block_on(bench.fs.open(&path, bench.via())).unwrap().size(), 3);
        assert_eq!(block_on(bench.fs.stat(&path, bench.via())).unwrap().size, 3);
    }
}

#[test]
fn a_filter_that_comes_later_is_noticed_and_remembered() {
    for errno in [Errno::NOSYS, Errno::INVAL, Errno::PERM] {
        let bench = Bench::new("ext4");
        let path = bench.dir.write("a", b"abc");
        bench.fake.change(|plan| {
            plan.name_cached = Some(errno);
            plan.open_cached = Some(errno);
        });
        assert!(bench.fs.try_open_now(&path, &bench.aio).is_none());
        assert!(!bench.fs.has_cached_lookup());
    }
}

#[test]
fn an_error_about_one_file_does_not_give_up_the_probe() {
    let bench = Bench::with("ext4", "", |plan| plan.open_cached = Some(Errno::PERM));
    let path = bench.dir.write("a", b"abc");
    assert!(bench.fs.try_open_now(&path, &bench.aio).is_none());
    assert!(bench.fs.has_cached_lookup());
}

#[test]
fn what_is_not_there_is_said_in_nginx_words() {
    let bench = Bench::new("ext4");
    let path = bench.dir.path("missing");
    for error in [
        bench.fs.try_open_now(&path, &bench.aio).unwrap().unwrap_err(),
        bench.fs.try_open_now(&path, &Aio::Off).unwrap().unwrap_err(),
        block_on(bench.fs.open(&path, bench.via())).unwrap_err(),
    ] {
        assert_eq!(error.errno(), Some(2));
        assert_eq!(error.describe(b"/x"), "open() \"/x\" failed (2: No such file or directory)");
        assert!(!error.is_peer());
    }
    let error = bench.fs.try_stat_now(&path, &bench.aio).unwrap().unwrap_err();
    assert_eq!(error.describe(b"/x"), "stat() \"/x\" failed (2: No such file or directory)");
}

#[test]
fn files_of_remote_mounts_are_never_opened_on_the_loop() {
    for fs_type in ["fuse", "fuse.sshfs", "nfs4", "cifs", "9p", "ceph", "lustre", "something_new"] {
        let bench = Bench::new(fs_type);
        let path = bench.dir.write("a", b"abc");
        let asked = bench.fake.calls.name_cached.load(SeqCst);
        assert!(bench.fs.try_open_now(&path, &bench.aio).is_none(), "{fs_type}");
        assert!(bench.fs.try_stat_now(&path, &bench.aio).is_none(), "{fs_type}");
        assert_eq!(bench.fake.calls.open_cached.load(SeqCst), 0);
        assert_eq!(bench.fake.calls.name_cached.load(SeqCst), asked);
        assert_eq!(block_on(bench.fs.open(&path, bench.via())).unwrap().size(), 3);
    }
}

#[test]
fn a_remote_mount_elsewhere_leaves_local_files_inline() {
    let bench = Bench::with("ext4", FUSE_ELSEWHERE, |_| {});
    let path = bench.dir.write("a", b"abc");
    assert!(bench.fs.try_open_now(c"/remote/file", &bench.aio).is_none());
    assert_eq!(bench.fs.try_open_now(&path, &bench.aio).unwrap().unwrap().size(), 3);
    let error = bench.fs.try_open_now(&bench.dir.path("missing"), &bench.aio).unwrap().unwrap_err();
    assert_eq!(error, FileError::System { call: "open()", errno: 2 });
}

#[test]
fn a_link_into_a_remote_mount_is_found_out_before_the_open() {
    let bench = Bench::with("ext4", FUSE_ELSEWHERE, |_| {});
    let path = bench.dir.write("a", b"abc");
    let mut meta = bench.fs.try_stat_now(&path, &bench.aio).unwrap().unwrap();
    meta.dev = rustix::fs::makedev(0, 4242);
    bench.fake.change(|plan| plan.stat_known = Some(Ok(meta)));
    assert!(bench.fs.try_open_now(&path, &bench.aio).is_none());
    assert_eq!(bench.fake.calls.open_cached.load(SeqCst), 0);
    // If attributes cannot be had without asking, nothing is assumed.
    bench.fake.change(|plan| plan.stat_known = Some(Err(Errno::NOSYS)));
    assert!(bench.fs.try_open_now(&path, &bench.aio).is_none());
}

#[test]
fn a_device_that_is_not_in_the_mount_table_is_learned_in_the_pool() {
    let dir = Dir::new();
    let path = dir.write("a", b"abc");
    let bench = Bench::new("ext4");
    let mounts = crate::mounts::Mounts::fixed(b"1 0 0:9999 / / rw - ext4 none rw\n");
    let fs = crate::files::FileSystem::with(Box::new(bench.fake.clone()), mounts.clone(), bench.pool.clone());
    assert!(fs.try_open_now(&path, &bench.aio).is_none());
    let file = block_on(fs.open(&path, bench.via())).unwrap();
    let learned = mounts.get(dir.dev()).unwrap();
    assert!(std::sync::Arc::ptr_eq(file.mount(), &learned));
    assert_eq!(fs.try_open_now(&path, &bench.aio).is_some(), learned.class().opens_inline());
}

#[test]
fn a_fifo_without_a_writer_opens_at_once() {
    let bench = Bench::new("ext4");
    let path = bench.dir.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    for aio in [&bench.aio, &Aio::Off] {
        let file = bench.fs.try_open_now(&path, aio).unwrap().unwrap();
        assert!(!file.is_file() && !file.is_dir());
    }
    assert!(
        !block_on(bench.fs.open(&path, Via { aio: &Aio::Always(bench.pool.clone()), ..bench.via() }))
            .unwrap()
            .is_file()
    );
}

#[test]
fn a_directory_opens_and_says_what_it_is() {
    let bench = Bench::new("ext4");
    let path = bench.dir.path(".");
    assert!(bench.fs.try_open_now(&path, &bench.aio).unwrap().unwrap().is_dir());
    assert!(bench.fs.try_stat_now(&path, &bench.aio).unwrap().unwrap().is_dir());
}

#[test]
fn always_goes_to_the_pool_and_off_never_does() {
    let bench = Bench::new("ext4");
    let path = bench.dir.write("a", b"abc");
    let always = Aio::Always(bench.pool.clone());
    assert!(bench.fs.try_open_now(&path, &always).is_none());
    assert!(bench.fs.try_stat_now(&path, &always).is_none());
    block_on(bench.fs.open(&path, Via { aio: &always, client: 1, gone: None })).unwrap();
    assert_eq!(bench.pool.status().served, 1);
    let off = Via { aio: &Aio::Off, client: 1, gone: None };
    bench.fake.change(|plan| plan.open_cached = Some(Errno::AGAIN));
    block_on(bench.fs.open(&path, off)).unwrap();
    block_on(bench.fs.stat(&path, off)).unwrap();
    assert_eq!(block_on(bench.fs.offload(off, crate::pool::Tag::default(), || 7)).unwrap(), 7);
    assert_eq!(bench.pool.status().served, 1);
}

#[test]
fn a_removed_file_is_closed_by_the_pool_and_a_present_one_at_once() {
    let bench = Bench::new("ext4");
    let path = bench.dir.write("a", b"abc");
    let open = || bench.fs.try_open_now(&path, &bench.aio).unwrap().unwrap();
    drop(open());
    assert_eq!(bench.pool.status().served, 0);
    let removed = open();
    std::fs::remove_file(bench.dir.0.join("a")).unwrap();
    drop(removed);
    bench.pool.shut_down();
    block_on(bench.pool.drained());
    assert_eq!(bench.pool.status().served, 1);
}

#[test]
fn closing_waits_for_a_full_pool_instead_of_the_loop() {
    let bench = Bench::new("fuse");
    let path = bench.dir.write("a", b"abc");
    let files: Vec<_> = (0..200).map(|_| bench.fs.try_open_now(&path, &Aio::Off).unwrap().unwrap()).collect();
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let opened = std::sync::Arc::new(std::sync::Mutex::new(opened));
    let tag = |mount| crate::pool::Tag { mount, ..Default::default() };
    for mount in [1, 2] {
        let opened = opened.clone();
        assert!(bench.pool.spawn(tag(mount), move || _ = opened.lock().unwrap().recv()).is_ok());
    }
    drop(files);
    assert!(bench.pool.status().refused > 0);
    drop(open);
    block_on(async {
        while bench.pool.status().waiting + bench.pool.status().active > 0 {
            tokio::task::yield_now().await;
        }
        // Each later close takes two of those that were left.
        for _ in 0..200 {
            drop(bench.fs.open(&path, bench.via()).await.unwrap());
        }
    });
    bench.pool.shut_down();
    block_on(bench.pool.drained());
    let status = bench.pool.status();
    assert_eq!(status.served, 2 + 200 + 400);
}
