//! A second kind of subject, which is not a request: the code that is generic over the subject works with it alone.

mod upstream;

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use freerun_conf::{
    Contexts, Cx, Directive, Many, OneText, Registry, SettingsSet, Shape, Sources, apply_block, group, parse, settings,
};
use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, Level};
use freerun_runtime::pool::Pools;
use freerun_serve::configuration::log_paths::LogPaths;
use freerun_serve::configuration::parts::{Parts, Paths};
use freerun_serve::configuration::services::Services;
use freerun_serve::configuration::zones::{ZoneTable, Zones};
use freerun_serve::limits::access::{Rules, TrustedSource};
use freerun_serve::limits::{ConnLimits, ConnVerdict, ConnZones, RefusalLevel};
use freerun_serve::listen::hosts::Hosts;
use freerun_serve::logs::access_log::{AccessLogs, LogFormats, LogLine, ProtocolPieces, Style};
use freerun_serve::upstream::resolver::ResolverSetting;
use freerun_serve::values::captures::Captures;
use freerun_serve::values::lookups::{Databases, Geos, Maps, Splits};
use freerun_serve::values::{Common, Pattern, Template, Variable, VariableReference, VariableTable};
use freerun_serve::{Address, Subject};
use freerun_testkit::Site;
use freerun_testkit::mmdb::{MmdbValue as Record, database};

/// A visitor at a door.
struct Visitor {
    peer: Address,
    door: Address,
    bag: &'static str,
    captures: Captures,
    services: Arc<Services>,
    told: RefCell<Vec<String>>,
}

impl Subject for Visitor {
    fn context(&self) -> String {
        String::new()
    }

    fn peer(&self) -> &Address {
        &self.peer
    }

    fn local(&self) -> Address {
        self.door.clone()
    }

    fn captures(&self) -> &Captures {
        &self.captures
    }

    fn services(&self) -> &Services {
        &self.services
    }

    fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        self.told.borrow_mut().push(format!("{}: {message}", level.name()));
    }

    fn is_logged(&self) -> bool {
        false
    }

    fn warns_of_uninitialized(&self) -> bool {
        true
    }
}

const VARIABLES: &[Variable<Visitor>] = &[
    Variable::named("bag", "What the visitor has in the bag.", |visitor, _| Some(visitor.bag.as_bytes().into())),
    Variable::family("bag_", "One thing in the bag.", |visitor, what| {
        visitor.bag.contains(what).then(|| what.as_bytes().to_vec().into())
    }),
];

/// The pieces of a visitor's log line that need no value in between.
#[derive(Debug)]
enum VisitorPiece {
    Bag,
}

impl ProtocolPieces<Visitor> for VisitorPiece {
    const PREDEFINED: &'static [(&'static str, &'static str)] = &[("visit", "$remote_addr has $bag")];
    const PRESETS: &'static [(&'static str, &'static str)] = &[];

    fn of(name: &str, reference: VariableReference<Visitor>) -> Result<VisitorPiece, VariableReference<Visitor>> {
        if name == "bag" { Ok(VisitorPiece::Bag) } else { Err(reference) }
    }

    fn push(&self, visitor: &Visitor, style: &Style, line: &mut LogLine<'_>) {
        match self {
            VisitorPiece::Bag => style.push_value(visitor.bag.as_bytes(), line),
        }
    }
}

