//! Hot files: what a loop keeps of a file is never older than a change that was complete before the request was sent.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use flate2::read::GzDecoder;
use freerun_testkit::fuse::Mirror;
use freerun_testkit::http2::Http2;
use freerun_testkit::{Response, Setup, Site, TempDir, TestClient, TestServer, Tls, eventually, require};

/// How many changes are made on each file system.
const CHANGES: usize = 1000;
/// After so many requests a loop has the file among its hot ones, where it can be.
const WARMING: usize = 4;

/// A folder that something is mounted on, until it is dropped.
struct Mount(PathBuf);

impl Mount {
    /// Calls `mount(8)`. `None` where it is not possible; `need` is the name of that.
    fn new(need: &str, arguments: &[&str], at: &Path) -> Option<Mount> {
        fs::create_dir_all(at).expect("a folder");
        let done = Command::new("mount").args(arguments).arg(at).output().expect("mount");
        let why = format!("mount {arguments:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
        if !require::need(need, done.status.success(), &why) {
            return None;
        }
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("permissions");
        Some(Mount(at.to_owned()))
    }

    /// A new file system in a file.
    fn image(kind: &str, dir: &Path) -> Option<Mount> {
        let image = dir.join("image");
        let file = fs::File::create(&image).expect("an image");
        file.set_len(if kind == "xfs" { 320 << 20 } else { 32 << 20 }).expect("its length");
        let need = format!("mount-{kind}");
        let made = Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image).status();
        if !require::need(&need, made.is_ok_and(|status| status.success()), &format!("no mkfs.{kind}")) {
            return None;
        }
        Mount::new(&need, &["-o", "loop", "-t", kind, image.to_str().expect("a path")], &dir.join("mounted"))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The answer that a file has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Text(Vec<u8>),
    Status(u16),
}

impl Answer {
    fn of(response: &Response) -> Answer {
        if response.status != 200 {
            return Answer::Status(response.status);
        }
        match response.header("content-encoding") {
            // A packed file that is sent as it is says anything here.
            Some("gzip") if response.body.starts_with(&[0x1f, 0x8b]) => {
                let mut text = Vec::new();
                GzDecoder::new(&response.body[..]).read_to_end(&mut text).expect("a packed body");
                Answer::Text(text)
            }
            _ => Answer::Text(response.body.clone()),
        }
    }
}

/// A document root with a release that a link leads to, and what is to be seen there.
struct Root {
    at: PathBuf,
    /// The release that is served, and the other one.
    releases: [&'static str; 2],
    /// Whether a link leads to it, and permissions are looked at.
    is_usual: bool,
}

impl Root {
    fn new(at: &Path, is_usual: bool) -> Root {
        for release in ["one", "two"] {
            fs::create_dir_all(at.join("releases").join(release)).expect("a folder");
            for file in ["page.html", "packed.html", "packed.html.gz"] {
                let path = at.join("releases").join(release).join(file);
                fs::write(path, format!("{release}: {file}, {}", "first ".repeat(100))).expect("a file");
            }
        }
        let root = Root { at: at.to_owned(), releases: ["one", "two"], is_usual };
        if is_usual {
            symlink("releases/one", at.join("current")).expect("a link");
        }
        root
    }

    /// The folder that is served.
    fn folder(&self) -> PathBuf {
        self.at.join("releases").join(self.releases[0])
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn prefix(&self) -> &'static str {
        if self.is_usual { "/current" } else { "/releases/one" }
    }

    /// The answer that the file system has at this moment. Root may read everything, so permissions are looked at.
    fn answer(&self, name: &str) -> Answer {
        let Ok(folder) = fs::metadata(self.folder()) else { return Answer::Status(404) };
        if self.is_usual && folder.permissions().mode() & 0o001 == 0 {
            return Answer::Status(403);
        }
        match fs::metadata(self.file(name)) {
            Ok(meta) if self.is_usual && meta.permissions().mode() & 0o004 == 0 => Answer::Status(403),
            Ok(_) => Answer::Text(fs::read(self.file(name)).expect("a file")),
            Err(_) => Answer::Status(404),
        }
    }

