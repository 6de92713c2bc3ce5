//! The places in the configuration of what it makes: groups, servers, zones, caches, certificates, logs and pools. Whoever
//! shows such an object can say which line to look at.

use std::collections::HashMap;

use freerun_conf::{Node, Place, Sources, text_of};

use super::parts::Paths;

/// The most places. Further objects have none.
const MAX_PLACES: usize = 50_000;

/// The longest name of an object, in bytes. An object with a longer one has no place.
const MAX_NAME: usize = 1024;

/// The kinds of objects that have names of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A group of servers: an `upstream` block, or the `proxy_pass` (and its like) that names a server by its address.
    Group,
    /// A `server` of an `upstream` block: the name of the group, a space, and the server as it is written.
    GroupServer,
    /// A zone of `status_zone`.
    Zone,
    /// The counters of a server without `status_zone`.
    ServerZone,
    /// A zone of `limit_req_zone`.
    RequestLimit,
    /// A zone of `limit_conn_zone`.
    ConnectionLimit,
    /// A cache, by the name of its zone.
    Cache,
    /// A file by its absolute path: a certificate, a log, a state.
    File,
    /// The engine that machines share state through; it has no name.
    Engine,
    /// A thread pool.
    ThreadPool,
    /// An issuer of certificates by ACME.
    Issuer,
}

/// Whether somebody wants the places of the configuration that is being read. It lives in the configuration's context.
#[derive(Debug, Clone, Copy, Default)]
pub struct WantsObjectPlaces(pub bool);

/// The places of the objects of a configuration. It is a part of its generation, if a location shows the state.
#[derive(Debug, Default)]
pub struct ObjectPlaces {
    places: HashMap<(&'static str, ObjectKind, String), Place>,
    /// The texts of the configuration by their numbers: the path, or nothing for what has no lines.
    files: Vec<Option<String>>,
}

/// The services that have objects: the names of their blocks.
const SERVICES: [&str; 2] = ["http", "stream"];

/// The service of objects that both services share.
const SHARED: &str = "";

impl ObjectPlaces {
    /// Notes the place of an object of a service (`http` or `stream`). Of several of one name the first counts.
    pub fn note(&mut self, service: &'static str, kind: ObjectKind, name: &str, place: Place) {
        if self.places.len() < MAX_PLACES && name.len() <= MAX_NAME && place.is_some() {
            self.places.entry((service, kind, name.to_owned())).or_insert(place);
        }
    }

    /// Notes the places of all objects of a configuration, whose main level has these directives.
    pub fn note_all(&mut self, main: &[Node], paths: &Paths, sources: &Sources) {
        self.files = sources.iter().map(|one| (!one.command_line).then(|| one.path.clone())).collect();
        for node in main {
            let service = SERVICES.into_iter().find(|service| node.name.text == *service);
            match service {
                Some(service) => {
                    Node::each(node.children(), &mut |node| self.note_node(service, node, paths));
                    // A group that is declared comes before an address of the same name.
                    Node::each(node.children(), &mut |node| self.note_address(service, node));
                }
                None => self.note_node(SHARED, node, paths),
            }
        }
    }

    /// The file and the line of an object: `FILE:LINE`.
    pub fn find(&self, service: &'static str, kind: ObjectKind, name: &str) -> Option<String> {
        let place = self.places.get(&(service, kind, name.to_owned()))?;
        let file = self.files.get(place.file as usize)?.as_ref()?;
        Some(format!("{file}:{}", place.line))
    }

    /// The file and the line of an object that both services share.
    pub fn find_shared(&self, kind: ObjectKind, name: &str) -> Option<String> {
        self.find(SHARED, kind, name)
    }

    fn note_node(&mut self, service: &'static str, node: &Node, paths: &Paths) {
        let (directive, place) = (node.name.text.as_str(), node.name.place);
        let first = node.arg(0).unwrap_or_default();
        match directive {
            "upstream" => {
                self.note(service, ObjectKind::Group, first, place);
                for server in node.children().iter().filter(|inner| inner.name.text == "server") {
                    let name = format!("{first} {}", server.arg(0).unwrap_or_default());
                    self.note(service, ObjectKind::GroupServer, &name, server.name.place);
                }
            }
            "server" => {
                for zone in node.children().iter().filter(|inner| inner.name.text == "status_zone") {
                    self.note(service, ObjectKind::Zone, zone.arg(0).unwrap_or_default(), zone.name.place);
                }
            }
            "limit_req_zone" => self.note_zone(service, ObjectKind::RequestLimit, node, "zone="),
            "limit_conn_zone" => self.note_zone(service, ObjectKind::ConnectionLimit, node, "zone="),
            "zone_sync_engine" => self.note(SHARED, ObjectKind::Engine, "", place),
            "thread_pool" => self.note(SHARED, ObjectKind::ThreadPool, first, place),
            "acme_issuer" => self.note(service, ObjectKind::Issuer, first, place),
            "ssl_certificate" if !first.is_empty() => {
                let path = paths.beside_configuration(&node.args[0].bytes());
                self.note(SHARED, ObjectKind::File, &text_of(&path), place);
            }
            "access_log" | "error_log" | "state" => {
                self.note(SHARED, ObjectKind::File, &paths.absolute(first), place);
            }
            "keyval_zone" => {
                // Of several the last counts, as it does for the zone.
                let state = node.args.iter().rev().find_map(|word| word.text.strip_prefix("state="));
                if let Some(path) = state.filter(|path| !path.is_empty()) {
                    self.note(SHARED, ObjectKind::File, &paths.absolute(path), place);
                }
            }
            _ if directive.ends_with("_cache_path") => self.note_zone(SHARED, ObjectKind::Cache, node, "keys_zone="),
            _ => {}
        }
    }

