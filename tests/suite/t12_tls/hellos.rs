//! What a ClientHello asks for, as OpenSSL's client sends it: names of any form, old versions, suites and groups, and its size.

use super::secure;
use freerun_testkit::{Setup, Site, TestClient, Tls, TlsVersion, eventually, require};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// What `openssl s_client` prints of a session with the server at `address`, for which it has these arguments: what was agreed on
/// and what the server sends, and the errors. It sends a request of HTTP.
fn openssl(address: SocketAddr, arguments: &[&str]) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-ign_eof", "-connect", &address.to_string()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl");
    // A client that has no session takes no request.
    let _ = client.stdin.take().expect("its input").write_all(b"GET / HTTP/1.0\r\n\r\n");
    let done = client.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
}

/// Names that could be none of DNS, and whether a server that lists them (or the host of `host:port`) is found by them.
const NAMES: [(&str, bool); 18] = [
    ("x-.cdn.example.com", true),
    ("X-.cdn.Example.com", true),
    ("-a.test", true),
    ("a.test-", true),
    ("123", true),
    ("127.0.0.1", true),
    ("x-.cdn.example.com:443", true),
    ("[::1]:443", true),
    ("-", true),
    ("a.1", false),
    ("a..test", false),
    (".a.test", false),
    ("x.below.test", true),
    (".below.test", true),
    ("..below.test", false),
    ("*.test", false),
    ("a b", false),
    ("münchen.test", false),
];

/// A server that has a list of names, and the default server. Each says which one it is and which name was asked for.
fn listed() -> Setup {
    let tls = "ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate_key @CERTS@/";
    let listed = "x-.cdn.example.com -a.test a.test- 123 127.0.0.1 [::1] - .below.test";
    let servers = |port: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl default_server; {tls}rsa.key; ssl_certificate @CERTS@/rsa.crt;
                       return 'default <$ssl_server_name>'; }}
             server {{ listen 127.0.0.1:{port} ssl; server_name {listed}; {tls}ec.key; ssl_certificate @CERTS@/ec.crt;
                       return 'listed <$ssl_server_name>'; }}\n"
        )
    };
    let http = servers("@PORT@").replace("return", "return 200");
    Setup::new().stream(&servers("@PORT2@")).http(&http)
}

#[test]
fn any_name_chooses_among_servers() {
    if !require::freerun() {
        return;
    }
    let server = listed().run();
    for version in ["-tls1_2", "-tls1_3"] {
        for (name, is_listed) in NAMES {
            let kind = if is_listed { "ECDSA" } else { "RSA" };
            for (number, said) in [(1, "default"), (2, if is_listed { "listed" } else { "default" })] {
                let shown = openssl(server.address_number(number), &[version, "-servername", name]);
                // A server of `http` is chosen again by the request, which has no name.
                let said = format!("{said} <{name}>");
                assert!(shown.contains(&said), "{version} {name} at {number}: {shown}");
                assert!(shown.contains(&format!("Peer signature type: {kind}")), "{name}: {shown}");
            }
        }
    }
}

#[test]
fn a_name_that_could_lead_elsewhere_finds_no_certificate() {
    let files = "ssl_certificate @CERTS@/$ssl_server_name.crt; ssl_certificate_key @CERTS@/$ssl_server_name.key;";
    let site = Site::new();
    let server = Setup::new()
        .root(&site)
        .http(&format!("server {{ listen 127.0.0.1:@PORT@ ssl; {files} return 200 found; }}"))
        .freerun();
    assert!(openssl(server.address(), &["-servername", "ec"]).contains("found"));
    for name in ["../ec", "..", "/ec", "a b"] {
        assert!(openssl(server.address(), &["-servername", name]).contains("alert internal error"), "{name}");
        server.logs(&format!("\"{name}\" is no name of a server to find a certificate by"));
    }
}

