//! `freerun serve`: a folder, without a configuration.

use freerun_testkit::{Client, Kind, PATIENCE, Site, TempDir, ports, require, within};
use std::fs;
use std::process::{Child, Command, Stdio};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        // One that has ended by itself needs no signal.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn a_folder_is_served_and_the_address_printed() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("index.html", "the index").file("d/a.txt", "text");
    let out = TempDir::new("serve");
    let (stdout, stderr) = (out.path().join("out"), out.path().join("err"));
    let port = ports::free();
    let child = Command::new(Kind::Freerun.program().expect("freerun"))
        .args(["serve", &site.path().display().to_string(), "--listen", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .stdout(fs::File::create(&stdout).expect("a file"))
        .stderr(fs::File::create(&stderr).expect("a file"))
        .spawn()
        .expect("it starts");
    let _running = Running(child);
    let said = || fs::read_to_string(&stdout).unwrap_or_default() + &fs::read_to_string(&stderr).unwrap_or_default();
    let address = ([127, 0, 0, 1], port).into();
    let up = within(PATIENCE, || Client::try_connect(address).is_ok() && said().contains(&format!("127.0.0.1:{port}")));
    assert!(up, "{}", said());
    let mut client = Client::connect(address);
    assert_eq!(client.get("/").text(), "the index");
    assert_eq!(client.get("/d/a.txt").text(), "text");
    assert_eq!(
        client.get("/status").header("content-type").map(|kind| kind.starts_with("application/json")),
        Some(true)
    );
}

#[test]
fn bad_arguments_are_told_by_name() {
    if !require::freerun() {
        return;
    }
    let program = Kind::Freerun.program().expect("freerun");
    for (args, told) in [
        (&["serve", "a", "b"][..], "freerun: serve: unexpected argument \"b\"\n"),
        (&["serve", "--bad"], "freerun: serve: invalid option '--bad'\n"),
        (&["serve", "--listen"], "freerun: serve: missing argument for option '--listen'\n"),
        (&["serve", "--listen", "x"], "freerun: serve: \"x\" is not ADDRESS:PORT, ADDRESS or PORT\n"),
        (&["reference"], "freerun: reference: the folder of the pages is missing\n"),
        (&["-x"], "nginx: invalid option: \"x\"\n"),
        (&["-c"], "nginx: option \"-c\" requires file name\n"),
    ] {
        let output = Command::new(&program).args(args).stdin(Stdio::null()).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stderr), told);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
    }
}
