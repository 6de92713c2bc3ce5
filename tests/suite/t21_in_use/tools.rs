//! Scripts of `tests/tools` that can run wherever their programs are installed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use freerun_testkit::{Kind, require};

/// How long certbot may take, in seconds.
const SECONDS: &str = "240";

/// How long h2spec may take, in seconds, with building it.
const H2SPEC_SECONDS: &str = "900";

/// How long the browsers may take, in seconds: three ways for each of two.
const BROWSERS_SECONDS: &str = "900";

/// How long the test of the page of `status` may take, in seconds.
const DASHBOARD_SECONDS: &str = "300";

/// How long the programs for the API may take, in seconds.
const API_SECONDS: &str = "300";

/// How long the interoperability tests of gRPC may take, in seconds, with building their client and server.
const GRPC_SECONDS: &str = "1500";

/// How long the receiver of the collector may take, in seconds, with building it.
const COLLECTOR_SECONDS: &str = "1200";

/// How long the test of drains may take, in seconds, with building its client.
const DRAIN_SECONDS: &str = "900";

/// How long changes of the binary may take, in seconds.
const UPGRADE_SECONDS: &str = "330";

/// How many changes of the binary, and reloads, are enough for the gate; by hand there are 20 and 50.
const UPGRADES: [(&str, &str); 2] = [("UPGRADES", "3"), ("RELOADS", "5")];

/// How long the clients of stream may take, in seconds.
const CLIENTS_SECONDS: &str = "420";

/// The command for a script of `tests/tools`, without its arguments.
fn command(name: &str, seconds: &str) -> Command {
    let script = format!("{}/tools/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("timeout");
    command.args([seconds, &script]).stdin(Stdio::null());
    command
}

/// The server under test.
fn server() -> PathBuf {
    Kind::under_test().program().expect("a binary")
}

/// Runs a script of `tests/tools` with the server under test, and returns what it has said.
#[track_caller]
fn script(name: &str, seconds: &str) -> String {
    run(command(name, seconds).arg(server()))
}

/// Runs the command of a script, and returns what it has said.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().expect("the command timeout");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said.into_owned()
}

/// Runs a script that says so if what it needs is not there.
#[track_caller]
fn script_or_nothing(name: &str, seconds: &str) {
    done_or_nothing(name, &script(name, seconds));
}

/// Judges what a script has said that says so if what it needs is not there, for all of it or for a part.
#[track_caller]
fn done_or_nothing(name: &str, said: &str) {
    // Pages and logs speak of servers that are left out, so the words alone say nothing.
    let lacks =
        |line: &&str| line.starts_with("skipped: ") || line.starts_with("left out: ") || line.contains(": left out, ");
    let lacking: Vec<&str> = said.lines().filter(lacks).collect();
    require::need(&format!("tools/{name}"), lacking.is_empty(), &lacking.join("; "));
    assert!(said.contains("== done") || !lacking.is_empty(), "{said}");
}

#[test]
fn h2spec_finds_nothing_that_is_not_expected() {
    script_or_nothing("h2spec", H2SPEC_SECONDS);
}

#[test]
fn grpc_interoperates_in_every_way() {
    script_or_nothing("grpc-interop", GRPC_SECONDS);
}

#[test]
fn the_collector_takes_what_is_exported() {
    if require::freerun() {
        script_or_nothing("otel-collector", COLLECTOR_SECONDS);
    }
}

#[test]
fn nothing_fails_when_servers_are_reloaded_and_restarted() {
    if require::freerun() {
        script_or_nothing("h2-drain", DRAIN_SECONDS);
    }
}

#[test]
fn nothing_fails_when_the_binary_is_changed() {
    if !require::freerun() {
        return;
    }
    done_or_nothing("upgrade", &run(command("upgrade", UPGRADE_SECONDS).arg(server()).envs(UPGRADES)));
}

#[test]
fn nothing_fails_when_freerun_takes_nginx_s_place_and_nginx_freerun_s() {
    if !require::freerun() || !require::nginx() {
        return;
    }
    let Ok(nginx) = Kind::Nginx.program() else { return };
    done_or_nothing("upgrade", &run(command("upgrade", UPGRADE_SECONDS).args([nginx, server()]).envs(UPGRADES)));
}

#[test]
fn sessions_of_real_clients_with_real_servers() {
    if require::freerun() {
        script_or_nothing("stream-clients", CLIENTS_SECONDS);
    }
}

#[test]
fn browsers_see_what_they_should() {
    script_or_nothing("browsers", BROWSERS_SECONDS);
}

#[test]
fn a_browser_shows_the_status() {
    if require::freerun() {
        script_or_nothing("dashboard", DASHBOARD_SECONDS);
    }
}

#[test]
fn programs_for_the_api_find_what_they_expect() {
    if require::freerun() {
        let said = run(command("plus-api", API_SECONDS).arg(server()).env("FETCH", "no"));
        done_or_nothing("plus-api", &said);
    }
}

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
    let said = script("certbot", SECONDS);
    assert!(said.contains("== done"), "{said}");
}
