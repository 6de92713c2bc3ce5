//! Disks that hang or fail, clients that stall or vanish, resources that run out: the rest goes on.
//!
//! The disk is the FUSE fixture of the test kit. Nothing here looks at times: an operation either hangs until the test lets go, or it
//! does not, and what must go on is seen to go on meanwhile.

mod cache_soak;
mod caching;
mod certificates;
mod changes;
mod compress;
mod disk;
mod dns;
mod figures;
mod full;
mod limits;
mod logs;
mod passed_on;
mod passwords;
mod pools;
mod sessions;
mod subrequests;
mod tls;
mod unix_sockets;

use freerun_testkit::fuse::Fixture;
use freerun_testkit::{Site, TestServer};

/// A document root whose folder `slow` is the fixture.
pub(crate) struct Disk {
    // Fields are dropped in this order: the mount goes before the folder that it is in.
    pub(crate) fixture: Fixture,
    pub(crate) site: Site,
}

impl Disk {
    /// Files `slow/f0` to `slow/f199` of 10,000 bytes, `slow/big` of 4 MB; on the ordinary disk `fast` and `index.html`.
    fn new() -> Disk {
        let site = Site::new();
        site.file("fast", "fast file").file("index.html", "the index").folder("slow");
        let fixture = Fixture::mount(&site.at("slow"), false).expect("mounting");
        for number in 0..200 {
            fixture.file(&format!("f{number}"), 10_000);
        }
        fixture.file("big", BIG).file("d/index.html", 100);
        Disk { fixture, site }
    }
}

/// The size of `slow/big`.
pub(crate) const BIG: u64 = 4_000_000;

/// How many descriptors a process has open.
pub(crate) fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).unwrap_or(0)
}

/// What must go on whatever the slow disk does: a response from memory, a file of another disk, on old and new connections.
#[track_caller]
pub(crate) fn goes_on(server: &TestServer) {
    let mut kept = server.connect();
    for _ in 0..20 {
        assert_eq!(kept.get("/text").text(), "text");
        assert_eq!(kept.get("/fast").text(), "fast file");
        assert_eq!(server.get("/text").text(), "text");
    }
}