#[test]
fn any_name_is_sent_to_upstream_servers() {
    if !require::freerun() {
        return;
    }
    let pair = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_protocols TLSv1.2 TLSv1.3;";
    for version in ["TLSv1.2", "TLSv1.3"] {
        let sends = |prefix: &str| {
            format!(
                "{prefix}ssl_server_name on; {prefix}ssl_protocols {version};
                 {prefix}ssl_certificate @CERTS@/client.crt; {prefix}ssl_certificate_key @CERTS@/client.key;"
            )
        };
        let server = Setup::new()
            .stream(&format!(
                "server {{ listen 127.0.0.1:@PORT2@ ssl; {pair} return '$ssl_server_name'; }}
                 server {{ listen 127.0.0.1:@PORT3@; {} proxy_ssl on; proxy_ssl_name up-.test;
                           proxy_pass 127.0.0.1:@PORT2@; }}",
                sends("proxy_")
            ))
            .http(&format!(
                "server {{ listen 127.0.0.1:@PORT@; {} {}
                           location /proxy/ {{ proxy_ssl_name $arg_name; proxy_pass https://127.0.0.1:@PORT4@; }}
                           location /grpc/ {{ grpc_ssl_name $arg_name; grpc_pass grpcs://127.0.0.1:@PORT4@; }} }}
                 server {{ listen 127.0.0.1:@PORT4@ ssl; http2 on; {pair} ssl_verify_client optional_no_ca;
                           return 200 '$ssl_server_name $ssl_protocol $ssl_client_s_dn'; }}",
                sends("proxy_"),
                sends("grpc_")
            ))
            .run();
        let subject = "CN=Client";
        for family in ["proxy", "grpc"] {
            for name in ["up-.test", "-a", "123", "a..b", "*.test", "www.example.com", "a_b"] {
                let response = server.get(&format!("/{family}/?name={name}"));
                let text = response.text();
                assert!(text.starts_with(&format!("{name} {version} ")), "{family} {name}: {} {text}", response.status);
                assert!(text.contains(subject), "{family} {name}: the certificate is proven: {text}");
            }
        }
        assert_eq!(TestClient::connect(server.address_number(3)).rest().0, b"up-.test", "{version}");
    }
}

/// A server with these versions.
fn speaking(protocols: &str) -> Setup {
    Setup::new().http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
                   ssl_protocols {protocols}; return 200 x; }}"
    ))
}