settings! {
    /// Doors.
    pub struct DoorSettings {
        /// The text that is said.
        say: Option<Template<Visitor>>, in STREAM;
        /// A table.
        map: Maps<Visitor>, in STREAM;
        /// Networks.
        geo: Geos<Visitor>, in STREAM;
        /// Shares.
        split_clients: Splits<Visitor>, in STREAM;
        /// Databases.
        geoip2: Databases<Visitor>, in STREAM;
        /// A zone of a limit.
        limit_conn_zone: ConnZones<Visitor>, in STREAM;
        /// A limit.
        limit_conn: ConnLimits<Visitor>, in STREAM;
        /// The level of refusals.
        limit_conn_log_level: RefusalLevel = "error", in STREAM;
        /// The visitors that may come in.
        #[name = "allow"]
        rules: Rules, in STREAM;
        /// The trusted proxies.
        set_real_ip_from: Many<TrustedSource>, in STREAM;
        /// Lines.
        access_log: AccessLogs<Visitor, VisitorPiece> = "visits", in STREAM;
        /// Formats of lines.
        log_format: LogFormats<Visitor, VisitorPiece>, in STREAM;
        /// Name servers.
        resolver: Option<ResolverSetting>, in STREAM | STREAM_UPSTREAM;
        /// Where visitors are passed on to.
        pass: Option<upstream::Pass>, in STREAM;
    }
    also {
        /// The visitors that may not come in.
        "deny" => rules: Shape::exactly(1, Rules::SYNTAX), in STREAM;
    }
}

const UPSTREAM: Directive = Directive::structural(
    "upstream",
    Contexts::STREAM,
    Shape::exactly(1, "name").with_block(Contexts::STREAM_UPSTREAM),
    "A group of servers.",
);

/// A configuration, and the data that visitors need of it.
struct Doors {
    settings: SettingsSet,
    services: Arc<Services>,
    logs: Vec<String>,
}

impl Doors {
    /// Reads a configuration that continues the zones of the one before it.
    fn after(zones: Zones, text: &str) -> Result<Doors, String> {
        let groups = [group::<DoorSettings>(), group::<upstream::HouseSettings>()];
        let registry = Registry::new(&groups, &[UPSTREAM]).expect("directives");
        let tree = parse("doors.conf", None, "", &mut OneText(text));
        let mut cx = Cx::new(Sources::default());
        let table = cx.extensions.get_or_default::<VariableTable<Visitor>>();
        table.add(Common::<Visitor>::VARIABLES);
        table.add(VARIABLES);
        cx.extensions.insert(ZoneTable::seeded(zones));
        cx.extensions.insert(Hosts { lookup: Some(|_| vec![[192, 0, 2, 9].into()]), ..Hosts::default() });
        let paths = cx.extensions.get_or_default::<Paths>();
        (paths.prefix, paths.serves) = ("/logs/".to_owned(), true);
        let built = (|| {
            let defaults = registry.defaults(&mut cx)?;
            let (settings, blocks) = apply_block(&registry, Contexts::STREAM, &tree.nodes, &defaults, &mut cx)?;
            for block in blocks {
                let children = block.children();
                let (inside, _) = apply_block(&registry, Contexts::STREAM_UPSTREAM, children, &settings, &mut cx)?;
                upstream::declare(block, &inside, &mut cx)?;
            }
            freerun_serve::upstream::finish::<upstream::Door>(&mut cx)?;
            let undefined = cx.extensions.get_or_default::<VariableTable<Visitor>>().check();
            undefined.into_iter().try_for_each(|problem| cx.report(problem))?;
            cx.extensions.get_or_default::<ZoneTable>().check()?;
            Ok(settings)
        })();
        let settings = cx.conclude(built, tree.error).map_err(|problems| problems[0].message.clone())?;
        let pools = Pools::new().generation(&[]).expect("pools");
        let services = Services {
            paths: cx.extensions.get_or_default::<Paths>().clone(),
            zones: cx.extensions.get_or_default::<ZoneTable>().zones(),
            parts: cx.extensions.get_or_default::<Parts>().clone(),
            logs: Vec::new(),
            error_log: ErrorLog::none(),
            files: FileSystem::new(pools.default().clone()).expect("files"),
            pools,
        };
        let logs = cx.extensions.get_or_default::<LogPaths>().0.clone();
        Ok(Doors { settings, services: Arc::new(services), logs })
    }

    fn read(text: &str) -> Doors {
        Doors::after(Zones::default(), text).expect("a configuration")
    }

    fn settings(&self) -> &DoorSettings {
        self.settings.get()
    }

