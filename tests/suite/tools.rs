//! Scripts of `tests/tools` that can run wherever their programs are installed.

use std::process::{Command, Stdio};

use freerun_testkit::{Kind, require};

/// How long certbot may take, in seconds.
const SECONDS: &str = "240";

#[test]
fn certbot_gets_installs_and_renews_a_certificate() {
    if !require::freerun() || !require::root() {
        return;
    }
    for program in ["certbot", "pebble", "pebble-challtestsrv", "curl", "ip", "unshare"] {
        if require::program(program).is_none() {
            return;
        }
    }
    let script = format!("{}/tools/certbot", env!("CARGO_MANIFEST_DIR"));
    let server = Kind::Freerun.program().expect("a binary");
    let mut command = Command::new("timeout");
    command.args([SECONDS, &script]).arg(server).stdin(Stdio::null());
    let output = command.output().expect("the command timeout");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("== done"), "{said}");
}
