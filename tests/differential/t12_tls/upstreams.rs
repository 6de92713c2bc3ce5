//! TLS towards upstream servers.

use super::{Visit, plain};
use crate::exchange::text_without_ports;
use crate::runner::{Report, line_difference, start};
use freerun_testkit::{Setup, TestServer, TestUpstream, TlsServer, TlsVersion, eventually, ok};

/// One location for each of these lines, which passes requests on to a server with this certificate.
#[track_caller]
fn compare(certificate: &str, lines: &[&str]) {
    let mut report = Report::default();
    for version in TlsVersion::ALL {
        let upstream = TestUpstream::tls(TlsServer::with(certificate, &[version], true))
            .answer(|request| ok(format!("{} {:?}", request.target(), request.header("host"))));
        let port = upstream.address().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        for line in lines {
            let setup = Setup::new().http(&format!(
                "upstream backend {{ server {}; }} proxy_ssl_protocols TLSv1.2 TLSv1.3;
                 server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass https://backend; {line} }} }}",
                upstream.address()
            ));
            let outcome = |server: &TestServer| {
                let ports = [server.port(), port];
                let visit: Visit = plain("");
                let mut told = visit.outcome(server, &ports);
                let loud =
                    |line: &str| ["[error]", "[crit]", "[alert]", "[warn]"].iter().any(|level| line.contains(level));
                let of = |line: &str| Some(text_without_ports(line.split_once(": *")?.1.split_once(' ')?.1, &ports));
                let logged = || {
                    let log = server.error_log_of_traffic();
                    let mut logged: Vec<String> = log.lines().filter(|line| loud(line)).filter_map(of).collect();
                    logged.retain(|line| !line.contains("/probe"));
                    logged
                };
                if told[0].contains("50") {
                    eventually("it is logged", || !logged().is_empty());
                }
                told.extend(logged());
                told
            };
            let Some(servers) = start(&setup) else { return };
            let outcomes = servers.each(outcome);
            report.add(
                format_args!("{certificate} {version} {line}"),
                line_difference(&outcomes.nginx, &outcomes.freerun),
            );
        }
    }
    report.finish();
}

const VERIFY: &str = "proxy_ssl_verify on; proxy_ssl_trusted_certificate @CERTS@/ca.crt; proxy_ssl_name localhost;";

#[test]
fn certificates_of_servers() {
    for certificate in ["ec", "rsa", "named", "foreign", "self", "stale", "withdrawn", "below"] {
        compare(
            certificate,
            &[
                "",
                VERIFY,
                &format!("{VERIFY} proxy_ssl_crl @CERTS@/ca.crl;"),
                &format!("{VERIFY} proxy_ssl_verify_depth 0;"),
            ],
        );
    }
}

#[test]
fn names_of_servers() {
    let verify = "proxy_ssl_verify on; proxy_ssl_trusted_certificate @CERTS@/ca.crt;";
    let with = |name: &str| format!("{verify} proxy_ssl_name {name};");
    let names = [
        "localhost",
        "a.example.com",
        "a.b.example.com",
        "example.com",
        "A.EXAMPLE.com",
        "127.0.0.1",
        "localhost.",
        "*.example.com",
        "localhost:443",
        "$arg_none",
    ];
    let lines: Vec<String> = names.iter().map(|name| with(name)).chain([verify.to_owned()]).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    compare("ec", &lines);
    compare("named", &lines[..3]);
}
