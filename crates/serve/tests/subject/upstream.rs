//! A visitor is passed on to a server of a group.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, Sources, Value, settings};
use freerun_runtime::log::ErrorLog;
use freerun_serve::configuration::parts::Parts;
use freerun_serve::configuration::zones::Zones;
use freerun_serve::upstream::resolver::{NamedServers, ResolverSetting, ZonedResolvers};
use freerun_serve::upstream::{
    GroupMethod, NotFound, Plan, Queue, Servers, SharedZones, SubjectProtocol, SystemName, Upstream, UpstreamRef,
    Upstreams, find, look_up_all, name_servers, refer, system_names,
};
use freerun_testkit::{Dns, DnsReply, eventually};
use freerun_upstream::peer::PeerState;
use freerun_upstream::{AttemptFailure, GroupSettings, Lease, NoPeer, TriedServers, now};

use super::{DoorSettings, Doors, Visitor};

/// The protocol of visitors: they come to a door.
#[derive(Debug, Clone, Default)]
pub(super) struct Door;

impl SubjectProtocol for Door {
    type Subject = Visitor;
    type Extra = ();

    const NAME: &'static str = "door";
    const DEFAULT_PORT: Option<u16> = None;
}

settings! {
    /// Groups of servers.
    pub struct HouseSettings {
        /// A server.
        #[name = "server"]
        servers: Servers<Door>, in STREAM_UPSTREAM;
        /// How one is chosen.
        #[name = "least_conn"]
        method: GroupMethod<Door>, in STREAM_UPSTREAM;
        /// Whether visitors wait.
        queue: Option<Queue>, in STREAM_UPSTREAM;
        /// Memory.
        zone: SharedZones, in STREAM_UPSTREAM;
    }
    also {
        /// By a text.
        "hash" => method: Shape::between(1, 2, "key [consistent]"), in STREAM_UPSTREAM;
        /// At random.
        "random" => method: Shape::between(0, 2, "[two [least_conn]]"), in STREAM_UPSTREAM;
    }
}

/// The group that visitors are passed on to.
#[derive(Debug, Clone)]
pub(super) struct Pass(UpstreamRef<Door>);

impl Value for Pass {
    const SHAPE: Shape = Shape::exactly(1, "group");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Pass, Problem> {
        let word = &directive.args[0];
        refer(&word.text, None, directive, word, cx).map(Pass)
    }
}

/// Declares the group of a block.
pub(super) fn declare(node: &Node, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<HouseSettings>();
    let queue = own.queue.map(|queue| queue.0);
    let resolver = settings.get::<DoorSettings>().resolver.as_ref();
    let plan = Plan::<Door> {
        settings: GroupSettings { method: own.method.method, queue, ..GroupSettings::default() },
        key: own.method.key.clone(),
        servers: own.servers.0.clone(),
        resolver: resolver.map(|resolver| (resolver.0.clone(), LONG)),
        ..Plan::default()
    };
    freerun_serve::upstream::declare(node, plan, false, cx)
}

const LONG: Duration = Duration::from_secs(20);

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn group(doors: &Doors) -> &Arc<Upstream<Door>> {
    doors.settings().pass.as_ref().expect("a group").0.get().expect("all was read")
}

fn pick(doors: &Doors, visitor: &Visitor) -> Option<Result<Lease, NoPeer>> {
    let group = group(doors);
    group.pick_now(&group.asking(visitor), None, &mut TriedServers::new())
}

/// The server that a visitor with this bag is passed to.
fn chosen(doors: &Doors, bag: &'static str) -> String {
    let lease = pick(doors, &doors.visitor("192.0.2.1:99", bag)).expect("at once").expect("a server");
    lease.peer().name.to_string()
}

fn names<P: SubjectProtocol>(group: &Upstream<P>) -> BTreeSet<String> {
    group.group.peers().peers().map(|peer| peer.name.to_string()).collect()
}

