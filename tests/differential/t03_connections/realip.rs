//! The client's address as proxies tell it: `real_ip_header`, and PROXY protocol headers.

use crate::harness::{Case, compare, get, raw};
use crate::site::site;
use crate::t02_configuration::checks::same_verdicts;
use freerun_testkit::Setup;

const SHOW: &str = "add_header X \"[$remote_addr|$realip_remote_addr]\" always; try_files /a.txt =404;";

#[test]
fn one_address() {
    let site = site();
    let lines = format!(
        "location / {{ set_real_ip_from 127.0.0.1; {SHOW} }}
         location /network {{ set_real_ip_from 127.0.0.0/8; {SHOW} }}
         location /untrusted {{ set_real_ip_from 10.0.0.1; set_real_ip_from ::1; set_real_ip_from unix:; {SHOW} }}
         location /none {{ {SHOW} }}
         location /header {{ set_real_ip_from 127.0.0.1; real_ip_header X-Client; {SHOW} }}
         location /case {{ set_real_ip_from 127.0.0.1; real_ip_header x-real-ip; {SHOW} }}
         location /host {{ set_real_ip_from 127.0.0.1; real_ip_header Host; {SHOW} }}
         location /empty {{ set_real_ip_from 127.0.0.1; real_ip_header ''; {SHOW} }}
         location /proxy {{ set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; {SHOW} }}
         location /return {{ set_real_ip_from 127.0.0.1; return 200 $remote_addr; }}
         location /deny {{ set_real_ip_from 127.0.0.1; deny 1.2.3.4; {SHOW} }}
         location /allow {{ set_real_ip_from 127.0.0.1; allow 1.2.3.0/24; allow 2001:db8::/32; deny all; {SHOW} }}
         location /again {{ set_real_ip_from 127.0.0.1; set_real_ip_from 1.2.3.4; try_files /none /none/x; }}
         location /none/ {{ set_real_ip_from 127.0.0.1; set_real_ip_from 1.2.3.4; real_ip_header X-Client; {SHOW} }}"
    );
    let mut cases = Vec::new();
    for value in [
        "1.2.3.4",
        "1.2.3.4:5678",
        "1.2.3.4:0",
        "1.2.3.4:99999",
        "1.2.3.4:x",
        "1.2.3.4:",
        "::1",
        "2001:db8::1",
        "[2001:db8::1]:80",
        "2001:0DB8:0::1",
        "x",
        "",
        "1.2.3.4, 5.6.7.8",
        "5.6.7.8 1.2.3.4",
        "unix:",
        "unix:/x",
        "1.2.3",
        "01.2.3.4",
        "::ffff:1.2.3.4",
        "localhost",
        "1.2.3.4;5",
        "\"1.2.3.4\"",
        "1.2.3.4,",
        ", ,",
        "1.2.3.256",
        "0.0.0.0",
        "1.2.3.4\t5.6.7.8",
        "\u{e9}",
        "fe80::1%lo",
    ] {
        cases.push(get("/").field(&format!("X-Real-IP: {value}")));
        cases.push(get("/allow").field(&format!("X-Real-IP: {value}")));
    }
    for target in [
        "/network",
        "/untrusted",
        "/none",
        "/header",
        "/case",
        "/host",
        "/empty",
        "/proxy",
        "/return",
        "/deny",
        "/allow",
        "/again",
    ] {
        cases.push(get(target));
        cases.push(get(target).field("X-Real-IP: 1.2.3.4"));
        cases.push(get(target).field("x-client: 1.2.3.4").field("X-Real-IP: 2001:db8::1"));
        cases.push(get(target).field("X-Real-IP: 1.1.1.1").field("X-Real-IP: 2.2.2.2"));
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn chains() {
    let site = site();
    let trusted = "set_real_ip_from 127.0.0.1; set_real_ip_from 10.0.0.0/8; set_real_ip_from 2001:db8::/32;";
    let lines = format!(
        "location /last {{ {trusted} real_ip_header X-Forwarded-For; {SHOW} }}
         location /recursive {{ {trusted} real_ip_header X-Forwarded-For; real_ip_recursive on; {SHOW} }}
         location /header {{ {trusted} real_ip_header X-Client; real_ip_recursive on; {SHOW} }}"
    );
    let mut cases = Vec::new();
    for chain in [
        &["1.1.1.1"][..],
        &["1.1.1.1, 2.2.2.2"],
        &["1.1.1.1,2.2.2.2"],
        &["1.1.1.1 2.2.2.2"],
        &["1.1.1.1   ,,  2.2.2.2"],
        &["1.1.1.1", "2.2.2.2"],
        &["1.1.1.1, 10.0.0.1"],
        &["1.1.1.1, 10.0.0.1, 10.0.0.2"],
        &["1.1.1.1, 2.2.2.2, 10.0.0.1, 10.0.0.2"],
        &["10.0.0.1, 10.0.0.2"],
        &["10.0.0.1, 1.1.1.1, 10.0.0.2"],
        &["1.1.1.1, x"],
        &["1.1.1.1, x, 10.0.0.1"],
        &["1.1.1.1, unknown, 10.0.0.1, 10.0.0.2"],
        &["1.1.1.1,"],
        &["1.1.1.1, "],
        &[", 1.1.1.1"],
        &["1.1.1.1", "10.0.0.1"],
        &["1.1.1.1", "10.0.0.2", "10.0.0.1"],
        &["1.1.1.1", "", "10.0.0.1"],
        &["1.1.1.1", "x", "10.0.0.1"],
        &["1.1.1.1:80, 10.0.0.1:90"],
        &["2001:db8::5, 2001:db8::6"],
        &["1.1.1.1, 2001:db8::6"],
        &["2001:db9::5, 2001:db8::6"],
        &["[2001:db9::5]:77, 10.0.0.1"],
        &["1.1.1.1;10.0.0.1"],
        &["1.1.1.1\t10.0.0.1"],
        &["\"1.1.1.1\""],
        &["127.0.0.1"],
        &["127.0.0.1, 127.0.0.1"],
        &[""],
        &[],
    ] {
        for (target, name) in [("/last", "X-Forwarded-For"), ("/recursive", "x-forwarded-for"), ("/header", "X-Client")]
        {
            if name == "X-Client" && chain.len() > 1 {
                continue;
            }
            let fields = chain.iter().fold(get(target), |case, value| case.field(&format!("{name}: {value}")));
            cases.push(fields);
        }
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn levels_and_ports() {
    let site = site();
    let lines = format!(
        "set_real_ip_from 127.0.0.1; real_ip_header X-Server;
         location / {{ {SHOW} }}
         location /return {{ return 200 $remote_addr; }}
         location /header {{ real_ip_header X-Location; {SHOW} }}
         location /from {{ set_real_ip_from 10.0.0.1; real_ip_header X-Location; {SHOW} }}
         location /port {{ return 200 $remote_addr:$remote_port; }}"
    );
    let mut cases = Vec::new();
    for target in ["/", "/return", "/header", "/from"] {
        cases.push(get(target));
        cases.push(get(target).field("X-Server: 1.1.1.1"));
        cases.push(get(target).field("X-Location: 2.2.2.2"));
        cases.push(get(target).field("X-Server: 1.1.1.1").field("X-Location: 2.2.2.2"));
    }
    for address in ["1.1.1.1", "1.1.1.1:81", "[2001:db8::1]:82", "1.1.1.1:1, 2.2.2.2:2"] {
        cases.push(get("/port").field(&format!("X-Server: {address}")));
    }
    compare(&Setup::server(&site, &lines), cases);
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).expect("short").to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &len, body].concat()
}

const IPV4: &[u8] = b"\xc0\0\x02\x09\xc6\x33\x64\x03\x15\xb3\x01\xbb";
const IPV6: &[u8] =
    b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x03\x15\xb3\x01\xbb";
const TCP4: &str = "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\r\n";

fn proxied(header: impl AsRef<[u8]>, request: &str) -> Case {
    raw([header.as_ref(), request.as_bytes()].concat())
}

#[test]
fn proxy_protocol_headers() {
    let site = site();
    let lines = "
        listen 127.0.0.1:@PORT@ proxy_protocol; server_name localhost; root @ROOT@;
        add_header P \"$proxy_protocol_addr|$proxy_protocol_port|$proxy_protocol_server_addr|$proxy_protocol_server_port\" always;
        location / { return 200 \"$remote_addr $server_addr\"; }
        location /real { set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;
                         add_header X \"[$remote_addr|$realip_remote_addr]\" always; try_files /a.txt =404; }
    ";
    let setup = Setup::new().root(&site).http(&format!("server {{ {lines} }}"));
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let real = "GET /real HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut cases = Vec::new();
    for header in [
        TCP4,
        "PROXY TCP6 2001:db8::9 2001:db8::3 5555 443\r\n",
        "PROXY TCP6 2001:DB8:0::9 2001:db8:0::3 5555 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 0 0\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 65535 65535\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 0005 00443\r\n",
        "PROXY TCP4 2001:db8::9 2001:db8::3 5555 443\r\n",
        "PROXY TCP6 192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
        "PROXY TCP4 abc def 5555 443\r\n",
        "PROXY TCP4 300.1.1.1 198.51.100.3 5555 443\r\n",
        "PROXY TCP4  198.51.100.3 5555 443\r\n",
        "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY UNKNOWN 1\r2\n3\r\n",
        "proxy TCP4 192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY UDP4 192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP5 192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\r",
        "",
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443 more\r\n",
        "PROXY TCP4  192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP4 192.0.2.9  198.51.100.3 5555 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443 \r\n",
        "PROXY TCP4 g92.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP4 192.0.2.9 zzz 5555 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 x 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 x\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 65536 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 70000\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 -1 443\r\n",
        "HELLO\r\n",
    ] {
        cases.push(proxied(header, request));
        cases.push(proxied(header, real));
    }
    for header in [
        v2(0x21, 0x11, IPV4),
        v2(0x21, 0x21, IPV6),
        v2(0x21, 0x31, &[b'/'; 216]),
        v2(0x20, 0, b""),
        v2(0x20, 0x11, IPV4),
        v2(0x21, 0x12, IPV4),
        v2(0x21, 0x10, IPV4),
        v2(0x21, 0x22, IPV6),
        v2(0x21, 0x41, IPV4),
        v2(0x21, 0, b""),
        v2(0x21, 0, b"abc"),
        v2(0x11, 0x11, IPV4),
        v2(0x31, 0x11, IPV4),
        v2(0x22, 0x11, IPV4),
        v2(0x21, 0x11, &IPV4[..11]),
        v2(0x21, 0x21, IPV4),
        v2(0x21, 0x11, &[IPV4, b"\x04\0\x05hello"].concat()),
        v2(0x21, 0x11, &[IPV4, b"\x04\0\xffhello"].concat()),
        v2(0x21, 0x11, &[IPV4, b"x"].concat()),
        v2(0x21, 0x11, &[0; 60_000]),
        b"\r\n\r\n\0\r\nQUIT\r".to_vec(),
    ] {
        cases.push(proxied(&header, request));
        cases.push(proxied(&header, real));
    }
    cases.extend([
        proxied(TCP4, &format!("{request}{real}{request}")).responses(3),
        proxied(TCP4, &format!("{request}{TCP4}{request}")).responses(2),
        proxied(TCP4, "GET / HTTP/1.0\r\n\r\n"),
        proxied(TCP4, "GET /\r\n"),
        proxied(TCP4, "bad\r\n\r\n"),
        proxied(TCP4, "").eof(),
        proxied("PROXY TC", "").eof(),
        proxied("", "").eof(),
        proxied(&v2(0x21, 0x11, IPV4)[..20], "").eof(),
    ]);
    compare(&setup, cases);
}

#[test]
fn directives_that_are_refused() {
    same_verdicts(&[
        "set_real_ip_from;",
        "set_real_ip_from x;",
        "set_real_ip_from 127.0.0.1/8;",
        "set_real_ip_from unix:;",
        "set_real_ip_from unix:/x;",
        "set_real_ip_from all;",
        "set_real_ip_from 1.2.3.4/33;",
        "set_real_ip_from [::1];",
        "set_real_ip_from ::1/129;",
        "set_real_ip_from 1.2.3.4:80;",
        "set_real_ip_from '';",
        "set_real_ip_from 1.2.3.4 5.6.7.8;",
        "real_ip_header;",
        "real_ip_header a b;",
        "real_ip_header a; real_ip_header b;",
        "real_ip_header '';",
        "real_ip_recursive;",
        "real_ip_recursive x;",
        "real_ip_recursive on; real_ip_recursive on;",
        "listen 127.0.0.1:1 proxy_protocol=on;",
        "listen 127.0.0.1:1 proxy_protocol proxy_protocol;",
    ]);
}
