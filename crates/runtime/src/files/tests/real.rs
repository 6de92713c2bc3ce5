//! Tests with the running kernel, on the file systems that are there.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::BytesMut;
use freerun_testkit::require;

use super::fake::*;
use crate::files::{Aio, Cursor, FileSystem, Via};
use crate::mounts::{Class, Rung};
use crate::pool::{PoolSpec, ThreadPool};

const LEN: usize = (4 << 20) + 77;

struct World {
    fs: Arc<FileSystem>,
    pool: Arc<ThreadPool>,
}

impl World {
    fn new() -> World {
        let pool = ThreadPool::start(&PoolSpec::named("real")).unwrap();
        World { fs: FileSystem::new(pool.clone()).unwrap(), pool }
    }

    /// Sends the file and compares what arrives.
    fn serves(&self, path: &std::ffi::CStr, expected: &[u8]) -> Arc<crate::files::OpenFile> {
        let aio = Aio::Auto(self.pool.clone());
        let via = Via { aio: &aio, client: 1, gone: None };
        let (out, mut to) = sockets();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut to, &mut bytes).unwrap();
            bytes
        });
        let file = block_on(async {
            let file = self.fs.open(path, via).await.unwrap();
            let (mut offset, mut cursor) = (0, Cursor::default());
            while offset < file.size() {
                let left = file.size() - offset;
                let mut sent = self.fs.send_now(&file, &mut cursor, out.as_fd(), offset, left, &aio).unwrap();
                if sent == crate::files::SendResult::NeedsPool {
                    sent = self.fs.send_pooled(&file, &mut cursor, out.clone(), offset, left, via).await.unwrap();
                }
                match sent {
                    crate::files::SendResult::Bytes(n) => offset += n,
                    crate::files::SendResult::SocketFull => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
            let back = self.fs.read_at(&file, 1, expected.len(), BytesMut::new(), via).await.unwrap();
            assert!(back == expected[1..]);
            file
        });
        drop(out);
        assert!(reader.join().unwrap() == expected);
        file
    }
}

fn forget_cache(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn files_cold_and_warm_on_the_disk_of_temporary_files() {
    let (world, dir) = (World::new(), Dir::new());
    let path = dir.write("a", &pattern(LEN));
    world.serves(&path, &pattern(LEN));
    forget_cache(&dir.0.join("a"));
    world.serves(&path, &pattern(LEN));
    for mount in world.fs.mounts() {
        println!("{mount:?}");
    }
}

#[test]
fn shared_memory_needs_no_pool() {
    let shm = Path::new("/dev/shm");
    if !require::need("shared-memory", shm.is_dir(), "there is no /dev/shm") {
        return;
    }
    let (world, dir) = (World::new(), Dir::under(shm));
    let path = dir.write("a", &pattern(LEN));
    let file = world.serves(&path, &pattern(LEN));
    let in_memory = file.mount().class() == Class::Memory;
    if !require::need("shared-memory", in_memory, &format!("/dev/shm is {}", file.mount().fs_type())) {
        return;
    }
    let status = world.fs.mounts().into_iter().find(|mount| mount.dev == dir.dev()).unwrap();
    assert_eq!((status.rung, status.misses), (Rung::Memory, 0));
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn an_overlay_is_served_whole_and_asked_for_its_rung_once() {
    let (world, dir) = (World::new(), Dir::new());
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(dir.0.join(name)).unwrap();
    }
    std::fs::write(dir.0.join("lower/a"), pattern(LEN)).unwrap();
    let at = |name: &str| dir.0.join(name).display().to_string();
    let options = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    let merged = dir.0.join("merged");
    let mounted = Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged).output();
    let is_mounted = mounted.is_ok_and(|output| output.status.success());
    if !require::need("mount-overlay", is_mounted, "an overlay cannot be mounted here") {
        return;
    }
    let _unmount = Unmount(&merged);
    let path = dir.path("merged/a");
    for _ in 0..2 {
        world.serves(&path, &pattern(LEN));
        forget_cache(&dir.0.join("lower/a"));
    }
    let file = world.serves(&path, &pattern(LEN));
    println!("{:?}", file.mount().status(1));
    assert_eq!(file.mount().fs_type(), "overlay");
    assert_eq!(file.mount().class(), Class::Local);
}

#[test]
fn a_mount_made_later_is_noticed() {
    let world = World::new();
    let dir = Dir::new();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&dir.0).output();
    let is_mounted = mounted.is_ok_and(|output| output.status.success());
    if !require::need("mount", is_mounted, "nothing can be mounted here") {
        return;
    }
    let _unmount = Unmount(&dir.0);
    let dev = dir.dev();
    let started = std::time::Instant::now();
    while world.fs.mount_table().get(dev).is_none() {
        assert!(started.elapsed().as_secs() < 60, "the mount table was not read again");
        std::thread::yield_now();
    }
    assert_eq!(world.fs.mount_table().get(dev).unwrap().class(), Class::Memory);
}

#[test]
fn an_empty_file_is_no_work() {
    let (world, dir) = (World::new(), Dir::new());
    let path = dir.write("a", b"");
    let aio = Aio::Auto(world.pool.clone());
    let via = Via { aio: &aio, client: 1, gone: None };
    block_on(async {
        let file = world.fs.open(&path, via).await.unwrap();
        assert_eq!(file.size(), 0);
        assert!(world.fs.read_at(&file, 0, 10, BytesMut::new(), via).await.unwrap().is_empty());
    });
}