    /// The answer to a client that takes packed files.
    fn packed(&self, name: &str) -> Answer {
        match self.answer(&format!("{name}.gz")) {
            Answer::Status(_) => self.answer(name),
            text => text,
        }
    }

    /// Makes the next change of a row. `name` is the file that is looked at.
    fn change(&mut self, number: usize, name: &str) {
        let (path, text) = (self.file(name), format!("change {number:8}, {}", "more ".repeat(number % 50)));
        match number % 12 {
            // As editors and deployments do it.
            0 => {
                fs::write(self.file("new"), text).expect("a new file");
                fs::rename(self.file("new"), &path).expect("renaming");
            }
            1 => fs::write(&path, text).expect("writing"),
            // The length stays.
            2 => {
                let file = fs::File::options().write(true).open(&path).expect("opening");
                file.write_all_at(format!("{number:10}").as_bytes(), 0).expect("writing");
            }
            3 => {
                let mut file = fs::File::options().append(true).open(&path).expect("opening");
                file.write_all(b"and more").expect("writing");
            }
            4 => fs::File::options().write(true).open(&path).expect("opening").set_len(9).expect("truncating"),
            5 => fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions"),
            6 => fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("permissions"),
            7 => fs::remove_file(&path).expect("removing"),
            8 => fs::write(&path, text).expect("writing"),
            9 => {
                fs::set_permissions(self.folder(), fs::Permissions::from_mode(0o700)).expect("permissions");
            }
            10 => {
                fs::set_permissions(self.folder(), fs::Permissions::from_mode(0o755)).expect("permissions");
                let away = self.at.join("away");
                fs::rename(self.folder(), &away).expect("renaming");
                fs::rename(self.at.join("releases").join(self.releases[1]), self.folder()).expect("renaming");
                fs::rename(away, self.at.join("releases").join(self.releases[1])).expect("renaming");
            }
            _ if self.is_usual => {
                self.releases.swap(0, 1);
                let next = self.at.join("next");
                symlink(Path::new("releases").join(self.releases[0]), &next).expect("a link");
                fs::rename(next, self.at.join("current")).expect("renaming");
            }
            _ => fs::write(&path, text).expect("writing"),
        }
    }
}

/// Makes changes, each followed at once by a request for the file: on a connection whose loop has the file among its
/// hot ones, and on one whose loop may not have it.
fn never_an_old_answer(root: &mut Root, server: &TestServer, name: &str, packed: bool, changes: usize) {
    let fields = if packed { "Accept-Encoding: gzip\r\n" } else { "" };
    let asked = name.strip_suffix(".gz").unwrap_or(name);
    let target = format!("GET {}/{asked} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n", root.prefix());
    let mut clients: Vec<TestClient> = (0..3).map(|_| server.connect()).collect();
    let ask = |client: &mut TestClient| Answer::of(&client.send(&target).response());
    for number in 0..changes {
        for client in &mut clients {
            for _ in 0..WARMING {
                ask(client);
            }
        }
        // This request may be answered before the change or after it, the one behind it on the connection only after it. If
        // the file becomes shorter, the first answer may be cut short, and end the connection.
        let has_two = root.is_usual && !matches!(number % 12, 1 | 4);
        if has_two {
            clients[1].send(&target);
        }
        root.change(number, name);
        let expected = if packed { root.packed(asked) } else { root.answer(asked) };
        for (which, client) in clients.iter_mut().enumerate() {
            client.send(&target);
            if which == 1 && has_two {
                client.response();
            }
            let answer = Answer::of(&client.response());
            assert_eq!(answer, expected, "change {number} of {name}, connection {which}");
        }
    }
}

/// Whether these tests can be run: they need the status, and what only root may do.
fn can_be_run() -> bool {
    require::freerun() && require::root()
}

/// Serves a folder, with so many loops and these lines.
fn serve(at: &Path, loops: u32, lines: &str) -> TestServer {
    let server = format!(
        "server {{
            listen 127.0.0.1:@PORT@; root @ROOT@; keepalive_requests 1000000; {lines}
            gzip_static on; gzip on; gzip_min_length 1;
            location = /status {{ status; }}
        }}"
    );
    let main = format!("user nobody nogroup; worker_processes {loops};");
    // Some of the tests mount over what is served.
    Setup::new().root_path(at).shared_mounts().main(&main).http(&server).run()
}

