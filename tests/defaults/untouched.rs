//! `/etc/nginx` as the package leaves it, on port 80 of a network of its own.

use freerun_testkit::eventually;

use crate::machine::{Layout, Machine};

#[test]
fn the_package_s_own_configuration_is_served() {
    let Some(machine) = Machine::with_network(Layout::Debian) else { return };
    for arguments in [&["-t"][..], &["-T", "-q"], &["-V"], &[]] {
        let done = machine.freerun(&[], arguments);
        assert!(done.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&done.stderr));
    }
    eventually("it answers", || machine.run(&[], &["curl", "-s", "http://127.0.0.1/"]).status.success());
    let pid = machine.read("/run/nginx.pid");
    assert!(pid.trim().parse::<u32>().is_ok(), "{pid:?}");
    eventually("the request is in the access log", || {
        machine.read("/var/log/nginx/access.log").contains("\"GET / HTTP/1.1\"")
    });
    let stopped = machine.freerun(&[], &["-s", "quit"]);
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    eventually("the pid file is gone", || !machine.path("/run/nginx.pid").exists());
}
