//! Full disks: requests go on.

use freerun_testkit::{Setup, Site, TempDir, eventually, require};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs;
use std::path::Path;

/// A file system of 1 MiB in memory.
struct Tiny {
    dir: TempDir,
}

impl Tiny {
    fn new() -> Tiny {
        let dir = TempDir::new("tiny");
        mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), c"size=1m,mode=777").expect("mounting");
        Tiny { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn fill(&self) {
        // It ends with ENOSPC, which is the purpose.
        let _ = fs::write(self.path().join("filler"), vec![0; 2 << 20]);
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

#[test]
fn logs_on_a_device_that_is_always_full() {
    let site = Site::new();
    site.file("a", "file a");
    let http = "access_log /dev/full; server { listen 127.0.0.1:@PORT@; root @ROOT@; }";
    let server = Setup::new().root(&site).http(http).run();
    let mut client = server.connect();
    for _ in 0..200 {
        assert_eq!(client.get("/a").text(), "file a");
    }
    server.logs("\"/dev/full\" failed (28: No space left on device)");
    let complaints = server.error_log().matches("/dev/full").count();
    assert!(complaints < 100, "not one for each line: {complaints}");
}

#[test]
fn an_error_log_that_is_full() {
    let site = Site::new();
    site.file("a", "file a");
    let server = Setup::server(&site, "error_log /dev/full;").run();
    let mut client = server.connect();
    for _ in 0..200 {
        assert_eq!(client.get("/none").status, 404);
        assert_eq!(client.get("/a").text(), "file a");
    }
}

#[test]
fn logs_on_a_disk_that_fills_up_and_has_room_again() {
    if !require::root() {
        return;
    }
    let site = Site::new();
    site.file("a", "file a");
    let disk = Tiny::new();
    let log = disk.path().join("access.log");
    let http = format!(
        "access_log {}; keepalive_requests 100000; server {{ listen 127.0.0.1:@PORT@; root @ROOT@; }}",
        log.display()
    );
    let server = Setup::new().root(&site).http(&http).run();
    disk.fill();
    let mut client = server.connect();
    // More than the page that the log may have already. Kept or dropped, there will be room for all of them.
    for number in 0..1500 {
        assert_eq!(client.get(&format!("/a?{number}")).text(), "file a");
    }
    server.logs("(28: No space left on device)");
    fs::remove_file(disk.path().join("filler")).expect("making room");
    eventually("lines are written again", || {
        client.get("/a?room-again");
        fs::read_to_string(&log).is_ok_and(|text| text.contains("/a?room-again"))
    });
}
