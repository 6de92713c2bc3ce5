//! Which server block a request gets.

use crate::harness::{compare, raw};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn server_names() {
    let site = site();
    let server = |listen: &str, names: &str, text: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT@ {listen}; {names} return 200 \"{text} [$server_name] [$host]\\n\"; }}\n"
        )
    };
    let http = [
        server("", "server_name first.example;", "first"),
        server("default_server", "server_name default.example;", "default"),
        server("", "server_name a.example b.example;", "a or b"),
        server("", "server_name *.wild.example;", "leading wildcard"),
        server("", "server_name mail.*;", "trailing wildcard"),
        server("", "server_name .dot.example;", "dot"),
        server("", "server_name ~^re(?<digits>\\\\d+)\\\\.example$;", "regex $digits"),
        server("", "server_name ~^(www\\\\.)?(.+)\\\\.two$;", "regex two $1 $2"),
        server("", "server_name *.long.wild.example;", "longer wildcard"),
        server("", "server_name www.exact.wild.example;", "exact within wildcard"),
        server("", "server_name UPPER.example;", "upper"),
        server("", "server_name \\\"\\\";", "empty name"),
        server("", "server_name 127.0.0.1;", "address"),
        server("", "server_name ~^Two(?<Rest>[A-Z]*)\\\\.Cases$ x;", "upper-case expression"),
        server("", "server_name *.Upper.Wild.Example;", "upper wildcard"),
    ]
    .concat()
    .replace("\\\\", "\\")
    .replace("\\\"\\\"", "\"\"");
    let mut cases = Vec::new();
    for host in [
        "first.example",
        "default.example",
        "unknown.example",
        "a.example",
        "b.example",
        "A.EXAMPLE",
        "x.wild.example",
        "x.y.wild.example",
        "wild.example",
        "x.long.wild.example",
        "www.exact.wild.example",
        "mail.com",
        "mail.example.org",
        "mail",
        "dot.example",
        "x.dot.example",
        ".dot.example",
        ".wild.example",
        "re12.example",
        "re.example",
        "re12.example:80",
        "www.site.two",
        "site.two",
        "twoABC.cases",
        "a.upper.wild.example",
        "upper.example",
        "127.0.0.1",
        "a.example.",
        "a.example.:99",
    ] {
        cases.push(raw(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")));
    }
    cases.extend([
        raw("GET / HTTP/1.0\r\n\r\n"),
        raw("GET /\r\n"),
        raw("GET http://b.example/ HTTP/1.1\r\nHost: mail.com\r\n\r\n"),
        raw("GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        raw("GET / HTTP/1.1\r\nHost: b.example\r\n\r\nGET / HTTP/1.1\r\nHost: mail.com\r\n\r\n").responses(2),
    ]);
    compare(&Setup::new().root(&site).http(&http), cases);
}

#[test]
fn each_server_has_its_own_rules_for_the_names_of_fields() {
    let site = site();
    let server = |name: &str, rules: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT@; server_name {name}; {rules} return 200 \"{name} [$http_a_b] [$http_x_y]\n\"; }}\n"
        )
    };
    let rules = [
        "",
        "underscores_in_headers on;",
        "ignore_invalid_headers off;",
        "underscores_in_headers on; ignore_invalid_headers off;",
    ];
    let names = ["none", "underscores", "invalid", "both"];
    let cases = || {
        names.iter().flat_map(|name| {
            let fields = "A_B: 1\r\nX!y: 2\r\nX-Y: 3\r\n";
            let get = format!("GET /b HTTP/1.1\r\nHost: {name}\r\n{fields}\r\n");
            [
                raw(&get),
                raw(format!("GET http://{name}/a HTTP/1.1\r\n{fields}Host: {name}\r\n\r\n")),
                raw(format!("POST /a HTTP/1.1\r\nHost: {name}\r\n{fields}Content-Length: 3\r\n\r\nabc{get}"))
                    .responses(2),
            ]
        })
    };
    for default in 0..names.len() {
        let order = (0..names.len()).map(|at| (at + default) % names.len());
        let http: String = order.map(|at| server(names[at], rules[at])).collect();
        compare(&Setup::new().root(&site).http(&http), cases().collect());
    }
}

#[test]
fn without_a_default_the_first_counts() {
    let site = site();
    let http = "
        server { listen 127.0.0.1:@PORT@; server_name one; return 200 one; }
        server { listen 127.0.0.1:@PORT@; server_name two; return 200 two; }
        server { listen 127.0.0.1:@PORT2@; server_name one; return 200 other-port; }
    ";
    compare(
        &Setup::new().root(&site).http(http),
        ["one", "two", "three"].map(|host| raw(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))).into(),
    );
}

/// The server named "" is for requests that have no host, which those do not whose fields are not all read.
#[test]
fn bad_heads_without_a_host_so_far() {
    let site = site();
    let server = |name: &str, text: &str| {
        format!(
            "server {{ listen 127.0.0.1:@PORT@; server_name {name}; error_page 400 501 505 /e;
                location / {{ return 200 \"{text} [$server_name] [$host]\\n\"; }} }}\n"
        )
    };
    let http = server("first", "first") + &server("\"\"", "empty") + &server("a.example", "a");
    let mut cases = Vec::new();
    for fields in [
        "",
        "Host:\r\n",
        "Host: :80\r\n",
        "Host: a/b\r\n",
        "Host: a b\r\n",
        "Host: a..b\r\n",
        "Host: a/b\r\nHost: a.example\r\n",
        "Host: a.example\r\nHost: a/b\r\n",
        "Host: a/b\r\nContent-Length: x\r\n",
        "Content-Length: x\r\n",
        "Content-Length: x\r\nHost: a.example\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\nHost: a.example\r\n",
        "Transfer-Encoding: x\r\n",
        "Transfer-Encoding: x\r\nHost: a.example\r\n",
        "X: \0\r\n",
        "X\0: x\r\nHost: a.example\r\n",
        "Host: a.example\r\nX\0: x\r\n",
    ] {
        cases.extend(["1.0", "1.1"].map(|version| raw(format!("GET / HTTP/{version}\r\n{fields}\r\n"))));
        cases.push(raw(format!("TRACE / HTTP/1.1\r\n{fields}\r\n")));
        cases.push(raw(format!("GET http://a.example/ HTTP/1.1\r\n{fields}\r\n")));
    }
    cases.push(raw("GET / HTTP/2.0\r\n\r\n"));
    compare(&Setup::new().root(&site).http(&http), cases);
}
