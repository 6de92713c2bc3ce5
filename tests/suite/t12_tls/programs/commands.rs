//! Clients that are commands: curl (with OpenSSL) and gnutls-cli.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::{BODY, KEYS, SECONDS, TlsVersion, certificates, large, output, require, server, shown};
use freerun_testkit::{Site, TempDir};

#[test]
fn curl() {
    let Some(program) = require::program("curl") else { return };
    let site = Site::new();
    let folder = TempDir::new("curl");
    let got = folder.path().join("large");
    for certificate in KEYS {
        let server = server(&site, certificate);
        for version in TlsVersion::ALL {
            let url = |path: &str| format!("https://localhost:{}{path}", server.port());
            let mut command = Command::new(&program);
            let common = |command: &mut Command| {
                command.args(["--silent", "--show-error", "--fail", "--max-time", "60", "--write-out", "\\n"]);
                command.args(["--resolve", &format!("localhost:{}:127.0.0.1", server.port())]);
                let number = if version == TlsVersion::V12 { "1.2" } else { "1.3" };
                command.args([&format!("--tlsv{number}"), "--tls-max", number, "--http1.1"]);
                command.arg("--cacert").arg(certificates().path("ca.crt"));
                command.arg("--cert").arg(certificates().path("client.crt"));
                command.arg("--key").arg(certificates().path("client.key"));
            };
            common(&mut command);
            command.arg(url("/tell")).arg("--next");
            common(&mut command);
            command.arg("--output").arg(&got).arg(url("/large")).arg("--next");
            common(&mut command);
            command.args(["--data-binary", BODY]).arg(url("/echo")).arg("--next");
            common(&mut command);
            // The connection is closed after the second answer, and the session is resumed on the next one.
            command.args([url("/tell"), url("/close"), url("/tell")]);
            let name = shown(version);
            let expected = format!("{name} SUCCESS . 1\n\n{BODY}\n{name} SUCCESS . 4\nclosing\n{name} SUCCESS r 1\n");
            assert_eq!(output(&command), expected, "{certificate}, {name}\n{}", server.error_log());
            assert!(std::fs::read(&got).expect("the file") == large(), "{certificate}, {name}");
        }
    }
}

#[test]
fn gnutls() {
    let Some(program) = require::program("gnutls-cli") else { return };
    let site = Site::new();
    let folder = TempDir::new("gnutls");
    let site_large = large();
    for certificate in KEYS {
        let server = server(&site, certificate);
        for version in TlsVersion::ALL {
            let name = shown(version);
            let mut command = Command::new("timeout");
            command.arg(SECONDS).arg(&program).args(["--resume", "--port", &server.port().to_string()]);
            command.args(["--priority", &format!("NORMAL:-VERS-ALL:+VERS-TLS{}", &name[4..])]);
            // What it tells goes to a file, so that its output is what the server has sent.
            command.arg("--logfile").arg(folder.path().join("log"));
            command.arg("--x509cafile").arg(certificates().path("ca.crt"));
            command.arg("--x509certfile").arg(certificates().path("client.crt"));
            command.arg("--x509keyfile").arg(certificates().path("client.key")).arg("localhost");
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("gnutls-cli");
            let head = |path: &str, more: &str| format!("{path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
            let length = format!("Content-Length: {}\r\n", BODY.len());
            let requests = [
                head("GET /tell", ""),
                head("POST /echo", &length) + BODY,
                head("GET /tell", ""),
                head("GET /large", "Connection: close\r\n"),
            ];
            // Its input stays open until the server has closed: at the end of it, it would not wait for answers.
            let mut input = child.stdin.take().expect("its input");
            input.write_all(requests.concat().as_bytes()).expect("a request");
            let mut got = Vec::new();
            child.stdout.take().expect("its output").read_to_end(&mut got).expect("an answer");
            drop(input);
            let ended = child.wait_with_output().expect("its end");
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            let has = |part: &[u8]| got.windows(part.len()).any(|window| window == part);
            for part in [&format!("{name} SUCCESS r 1"), BODY, &format!("{name} SUCCESS r 3")] {
                assert!(has(part.as_bytes()), "{certificate}, {name}: no {part}\n{said}{}", server.error_log());
            }
            assert!(got.ends_with(&site_large), "{certificate}, {name}: the body has come whole\n{said}");
        }
    }
}
