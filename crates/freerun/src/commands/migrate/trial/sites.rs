//! The servers of `http` as a client sees them: the addresses where they are reached, their names, and the logs that they write.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use freerun_conf::{Node, Tree};
use freerun_serve::logs::access_log::{COMBINED, Escape, JSON, LineFormat};

use super::addresses::{ListenAddress, TrialAddresses};
use super::texts::DEFAULT_PORT;
use crate::paths::{HTTP_LOG_PATH, join};

/// A place where requests of HTTP can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteListener {
    /// The address in the configuration.
    pub written: SocketAddr,
    /// The address of this machine at which nginx's servers of `written` are reached, and no others.
    pub reached: SocketAddr,
    /// The address of nginx: `reached`, unless `--against` says another one.
    pub nginx: SocketAddr,
    /// The address of the server that is tried.
    pub freerun: SocketAddr,
    /// Whether it has TLS.
    pub is_tls: bool,
}

/// A server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteServer {
    /// The names in lower case.
    pub names: Vec<String>,
    /// The places of its listeners in [`Sites::listeners`].
    pub listeners: Vec<usize>,
    /// The paths of the logs that it writes, each with the name of its format.
    pub logs: Vec<(String, String)>,
}

/// The servers of `http`.
#[derive(Debug, Default)]
pub struct Sites {
    /// The addresses.
    pub listeners: Vec<SiteListener>,
    /// The servers.
    pub servers: Vec<SiteServer>,
    /// The formats of logs, by their names.
    pub formats: HashMap<String, LineFormat>,
    /// The addresses that no request is sent to, each with the reason.
    pub left_out: Vec<(String, &'static str)>,
}

/// The parts of a log's `access_log`: its path, made absolute, and the name of its format.
fn log(node: &Node, prefix: &str) -> Option<(String, String)> {
    let path = node.arg(0)?;
    let is_file = path != "off" && !path.starts_with("syslog:") && !path.contains('$') && !path.starts_with("memory:");
    let format = node.arg(1).filter(|word| !word.contains('=')).unwrap_or("combined");
    is_file.then(|| (join(prefix, path), format.to_owned()))
}

impl Sites {
    /// The servers of a configuration, whose relative paths are below `prefix`.
    pub fn of(tree: &Tree, addresses: &TrialAddresses, prefix: &str) -> Sites {
        let mut sites = Sites::default();
        for (name, escape, text) in [("combined", Escape::Default, COMBINED), ("json", Escape::Json, JSON)] {
            sites.formats.insert(name.to_owned(), LineFormat::new(escape, text));
        }
        for http in tree.nodes.iter().filter(|node| node.name.text == "http") {
            let own: Vec<&Node> = http.children().iter().filter(|node| node.name.text == "access_log").collect();
            let inherited = match own[..] {
                [] => vec![(HTTP_LOG_PATH.to_owned(), "combined".to_owned())],
                _ => own.iter().filter_map(|node| log(node, prefix)).collect(),
            };
            for node in http.children() {
                match node.name.text.as_str() {
                    "log_format" => sites.format(node),
                    "server" => sites.server(node, &inherited, addresses, prefix),
                    _ => {}
                }
            }
        }
        sites
    }

    fn format(&mut self, node: &Node) {
        let words: Vec<&str> = node.args.iter().map(|word| word.text.as_str()).collect();
        let [name, strings @ ..] = &words[..] else { return };
        let escape = strings.first().and_then(|word| word.strip_prefix("escape=")).and_then(Escape::from_word);
        let strings = if escape.is_some() { &strings[1..] } else { strings };
        let format = LineFormat::new(escape.unwrap_or_default(), &strings.concat());
        self.formats.insert((*name).to_owned(), format);
    }

    fn server(&mut self, node: &Node, inherited: &[(String, String)], addresses: &TrialAddresses, prefix: &str) {
        let children = |name: &'static str| node.children().iter().filter(move |child| child.name.text == name);
        let names = children("server_name").flat_map(|names| &names.args);
        let mut server =
            SiteServer { names: names.map(|word| word.text.to_ascii_lowercase()).collect(), ..SiteServer::default() };
        let mut logs = Vec::new();
        Node::each(node.children(), &mut |inner| {
            if inner.name.text == "access_log" {
                logs.extend(log(inner, prefix));
            }
        });
        if children("access_log").next().is_none() {
            logs.extend_from_slice(inherited);
        }
        logs.sort_unstable();
        logs.dedup();
        server.logs = logs;
        let mut any = false;
        for listen in children("listen") {
            any = true;
            let has = |parameter: &str| listen.args.iter().skip(1).any(|word| word.text == parameter);
            let text = listen.arg(0).unwrap_or_default();
            // What cannot be read was refused before.
            for address in ListenAddress::of(text, Some(DEFAULT_PORT)).unwrap_or_default() {
                let left_out = match &address {
                    ListenAddress::Unix(_) => Some("it is a Unix socket"),
                    ListenAddress::Ip(_) if has("quic") => Some("requests are not sent over HTTP/3"),
                    ListenAddress::Ip(_) if has("proxy_protocol") => Some("it expects the PROXY protocol"),
                    ListenAddress::Ip(_) => None,
                };
                match (left_out, address) {
                    (None, ListenAddress::Ip(address)) => {
                        self.listener(&mut server, (text, address), has("ssl"), addresses);
                    }
                    (reason, _) => self.leave_out(text, reason.unwrap_or_default()),
                }
            }
        }
        if !any {
            let address = SocketAddr::from(([0, 0, 0, 0], DEFAULT_PORT));
            self.listener(&mut server, ("80", address), false, addresses);
        }
        self.servers.push(server);
    }

