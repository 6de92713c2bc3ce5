//! Tests of starting and ending, as a shell sees it.

// clippy.toml allows it in tests; helper functions of an integration test are not seen as such.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use freerun_testkit::{PATIENCE, TempDir, eventually};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn freerun() -> Command {
    Command::new(env!("CARGO_BIN_EXE_freerun"))
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn serve_tells_its_address_serves_and_ends_with_the_terminal() {
    for signal in [Signal::INT, Signal::HUP] {
        let dir = TempDir::new("serve");
        // No character of the folder's name may have a meaning in the configuration.
        let folder = dir.path().join("a $b \"c\" {d};");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("index.html"), "here").unwrap();
        let mut server =
            freerun().args(["serve", "--listen", "127.0.0.1:0"]).arg(&folder).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        assert!(get(&address, "/").ends_with("\r\n\r\nhere"));
        assert!(get(&address, "/status").contains("\"loops\""));
        kill_process(Pid::from_child(&server), signal).unwrap();
        assert!(server.wait().unwrap().success());
    }
}

#[test]
fn serve_lists_folders_and_shows_requests_unless_it_is_told_not_to() {
    for quiet in [false, true] {
        let dir = TempDir::new("serve-list");
        std::fs::write(dir.path().join("\u{e4}.txt"), "here").unwrap();
        let options = if quiet { &["--quiet"][..] } else { &[] };
        let mut server = freerun()
            .args(["serve", "--port", "0"])
            .args(options)
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(server.stdout.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            line
        };
        let first = line();
        let address = first.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{first}");
        assert_eq!(line().contains("--quiet"), !quiet);
        let page = get(&address, "/");
        assert!(
            page.starts_with("HTTP/1.1 200 ")
                && page.contains("<a href=\"%C3%A4.txt\" title=\"\u{e4}.txt\">\u{e4}.txt</a>"),
            "{page}"
        );
        assert!(page.contains("\r\nContent-Type: text/html; charset=utf-8\r\n"), "{page}");
        if !quiet {
            let shown = line();
            assert!(shown.starts_with("127.0.0.1 [") && shown.contains("] \"GET / HTTP/1.0\" 200 "), "{shown}");
        }
        kill_process(Pid::from_child(&server), Signal::INT).unwrap();
        assert!(server.wait().unwrap().success());
        assert_eq!(line(), "", "nothing else was printed");
    }
}

fn pid(path: &Path) -> Option<Pid> {
    Pid::from_raw(std::fs::read_to_string(path).ok()?.trim().parse().ok()?)
}

#[test]
fn the_command_that_starts_a_daemon_returns_when_it_serves() {
    let dir = TempDir::new("daemon");
    let socket = dir.path().join("socket");
    let text = format!(
        "pid run.pid; error_log error.log notice; events {{}}
         http {{ access_log off; server {{ listen unix:{}; root .; }} }}",
        socket.display()
    );
    std::fs::write(dir.path().join("x.conf"), text).unwrap();
    let run = |args: &[&str]| {
        freerun().args(["-p", ".", "-c", "x.conf"]).args(args).current_dir(dir.path()).output().unwrap()
    };
    let mut start =
        freerun().args(["-p", ".", "-c", "x.conf"]).current_dir(dir.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = start.stderr.take().unwrap();
    assert!(start.wait().unwrap().success());
    let master = pid(&dir.path().join("run.pid")).expect("the pid file is there when the command returns");
    std::os::unix::net::UnixStream::connect(&socket).expect("and so is the socket");

    // A process that reads the command's output sees its end: no process of the daemon keeps it open.
    let (told, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        told.send(stderr.read_to_string(&mut text).map(|_| text)).unwrap();
    });
    let text = end.recv_timeout(PATIENCE);
    assert!(run(&["-s", "stop"]).status.success());
    eventually("the master is gone", || test_kill_process(master).is_err());
    assert_eq!(text.expect("stderr was closed while the daemon ran").unwrap(), "");
    assert!(!dir.path().join("run.pid").exists() && !socket.exists());
    let log = std::fs::read_to_string(dir.path().join("error.log")).unwrap();
    assert!(log.contains("start worker process ") && log.contains("exited with code 0"), "{log}");
}

#[test]
fn a_start_that_fails_tells_why_and_leaves_nothing() {
    let dir = TempDir::new("failed");
    let text = "pid run.pid; events {} http { access_log off; server { listen 192.0.2.1:1; } }";
    std::fs::write(dir.path().join("x.conf"), text).unwrap();
    let out = freerun().args(["-p", ".", "-c", "x.conf"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("[emerg]") && told.contains("bind() to 192.0.2.1:1 failed (99: Cannot assign"), "{told}");
    assert!(!dir.path().join("run.pid").exists());
}
