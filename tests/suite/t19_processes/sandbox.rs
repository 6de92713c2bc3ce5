//! `worker_sandbox`: what a worker gives up, and that it serves nevertheless.

use std::fs;

use freerun_testkit::{Setup, Site, TestClient, TestServer, eventually, require};
use rustix::process::Signal;

/// A location with the state of the worker.
const STATUS: &str = "location /status { status; }";

/// A line of `/proc/PID/status`.
fn process_status(pid: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a line of that name").trim().to_owned()
}

/// Whether a limit is set, as `status` tells it.
fn is_active(server: &TestServer, name: &str) -> bool {
    let status = server.status();
    let limits = status["sandbox"].as_array().expect("limits");
    limits.iter().any(|limit| limit["name"] == name && limit["active"] == true)
}

/// Whoever takes over a worker starts no program, reads no memory of others, and changes no files but its own.
#[test]
fn a_worker_can_do_little_harm() {
    if !require::freerun() || !cfg!(debug_assertions) {
        return;
    }
    let (site, other) = (Site::new(), Site::new());
    other.file("key.pem", "a key of another site").mode("key.pem", 0o600).mode("", 0o777);
    let outside = other.at("written");
    let lines = format!(
        "location /attempts {{ debug_sandbox {} {}; }} location /v {{ return 200 served; }} {STATUS}",
        other.at("key.pem").display(),
        outside.display()
    );
    let server = Setup::server(&site, &lines).freerun();
    let worker = server.worker();
    assert_eq!(process_status(worker, "NoNewPrivs"), "1");
    assert_eq!(process_status(worker, "Seccomp"), "2");
    let text = server.get("/attempts").text();
    let has_files = is_active(&server, "files");
    let is_root = rustix::process::geteuid().is_root();
    for line in text.lines() {
        let may_succeed = match line.split(':').next().unwrap_or_default() {
            // Without Landlock, and for a test that is not root, the rights of the user decide.
            "write outside" => !has_files,
            "read the key" | "read /etc/shadow" => !is_root,
            _ => false,
        };
        assert!(may_succeed || line.contains(": failed: "), "{text}");
    }
    assert!(!has_files || !outside.exists());
    assert_eq!(server.get("/v").text(), "served");
    assert_eq!(server.worker(), worker, "the same worker");
    for call in ["execve", "ptrace", "kill", "socket", "finit_module", "mount", "unshare", "bpf", "clock_settime"] {
        server.logs(&format!(" ({call})"));
    }
    if is_root {
        assert_eq!(process_status(worker, "CapBnd"), "0000000000000000");
        assert_eq!(process_status(worker, "CapEff"), "0000000000000000");
    }
}

/// The value counts when a worker starts.
#[test]
fn a_worker_without_a_sandbox_is_as_it_was() {
    if !require::freerun() {
        return;
    }
    for (value, seccomp) in [("off", "0"), ("log", "2")] {
        let site = Site::new();
        let main = format!("worker_sandbox {value};");
        let lines = format!("location /v {{ return 200 served; }} {STATUS}");
        let server = Setup::server(&site, &lines).main(&main).freerun();
        assert_eq!(server.get("/v").text(), "served");
        assert_eq!(process_status(server.worker(), "Seccomp"), seccomp, "{value}");
        assert!(!is_active(&server, "files"), "{value}");
    }
}

/// A sandbox is never widened, so another worker takes over; a request that goes on ends with the old one.
#[test]
fn a_reload_that_needs_more_folders_starts_another_worker() {
    if !require::freerun() {
        return;
    }
    let (site, other) = (Site::new(), Site::new());
    site.file("big", vec![b'x'; 30_000_000]);
    let lines = format!(
        "# here
        location /upload {{ client_body_in_file_only clean; proxy_pass http://127.0.0.1:@PORT@/v; }} {STATUS}"
    );
    let server = Setup::server(&site, &lines).freerun();
    if !is_active(&server, "files") {
        return;
    }
    let worker = server.worker();
    let mut slow = TestClient::try_connect_narrow(server.address(), 16_384).expect("connecting");
    slow.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    server.edit("# here", "location /v { return 200 two; }");
    server.reload();
    eventually("the new answer", || server.get("/v").text() == "two");
    assert_eq!(server.worker(), worker, "the same worker, which needs no more than before");

    let folder = other.at("bodies");
    server.edit("location /v {", &format!("client_body_temp_path {}; location /v {{", folder.display()));
    server.edit("return 200 two", "return 200 three");
    server.reload();
    eventually("the new answer", || server.get("/v").text() == "three");
    server.logs("a new worker takes over");
    eventually("two workers", || server.workers().iter().any(|other| *other != worker));
    let upload = "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(server.send(upload).text(), "three", "the body was written to the new folder, and sent on");
    assert_eq!(slow.response().body.len(), 30_000_000);
    drop(slow);
    eventually("the end of the old worker", || !server.workers().contains(&worker));
    server.signal(Signal::QUIT);
}
