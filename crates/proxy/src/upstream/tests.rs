use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_conf::{Contexts, Cx, OneText, Registry, apply_block};
use freerun_http::build::{Builder, core_groups, structure};
use freerun_runtime::log::ErrorLog;
use freerun_serve::build::blueprint::Blueprint;
use freerun_serve::configuration::zones::{ZoneTable, Zones};
use freerun_testkit::{Dns, DnsReply};

use super::*;

const MODULES: &[&Module] = &[&MODULE];

fn read_after(text: &str, zones: Zones) -> Result<Blueprint, String> {
    let mut groups = core_groups();
    groups.extend(MODULE.groups);
    let registry = Registry::new(&groups, &structure(MODULES)).unwrap();
    let text = format!("http {{ {text} }}");
    let tree = freerun_conf::parse("x.conf", None, "", &mut OneText(&text));
    let mut cx = Cx::new(tree.sources.clone());
    cx.extensions.insert(ZoneTable::seeded(zones));
    let builder = Builder { registry: &registry, modules: MODULES };
    builder.prepare(&mut cx);
    let built = (|| {
        let defaults = registry.defaults(&mut cx)?;
        let (main, blocks) = apply_block(&registry, Contexts::MAIN, &tree.nodes, &defaults, &mut cx)?;
        builder.build(&blocks, &main, &mut cx)
    })();
    cx.conclude(built, tree.error).map_err(|problems| problems[0].message.clone())
}

fn read(text: &str) -> Result<Blueprint, String> {
    read_after(text, Zones::default())
}

fn upstreams(blueprint: &Blueprint) -> Arc<Upstreams> {
    blueprint.parts.get().unwrap()
}

/// The addresses and weights of the servers and whether they are `backup`, in the order of the addresses.
fn peers(upstream: &Upstream) -> Vec<(String, u32, bool)> {
    let set = upstream.group.peers();
    let mut all: Vec<_> =
        set.peers().map(|peer| (peer.name.to_string(), peer.settings.weight, peer.settings.backup)).collect();
    all.sort();
    all
}

fn peer(address: &str) -> (String, u32, bool) {
    (address.to_owned(), 1, false)
}

#[track_caller]
fn eventually(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not come to that");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn watch(blueprint: &Blueprint) -> Duration {
    let start = Instant::now();
    freerun_serve::upstream::look_up_all(&upstreams(blueprint), &ErrorLog::none());
    start.elapsed()
}

fn with_resolver(dns: &Dns, servers: &str) -> String {
    format!("upstream a {{ resolver {} valid=0; resolver_timeout 1s; {servers} }}", dns.address())
}

#[test]
fn parameters_that_todays_nginx_has_are_read_and_refused() {
    let good =
        read("upstream a { resolver 127.0.0.1; server a.test resolve service=http slow_start=5s route=x drain; }");
    let group = upstreams(&good.unwrap()).declared("A").unwrap().clone();
    let (server, known) = group.servers().next().unwrap();
    assert_eq!((server.service.as_deref(), server.resolve, known), (Some("_http._tcp.a.test"), true, false));
    assert_eq!(server.settings.slow_start, Duration::from_secs(5));
    assert_eq!((server.settings.route.as_deref(), server.settings.drain), (Some("x"), true));
    let dotted = read("upstream a { resolver 127.0.0.1; server test resolve service=_h._tcp.a; }").unwrap();
    let group = upstreams(&dotted).declared("a").unwrap().clone();
    assert_eq!(group.servers().next().unwrap().0.service.as_deref(), Some("_h._tcp.a.test"));
    for (text, message) in [
        ("server a.test resolve;", "no resolver defined to resolve names at run time in upstream \"a\""),
        ("server a.test service=http;", "service upstream \"a.test\" requires \"resolve\" parameter"),
        ("server a.test:80 service=http resolve;", "service upstream \"a.test\" may not have port"),
        ("server 127.0.0.1 service=http resolve;", "service upstream \"127.0.0.1\" requires a domain name"),
        ("server a.test service=;", "invalid parameter \"service=\""),
        ("server a.test route=;", "invalid parameter \"route=\""),
        ("server a.test slow_start=x;", "invalid parameter \"slow_start=x\""),
        ("server a.test; keepalive 1 global;", "invalid parameter \"global\""),
    ] {
        assert_eq!(read(&format!("upstream a {{ {text} }}")).err().as_deref(), Some(message), "{text}");
    }
}

#[test]
fn connections_are_kept_as_todays_nginx_does() {
    let keep = |text: &str| {
        let read = read(&format!("upstream a {{ server 127.0.0.1; {text} }}")).unwrap();
        let keep = upstreams(&read).declared("a").unwrap().keepalive.clone();
        (keep.connections, keep.local, keep.requests, keep.time.as_secs(), keep.timeout.as_secs())
    };
    assert_eq!(keep(""), (32, true, 1000, 3600, 60));
    assert_eq!(keep("keepalive 5;"), (5, false, 1000, 3600, 60));
    assert_eq!(keep("keepalive 0;"), (0, false, 1000, 3600, 60));
    let all = "keepalive 7 local; keepalive_requests 2; keepalive_time 3; keepalive_timeout 4;";
    assert_eq!(keep(all), (7, true, 2, 3, 4));
}

