//! Full disks: requests go on.

use freerun_testkit::{Setup, Site, TempDir, eventually, require};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs;
use std::path::Path;

/// A file system of 1 MiB in memory.
pub struct Tiny {
    dir: TempDir,
}

impl Tiny {
    pub fn new() -> Tiny {
        let dir = TempDir::new("tiny");
        mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), c"size=1m,mode=777").expect("mounting");
        Tiny { dir }
    }

    pub fn path(&self) -> &Path {
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

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("reading");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

#[test]
fn files_that_do_not_fit_leave_nothing_behind() {
    if !require::root() {
        return;
    }
    let disk = Tiny::new();
    fs::create_dir(disk.path().join("tree")).expect("a folder");
    fs::write(disk.path().join("tree/a"), vec![b'a'; 300_000]).expect("a file");
    fs::write(disk.path().join("kept"), "kept").expect("a file");
    let http = "server { listen 127.0.0.1:@PORT@; root @ROOT@; client_max_body_size 0;
        client_body_buffer_size 1m; dav_methods PUT DELETE MKCOL COPY MOVE; dav_access all:r;
        location /spooled/ { client_body_buffer_size 1k; alias @ROOT@/; }
        location /temporary/ { client_body_buffer_size 1k; client_body_temp_path @ROOT@/temp; alias @ROOT@/; } }";
    let server = Setup::new().main("user root;").root_path(disk.path()).http(http).run();
    let body = "x".repeat(700_000);
    let put = |path: &str, length: usize| {
        let mut client = server.connect();
        let text = &body[..length];
        client.send(format!("PUT {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{text}"));
        client.response().status
    };
    let before = ["kept", "temp", "tree"];
    assert_eq!(names(disk.path()), before);
    // To another file system, in whole: it fits.
    assert_eq!(put("/spooled/fits", 500_000), 201);
    assert_eq!(fs::read(disk.path().join("fits")).expect("the file").len(), 500_000);
    // From memory, from a file elsewhere, and from one on the full disk.
    assert_eq!(put("/new", 600_000), 507);
    assert_eq!(put("/kept", 600_000), 507);
    assert_eq!(put("/spooled/new", 600_000), 507);
    assert_eq!(put("/temporary/new", 600_000), 507);
    let ask = |method: &str, path: &str, destination: &str| {
        let mut client = server.connect();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nDestination: {destination}\r\n\r\n");
        client.send(request).response().status
    };
    assert_eq!(ask("COPY", "/fits", "/copy"), 507);
    assert_eq!(ask("COPY", "/tree/", "/copy/"), 507);
    assert_eq!(ask("COPY", "/tree/", "/fits/"), 507, "what stood there is put back");
    assert_eq!(names(disk.path()), ["fits", "kept", "temp", "tree"]);
    assert_eq!(fs::read_to_string(disk.path().join("kept")).expect("the file"), "kept");
    assert!(names(&disk.path().join("temp")).is_empty());
    assert_eq!(ask("DELETE", "/fits", "-"), 204);
    assert_eq!(put("/new", 600_000), 201);
    assert_eq!(put("/new", 100), 204);
}

#[test]
fn every_sort_of_log_that_cannot_be_written_stops_nobody() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("a", "file a");
    let dir = TempDir::new("hanging-logs");
    let place = dir.path().display();
    // Pipes that are open for reading, so that opening them does not wait, and that nobody reads.
    let pipes: Vec<_> = ["plain", "packed", "named-x"].into_iter().map(|name| pipe(&dir.path().join(name))).collect();
    let _server = std::os::unix::net::UnixDatagram::bind(dir.path().join("syslog")).expect("binding");
    let http = format!(
        "access_log /dev/full combined gzip buffer=1k; access_log {place}/plain; access_log {place}/packed combined gzip buffer=1k;
         access_log {place}/named-$arg_n; access_log {place}/no/$arg_n; access_log syslog:server=unix:{place}/syslog;
         keepalive_requests 100000; server {{ listen 127.0.0.1:@PORT@; root @ROOT@; }}"
    );
    let server = Setup::new().root(&site).main("user root;").http(&http).freerun();
    let mut client = server.connect();
    // Far more than the pipes take, and than may wait.
    let request = format!("GET /a?n=x HTTP/1.1\r\nHost: h\r\nUser-Agent: {}\r\n\r\n", "a".repeat(4000));
    for _ in 0..2000 {
        client.send(&request);
        assert_eq!(client.response().text(), "file a");
    }
    assert_eq!(server.workers().len(), 1);
    drop(pipes);
}

fn pipe(path: &Path) -> fs::File {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("making a pipe");
    fs::File::options().read(true).write(true).open(path).expect("opening a pipe")
}