/// How many files the server has opened, or asked for, without a pool.
fn opened(server: &TestServer) -> u64 {
    let status = server.status();
    let mounts = status["mounts"].as_array().expect("mounts");
    mounts.iter().map(|mount| mount["hits"].as_u64().unwrap_or(0)).sum()
}

/// Whether a file that many requests want is soon opened for few of them.
fn is_kept(server: &TestServer, target: &str) -> bool {
    let mut client = server.connect();
    (0..50).any(|_| {
        let before = opened(server);
        for _ in 0..100 {
            assert_eq!(client.get(target).status, 200);
        }
        opened(server) - before < 20
    })
}

fn changes_are_seen(at: &Path, is_usual: bool) {
    let mut root = Root::new(at, is_usual);
    let server = serve(at, 2, "");
    assert!(!is_usual || is_kept(&server, "/current/page.html"));
    never_an_old_answer(&mut root, &server, "page.html", false, CHANGES);
    // What compression has kept of the file, and a packed file beside it.
    never_an_old_answer(&mut root, &server, "page.html", true, CHANGES / 10);
    never_an_old_answer(&mut root, &server, "packed.html.gz", true, CHANGES / 10);
}

#[test]
fn changes_are_seen_at_once_on_the_systems_disk() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-disk");
    changes_are_seen(dir.path(), true);
}

#[test]
fn changes_are_seen_at_once_in_memory() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-tmpfs");
    let Some(mount) = Mount::new("mount", &["-t", "tmpfs", "tmpfs"], &dir.path().join("mounted")) else { return };
    changes_are_seen(&mount.0, true);
}

#[test]
fn changes_are_seen_at_once_on_ext4() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-ext4");
    let Some(mount) = Mount::image("ext4", dir.path()) else { return };
    changes_are_seen(&mount.0, true);
}

#[test]
fn changes_are_seen_at_once_on_xfs() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-xfs");
    let Some(mount) = Mount::image("xfs", dir.path()) else { return };
    changes_are_seen(&mount.0, true);
}

/// The files begin in the lower layer, and come to the upper one with their first change.
#[test]
fn changes_are_seen_at_once_on_an_overlay() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-overlay");
    let Some(layers) = Mount::new("mount", &["-t", "tmpfs", "tmpfs"], &dir.path().join("layers")) else { return };
    for folder in ["lower", "upper", "work"] {
        fs::create_dir_all(layers.0.join(folder)).expect("a folder");
    }
    let mut root = Root::new(&layers.0.join("lower"), true);
    let at = |folder: &str| layers.0.join(folder).display().to_string();
    let options = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    let arguments = ["-t", "overlay", "overlay", "-o", &format!("{options},redirect_dir=on")];
    let Some(mount) = Mount::new("mount-overlay", &arguments, &dir.path().join("mounted")) else { return };
    root.at = mount.0.clone();
    let server = serve(&mount.0, 2, "");
    assert!(is_kept(&server, "/current/page.html"));
    never_an_old_answer(&mut root, &server, "page.html", false, CHANGES);
    never_an_old_answer(&mut root, &server, "packed.html.gz", true, CHANGES / 10);
}

#[test]
fn changes_are_seen_at_once_on_fuse() {
    if !can_be_run() || !require::fuse() {
        return;
    }
    let (of, dir) = (TempDir::new("hot-mirrored"), TempDir::new("hot-fuse"));
    let _mirror = Mirror::mount(of.path(), dir.path()).expect("mounting");
    changes_are_seen(dir.path(), false);
}

