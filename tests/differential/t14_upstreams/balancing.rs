//! How the servers of a group take turns.

use crate::runner::{Both, observe};
use crate::t02_configuration::checks::same_verdicts_around;
use freerun_testkit::{Setup, TestServer};

#[test]
fn methods_are_checked_alike() {
    let lines = [
        "least_conn;",
        "least_conn; least_conn;",
        "least_conn; ip_hash;",
        "keepalive 2; least_conn;",
        "least_conn; keepalive 2;",
        "random; random;",
        "hash $uri; hash $uri;",
        "least_conn x;",
        "ip_hash x;",
        "hash;",
        "hash $uri foo;",
        "hash $uri consistent;",
        "hash $uri consistent x;",
        "hash \"\";",
        "random two;",
        "random two least_conn;",
        "random two foo;",
        "random two least_conn x;",
        "random three;",
        "random three x;",
        "ip_hash; server 127.0.0.2 backup;",
        "hash $uri; server 127.0.0.2 backup;",
        "random; server 127.0.0.2 backup;",
        "least_conn; server 127.0.0.2 backup;",
        "server 127.0.0.2 backup; ip_hash;",
        "hash $uri; server 127.0.0.2 max_conns=1 max_fails=2 fail_timeout=3 down weight=2;",
        "ip_hash; server 127.0.0.2 max_conns=1 max_fails=2 fail_timeout=3 down weight=2;",
    ];
    same_verdicts_around("upstream a { server 127.0.0.1; @LINE@ }\nserver { listen 127.0.0.1:@PORT@; }", &lines);
}

/// Sends requests one after the other, and tells for each which servers were asked: `a`, `b` and `c` answer, `x` and `y`
/// refuse; a request that failed ends with its status.
fn ways(server: &TestServer, count: usize) -> Vec<String> {
    let letter = |address: &str| {
        let letters = ["a", "b", "c", "x", "y"];
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let number = (2..7).find(|&number| Some(server.port_number(number)) == port);
        number.map_or(address.to_owned(), |number| letters[number - 2].to_owned())
    };
    (0..count)
        .map(|number| {
            let response = server.get(&format!("/?k={number}"));
            let way: String = response.header("way").unwrap_or_default().split(", ").map(letter).collect();
            if response.status == 200 { way } else { format!("{way}{}", response.status) }
        })
        .collect()
}