    /// Notes the zone that a directive defines by a parameter `zone=NAME:SIZE`.
    fn note_zone(&mut self, service: &'static str, kind: ObjectKind, node: &Node, parameter: &str) {
        let zone = node.args.iter().find_map(|word| word.text.strip_prefix(parameter));
        if let Some(zone) = zone {
            let name = zone.rsplit_once(':').map_or(zone, |(name, _)| name);
            self.note(service, kind, name, node.name.place);
        }
    }

    /// Notes the group that `proxy_pass`, or another directive like it, makes of an address.
    fn note_address(&mut self, service: &'static str, node: &Node) {
        let Some(target) = node.arg(0).filter(|_| node.name.text.ends_with("_pass")) else { return };
        let address = target.split_once("://").map_or(target, |(_, address)| address);
        let address = if address.starts_with("unix:") {
            // Behind the path of the socket, a colon begins the path of requests.
            address.match_indices(':').nth(1).map_or(address, |(at, _)| &address[..at])
        } else {
            address.find(['/', '?']).map_or(address, |at| &address[..at])
        };
        if !address.contains('$') {
            self.note(service, ObjectKind::Group, address, node.name.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use freerun_conf::{OneText, parse};

    use super::*;

    #[test]
    fn objects_have_the_line_of_their_directive() {
        let text = "thread_pool disks threads=4; zone_sync_engine redis://a;
            error_log logs/error.log;
            http {
                proxy_cache_path /c keys_zone=pages:1m;
                limit_req_zone $uri zone=each:1m rate=1r/s; keyval_zone zone=a:1m state=pairs.json; keyval_zone zone=b:1m;
                upstream app {
                    server 10.0.0.1:80 weight=2;
                    server 10.0.0.2:80;
                }
                server {
                    status_zone shop;
                    ssl_certificate leaf.pem;
                    location / { proxy_pass http://app/x; }
                    location /a { proxy_pass https://10.0.0.3:81/x?y; status_zone elsewhere; }
                    location /b { fastcgi_pass unix:/run/app.sock; proxy_pass $to; }
                }
            }
            stream { upstream app { server 10.0.0.4:80; } limit_conn_zone $uri zone=each:1m;
                keyval_zone state=/s/pairs.json zone=c:1m; }";
        let tree = parse("x.conf", None, "", &mut OneText(text));
        let paths = Paths { prefix: "/p/".to_owned(), conf_prefix: "/etc/".to_owned(), ..Paths::default() };
        let mut places = ObjectPlaces::default();
        places.note_all(&tree.nodes, &paths, &tree.sources);
        let line = |service, kind, name| {
            let place = places.find(service, kind, name)?;
            place.rsplit_once(':').and_then(|(_, line)| line.parse::<u32>().ok())
        };
        for (service, kind, name, found) in [
            ("", ObjectKind::ThreadPool, "disks", Some(1)),
            ("", ObjectKind::Engine, "", Some(1)),
            ("", ObjectKind::File, "/p/logs/error.log", Some(2)),
            ("", ObjectKind::Cache, "pages", Some(4)),
            ("http", ObjectKind::RequestLimit, "each", Some(5)),
            ("http", ObjectKind::ConnectionLimit, "each", None),
            ("", ObjectKind::File, "/p/pairs.json", Some(5)),
            ("", ObjectKind::File, "/s/pairs.json", Some(19)),
            ("http", ObjectKind::Group, "app", Some(6)),
            ("http", ObjectKind::GroupServer, "app 10.0.0.2:80", Some(8)),
            ("http", ObjectKind::Zone, "shop", Some(11)),
            ("http", ObjectKind::Zone, "elsewhere", None),
            ("", ObjectKind::File, "/etc/leaf.pem", Some(12)),
            ("http", ObjectKind::Group, "10.0.0.3:81", Some(14)),
            ("http", ObjectKind::Group, "unix:/run/app.sock", Some(15)),
            ("http", ObjectKind::Group, "$to", None),
            ("stream", ObjectKind::Group, "app", Some(18)),
            ("stream", ObjectKind::ConnectionLimit, "each", Some(18)),
        ] {
            assert_eq!(line(service, kind, name), found, "{service} {kind:?} {name}");
        }
    }

    #[test]
    fn the_number_of_places_and_the_length_of_names_are_limited() {
        let mut places = ObjectPlaces::default();
        let place = Place { file: 0, line: 1, column: 1, width: 1 };
        places.note("http", ObjectKind::Zone, &"x".repeat(MAX_NAME + 1), place);
        assert_eq!(places.places.len(), 0);
        for number in 0..=MAX_PLACES {
            places.note("http", ObjectKind::Zone, &number.to_string(), place);
        }
        assert_eq!(places.places.len(), MAX_PLACES);
    }
}