#[test]
fn changes_are_seen_at_once_by_a_loop_that_is_busy() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-busy");
    let mut root = Root::new(dir.path(), true);
    let server = serve(dir.path(), 1, "");
    let (is_over, request) = (AtomicBool::new(false), "GET /current/page.html HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = server.connect();
                while !is_over.load(Relaxed) {
                    // A response that a change cuts short ends the connection.
                    if client.try_send(request.repeat(5)).is_err()
                        || (0..5).any(|_| client.try_response("GET").is_err())
                    {
                        client = server.connect();
                    }
                }
            });
        }
        let changes = std::panic::catch_unwind(AssertUnwindSafe(|| {
            never_an_old_answer(&mut root, &server, "page.html", false, CHANGES / 2);
        }));
        is_over.store(true, Relaxed);
        changes.unwrap_or_else(|failure| std::panic::resume_unwind(failure));
    });
}

#[test]
fn changes_are_seen_at_once_by_the_shared_cache_unless_a_time_is_given() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-shared");
    let mut root = Root::new(dir.path(), true);
    let server = serve(dir.path(), 2, "open_file_cache max=100; open_file_cache_errors on;");
    never_an_old_answer(&mut root, &server, "page.html", false, CHANGES / 4);
    never_an_old_answer(&mut root, &server, "packed.html.gz", true, CHANGES / 10);
    // Files that were changed long enough ago are kept.
    eventually("kept", || is_kept(&server, "/current/page.html"));
    never_an_old_answer(&mut root, &server, "page.html", false, 1);
}

/// A folder that others may not read cannot be watched; attributes are asked for.
#[test]
fn changes_are_seen_at_once_where_a_folder_cannot_be_watched() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-closed");
    let mut root = Root::new(dir.path(), true);
    fs::set_permissions(dir.path().join("releases"), fs::Permissions::from_mode(0o711)).expect("permissions");
    let server = serve(dir.path(), 2, "");
    for number in [0, 1, 2, 11] {
        eventually("kept", || is_kept(&server, "/current/page.html"));
        root.change(number, "page.html");
        let answer = Answer::of(&server.get("/current/page.html"));
        assert_eq!(answer, root.answer("page.html"), "{number}");
    }
    never_an_old_answer(&mut root, &server, "page.html", false, CHANGES / 10);
}

#[test]
fn what_is_mounted_over_a_folder_is_seen_at_once() {
    if !can_be_run() {
        return;
    }
    let dir = TempDir::new("hot-mounts");
    let root = Root::new(dir.path(), true);
    let server = serve(dir.path(), 1, "");
    let mut client = server.connect();
    for number in 0..20 {
        let below = Answer::Text(fs::read(root.file("page.html")).expect("a file"));
        for _ in 0..20 {
            assert_eq!(Answer::of(&client.get("/current/page.html")), below, "{number}");
        }
        let Some(mount) = Mount::new("mount", &["-t", "tmpfs", "tmpfs"], &root.folder()) else { return };
        assert_eq!(client.get("/current/page.html").status, 404, "{number}");
        fs::write(root.file("page.html"), "above").expect("a file");
        for _ in 0..20 {
            assert_eq!(client.get("/current/page.html").text(), "above", "{number}");
        }
        drop(mount);
    }
}

#[test]
fn changes_are_seen_at_once_in_every_protocol() {
    let site = Site::new();
    site.file("a.html", "first");
    let server = Setup::new()
        .root(&site)
        .http(
            "keepalive_requests 1000000; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
            server { listen 127.0.0.1:@PORT@; root @ROOT@; }
            server { listen 127.0.0.1:@PORT2@ ssl; root @ROOT@; }
            server { listen 127.0.0.1:@PORT3@ http2; root @ROOT@; }",
        )
        .run();
    let connect = |number| TestClient::connect(server.address_number(number));
    let (mut plain, mut secure, mut http2) = (connect(1), connect(2).tls(&Tls::new()), Http2::new(connect(3)));
    for number in 0..CHANGES / 4 {
        let text = format!("change {number}");
        site.file("a.html", &text);
        for _ in 0..5 {
            assert_eq!(plain.get("/a.html").text(), text);
            assert_eq!(secure.get("/a.html").text(), text);
            assert_eq!(http2.get("/a.html").body(), text.as_bytes());
        }
    }
}
