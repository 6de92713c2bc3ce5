//! Names of upstream servers: the system's lookup, `resolver`, `resolve`, `service`, variables in `proxy_pass`.

use std::net::{IpAddr, Ipv4Addr};

use freerun_testkit::{
    AnsweringUpstream, Dns, DnsReply, Kind, Setup, Site, TestServer, TestUpstream, check, eventually, ok,
};

/// An upstream on an address of its own, all of them on one port, that answers with its name.
fn named(name: &'static str) -> AnsweringUpstream {
    TestUpstream::answering(move |_| ok(name))
}

/// Upstreams on 127.0.0.`first` and those after it, on the same port, each of which answers with its address.
fn neighbours(first: u8, count: u8) -> u16 {
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, first], port));
    let leader = TestUpstream::on(address(0));
    let port = leader.port();
    let followers = (first + 1..first + count).map(|last| TestUpstream::on(([127, 0, 0, last], port).into()));
    for (index, upstream) in std::iter::once(leader).chain(followers).enumerate() {
        let text = format!("127.0.0.{}", usize::from(first) + index);
        std::thread::spawn(move || {
            while let Some(mut peer) = upstream.try_accept(std::time::Duration::from_secs(3600)) {
                let text = text.clone();
                std::thread::spawn(move || while peer.try_request().is_some() && peer.try_send(ok(&text)).is_ok() {});
            }
        });
    }
    port
}

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

fn run(http: &str) -> TestServer {
    Setup::new().root(&Site::new()).http(http).run()
}

fn port_of(upstream: &AnsweringUpstream) -> &str {
    upstream.address().split_once(':').map_or("", |(_, port)| port)
}

