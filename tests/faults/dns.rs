//! Name servers that fail, change, or are silent: who waits for them waits, and nobody else.

use std::net::{IpAddr, Ipv4Addr};

use freerun_testkit::{Dns, DnsReply, Setup, Site, TestClient, TestServer, TestUpstream, eventually};

fn run(http: &str) -> TestServer {
    Setup::new().main("worker_processes 2;").root(&Site::new()).http(http).run()
}

#[test]
fn silent_name_servers_keep_only_those_waiting_who_ask_them() {
    let (dns, upstream) =
        (Dns::start(), TestUpstream::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".into()));
    dns.set("silent.test", DnsReply::Silence);
    let server = run(&format!(
        "resolver {} valid=1s; resolver_timeout 60s;
         upstream a {{ zone a 64k; server silent.test resolve; server {}; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ return 200 here; }}
            location /wait {{ proxy_pass http://$arg_host; }}
            location /a {{ proxy_pass http://a; }} }}",
        dns.address(),
        upstream.address()
    ));
    let mut waiting: Vec<TestClient> = (0..200).map(|_| server.connect()).collect();
    for client in &mut waiting {
        client.send("GET /wait?host=silent.test HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for _ in 0..200 {
        assert_eq!(server.get("/").text(), "here");
        assert_eq!(server.get("/a").text(), "ok");
    }
    // They are answered only now: the name server is no longer silent.
    dns.set("silent.test", DnsReply::Code(2));
    for client in &mut waiting {
        assert_eq!(client.response().status, 502);
    }
    // Two hundred waited for a handful of questions.
    assert!(dns.asked("silent.test") < 40, "{} questions", dns.asked("silent.test"));
}

#[test]
fn a_name_server_that_comes_and_goes_costs_only_what_is_not_known() {
    let (dns, upstream) =
        (Dns::start(), TestUpstream::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".into()));
    let port = upstream.address().split_once(':').map_or(0, |(_, port)| port.parse().unwrap_or(0));
    let here = DnsReply::address(Ipv4Addr::LOCALHOST, 1);
    dns.set("a.test", here.clone());
    let server = run(&format!(
        "resolver {} valid=1s ipv6=off; resolver_timeout 1s;
         upstream a {{ zone a 64k; server a.test:{port} resolve; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} }}",
        dns.address()
    ));
    for reply in [
        here.clone(),
        DnsReply::Code(2),
        DnsReply::Silence,
        DnsReply::Code(5),
        DnsReply::Noise(Box::new(here.clone())),
        here,
    ] {
        dns.set("a.test", reply);
        let asked = dns.asked("a.test");
        eventually("it is asked again", || {
            assert_eq!(server.get("/").text(), "ok", "what was known goes on");
            dns.asked("a.test") > asked
        });
        assert_eq!(server.get("/").text(), "ok");
    }
}

#[test]
fn names_with_hundreds_of_addresses_are_servers_like_others() {
    let (dns, upstream) =
        (Dns::start(), TestUpstream::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".into()));
    let port = upstream.address().split_once(':').map_or(0, |(_, port)| port.parse().unwrap_or(0));
    // Only the first of them answers.
    let many: Vec<IpAddr> = (1..=250).map(|last| Ipv4Addr::new(127, 0, 0, last).into()).collect();
    dns.set("many.test", DnsReply::Cut(Box::new(DnsReply::Addresses(many, 60))));
    let server = run(&format!(
        "resolver {} ipv6=off;
         upstream a {{ zone a 64k; server many.test:{port} resolve; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }}
            location /v {{ proxy_pass http://$arg_host:{port}; }} }}",
        dns.address()
    ));
    for path in ["/", "/v?host=many.test"] {
        for _ in 0..20 {
            assert_eq!(server.get(path).text(), "ok");
        }
    }
}

#[test]
fn names_that_nobody_knows_take_few_descriptors() {
    let (dns, upstream) =
        (Dns::start(), TestUpstream::answering(|_| "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".into()));
    let port = upstream.address().split_once(':').map_or(0, |(_, port)| port.parse().unwrap_or(0));
    let names: Vec<String> = (0..200).map(|number| format!("silent{number}.test")).collect();
    for name in &names {
        dns.set(name, DnsReply::Silence);
    }
    dns.set("a.test", DnsReply::address(Ipv4Addr::LOCALHOST, 60));
    let server = run(&format!(
        "resolver {}; resolver_timeout 60s;
         server {{ listen 127.0.0.1:@PORT@; location /status {{ status; }}
            location /name {{ proxy_pass http://$arg_host:{port}; }} }}",
        dns.address()
    ));
    let status = server.get("/status").text();
    let pid = status.split_once("\"pid\":").and_then(|(_, rest)| rest.split(',').next()).expect("a process");
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the worker's").count();
    let before = descriptors();
    let mut waiting: Vec<TestClient> = names.iter().map(|_| server.connect()).collect();
    for (client, name) in waiting.iter_mut().zip(&names) {
        client.send(format!("GET /name?host={name} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    eventually("all are asked for", || names.iter().all(|name| dns.asked(name) >= 2));
    // One for each client, and a few for all the questions.
    assert!(descriptors() < before + names.len() + 100, "{} descriptors", descriptors());
    assert_eq!(server.get("/name?host=a.test").text(), "ok");
    for name in &names {
        dns.set(name, DnsReply::Code(2));
    }
    for client in &mut waiting {
        assert_eq!(client.response().status, 502);
    }
}