const THREE: &str = "server 127.0.0.1:1; server 127.0.0.1:2; server 127.0.0.1:3;";
const BAGS: [&str; 8] = ["pen", "hat", "key", "book", "shoe", "ring", "knife", "coat"];

#[test]
fn the_same_key_gives_the_same_server_and_another_one_when_that_is_down() {
    for method in ["hash $bag;", "hash $bag consistent;", "hash $bag; zone houses 32k;"] {
        let doors = Doors::read(&format!("upstream houses {{ {method} {THREE} }} pass houses;"));
        let all: BTreeSet<String> = BAGS.iter().map(|bag| chosen(&doors, bag)).collect();
        assert!(all.len() > 1, "{method}");
        for bag in BAGS {
            let first = chosen(&doors, bag);
            for peer in ["192.0.2.1:1", "198.51.100.7:2", "unix:"] {
                let lease = pick(&doors, &doors.visitor(peer, bag)).unwrap().unwrap();
                assert_eq!(*lease.peer().name, *first, "{method} {bag}");
            }
            let servers = THREE.replace(&format!("{first};"), &format!("{first} down;"));
            let down = Doors::read(&format!("upstream houses {{ {method} {servers} }} pass houses;"));
            assert_ne!(chosen(&down, bag), first, "{method} {bag}");
        }
    }
}

#[test]
fn a_server_that_fails_is_left_out_and_that_outlasts_a_configuration() {
    let text = format!("pass houses; upstream Houses {{ {THREE} hash $bag; }}");
    let doors = Doors::read(&text);
    let first = chosen(&doors, "pen");
    let lease = pick(&doors, &doors.visitor("unix:", "pen")).unwrap().unwrap();
    assert!(lease.failed(AttemptFailure::Connect, now()).disabled);
    let second = chosen(&doors, "pen");
    assert_ne!(first, second);
    let next = Doors::after(doors.services.zones.clone(), &text).unwrap();
    assert_eq!(chosen(&next, "pen"), second);
    assert_eq!(chosen(&Doors::read(&text), "pen"), first, "where nothing is known of it");
}

#[test]
fn other_methods_look_at_what_they_know_of_the_servers() {
    let least = Doors::read(&format!("upstream houses {{ least_conn; {THREE} }} pass houses;"));
    let leases: Vec<Lease> = (0..3).map(|_| pick(&least, &least.visitor("unix:", "")).unwrap().unwrap()).collect();
    let held: BTreeSet<_> = leases.iter().map(|lease| lease.peer().name.clone()).collect();
    assert_eq!(held.len(), 3);
    let random = Doors::read(&format!("upstream houses {{ random; {THREE} }} pass houses;"));
    let seen: BTreeSet<String> = (0..200).map(|_| chosen(&random, "")).collect();
    assert_eq!(seen, names(group(&random)));
}

#[test]
fn who_finds_no_room_waits_for_it() {
    let doors = Doors::read("upstream houses { server 127.0.0.1:1 max_conns=1; queue 1; } pass houses;");
    let visitor = doors.visitor("unix:", "");
    let lease = pick(&doors, &visitor).unwrap().unwrap();
    assert!(pick(&doors, &visitor).is_none(), "there is a queue");
    let group = group(&doors);
    run(async {
        let (asking, mut tried) = (group.asking(&visitor), TriedServers::new());
        let waiting = group.pick_later(&asking, None, &mut tried);
        let leaving = async {
            assert_eq!(group.group.waiting(), 1);
            drop(lease);
        };
        let (served, ()) = tokio::join!(waiting, leaving);
        assert_eq!(&*served.unwrap().peer().name, "127.0.0.1:1");
    });
}

/// Another protocol, which has groups with the same names.
#[derive(Debug, Clone, Default)]
struct Hatch;

impl SubjectProtocol for Hatch {
    type Subject = Visitor;
    type Extra = &'static str;

    const NAME: &'static str = "hatch";
    const DEFAULT_PORT: Option<u16> = Some(7);
}