#[test]
fn the_reason_for_a_failed_handshake_is_that_of_openssl() {
    for (protocols, arguments, alert, words) in [
        ("TLSv1.2 TLSv1.3", &["-tls1_2", "-fallback_scsv"][..], "86", "0A000175:SSL routines::inappropriate fallback"),
        ("TLSv1.2 TLSv1.3", &["-tls1_2", "-cipher", "AES128-SHA"], "40", "0A0000C1:SSL routines::no shared cipher"),
        ("TLSv1.2 TLSv1.3", &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA"], "40", "no shared cipher"),
        ("TLSv1.2", &["-tls1_2", "-groups", "X448"], "40", "no shared cipher"),
        ("TLSv1.2", &["-tls1_2", "-sigalgs", "RSA+SHA256"], "40", "no shared cipher"),
        ("TLSv1.3", &["-tls1_3", "-ciphersuites", "TLS_AES_128_CCM_SHA256"], "40", "no shared cipher"),
        ("TLSv1.3", &["-tls1_3", "-groups", "X448"], "40", "0A000065:SSL routines::no suitable key share"),
        (
            "TLSv1.3",
            &["-tls1_3", "-sigalgs", "ed25519"],
            "40",
            "0A000076:SSL routines::no suitable signature algorithm",
        ),
        ("TLSv1.2", &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "70", "0A000102:SSL routines::unsupported protocol"),
    ] {
        let server = speaking(protocols).freerun();
        let shown = openssl(server.address(), arguments);
        assert!(shown.contains(&format!("SSL alert number {alert}")), "{arguments:?}: {shown}");
        server.logs(words);
    }
    let server = speaking("TLSv1.2").freerun();
    let shown = openssl(server.address(), &["-tls1_2", "-fallback_scsv"]);
    assert!(shown.contains("New, TLSv1.2"), "there is no higher version: {shown}");
}

#[test]
fn a_rejected_handshake_is_called_so() {
    let server = Setup::new().http("server { listen 127.0.0.1:@PORT@ ssl; ssl_reject_handshake on; }").freerun();
    assert!(openssl(server.address(), &[]).contains("SSL alert number 112"));
    server.logs("handshake rejected while SSL handshaking, client: 127.0.0.1, server: 127.0.0.1:");
}

#[test]
fn the_largest_curve_is_among_the_usual_groups() {
    let site = Site::new();
    let server = secure(&site, "return 200 x;").freerun();
    for version in ["-tls1_2", "-tls1_3"] {
        let shown = openssl(server.address(), &[version, "-groups", "P-521"]);
        assert!(shown.contains("Server Temp Key: ECDH, secp521r1, 521 bits"), "{shown}");
    }
}

#[test]
fn the_largest_curve_is_offered_to_upstream_servers() {
    if !require::freerun() {
        return;
    }
    let pair = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_protocols TLSv1.2 TLSv1.3;";
    for version in ["TLSv1.2", "TLSv1.3"] {
        let site = Site::new();
        site.mode("", 0o777);
        let server = Setup::new()
            .stream(&format!(
                "server {{ listen 127.0.0.1:@PORT2@ ssl; {pair} ssl_ecdh_curve secp521r1; return '$ssl_curve'; }}
                 server {{ listen 127.0.0.1:@PORT3@; proxy_ssl on; proxy_ssl_protocols {version};
                           proxy_pass 127.0.0.1:@PORT2@; }}"
            ))
            .http(&format!(
                "log_format curve '$ssl_protocol $ssl_curve';
                 server {{ listen 127.0.0.1:@PORT@;
                           proxy_ssl_protocols {version}; grpc_ssl_protocols {version}; uwsgi_ssl_protocols {version};
                           location /proxy {{ proxy_pass https://127.0.0.1:@PORT4@; }}
                           location /grpc {{ grpc_pass grpcs://127.0.0.1:@PORT4@; }}
                           location /uwsgi {{ uwsgi_pass suwsgi://127.0.0.1:@PORT4@; }} }}
                 server {{ listen 127.0.0.1:@PORT4@ ssl; http2 on; {pair} ssl_ecdh_curve secp521r1;
                           access_log {}/curves.log curve; return 200; }}",
                site.path().display()
            ))
            .run();
        for family in ["proxy", "grpc", "uwsgi"] {
            server.get(&format!("/{family}"));
        }
        // What answers to uwsgi is no application, but there is a session with it, and a line of a bad request.
        let lines = || std::fs::read_to_string(site.at("curves.log")).unwrap_or_default();
        eventually("three sessions", || lines() == format!("{version} secp521r1\n").repeat(3));
        assert_eq!(TestClient::connect(server.address_number(3)).rest().0, b"secp521r1", "{version}");
    }
}

/// A ClientHello of this length and more, in which a client offers many protocols.
fn long(length: usize) -> Tls {
    let names: Vec<String> = (0..length / 200).map(|number| format!("{number:0199}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["http/1.1"]).collect();
    Tls::new().alpn(&names)
}

#[test]
fn a_hello_may_be_as_long_as_a_message() {
    let site = Site::new();
    let server = secure(&site, "return 200 '$ssl_protocol $ssl_alpn_protocol';").freerun();
    for length in [15_000, 17_000, 30_000, 60_000] {
        for version in TlsVersion::ALL {
            let mut client = server.connect_tls(&long(length).only(version));
            assert_eq!(client.get("/").text(), format!("{version} http/1.1"), "{length}");
        }
    }
    // A longer one is refused with its length.
    let mut client = server.connect();
    client.send(b"\x16\x03\x01\x40\x00\x01\x02\x00\x00\x03\x03");
    assert_eq!(client.rest().0, b"\x15\x03\x03\x00\x02\x02\x2f");
}

/// The message in these records, in records of this size.
fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
    let mut message = Vec::new();
    let mut rest = hello;
    while let [_, _, _, high, low, behind @ ..] = rest {
        let (part, next) = behind.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        message.extend_from_slice(part);
        rest = next;
    }
    let record = |part: &[u8]| [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat();
    message.chunks(size).flat_map(record).collect()
}

#[test]
fn a_hello_of_any_length_is_looked_into_or_refused() {
    if !require::freerun() {
        return;
    }
    let servers = [("@PORT2@", "16k"), ("@PORT3@", "64k")].map(|(port, buffer)| {
        let listens = format!("listen 127.0.0.1:{port}; preread_buffer_size {buffer}; ssl_preread on;");
        let shows = "$ssl_preread_server_name $ssl_preread_protocol";
        format!(
            "server {{ {listens} return 'default: {shows}'; }}
             server {{ {listens} server_name a.test; return 'a: {shows}'; }}"
        )
    });
    let log = "log_format line '$status'; access_log @DIR@/sessions.log line;";
    let server =
        Setup::new().stream(&format!("{log} {}", servers.concat())).http("server { listen 127.0.0.1:@PORT@; }").run();
    for length in [14_000, 17_000, 30_000, 60_000] {
        for size in [1000, 16_384] {
            let hello = in_records(&long(length).name("a.test").hello(), size);
            for (number, room) in [(2, 16 << 10), (3, 64 << 10)] {
                let mut client = TestClient::connect(server.address_number(number));
                client.send(&hello);
                let text = String::from_utf8(client.rest().0).expect("text");
                let wanted = if hello.len() <= room { "a: a.test TLSv1.3" } else { "" };
                assert_eq!(text, wanted, "{length} in records of {size}, with a buffer of {room}");
            }
        }
    }
    server.logs("preread buffer full while prereading client data");
}
