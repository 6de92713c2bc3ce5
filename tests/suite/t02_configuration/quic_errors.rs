//! What `-t` says to broken configurations of HTTP/3: the words and the line of nginx 1.31.5.

use crate::t02_configuration::config_errors::In::{Http, Location, Main, Server};
use crate::t02_configuration::config_errors::{Case, run_all};
use freerun_testkit::{Kind, check, require};

#[rustfmt::skip]
const CASES: &[Case] = &[
    (Main, "quic_bpf yes;", "invalid value \"yes\" in \"quic_bpf\" directive, it must be \"on\" or \"off\"", 2),
    (Main, "quic_bpf on; quic_bpf off;", "\"quic_bpf\" directive is duplicate", 2),
    (Main, "http3 on;", "\"http3\" directive is not allowed here", 2),
    (Http, "quic_bpf on;", "\"quic_bpf\" directive is not allowed here", 3),
    (Http, "http3 yes;", "invalid value \"yes\" in \"http3\" directive, it must be \"on\" or \"off\"", 3),
    (Http, "http3_max_concurrent_streams x;", "\"http3_max_concurrent_streams\" directive invalid number", 3),
    (Http, "http3_stream_buffer_size 2g;", "\"http3_stream_buffer_size\" directive invalid value", 3),
    (Http, "quic_active_connection_id_limit -1;", "\"quic_active_connection_id_limit\" directive invalid number", 3),
    (Http, "quic_gso auto;", "invalid value \"auto\" in \"quic_gso\" directive, it must be \"on\" or \"off\"", 3),
    (Http, "quic_host_key none;", "open() \"@DIR@/none\" failed (2: No such file or directory)", 3),
    (Http, "quic_host_key /dev/null;", "\"/dev/null\" zero key size", 3),
    (Http, "quic_host_key @CERTS@/ec.key;\nquic_host_key @CERTS@/ec.key;", "\"quic_host_key\" directive is duplicate", 4),
    (Location, "http3 on;", "\"http3\" directive is not allowed here", 5),
    (Server, "listen 127.0.0.1:@PORT@ quic ssl;", "\"listen\" directive \"ssl\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ ssl quic;", "\"listen\" directive \"ssl\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ quic http2;", "\"listen\" directive \"http2\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ quic proxy_protocol;", "\"listen\" directive \"proxy_protocol\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ quic deferred;", "\"listen\" directive \"deferred\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ quic fastopen=3;", "\"listen\" directive \"fastopen\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ so_keepalive=off quic;", "\"listen\" directive \"so_keepalive\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ backlog=10 quic;", "\"listen\" directive \"backlog\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ multipath quic;", "\"listen\" directive \"multipath\" parameter is incompatible with \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ quic udp;", "invalid parameter \"udp\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ quic=1;", "invalid parameter \"quic=1\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ quic;", "no \"ssl_certificate\" is defined for the \"listen ... quic\" directive", 3),
    (Server, "listen 127.0.0.1:@PORT@ quic; ssl_protocols TLSv1.2;\nssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;", "\"ssl_protocols\" must enable TLSv1.3 for the \"listen ... quic\" directive", 3),
    (Server, "listen 127.0.0.1:@PORT@ quic;\nlisten 127.0.0.1:@PORT@ quic;", "a duplicate listen 127.0.0.1:@PORT@", 5),
    // nginx has nothing like these.
    (Server, "listen unix:@DIR@/q quic;", "\"quic\" is not possible with the Unix socket \"unix:@DIR@/q\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ ssl alt_svc;", "\"listen\" directive \"alt_svc\" parameter needs \"quic\"", 4),
    (Server, "listen 127.0.0.1:@PORT@ quic alt_svc=x;", "invalid parameter \"alt_svc=x\"", 4),
];

#[test]
fn messages_are_nginx_s() {
    if require::freerun() {
        run_all(Kind::Freerun, CASES);
    }
}

#[test]
fn the_place_is_shown() {
    if !require::freerun() {
        return;
    }
    let checked = check(Kind::Freerun, "events { }\nhttp { server {\n    listen 443 quic ssl;\n} }\n");
    let checked = checked.expect("freerun starts");
    let lines: Vec<&str> = checked.stderr.lines().collect();
    let shown = lines.iter().position(|line| line.contains("    listen 443 quic ssl;")).expect("the line itself");
    assert_eq!(lines[shown + 1].find('^'), lines[shown].find("ssl"), "{}", checked.stderr);
}

/// The default server of an address decides about both, as in nginx.
#[test]
fn what_nginx_takes_is_taken() {
    if !require::freerun() {
        return;
    }
    let pair = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";
    for servers in [
        format!(
            "server {{ listen 127.0.0.1:@PORT@ quic; {pair} }}
             server {{ listen 127.0.0.1:@PORT@ quic; server_name b; }}"
        ),
        format!(
            "server {{ listen 127.0.0.1:@PORT@ quic; {pair} }}
             server {{ listen 127.0.0.1:@PORT@ quic; {pair} server_name b; ssl_protocols TLSv1.2; }}"
        ),
        "server { listen 127.0.0.1:@PORT@ quic; ssl_reject_handshake on; }".to_owned(),
        // TCP and UDP are two addresses, and both may have all options.
        format!(
            "server {{ listen *:@PORT@ quic reuseport rcvbuf=1m; listen *:@PORT@ ssl reuseport backlog=9; {pair} }}"
        ),
        format!(
            "quic_host_key @CERTS@/ec.key; server {{ listen 127.0.0.1:@PORT@ quic; {pair} quic_gso off; http3_hq on; }}"
        ),
    ] {
        let checked = check(Kind::Freerun, &format!("events {{ }}\nquic_bpf on;\nhttp {{\n{servers}\n}}\n"));
        let checked = checked.expect("freerun starts");
        assert_eq!(checked.code, Some(0), "{servers}\n{}", checked.stderr);
        assert!(!checked.stderr.contains("[warn]"), "{servers}\n{}", checked.stderr);
    }
}
