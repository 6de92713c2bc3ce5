//! `status_zone`.

use std::sync::Arc;

use freerun_conf::{Contexts, Cx, Node, Place, Problem, Shape, Value, settings};

use super::{ServerKind, StatusZones, ZoneFigures, ZonesByName};
use crate::configuration::object_places::{ObjectKind, ObjectPlaces};
use crate::configuration::zones::ZoneTable;
use crate::listen::ListenSpec;

settings! {
    /// Requests and sessions are counted by zones.
    #[module = "status_zone"]
    pub struct StatusZoneSettings {
        /// Counts the requests, or the sessions of `stream`, in a zone with this name.
        ///
        /// A zone has their number now and in all, their statuses, bytes and times, and the TLS handshakes of a server.
        ///
        /// Several servers may share a zone, and so may several locations; a server and a location of one name have two. A
        /// location that is inside another one counts in the zone of that one, unless it has its own, or `off`. A request
        /// counts in the zone of the location where it ends. `status` and `api` show what was counted, which goes on over a
        /// reload. Of the statuses, each event loop counts 32 one by one in a zone; others count in their classes. A request that
        /// ends in the step of its event loop in which it began has taken no time.
        status_zone: StatusZone, in SERVER | LOCATION | LOCATION_IF | STREAM_SERVER;
        /// Whether the requests, or the sessions of `stream`, of a server without `status_zone` are counted too.
        ///
        /// `status` has them beside the zones, with the name of the server and its port: `shop.example:443`. A server without
        /// a name has its address: `0.0.0.0:80`. `api` at version 9 lists the zones of `status_zone` alone, as NGINX Plus does.
        /// Of more than 4096 such servers the rest is counted together, as `(other servers)`.
        status_servers: bool = "on", in HTTP | SERVER | STREAM | STREAM_SERVER, fidelity = Own;
    }
}

/// Number of servers without `status_zone` that have counters of their own. The counters of one take some 1 KB for each
/// event loop.
const MAX_OWN_ZONES: usize = 4_096;

/// The name under which the rest is counted together.
const OTHER_SERVERS: &str = "(other servers)";

impl StatusZoneSettings {
    /// The zone of a server with these settings, which has this first name, this first address and this place: the zone of
    /// `status_zone`, or one of the server's own.
    pub fn of_server(
        &self,
        kind: ServerKind,
        name: &str,
        address: &ListenSpec,
        block: Place,
        cx: &mut Cx,
    ) -> Option<Arc<ZoneFigures>> {
        if let StatusZone::Server(zone) = &self.status_zone {
            return Some(zone.clone());
        }
        if !self.status_servers {
            return None;
        }
        let label = label(name, address);
        let zones = cx.extensions.get_or_default::<StatusZones>().own_zones(kind);
        let name = match zones.len() {
            MAX_OWN_ZONES.. => OTHER_SERVERS.to_owned(),
            _ => unused(label, zones),
        };
        // Those that are counted together have no line of their own.
        if name != OTHER_SERVERS {
            let places = cx.extensions.get_or_default::<ObjectPlaces>();
            places.note(kind.service(), ObjectKind::ServerZone, &name, block);
        }
        let zone = cx.extensions.get_or_default::<ZoneTable>();
        let zone = zone.keep(&format!("{} {name}", kind.key()), ZoneFigures::default);
        cx.extensions.get_or_default::<StatusZones>().own_zones(kind).insert(name.into(), zone.clone());
        Some(zone)
    }
}

/// The name of a server for its figures: its first name with the port, or its address.
fn label(name: &str, address: &ListenSpec) -> String {
    match address.ip {
        Some(ip) if !matches!(name, "" | "_") => format!("{name}:{}", ip.port()),
        _ => address.name.clone(),
    }
}

/// The name, with a number behind it if another server has that name.
fn unused(name: String, zones: &ZonesByName) -> String {
    if !zones.contains_key(name.as_str()) {
        return name;
    }
    let mut names = (2u32..).map(|number| format!("{name} ({number})"));
    names.find(|name| !zones.contains_key(name.as_str())).unwrap_or(name)
}

