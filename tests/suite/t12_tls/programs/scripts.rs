//! The libraries of programming languages, each with a script of its own.

use std::process::Command;

use super::{BODY, TlsVersion, certificates, require, talk};
use freerun_testkit::TempDir;

/// Where a script is.
fn file(name: &str) -> String {
    format!("{}/suite/t12_tls/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn number(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::V12 => "1.2",
        TlsVersion::V13 => "1.3",
    }
}

/// Adds the arguments that most scripts take.
fn with_arguments(mut command: Command, port: u16, version: TlsVersion) -> Command {
    command.arg(port.to_string()).arg(number(version));
    command.args(["ca.crt", "client.crt", "client.key"].map(|name| certificates().path(name))).arg(BODY);
    command
}

fn run(program: &str, script: &str) {
    let Some(program) = require::program(program) else { return };
    talk(|port, version| {
        let mut command = Command::new(&program);
        command.arg(file(script));
        with_arguments(command, port, version)
    });
}

#[test]
fn python() {
    run("python3", "client.py");
}

#[test]
fn node() {
    run("node", "client.js");
}

#[test]
fn go() {
    let Some(program) = require::program("go") else { return };
    let folder = TempDir::new("go");
    let built = folder.path().join("client");
    let mut build = Command::new(program);
    build.args(["build", "-o"]).arg(&built).arg(file("client.go"));
    build.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local").env("GO111MODULE", "off");
    super::output(&build);
    talk(|port, version| with_arguments(Command::new(&built), port, version));
}

#[test]
fn java() {
    let (Some(java), Some(_)) = (require::program("java"), require::program("javac")) else { return };
    let folder = TempDir::new("java");
    let store = folder.path().join("client.p12");
    let mut pack = Command::new("openssl");
    pack.args(["pkcs12", "-export", "-passout", "pass:secret", "-out"]).arg(&store);
    pack.arg("-in").arg(certificates().path("client.crt")).arg("-inkey").arg(certificates().path("client.key"));
    super::output(&pack);
    talk(|port, version| {
        let mut command = Command::new(&java);
        command.arg(file("Client.java")).arg(port.to_string()).arg(number(version));
        command.arg(certificates().path("ca.crt")).arg(&store).arg(BODY);
        command
    });
}