/// The group of the first block of a configuration, for a protocol that is read before or after others.
fn group_of<P: SubjectProtocol>(text: &str, extra: P::Extra, cx: &mut Cx) -> Arc<Upstream<P>> {
    let tree = freerun_conf::parse("doors.conf", None, "", &mut freerun_conf::OneText(text));
    let mut servers = Servers::<P>::default();
    for node in tree.nodes[0].children() {
        servers = Servers::set(Some(servers), node, cx).expect("a server");
    }
    let plan = Plan::<P> { servers: servers.0, extra, ..Plan::default() };
    freerun_serve::upstream::declare(&tree.nodes[0], plan, false, cx).expect("a group");
    freerun_serve::upstream::finish::<P>(cx).expect("groups");
    let groups = cx.extensions.get_or_default::<Parts>().get::<Upstreams<P>>().expect("groups");
    groups.declared("a").expect("the group").clone()
}

#[test]
fn each_protocol_has_groups_of_its_own() {
    let mut cx = Cx::new(Sources::default());
    let door = group_of::<Door>("upstream a { server 127.0.0.1:7; server 127.0.0.2:7; }", (), &mut cx);
    let hatch = group_of::<Hatch>("upstream a { server 127.0.0.1; server 127.0.0.2; }", "own", &mut cx);
    assert_eq!((names(&door), hatch.extra), (names(&hatch), "own"));
    let doors = Doors::read("");
    let visitor = doors.visitor("unix:", "");
    let lease = door.pick_now(&door.asking(&visitor), None, &mut TriedServers::new()).unwrap().unwrap();
    let failed = lease.peer().name.clone();
    assert!(lease.failed(AttemptFailure::Connect, now()).disabled);
    let state = |name: &str| hatch.group.peers().peers().find(|peer| *peer.name == *name).unwrap().state(now());
    assert_eq!(state(&failed), PeerState::Up);
}

const NO_RESOLVER: &str = "no resolver defined to resolve names at run time in upstream \"a\"";

#[test]
fn what_is_wrong_with_a_group_is_told_in_nginx_words() {
    for (text, message) in [
        ("pass 127.0.0.1;", "no port in upstream \"127.0.0.1\""),
        ("upstream a { } ", "no servers are inside upstream"),
        ("upstream a { server 127.0.0.1; }", "no port in upstream \"127.0.0.1\""),
        ("upstream a { server a.test:1 resolve; }", NO_RESOLVER),
        // An address is not looked up, and who names a block that is wrong is not wrong himself.
        ("upstream a { server 127.0.0.1:1 resolve; server b.test:1 resolve; } pass a;", NO_RESOLVER),
        ("upstream a { server 127.0.0.1:1; } upstream A { server 127.0.0.1:1; }", "duplicate upstream \"A\""),
        (
            "upstream a { hash $bag; server 127.0.0.1:1 backup; server 127.0.0.1:2; }",
            "balancing method does not support parameter \"backup\"",
        ),
        ("upstream a { hash $uri; server 127.0.0.1:1; }", "unknown \"uri\" variable"),
    ] {
        assert_eq!(Doors::after(Zones::default(), text).err().as_deref(), Some(message), "{text}");
    }
}

#[test]
fn servers_that_are_names_are_looked_up_at_the_resolver() {
    let dns = Dns::start();
    let ip = |last| Ipv4Addr::new(127, 0, 0, last).into();
    dns.set("a.test", DnsReply::Addresses(vec![ip(1), ip(2)], 300));
    let text = format!(
        "resolver {} ipv6=off; upstream houses {{ hash $bag; server a.test:7 resolve; server 127.0.0.9:7; }} pass houses;",
        dns.address()
    );
    let doors = Doors::read(&text);
    let upstreams = doors.services.parts.get::<Upstreams<Door>>().expect("the groups");
    assert_eq!(names(group(&doors)), BTreeSet::from(["127.0.0.9:7".to_owned()]));
    look_up_all(&upstreams, &ErrorLog::none());
    let all = ["127.0.0.1:7", "127.0.0.2:7", "127.0.0.9:7"].map(str::to_owned).into();
    // The answer may come after the time that a configuration waits for it.
    eventually("the addresses are known", || names(group(&doors)) == all);
    let seen: BTreeSet<String> = BAGS.iter().map(|bag| chosen(&doors, bag)).collect();
    assert!(seen.len() > 1, "{seen:?}");
    // The next configuration begins with the known addresses.
    let next = Doors::after(doors.services.zones.clone(), &text).unwrap();
    assert_eq!(names(group(&next)), all);
}