    fn leave_out(&mut self, text: &str, reason: &'static str) {
        if !self.left_out.iter().any(|known| known == &(text.to_owned(), reason)) {
            self.left_out.push((text.to_owned(), reason));
        }
    }

    /// Adds an address, which a `listen` names with this text, to a server.
    fn listener(
        &mut self,
        server: &mut SiteServer,
        (text, written): (&str, SocketAddr),
        is_tls: bool,
        addresses: &TrialAddresses,
    ) {
        let Some(freerun) = addresses.get(written) else { return };
        let Some(reached) = addresses.reached(written) else {
            return self.leave_out(text, "other servers listen at the loopback addresses of its port");
        };
        let known = self.listeners.iter().position(|listener| listener.written == written);
        let place = known.unwrap_or_else(|| {
            self.listeners.push(SiteListener { written, reached, nginx: reached, freerun, is_tls });
            self.listeners.len() - 1
        });
        // One `listen` with `ssl` is enough for all servers of the address.
        self.listeners[place].is_tls |= is_tls;
        if !server.listeners.contains(&place) {
            server.listeners.push(place);
        }
    }

    /// Has requests with TLS, or those without, go to nginx at another IP address; to this port, or each to its own one. With their
    /// own ports, several listeners may be meant by one address: then those are left out that nginx would not choose there.
    pub fn ask_at(&mut self, ip: IpAddr, port: Option<u16>, is_tls: bool) {
        let rank = |written: SocketAddr| match written.ip() {
            own if own == ip => 0,
            own if own.is_unspecified() => 1 + u8::from(own.is_ipv6() != ip.is_ipv6()),
            _ => 3,
        };
        let mut best: HashMap<u16, u8> = HashMap::new();
        for listener in &self.listeners {
            let least = best.entry(listener.written.port()).or_insert(u8::MAX);
            *least = rank(listener.written).min(*least);
        }
        for place in 0..self.listeners.len() {
            let listener = &mut self.listeners[place];
            let written = listener.written;
            if listener.is_tls != is_tls {
                continue;
            }
            listener.nginx = SocketAddr::new(ip, port.unwrap_or(written.port()));
            if port.is_none() && best.get(&written.port()).is_some_and(|best| rank(written) > *best) {
                self.servers.iter_mut().for_each(|server| server.listeners.retain(|other| *other != place));
                self.leave_out(&written.to_string(), "--against leads to other servers of its port");
            }
        }
    }

    /// The listeners of a server, without addresses of IPv6 where IPv4 has the same port.
    pub fn different_listeners(&self, server: &SiteServer) -> Vec<usize> {
        let address = |place: usize| self.listeners[place].written;
        let is_double = |place: usize| {
            let is_same = |other: usize| !address(other).is_ipv6() && address(other).port() == address(place).port();
            address(place).is_ipv6() && server.listeners.iter().any(|other| is_same(*other))
        };
        server.listeners.iter().copied().filter(|place| !is_double(*place)).collect()
    }

    /// The logs that the servers write, each with the name of its format.
    pub fn logs(&self) -> Vec<(String, String)> {
        let mut logs: Vec<_> = self.servers.iter().flat_map(|server| server.logs.iter().cloned()).collect();
        logs.sort_unstable();
        logs.dedup();
        logs
    }
}

impl SiteServer {
    /// A host with which a client reaches this server and no other one, if it has a name for that.
    pub fn host(&self) -> Option<String> {
        let is_plain = |name: &&String| {
            !name.is_empty() && *name != "_" && !name.starts_with(['~', '$']) && !name.contains(['*', '"'])
        };
        if let Some(name) = self.names.iter().find(|name| is_plain(name) && !name.starts_with('.')) {
            return Some(name.clone());
        }
        self.names.iter().find_map(|name| match name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
            Some(domain) => Some(format!("www.{domain}")),
            None => name.strip_suffix(".*").filter(|host| !host.starts_with('~')).map(|host| format!("{host}.example")),
        })
    }
}