    fn visitor(&self, peer: &str, bag: &'static str) -> Visitor {
        let peer = match peer.parse::<SocketAddr>() {
            Ok(address) => Address::Ip(address),
            Err(_) => Address::Unix(peer.into()),
        };
        let (captures, told) = Default::default();
        let door = Address::Ip(([127, 0, 0, 1], 7).into());
        Visitor { peer, door, bag, captures, services: self.services.clone(), told }
    }

    /// The text that is said to a visitor.
    fn said(&self, visitor: &Visitor) -> String {
        let say = self.settings().say.as_ref().expect("something to say");
        String::from_utf8_lossy(&say.render(visitor)).into_owned()
    }
}

#[test]
fn text_has_variables_of_all_subjects_and_of_its_own() {
    let doors = Doors::read("say '$remote_addr:$remote_port to $server_addr: ${bag} $bag_pen.';");
    assert_eq!(doors.said(&doors.visitor("192.0.2.1:99", "a pen")), "192.0.2.1:99 to 127.0.0.1: a pen pen.");
    assert_eq!(doors.said(&doors.visitor("unix:", "nothing")), "unix:: to 127.0.0.1: nothing .");
    let unknown = Doors::after(Zones::default(), "say $uri;").err();
    assert_eq!(unknown.as_deref(), Some("unknown \"uri\" variable"), "a word of HTTP");
}

#[test]
fn values_that_are_set_and_captured_are_kept_with_the_subject() {
    let mut table = VariableTable::<Visitor>::default();
    let pattern = Pattern::new("^a (?<thing>.*)", false, &mut table).unwrap();
    let thing = table.resolve("thing", freerun_conf::Place::NONE);
    let Ok(freerun_serve::values::SetTarget::Slot(slot)) = table.assign("mood") else { panic!("a slot") };
    let mood = table.resolve("mood", freerun_conf::Place::NONE);
    assert!(table.check().is_empty());
    let doors = Doors::read("");
    let visitor = doors.visitor("192.0.2.1:99", "a pen");
    assert_eq!(thing.get(&visitor), None);
    assert!(pattern.matches(visitor.bag.as_bytes(), visitor.captures()).unwrap());
    assert_eq!(thing.get(&visitor).as_deref(), Some(&b"pen"[..]));
    assert_eq!(mood.get(&visitor).as_deref(), Some(&b""[..]));
    assert_eq!(*visitor.told.borrow(), ["warn: using uninitialized \"mood\" variable"]);
    visitor.values().set(slot, b"good").unwrap();
    assert_eq!(mood.get(&visitor).as_deref(), Some(&b"good"[..]));
}

#[test]
fn tables_define_variables() {
    let doors = Doors::read(
        "map $bag $kind { pen writes; '~^a (?<what>.*)' 'has $what'; default no; }\n\
         geo $near { default far; 192.0.2.0/24 near; }\n\
         geo $bag $place { default far; 192.0.2.0/24 near; }\n\
         split_clients $remote_addr $half { 100% all; }\n\
         say '$kind, $near, $place, $half';",
    );
    assert_eq!(doors.said(&doors.visitor("192.0.2.1:99", "pen")), "writes, near, far, all");
    assert_eq!(doors.said(&doors.visitor("[2001:db8::1]:99", "192.0.2.7")), "no, far, near, all");
    assert_eq!(doors.said(&doors.visitor("unix:", "a hat")), "has hat, far, far, all");
    let cycle = Doors::read("map $one $two { default 2; } map $two $one { default 1; } say $one;");
    let visitor = cycle.visitor("unix:", "");
    assert_eq!(cycle.said(&visitor), "1");
    assert_eq!(*visitor.told.borrow(), ["error: cycle while evaluating variable \"one\""]);
}

#[test]
fn a_database_is_asked_for_the_address() {
    let site = Site::new();
    let record = Record::Map(vec![("iso_code", Record::Text("AA"))]);
    site.file("a.mmdb", database(&[("192.0.2.0/24", record)], 1));
    let path = site.at("a.mmdb");
    let doors = Doors::read(&format!(
        "geoip2 {} {{ $country iso_code; $other default=none source=$bag iso_code; }} say '$country $other';",
        path.display()
    ));
    assert_eq!(doors.said(&doors.visitor("192.0.2.1:99", "198.51.100.1")), "AA none");
    assert_eq!(doors.said(&doors.visitor("198.51.100.1:99", "192.0.2.1")), " AA");
}

