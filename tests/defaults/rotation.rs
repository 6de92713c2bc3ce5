//! Rotation of the logs by logrotate(8), with the file that is shipped.

use freerun_testkit::{eventually, require};

use crate::machine::{Machine, port, program};

/// The shipped file, which calls the program where a package would have it.
const FILE: &str = include_str!("../../packaging/logrotate/freerun");

#[test]
fn logs_go_on_in_new_files_after_logrotate() {
    let Some(logrotate) = require::program("logrotate") else { return };
    let Some(machine) = Machine::debian() else { return };
    let port = port();
    let server = machine.site(&format!("server {{ listen 127.0.0.1:{port}; return 200 one; }}")).serve(port);
    server.connect().get("/before");
    let log = "/var/log/nginx/access.log";
    eventually("the request is logged", || machine.read(log).contains("/before"));
    assert!(FILE.contains("/usr/sbin/freerun -s reopen"), "{FILE}");
    let path = machine.path("/logrotate.conf");
    std::fs::write(&path, FILE.replace("/usr/sbin/freerun", &program())).expect("a file");
    let state = machine.path("/state");
    let (logrotate, state, path) =
        (logrotate.display().to_string(), state.display().to_string(), path.display().to_string());
    let done = machine.run(&[], &[&logrotate, "-f", "-s", &state, &path]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(machine.read("/var/log/nginx/access.log.1").contains("/before"));
    // -s reopen only sends the signal.
    let mut number = 0;
    eventually("a request is in the new file", || {
        number += 1;
        server.connect().get(&format!("/after-{number}"));
        machine.read(log).contains("/after-")
    });
    assert!(!machine.read(log).contains("/before"));
    drop(server);
    // Without a server there is nothing to reopen, and nothing fails.
    let done = machine.run(&[], &[&logrotate, "-f", "-s", &state, &path]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