#[cfg(test)]
mod tests {
    use freerun_conf::OneText;

    use super::*;
    use crate::commands::migrate::trial::texts::change;
    use crate::source::loader::RecordedTexts;

    fn sites(text: &str) -> Sites {
        let tree = freerun_conf::parse("x", None, "", &mut OneText(text));
        let mut addresses = TrialAddresses::default();
        change(&tree, &RecordedTexts::default(), ("/t", "/p/"), &mut addresses).expect("free ports");
        Sites::of(&tree, &addresses, "/p/")
    }

    #[test]
    fn servers_have_their_listeners_names_and_logs() {
        let sites = sites(
            "http { log_format mine escape=json '$host ' '$request'; access_log /a mine;\n\
             server { listen 80; listen [::]:80; listen 443 ssl; listen 443 quic; server_name A.example www.a.example; }\n\
             server { listen 80; server_name *.b.example; access_log off; location / { access_log b; } }\n\
             server { server_name ~^c; access_log /c buffer=4k; access_log syslog:server=x; listen unix:/s; listen 81 proxy_protocol; } }",
        );
        let listeners: Vec<_> =
            sites.listeners.iter().map(|listener| (listener.nginx.to_string(), listener.is_tls)).collect();
        let expected = [("127.0.0.1:80", false), ("[::1]:80", false), ("127.0.0.1:443", true)];
        assert_eq!(listeners, expected.map(|(address, tls)| (address.to_owned(), tls)));
        assert_eq!(sites.different_listeners(&sites.servers[0]), [0, 2]);
        let hosts: Vec<_> = sites.servers.iter().map(|server| server.host().unwrap_or_default()).collect();
        assert_eq!(hosts, ["a.example", "www.b.example", ""]);
        let log = |path: &str, format: &str| (path.to_owned(), format.to_owned());
        assert_eq!(sites.servers[1].logs, [log("/p/b", "combined")]);
        assert_eq!(sites.logs(), [log("/a", "mine"), log("/c", "combined"), log("/p/b", "combined")]);
        assert_eq!(sites.formats["mine"].names().collect::<Vec<_>>(), ["host", "request"]);
        assert_eq!(sites.left_out.len(), 3);
    }

    #[test]
    fn without_lines_there_are_the_defaults() {
        let sites = sites("http { server { } }");
        assert_eq!(sites.listeners[0].nginx.to_string(), "127.0.0.1:80");
        assert_eq!(sites.logs(), [(HTTP_LOG_PATH.to_owned(), "combined".to_owned())]);
    }

    #[test]
    fn servers_of_a_wildcard_and_of_a_loopback_address_are_not_mixed_up() {
        let sites = sites(
            "http { server { listen 80; server_name a; } server { listen 127.0.0.1:80; server_name b; }\n\
             server { listen [::]:80; server_name c; } server { listen [::1]:80; server_name d; } }",
        );
        let nginx: Vec<_> = sites.listeners.iter().map(|listener| listener.nginx.to_string()).collect();
        assert_eq!(nginx, ["127.0.0.2:80", "127.0.0.1:80", "[::1]:80"]);
        let of: Vec<_> = sites.servers.iter().map(|server| server.listeners.as_slice()).collect();
        assert_eq!(of, [&[0][..], &[1], &[], &[2]]);
        let freerun: std::collections::BTreeSet<_> = sites.listeners.iter().map(|listener| listener.freerun).collect();
        assert_eq!(freerun.len(), 3);
        assert_eq!(
            sites.left_out,
            [("[::]:80".to_owned(), "other servers listen at the loopback addresses of its port")]
        );
    }

    #[test]
    fn another_address_of_nginx_leads_to_one_server_of_each_port() {
        let text = "http { server { listen 80; listen 127.0.0.1:80; listen 81; listen 10.1.1.1:82; listen 443 ssl; } }";
        let of = |ip: &str, port: Option<u16>| {
            let mut sites = sites(text);
            sites.ask_at(ip.parse().expect("an address"), port, false);
            let asked = |place: &usize| sites.listeners[*place].nginx.to_string();
            sites.servers[0].listeners.iter().map(asked).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("10.1.1.2", None), "10.1.1.2:80 10.1.1.2:81 10.1.1.2:82 127.0.0.1:443");
        assert_eq!(of("127.0.0.1", None), "127.0.0.1:80 127.0.0.1:81 127.0.0.1:82 127.0.0.1:443");
        assert_eq!(of("10.1.1.2", Some(8)), "10.1.1.2:8 10.1.1.2:8 10.1.1.2:8 10.1.1.2:8 127.0.0.1:443");
        let mut sites = sites(text);
        sites.ask_at("10.1.1.2".parse().expect("an address"), None, false);
        assert_eq!(sites.left_out, [("127.0.0.1:80".to_owned(), "--against leads to other servers of its port")]);
    }
}