#[test]
fn what_is_known_of_servers_goes_on_after_a_reload() {
    let first = read("upstream a { server 127.0.0.1:1; server 127.0.0.1:2; }").unwrap();
    let second = read_after("upstream a { server 127.0.0.1:2 weight=3; server 127.0.0.1:3; }", first.zones.clone());
    let (before, after) = (upstreams(&first), upstreams(&second.unwrap()));
    let live = |all: &Upstreams, name: &str| {
        let set = all.declared("a").unwrap().group.peers();
        set.peers().find(|peer| &*peer.name == name).unwrap().id
    };
    assert_eq!(live(&before, "127.0.0.1:2"), live(&after, "127.0.0.1:2"));
    assert_ne!(live(&before, "127.0.0.1:1"), live(&after, "127.0.0.1:3"));
}

#[test]
fn names_are_looked_up_before_the_first_request_and_followed() {
    let dns = Dns::start();
    dns.set(
        "a.test",
        DnsReply::Addresses(vec![Ipv4Addr::new(127, 0, 0, 1).into(), Ipv4Addr::new(127, 0, 0, 2).into()], 1),
    );
    let first = read(&with_resolver(&dns, "server a.test:81 resolve; server 127.0.0.9;")).unwrap();
    watch(&first);
    let group = upstreams(&first).declared("a").unwrap().clone();
    assert_eq!(peers(&group), [peer("127.0.0.1:81"), peer("127.0.0.2:81"), peer("127.0.0.9:80")]);
    dns.set("a.test", DnsReply::address(Ipv4Addr::new(127, 0, 0, 3), 1));
    eventually(|| peers(&group) == [peer("127.0.0.3:81"), peer("127.0.0.9:80")]);
    // Name servers that fail change nothing; an answer that there is no such name does.
    dns.set("a.test", DnsReply::Code(2));
    let asked = dns.asked("a.test");
    eventually(|| dns.asked("a.test") > asked + 2);
    assert_eq!(peers(&group), [peer("127.0.0.3:81"), peer("127.0.0.9:80")]);
    dns.set("a.test", DnsReply::Code(3));
    eventually(|| peers(&group) == [peer("127.0.0.9:80")]);
    assert!(!group.servers().next().unwrap().1);
    dns.set("a.test", DnsReply::address(Ipv4Addr::new(127, 0, 0, 4), 1));
    eventually(|| peers(&group) == [peer("127.0.0.4:81"), peer("127.0.0.9:80")]);
    // The next configuration begins with the known addresses.
    let second = read_after(&with_resolver(&dns, "server a.test:81 resolve;"), first.zones.clone()).unwrap();
    assert_eq!(peers(upstreams(&second).declared("a").unwrap()), [peer("127.0.0.4:81")]);
}

#[test]
fn silent_name_servers_delay_nothing_for_long() {
    let dns = Dns::start();
    dns.set("a.test", DnsReply::Silence);
    let read = read(&with_resolver(&dns, "server a.test resolve; server 127.0.0.9;")).unwrap();
    assert!(watch(&read) < Duration::from_secs(10));
    let group = upstreams(&read).declared("a").unwrap().clone();
    assert_eq!(peers(&group), [peer("127.0.0.9:80")]);
    dns.set("a.test", DnsReply::address(Ipv4Addr::new(127, 0, 0, 1), 1));
    eventually(|| peers(&group) == [peer("127.0.0.1:80"), peer("127.0.0.9:80")]);
}

#[test]
fn services_are_servers_by_priority_and_weight() {
    let dns = Dns::start();
    let service = |priority, weight, port, name: &str| (priority, weight, port, name.to_owned());
    let all = vec![service(1, 5, 8080, "x.test"), service(1, 0, 8081, "y.test"), service(2, 1, 8082, "x.test")];
    dns.set("_http._tcp.a.test", DnsReply::Services(all, 1));
    dns.set("x.test", DnsReply::address(Ipv4Addr::new(127, 0, 0, 1), 60));
    dns.set("y.test", DnsReply::address(Ipv4Addr::new(127, 0, 0, 2), 60));
    let text = "server a.test service=http resolve weight=2; server 127.0.0.9;";
    let read_one = read(&with_resolver(&dns, text)).unwrap();
    watch(&read_one);
    let group = upstreams(&read_one).declared("a").unwrap().clone();
    let entry = |address: &str, weight, backup| (address.to_owned(), weight, backup);
    let expected = [
        entry("127.0.0.1:8080", 10, false),
        entry("127.0.0.1:8082", 2, true),
        entry("127.0.0.2:8081", 2, false),
        entry("127.0.0.9:80", 1, false),
    ];
    assert_eq!(peers(&group), expected);
    // Of a `backup` server, the services of the best priority are `backup` servers, and the others are not used.
    let text = "server a.test service=http resolve backup; server 127.0.0.9;";
    let read_two = read(&with_resolver(&dns, text)).unwrap();
    watch(&read_two);
    let group = upstreams(&read_two).declared("a").unwrap().clone();
    let expected =
        [entry("127.0.0.1:8080", 5, true), entry("127.0.0.2:8081", 1, true), entry("127.0.0.9:80", 1, false)];
    assert_eq!(peers(&group), expected);
}

#[test]
fn without_resolve_the_system_is_asked_and_what_it_does_not_know_is_missing() {
    let read = read("upstream a { server localhost:81; server unknown.invalid; }").unwrap();
    watch(&read);
    let group = upstreams(&read).declared("a").unwrap().clone();
    eventually(|| peers(&group).contains(&peer("127.0.0.1:81")));
    let known: Vec<bool> = group.servers().map(|(_, known)| known).collect();
    assert_eq!(known, [true, false]);
}