/// The value of `status_zone`.
#[derive(Debug, Clone, Default)]
pub enum StatusZone {
    /// There is none.
    #[default]
    None,
    /// The zone of a server.
    Server(Arc<ZoneFigures>),
    /// The zone of a location.
    Location(Arc<ZoneFigures>),
}

impl StatusZone {
    /// The zone of a location with this value. It may be the zone of the server around the location.
    pub fn of_location(&self) -> Option<Arc<ZoneFigures>> {
        if let StatusZone::Location(zone) = self { Some(zone.clone()) } else { None }
    }
}

impl Value for StatusZone {
    const SHAPE: Shape = Shape::exactly(1, "name");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<StatusZone, Problem> {
        let word = &directive.args[0];
        let name: Arc<str> = word.text.as_str().into();
        if name.is_empty() {
            return Err(Problem::new("invalid zone name \"\"").at(word.place));
        }
        let (is_http, is_server) = (cx.context != Contexts::STREAM_SERVER, cx.context == Contexts::SERVER);
        if is_http && !is_server && &*name == "off" {
            return Ok(StatusZone::None);
        }
        let kind = match (is_http, is_server) {
            (true, true) => "server",
            (true, false) => "location",
            (false, _) => "stream server",
        };
        let zone = cx.extensions.get_or_default::<ZoneTable>();
        let zone = zone.keep(&format!("status_zone {kind} {name}"), ZoneFigures::default);
        let zones = cx.extensions.get_or_default::<StatusZones>();
        let all = match (is_http, is_server) {
            (true, true) => &mut zones.servers,
            (true, false) => &mut zones.locations,
            (false, _) => &mut zones.stream_servers,
        };
        all.insert(name, zone.clone());
        Ok(if is_http && !is_server { StatusZone::Location(zone) } else { StatusZone::Server(zone) })
    }
}

#[cfg(test)]
mod tests {
    use freerun_conf::{OneText, Registry, SettingsSet, Sources, apply_block, group, parse};

    use super::*;

    /// The settings of a level with this text inside another one, and the zones that were made so far.
    fn level(text: &str, context: Contexts, outer: Option<&SettingsSet>, cx: &mut Cx) -> Result<SettingsSet, String> {
        let registry = Registry::new(&[group::<StatusZoneSettings>()], &[]).unwrap();
        let tree = parse("x.conf", None, "", &mut OneText(text));
        let defaults = registry.defaults(cx).unwrap();
        let built = apply_block(&registry, context, &tree.nodes, outer.unwrap_or(&defaults), cx).map(|built| built.0);
        cx.conclude(built, tree.error).map_err(|problems| problems[0].message.clone())
    }

    fn zone(settings: &SettingsSet) -> &StatusZone {
        &settings.get::<StatusZoneSettings>().status_zone
    }

    /// The zone of a server of the configuration that has no name.
    fn server_zone(settings: &SettingsSet, cx: &mut Cx) -> Arc<ZoneFigures> {
        named_zone(settings, "", 80, cx).expect("a zone")
    }

    /// The zone of a server with this name and port.
    fn named_zone(settings: &SettingsSet, name: &str, port: u16, cx: &mut Cx) -> Option<Arc<ZoneFigures>> {
        let address = ([127, 0, 0, 1], port).into();
        let spec = ListenSpec::new("http", Some(address), address.to_string());
        settings.get::<StatusZoneSettings>().of_server(ServerKind::Http, name, &spec, Place::NONE, cx)
    }