/// A server that passes requests on to the servers of a group, in which `@A@` to `@C@` answer, and `@X@` and `@Y@` refuse.
fn setup_of(group: &str) -> Setup {
    let group = group
        .replace("@A@", "127.0.0.1:@PORT2@")
        .replace("@B@", "127.0.0.1:@PORT3@")
        .replace("@C@", "127.0.0.1:@PORT4@")
        .replace("@X@", "127.0.0.1:@PORT5@")
        .replace("@Y@", "127.0.0.1:@PORT6@");
    let servers: String =
        (2..5).map(|port| format!("server {{ listen 127.0.0.1:@PORT{port}@; return 200 ok; }}\n")).collect();
    Setup::new().http(&format!(
        "# @PORT5@ and @PORT6@ are nobody's.
             upstream g {{ {group} }}
             server {{ listen 127.0.0.1:@PORT@; add_header Way $upstream_addr always;
                       location / {{ proxy_pass http://g; }} }}
             {servers}"
    ))
}

fn same_ways(groups: &[&str]) {
    for group in groups {
        let Some(ways) = observe(&setup_of(group), |server| ways(server, 24)) else { return };
        ways.assert_same(group);
    }
}

#[test]
fn turns_follow_weights() {
    same_ways(&[
        "server @A@;",
        "server @A@; server @B@; server @C@;",
        "server @A@ weight=5; server @B@; server @C@;",
        "server @A@ weight=3; server @B@ weight=2; server @C@ weight=4;",
        "server @A@; server @B@ weight=2 down; server @C@ weight=3;",
        "server @A@; server @B@ backup; server @C@;",
        "server @A@ down; server @B@ down; server @C@ backup;",
        "server @A@; server @A@; server @B@;",
        "least_conn; server @A@ weight=2; server @B@; server @C@;",
        "least_conn; server @A@ down; server @B@; server @C@ backup;",
    ]);
}

#[test]
fn servers_that_fail_are_left_out() {
    same_ways(&[
        "server @X@;",
        "server @X@; server @A@;",
        "server @A@; server @X@ weight=3; server @B@ weight=2;",
        "server @A@; server @X@ max_fails=0; server @B@;",
        "server @A@; server @X@ max_fails=2 weight=4; server @B@;",
        "server @X@; server @Y@;",
        "server @X@; server @Y@; server @A@ backup;",
        "server @X@; server @A@ backup; server @B@ backup;",
        "server @X@; server @Y@ backup;",
        "server @X@ down; server @Y@ down;",
        "server @A@; server @X@; server @Y@;",
        "least_conn; server @X@; server @A@; server @B@;",
    ]);
}

#[test]
fn keys_lead_to_the_same_server() {
    same_ways(&[
        "hash $arg_k; server @A@;",
        "hash $arg_k; server @A@ down;",
        "hash $arg_k; server @X@ max_fails=0; server @Y@ max_fails=0;",
        "hash $arg_none; server @A@; server @B@;",
        "hash $arg_none consistent; server @A@ weight=2; server @B@; server @C@;",
    ]);
}

/// Ports differ from server to server, and with them the points that `consistent` sets; numbers do not.
#[test]
fn hashes_lead_to_the_same_place_whatever_the_port() {
    same_ways(&[
        "hash $arg_k; server @A@; server @B@ weight=2; server @C@;",
        "hash $arg_k; server @A@; server @B@ weight=3 down; server @C@;",
        "hash $arg_k; server @A@; server @X@; server @C@ weight=2;",
        "hash $uri; server @A@; server @B@;",
    ]);
}

/// Of thirteen servers ten are down: with these keys some requests find one that is not at the last place that is looked at,
/// and others at none, so that turns decide.
#[test]
fn keys_are_looked_for_at_as_many_places() {
    let servers: String = (0..13)
        .map(|number| match number {
            3 => "server @A@; ",
            7 => "server @B@; ",
            11 => "server @C@; ",
            _ => "server @X@ down; ",
        })
        .collect();
    let groups = [168, 359, 683].map(|seed| format!("hash {seed}-$arg_k; {servers}"));
    same_ways(&groups.each_ref().map(String::as_str));
}

/// How many keys are looked at.
const KEYS: usize = 10_000;

/// How many requests are sent before their responses are read.
const BATCH: usize = 50;

/// The bodies of the responses to these requests: what follows the method, without `Host`.
fn bodies(server: &TestServer, requests: &[String]) -> Vec<String> {
    let mut client = server.connect();
    let mut bodies = Vec::with_capacity(requests.len());
    for batch in requests.chunks(BATCH) {
        client.send(batch.iter().map(|rest| format!("GET {rest}Host: h\r\n\r\n")).collect::<String>());
        bodies.extend(batch.iter().map(|_| client.response().text()));
    }
    bodies
}

#[track_caller]
fn same_bodies(http: &str, requests: &[String]) {
    let setup = Setup::new().http(http);
    let Some(Both { nginx, freerun }) = observe(&setup, |server| bodies(server, requests)) else { return };
    let others = nginx.iter().zip(&freerun).zip(requests).filter(|((nginx, freerun), _)| nginx != freerun);
    let others: Vec<_> = others.take(5).collect();
    assert!(others.is_empty(), "nginx and freerun differ, among others for {others:?}\n{http}");
    assert!(nginx.iter().any(|body| *body != nginx[0]), "all have one and the same\n{http}");
}

/// Ten thousand keys, and as many clients, have the same server with both.
#[test]
fn keys_and_clients_have_the_same_servers() {
    let behind =
        ["a", "b", "c", "d"].map(|name| freerun_testkit::TestUpstream::answering(move |_| freerun_testkit::ok(name)));
    let with_addresses = |group: &str| {
        let names = ["@A@", "@B@", "@C@", "@D@"];
        names.iter().zip(&behind).fold(group.to_owned(), |group, (name, behind)| group.replace(name, behind.address()))
    };
    let keys: Vec<String> = (0..KEYS).map(|number| format!("/?k=key-{number} HTTP/1.1\r\n")).collect();
    let clients: Vec<String> = (0..KEYS as u32)
        .map(|number| {
            let [_, a, b, c] = number.wrapping_mul(2_654_435_761).to_be_bytes();
            let address = match number % 2 {
                0 => format!("{}.{a}.{b}.{c}", 1 + number % 200),
                _ => format!("2001:db8:{a:x}{b:02x}::{c:x}:{number:x}"),
            };
            format!("/ HTTP/1.1\r\nX-Real-IP: {address}\r\n")
        })
        .collect();
    let servers = "server @A@; server @B@ weight=2; server @C@ down; server @D@ weight=3;";
    // Nearly all of these are down: what is looked for at many places is sometimes found, and sometimes turns decide.
    let down = "server @C@ down; ".repeat(20);
    let few = format!("server @A@; {down} server @B@; server @D@;");
    for (method, requests) in [("hash $arg_k;", &keys), ("hash $arg_k consistent;", &keys), ("ip_hash;", &clients)] {
        for (servers, requests) in [(servers, &requests[..]), (&few, &requests[..KEYS / 10])] {
            let http = format!(
                "proxy_http_version 1.1; proxy_set_header Connection \"\"; keepalive_requests 100000;
                 set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;
                 upstream g {{ {method} {servers} keepalive 16; }}
                 server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://g; }} }}"
            );
            same_bodies(&with_addresses(&http), requests);
        }
    }
}

#[test]
fn keys_have_the_same_shares() {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("/?k=key-{number} HTTP/1.1\r\n")).collect();
    let http = "keepalive_requests 100000; split_clients $arg_k $share { 0.5% a; 33.33% b; 0.01% c; 20% d; * e; }
        split_clients x$arg_k $other { 50% f; 49.99% g; }
        server { listen 127.0.0.1:@PORT@; return 200 \"$share$other\"; }";
    same_bodies(http, &keys);
}

#[test]
fn what_the_log_says_of_groups_without_a_server() {
    let setup = Setup::new().http(
        "upstream g { server 127.0.0.1:@PORT2@ max_fails=1; server 127.0.0.1:@PORT3@; }
         server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://g; } }",
    );
    let told = observe(&setup, |server| {
        let statuses = [server.get("/").status, server.get("/").status];
        server.logs("no live upstreams while connecting to upstream");
        let log = server.error_log_of_traffic();
        let lines: Vec<String> = log
            .lines()
            .filter(|line| line.contains("upstream"))
            .filter_map(|line| line.split_once("] ")?.1.split_once(' '))
            .map(|(_, text)| {
                let text = text.split_once(' ').map_or(text, |(_, text)| text);
                (1..4).fold(text.to_owned(), |text, number| {
                    text.replace(&server.port_number(number).to_string(), &format!("PORT{number}"))
                })
            })
            .collect();
        (statuses, lines)
    });
    if let Some(told) = told {
        told.assert_same("groups without a server");
    }
}