#[test]
fn a_name_that_leads_nowhere_is_told_and_prevents_nothing() {
    let http = "resolver no-such-server.invalid;
        upstream a { server no-such-host.invalid:81; server nor-this.invalid down; }
        server { listen 127.0.0.1:@PORT@; location / { return 200 here; } location /a { proxy_pass http://a; } location /b { proxy_pass http://no-such-host.invalid; } }";
    let checked = check(Kind::under_test(), &format!("events {{ }}\nhttp {{\n{http}\n}}")).expect("it starts");
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    for text in ["no-such-host.invalid:81\" in", "nor-this.invalid\" in", "no-such-host.invalid:80\" in"] {
        assert!(checked.stderr.contains(&format!("[warn] host not found in upstream \"{text}")), "{}", checked.stderr);
    }
    let text = "[warn] host not found in resolver \"no-such-server.invalid\" in";
    assert!(checked.stderr.contains(text), "{}", checked.stderr);
    let server = run(http);
    assert_eq!(server.get("/").text(), "here");
    server.logs("host not found in upstream \"no-such-host.invalid:81\"");
    server.reload();
    assert_eq!(server.get("/").text(), "here");
    for path in ["/a", "/b"] {
        assert_eq!(server.get(path).status, 502);
    }
    server.logs("no live upstreams while connecting to upstream");
}

#[test]
fn names_that_the_system_knows_are_there_from_the_first_request() {
    let upstream = named("found");
    let port = port_of(&upstream);
    let server = run(&format!(
        "upstream a {{ server localhost:{port}; }}
         server {{ listen 127.0.0.1:@PORT@; location /a {{ proxy_pass http://a; }} location /b {{ proxy_pass http://localhost:{port}; }} }}"
    ));
    for path in ["/a", "/b"] {
        assert_eq!(server.get(path).text(), "found");
    }
}

#[test]
fn variables_are_resolved_for_each_request() {
    let dns = Dns::start();
    let port = neighbours(21, 2);
    dns.set("a.test", DnsReply::address(ip(21), 1));
    let server = run(&format!(
        "server {{ listen 127.0.0.1:@PORT@;
            location / {{ resolver {} valid=1s; resolver_timeout 4s; proxy_pass http://$arg_host:{port}; }}
            location /none {{ proxy_pass http://$arg_host:{port}; }} }}",
        dns.address()
    ));
    assert_eq!(server.get("/?host=a.test").text(), "127.0.0.21");
    assert_eq!(server.get("/?host=127.0.0.22").text(), "127.0.0.22");
    dns.set("a.test", DnsReply::address(ip(22), 1));
    eventually("the change is seen", || server.get("/?host=a.test").text() == "127.0.0.22");
    for (name, code, words) in [
        ("unknown.test", 3, "3: Host not found"),
        ("broken.test", 2, "2: Server failure"),
        ("no.test", 5, "5: Operation refused"),
    ] {
        dns.set(name, DnsReply::Code(code));
        assert_eq!(server.get(&format!("/?host={name}")).status, 502);
        server.logs(&format!("{name} could not be resolved ({words})"));
    }
    dns.set("silent.test", DnsReply::Silence);
    assert_eq!(server.get("/?host=silent.test").status, 502);
    server.logs("silent.test could not be resolved (110: Operation timed out)");
    assert_eq!(server.get("/none?host=a.test").status, 502);
    server.logs("no resolver defined to resolve a.test");
    assert_eq!(server.get("/none?host=127.0.0.21").text(), "127.0.0.21");
}

#[test]
fn all_addresses_of_a_name_are_servers() {
    let dns = Dns::start();
    let port = neighbours(31, 5);
    let all: Vec<IpAddr> = (31..36).map(|last| ip(last).into()).collect();
    dns.set("many.test", DnsReply::Cut(Box::new(DnsReply::Addresses(all, 60))));
    let server = run(&format!(
        "upstream a {{ resolver {} ipv6=off; zone a 64k; server many.test:{port} resolve; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} }}",
        dns.address()
    ));
    let mut answers: Vec<String> = (0..10).map(|_| server.get("/").text()).collect();
    answers.sort();
    let expected: Vec<String> =
        (31..36).flat_map(|last| [format!("127.0.0.{last}"), format!("127.0.0.{last}")]).collect();
    assert_eq!(answers, expected);
}

#[test]
fn servers_with_resolve_follow_their_name_also_over_a_reload() {
    let dns = Dns::start();
    let port = neighbours(41, 2);
    dns.set("a.test", DnsReply::Code(3));
    let server = run(&format!(
        "resolver {} valid=1s; resolver_timeout 1s;
         upstream a {{ zone a 64k; server a.test:{port} resolve; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} }}",
        dns.address()
    ));
    assert_eq!(server.get("/").status, 502);
    server.logs("a.test could not be resolved (3: Host not found)");
    dns.set("a.test", DnsReply::address(ip(41), 1));
    eventually("the name is found", || server.get("/").text() == "127.0.0.41");
    dns.set("a.test", DnsReply::address(ip(42), 1));
    eventually("the change is seen", || server.get("/").text() == "127.0.0.42");
    dns.set("a.test", DnsReply::Silence);
    server.reload();
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), "127.0.0.42", "what was known is known");
    }
}

/// What failed for one request says nothing to the next one: a name that came back is there at once.
#[test]
fn a_server_of_a_name_that_a_request_brings_is_not_left_out() {
    let dns = Dns::start();
    let nobody = freerun_testkit::RefusingAddress::new();
    let port: u16 = nobody.address().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    dns.set("a.test", DnsReply::Addresses(vec![ip(61).into(), ip(62).into()], 60));
    let server = run(&format!(
        "server {{ listen 127.0.0.1:@PORT@; resolver {} ipv6=off; location / {{ proxy_pass http://$arg_host:{port}; }} }}",
        dns.address()
    ));
    for _ in 0..3 {
        assert_eq!(server.get("/?host=a.test").status, 502);
    }
    assert!(!server.error_log().contains("no live upstreams"), "{}", server.error_log());
    let _back = TestUpstream::on(([127, 0, 0, 61], port).into()).answer(|_| ok("back"));
    for _ in 0..3 {
        assert_eq!(server.get("/?host=a.test").text(), "back");
    }
}

#[test]
fn a_name_that_cannot_be_looked_up_keeps_its_addresses_though_its_port_changes() {
    if !freerun_testkit::require::freerun() {
        return;
    }
    let dns = Dns::start();
    let (first, second) = (named("first"), named("second"));
    dns.set("a.test", DnsReply::address(ip(1), 1));
    let server = run(&format!(
        "upstream a {{ resolver {} ipv6=off; resolver_timeout 1s; zone a 64k; server a.test:{} resolve; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} }}",
        dns.address(),
        port_of(&first)
    ));
    assert_eq!(server.get("/").text(), "first");
    dns.set("a.test", DnsReply::Silence);
    let asked = dns.asked("a.test");
    eventually("it is asked again, to no avail", || dns.asked("a.test") > asked);
    server.edit(&format!("a.test:{}", port_of(&first)), &format!("a.test:{}", port_of(&second)));
    server.reload();
    assert_eq!(server.get("/").text(), "second");
}

#[test]
fn services_say_where_servers_are() {
    let dns = Dns::start();
    let (first, second) = (named("first"), named("second"));
    let port = |upstream: &AnsweringUpstream| port_of(upstream).parse().unwrap();
    let at = |priority, upstream: &AnsweringUpstream| (priority, 1, port(upstream), "host.test".to_owned());
    dns.set("_http._tcp.a.test", DnsReply::Services(vec![at(1, &first), at(2, &second)], 1));
    dns.set("host.test", DnsReply::address(ip(1), 60));
    let server = run(&format!(
        "upstream a {{ resolver {}; zone a 64k; server a.test service=http resolve; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} }}",
        dns.address()
    ));
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "first");
    }
    dns.set("_http._tcp.a.test", DnsReply::Services(vec![at(2, &first), at(1, &second)], 1));
    eventually("the change is seen", || server.get("/").text() == "second");
}

#[test]
fn a_service_s_host_that_nobody_can_say_anything_of_stays_as_it_was() {
    let dns = Dns::start();
    let (first, second) = (named("first"), named("second"));
    let at = |upstream: &AnsweringUpstream, host: &str| (1, 1, port_of(upstream).parse().unwrap(), host.to_owned());
    dns.set("_http._tcp.a.test", DnsReply::Services(vec![at(&first, "one.test"), at(&second, "two.test")], 1));
    for host in ["one.test", "two.test"] {
        dns.set(host, DnsReply::address(ip(1), 1));
    }
    let server = run(&format!(
        "upstream a {{ resolver {} ipv6=off; resolver_timeout 1s; zone a 64k; server a.test service=http resolve; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} }}",
        dns.address()
    ));
    let answers = || {
        let mut answers = [server.get("/").text(), server.get("/").text()];
        answers.sort();
        answers
    };
    assert_eq!(answers(), ["first", "second"]);
    dns.set("two.test", DnsReply::Code(2));
    for _ in 0..2 {
        let asked = dns.asked("two.test");
        eventually("it is asked again, to no avail", || dns.asked("two.test") > asked);
    }
    assert_eq!(answers(), ["first", "second"]);
    // One that is said not to be there is not.
    dns.set("two.test", DnsReply::Code(3));
    eventually("it is gone", || answers() == ["first", "first"]);
}

#[test]
fn a_state_file_has_the_servers() {
    let upstream = named("stateful");
    let site = Site::new();
    let file = site.path().join("state.conf");
    let http = format!(
        "upstream a {{ zone a 64k; state {}; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} }}",
        file.display()
    );
    let server = Setup::new().root(&site).http(&http).run();
    assert_eq!(server.get("/").status, 502);
    std::fs::write(&file, format!("server {} weight=2;\n", upstream.address())).unwrap();
    server.reload();
    eventually("the file is read again", || server.get("/").text() == "stateful");
}

#[test]
fn an_error_in_a_state_file_names_its_line() {
    if !freerun_testkit::require::freerun() {
        return;
    }
    let site = Site::new();
    let file = site.path().join("state.conf");
    let text = format!("events {{ }} http {{\nupstream a {{ zone a 64k;\nstate {}; }} }}", file.display());
    for (servers, message, line) in [
        ("server 127.0.0.1;\nserver 127.0.0.2\nweight=x;", "invalid parameter \"weight=x\"", 3),
        ("\nserver;", "invalid number of arguments in \"server\" directive", 2),
        ("server 127.0.0.1 { }", "directive \"server\" is not terminated by \";\"", 1),
        ("server 127.0.0.1;\nzone z;", "unexpected directive \"zone\"", 2),
        ("server 127.0.0.1;\n}", "unexpected \"}\"", 2),
    ] {
        std::fs::write(&file, servers).unwrap();
        let checked = check(Kind::Freerun, &text).unwrap();
        let want = format!("{message} in {}:{line} in ", file.display());
        assert!(checked.code == Some(1) && checked.stderr.contains(&want), "{}", checked.stderr);
    }
}

#[test]
fn records_that_nobody_asked_for_do_not_cost_the_answer() {
    let dns = Dns::start();
    let port = neighbours(51, 1);
    dns.set("a.test", DnsReply::Followed(Box::new(DnsReply::address(ip(51), 60)), b"no record".to_vec()));
    let server = run(&format!(
        "server {{ listen 127.0.0.1:@PORT@; resolver {}; location / {{ proxy_pass http://$arg_host:{port}; }} }}",
        dns.address()
    ));
    assert_eq!(server.get("/?host=a.test").text(), "127.0.0.51");
}

#[test]
fn whether_there_is_a_name_is_for_name_servers_to_say() {
    let dns = Dns::start();
    let port = neighbours(52, 1);
    dns.set("-a.test", DnsReply::address(ip(52), 60));
    let server = run(&format!(
        "server {{ listen 127.0.0.1:@PORT@; resolver {}; location / {{ proxy_pass http://$arg_host:{port}; }} }}",
        dns.address()
    ));
    assert_eq!(server.get("/?host=-a.test").text(), "127.0.0.52");
    for name in ["a%b.test", "-.test"] {
        assert_eq!(server.get(&format!("/?host={name}")).status, 502);
        server.logs(&format!("{name} could not be resolved (3: Host not found)"));
    }
}

#[test]
fn services_without_a_port_are_no_servers() {
    let dns = Dns::start();
    let upstream = named("first");
    let at = |port| (1, 1, port, "host.test".to_owned());
    dns.set("_http._tcp.a.test", DnsReply::Services(vec![at(0), at(port_of(&upstream).parse().unwrap())], 60));
    dns.set("host.test", DnsReply::address(ip(1), 60));
    let server = run(&format!(
        "upstream a {{ resolver {}; zone a 64k; server a.test service=http resolve; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} location /status {{ status; }} }}",
        dns.address()
    ));
    assert_eq!(server.get("/").text(), "first");
    let status: String = server.get("/status").text();
    assert!(status.contains(upstream.address()) && !status.contains("127.0.0.1:0\""), "{status}");
    server.logs("a service at host.test. port 0 is left out");
}

#[test]
fn status_shows_groups_that_variables_compute() {
    let upstream = named("here");
    let address = upstream.address();
    let server = run(&format!(
        "server {{ listen 127.0.0.1:@PORT@; location / {{ set $where {address}; proxy_pass http://$where; }} location /status {{ status; }} }}"
    ));
    assert_eq!(server.get("/").text(), "here");
    let status = server.get("/status").text();
    let group = format!("{{\"name\":\"{address}\",\"declared\":false,\"computed\":true,");
    assert!(status.contains(&group), "{status}");
    let status = server.get("/status?format=prometheus").text();
    let labels = format!("{{upstream=\"{address}\",server=\"{address}\",computed=\"true\"}}");
    assert!(status.contains(&format!("freerun_upstream_requests_total{labels} 1\n")), "{status}");
    assert!(!status.contains(&format!("freerun_upstream_header_seconds_count{labels}")), "{status}");
}

#[test]
fn an_address_needs_no_resolver() {
    let upstream = named("here");
    let site = Site::new();
    let socket = site.at("s.sock");
    let http = format!(
        "upstream a {{ zone a 64k; server {} resolve; }}
        upstream b {{ server unix:{} resolve; }}
        server {{ listen unix:{}; return 200 there; }}
        server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://a; }} location /unix {{ proxy_pass http://b; }} }}\n",
        upstream.address(),
        socket.display(),
        socket.display(),
    );
    let stream = format!(
        "upstream a {{ server {} resolve; }}
        server {{ listen 127.0.0.1:@PORT2@; proxy_pass a; }}\n",
        upstream.address(),
    );
    let server = Setup::new().root(&site).http(&http).stream(&stream).run();
    assert_eq!((server.get("/").text(), server.get("/unix").text()), ("here".to_owned(), "there".to_owned()));
    let mut client = freerun_testkit::TestClient::connect(server.address_number(2));
    assert_eq!(client.get("/").text(), "here");
}

#[test]
fn an_error_that_follows_from_another_is_not_told() {
    let stream = "events { }
        stream {
            upstream a { server a.invalid:80 resolve; }
            server { listen 127.0.0.1:@PORT@; proxy_pass a; }
        }";
    let checked = check(Kind::under_test(), stream).expect("it starts");
    assert_eq!(checked.code, Some(1));
    assert!(checked.stderr.contains("no resolver defined to resolve names at run time in upstream \"a\""));
    assert!(!checked.stderr.contains("no port"), "{}", checked.stderr);
    let http = "events { }
        http {
            upstream a { hash $arg_a; server 127.0.0.1:81 backup; }
            server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://a; } }
        }";
    let checked = check(Kind::under_test(), http).expect("it starts");
    assert!(checked.stderr.contains("balancing method does not support parameter \"backup\""));
    assert!(!checked.stderr.contains("no servers in upstream"), "{}", checked.stderr);
}