    #[test]
    fn locations_inherit_of_locations_alone() {
        let mut cx = Cx::new(Sources::default());
        let server = level("status_zone a;", Contexts::SERVER, None, &mut cx).unwrap();
        let bare = level("", Contexts::LOCATION, Some(&server), &mut cx).unwrap();
        assert!(zone(&bare).of_location().is_none());
        let location = level("status_zone a;", Contexts::LOCATION, Some(&server), &mut cx).unwrap();
        let inside = level("", Contexts::LOCATION, Some(&location), &mut cx).unwrap();
        let (own, inherited) = (zone(&location).of_location().unwrap(), zone(&inside).of_location().unwrap());
        assert!(Arc::ptr_eq(&own, &inherited));
        assert!(!Arc::ptr_eq(&own, &server_zone(&server, &mut cx)), "a location's zone is not the server's");
        let off = level("status_zone off;", Contexts::LOCATION, Some(&location), &mut cx).unwrap();
        assert!(zone(&off).of_location().is_none());
        let shared = level("status_zone a;", Contexts::LOCATION_IF, Some(&off), &mut cx).unwrap();
        assert!(Arc::ptr_eq(&own, &zone(&shared).of_location().unwrap()));
        let session = level("status_zone off;", Contexts::STREAM_SERVER, None, &mut cx).unwrap();
        assert!(matches!(zone(&session), StatusZone::Server(_)), "a server has no zone to leave out");
        let zones = cx.extensions.get_or_default::<StatusZones>();
        let names = |zones: &super::super::ZonesByName| zones.keys().map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&zones.servers), ["a"]);
        assert_eq!(names(&zones.locations), ["a"]);
        assert_eq!(names(&zones.stream_servers), ["off"]);
    }

    #[test]
    fn a_zone_has_a_name_and_is_written_once() {
        for (text, message) in [
            ("status_zone \"\";", "invalid zone name \"\""),
            ("status_zone a; status_zone b;", "\"status_zone\" directive is duplicate"),
            ("status_zone a b;", "invalid number of arguments in \"status_zone\" directive"),
        ] {
            let mut cx = Cx::new(Sources::default());
            assert_eq!(level(text, Contexts::SERVER, None, &mut cx).err().as_deref(), Some(message), "{text}");
        }
    }

    #[test]
    fn what_was_counted_goes_on_over_a_reload() {
        let mut first = Cx::new(Sources::default());
        let level_of = |text, cx: &mut Cx| level(text, Contexts::SERVER, None, cx).unwrap();
        let (named, bare) = (level_of("status_zone a;", &mut first), level_of("", &mut first));
        let before = (server_zone(&named, &mut first), server_zone(&bare, &mut first));
        let zones = first.extensions.get_or_default::<ZoneTable>().zones();
        let mut next = Cx::new(Sources::default());
        next.extensions.insert(ZoneTable::seeded(zones));
        let (named, bare) = (level_of("status_zone a;", &mut next), level_of("", &mut next));
        assert!(Arc::ptr_eq(&before.0, &server_zone(&named, &mut next)));
        assert!(Arc::ptr_eq(&before.1, &server_zone(&bare, &mut next)));
    }

    #[test]
    fn servers_without_a_zone_have_names_of_their_own_and_a_bound() {
        let mut cx = Cx::new(Sources::default());
        let on = level("", Contexts::SERVER, None, &mut cx).unwrap();
        let off = level("status_servers off;", Contexts::SERVER, None, &mut cx).unwrap();
        assert!(named_zone(&off, "silent.example", 80, &mut cx).is_none());
        for (name, port) in [("a.example", 443), ("a.example", 443), ("_", 80), ("", 81), ("a.example", 80)] {
            named_zone(&on, name, port, &mut cx).expect("a zone");
        }
        let names = |cx: &mut Cx| -> Vec<String> {
            let zones = cx.extensions.get_or_default::<StatusZones>();
            zones.own_servers.keys().map(|name| name.to_string()).collect()
        };
        let wanted = ["127.0.0.1:80", "127.0.0.1:81", "a.example:443", "a.example:443 (2)", "a.example:80"];
        assert_eq!(names(&mut cx), wanted);
        let all: Vec<_> = (0..MAX_OWN_ZONES).map(|n| named_zone(&on, &format!("h{n}"), 80, &mut cx).unwrap()).collect();
        assert_eq!(names(&mut cx).len(), MAX_OWN_ZONES + 1);
        assert!(names(&mut cx).contains(&OTHER_SERVERS.to_owned()));
        assert!(Arc::ptr_eq(&all[MAX_OWN_ZONES - 1], &all[MAX_OWN_ZONES - 2]), "the rest is counted together");
    }
}
