//! `-s` of all kinds, with the pid file where it is by default.

use freerun_testkit::eventually;

use crate::machine::{Machine, UNPRIVILEGED, port};

#[test]
fn every_order_reaches_a_server_with_the_package_s_configuration() {
    for machine in Machine::each() {
        every_order_reaches_the_server(&machine);
    }
}

fn every_order_reaches_the_server(machine: &Machine) {
    let port = port();
    let site = |text: &str| format!("server {{ listen 127.0.0.1:{port}; return 200 {text}; }}");
    let mut server = machine.site(&site("one")).serve(port);
    let order = |signal: &str| {
        let done = machine.freerun(&[], &["-s", signal]);
        assert!(done.status.success(), "{signal} {}", String::from_utf8_lossy(&done.stderr));
    };
    machine.site(&site("two"));
    order("reload");
    assert_eq!(server.connect().get("/").text(), "two");
    // In the image it is a link to standard output; a file takes its place.
    let log = "/var/log/nginx/access.log";
    std::fs::rename(machine.path(log), machine.path("/var/log/nginx/old")).expect("a log");
    order("reopen");
    eventually("a new log", || machine.path(log).exists());
    // The order is given when the master has it; the worker may still write a line or two into the old file.
    eventually("it is written to", || {
        server.connect().get("/");
        machine.read(log).contains("GET /")
    });
    order("quit");
    server.ends();
    drop(server);
    let mut server = machine.serve(port);
    order("stop");
    server.ends();
    assert!(!machine.path("/run/nginx.pid").exists());
}

#[test]
fn the_same_by_a_user_without_rights_who_names_what_is_not_his() {
    let Some(machine) = Machine::debian() else { return };
    let port = port();
    let home = machine.home();
    let text = format!(
        "pid {home}/pid; error_log {home}/error.log;
        events {{}} http {{ access_log {home}/access.log; server {{ listen 127.0.0.1:{port}; return 200 one; }} }}"
    );
    let file = format!("{home}/nginx.conf");
    std::fs::write(&file, text).expect("a configuration");
    let mut server = machine.start(&UNPRIVILEGED, &["-c", &file, "-g", "daemon off;"], port);
    for signal in ["reload", "reopen", "quit"] {
        let done = machine.freerun(&UNPRIVILEGED, &["-c", &file, "-s", signal]);
        assert!(done.status.success(), "{signal} {}", String::from_utf8_lossy(&done.stderr));
    }
    server.ends();
}