#[test]
fn connections_of_a_key_are_counted_and_zones_outlast_a_configuration() {
    let text = "limit_conn_zone $bag zone=bags:32k; limit_conn bags 2; limit_conn_log_level notice;";
    let first = Doors::read(text);
    let enter = |doors: &Doors, bag| {
        let visitor = doors.visitor("192.0.2.1:99", bag);
        let settings = doors.settings();
        let verdict = settings.limit_conn.enter(&visitor, false, settings.limit_conn_log_level.level());
        (verdict, visitor.told.take())
    };
    let (one, _) = enter(&first, "pen");
    assert!(matches!(&one, ConnVerdict::Counted(places) if places.zones() == 1));
    let second = Doors::after(first.services.zones.clone(), text).unwrap();
    let (two, _) = enter(&second, "pen");
    assert!(matches!(two, ConnVerdict::Counted(_)));
    let (three, told) = enter(&second, "pen");
    assert!(matches!(three, ConnVerdict::Refused));
    assert_eq!(told, ["notice: limiting connections by zone \"bags\""]);
    assert!(matches!(enter(&second, "hat").0, ConnVerdict::Counted(_)), "another key");
    assert!(matches!(enter(&second, "").0, ConnVerdict::NotCounted), "an empty key");
    drop(one);
    assert!(
        matches!(enter(&second, "pen").0, ConnVerdict::Counted(_)),
        "who came under the first configuration has left"
    );
    let unknown = Doors::after(Zones::default(), "limit_conn nowhere 1;").err();
    assert_eq!(unknown.as_deref(), Some("zero size shared memory zone \"nowhere\""));
}

#[test]
fn rules_and_trust_are_asked_by_address() {
    let doors = Doors::read(
        "deny 192.0.2.1; allow 192.0.2.0/24; allow unix:; deny all;\n\
         set_real_ip_from 198.51.100.0/24; set_real_ip_from proxy.example; set_real_ip_from unix:;",
    );
    for (peer, allowed, trusted) in [
        ("192.0.2.1:1", false, false),
        ("192.0.2.9:1", true, true),
        ("198.51.100.7:1", false, true),
        ("unix:", true, true),
    ] {
        let visitor = doors.visitor(peer, "");
        assert_eq!(doors.settings().rules.judge(visitor.peer()), Some(allowed), "{peer}");
        let believed = doors.settings().set_real_ip_from.iter().any(|one| one.contains(visitor.peer()));
        assert_eq!(believed, trusted, "{peer}");
    }
    assert_eq!(Doors::read("").settings().rules.judge(&Address::Unix("unix:".into())), None);
}

#[test]
fn lines_have_pieces_of_its_own() {
    let doors = Doors::read(
        "log_format quoted escape=json '\"$bag\" $bag_hat $remote_port'; access_log a; access_log b quoted;",
    );
    assert_eq!(doors.logs, ["/logs/a", "/logs/b"]);
    let visitor = doors.visitor("192.0.2.1:99", "a \"pen\"");
    let lines: Vec<String> = doors
        .settings()
        .access_log
        .logs()
        .iter()
        .map(|log| {
            let mut line = Vec::new();
            log.format.render(&visitor, &mut line);
            String::from_utf8(line).unwrap()
        })
        .collect();
    assert_eq!(lines, ["192.0.2.1 has a \\x22pen\\x22\n", "\"a \\\"pen\\\"\"  99\n"]);
}

#[test]
fn name_servers_written_alike_are_one_resolver() {
    let first = Doors::read("resolver 127.0.0.1 valid=1m;");
    let second = Doors::after(first.services.zones.clone(), "resolver 127.0.0.1 valid=1m;").unwrap();
    let of = |doors: &Doors| doors.settings().resolver.clone().unwrap().0;
    assert!(Arc::ptr_eq(&of(&first), &of(&second)));
}