/// Those that have a resolver are looked up while visitors come.
#[test]
fn names_without_a_resolver_have_to_be_known_to_the_system() {
    let hosts = |text: &str| {
        let upstreams = Doors::read(text).services.parts.get::<Upstreams<Door>>().expect("the groups");
        system_names(&upstreams).iter().map(|name| name.host().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hosts("upstream a { server one.test:7; server 127.0.0.1:7; server unix:/two; }"), ["one.test"]);
    let none: [&str; 0] = [];
    assert_eq!(hosts("resolver 127.0.0.1; upstream a { server one.test:7 resolve; }"), none);
}

/// Protocols are read one after the other, and each may have resolvers.
#[test]
fn the_resolvers_of_all_protocols_are_known() {
    let mut cx = Cx::new(Sources::default());
    for (text, finish) in [
        ("resolver one.test status_zone=one;", freerun_serve::upstream::finish::<Door> as fn(&mut Cx) -> _),
        ("resolver two.test 127.0.0.1 status_zone=two;", freerun_serve::upstream::finish::<Hatch>),
        ("resolver one.test status_zone=one;", freerun_serve::upstream::finish::<Hatch>),
    ] {
        let tree = freerun_conf::parse("doors.conf", None, "", &mut freerun_conf::OneText(text));
        ResolverSetting::parse(&tree.nodes[0], &mut cx).expect("a resolver");
        finish(&mut cx).expect("groups");
    }
    let parts = cx.extensions.get_or_default::<Parts>();
    let zoned = parts.get::<ZonedResolvers>().expect("resolvers");
    let zones: Vec<_> = zoned.0.iter().map(|resolver| resolver.spec().status_zone.as_deref()).collect();
    assert_eq!(zones, [Some("one"), Some("two")]);
    let named = name_servers(&parts.get::<NamedServers>().expect("name servers"));
    assert_eq!(named.iter().map(SystemName::host).collect::<Vec<_>>(), ["one.test", "two.test", "one.test"]);
}

#[test]
fn what_a_visitor_computes_is_a_group_an_address_or_a_name() {
    let dns = Dns::start();
    dns.set("b.test", DnsReply::address(Ipv4Addr::new(127, 0, 0, 5), 300));
    let doors = Doors::read(&format!("resolver {} ipv6=off; upstream houses {{ {THREE} }}", dns.address()));
    let resolver = &doors.settings().resolver.as_ref().expect("a resolver").0;
    let visitor = doors.visitor("unix:", "");
    run(async {
        let found = async |text, resolver| find::<Door>(&visitor, resolver, text, None).await;
        let asked = Some((resolver, LONG));
        assert_eq!(names(&found("Houses", asked).await.unwrap()).len(), 3);
        let address = found("127.0.0.1:8", None).await.unwrap();
        assert_eq!((address.declared, names(&address)), (false, ["127.0.0.1:8".to_owned()].into()));
        let name = found("b.test:9", asked).await.unwrap();
        assert_eq!(names(&name), ["127.0.0.5:9".to_owned()].into());
        assert!(Arc::ptr_eq(&name, &found("b.test:9", asked).await.unwrap()), "it is kept");
        let error = found("b.test:9", None).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.status().code()), ("no resolver defined to resolve b.test", 502));
        let error = found("none.test:9", asked).await.unwrap_err();
        assert!(matches!(error, NotFound::NotResolved(..)), "{error}");
        assert_eq!(found("b.test", asked).await.unwrap_err().to_string(), "no port in upstream \"b.test\"");
    });
}
