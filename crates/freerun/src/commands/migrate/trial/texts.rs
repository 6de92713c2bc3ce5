//! The texts of a configuration, changed so that a server with them touches nothing of the running server. It listens at other
//! addresses, and writes to a folder of its own. Lines keep their numbers, so that messages name the places of the user's files.

use std::collections::{BTreeMap, HashMap};

use freerun_conf::{Node, Place, Tree, bytes_of, path_of};

use super::addresses::{ListenAddress, TrialAddresses};
use crate::paths::join;
use crate::quoting::conf_word;
use crate::source::loader::RecordedTexts;

/// The port of a server without `listen`, and of a `listen` without a port.
pub const DEFAULT_PORT: u16 = 80;

/// Folders for temporary files, which have compiled-in places if the configuration names none.
const TEMPORARY: [&str; 5] =
    ["client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path"];

/// An address that nobody answers at, instead of the address of a CA, a collector or an engine of a cluster.
const NOBODY: &str = "127.0.0.1:1";

/// Directives of the main level that the trial has itself, with their values.
const OWN: [(&str, &str); 3] = [("daemon", "off"), ("master_process", "on"), ("pid", "")];

/// The texts for the trial.
#[derive(Debug)]
pub struct TrialTexts {
    /// The record of the files, with changed contents.
    pub recorded: RecordedTexts,
    /// The directives of `-g`, with those that the trial adds.
    pub globals: String,
    /// Sentences about what is in the trial as it will not be.
    pub notes: Vec<String>,
}

/// Changes the texts that a tree was made of.
///
/// # Errors
/// A `listen` has no address, there is no free port, or a state file cannot be copied.
pub fn change(
    tree: &Tree,
    recorded: &RecordedTexts,
    (folder, prefix): (&str, &str),
    addresses: &mut TrialAddresses,
) -> Result<TrialTexts, String> {
    let mut changes = Changes {
        tree,
        folder,
        prefix,
        addresses,
        edits: HashMap::new(),
        lines: HashMap::new(),
        places: HashMap::new(),
        notes: Vec::new(),
    };
    changes.expect_datagrams();
    changes.level(&tree.nodes, "")?;
    let mut globals = String::new();
    for (name, value) in OWN {
        if !tree.nodes.iter().any(|node| node.name.text == name) {
            globals += &format!("{name} {}; ", changes.own(name, value));
        }
    }
    let mut changed = recorded.clone();
    for (number, source) in tree.sources.iter().enumerate() {
        let text = changes.apply(number as u32, &source.text);
        if source.command_line {
            globals = format!("{} {globals}", freerun_conf::text_of(&text));
        } else {
            changed.files.insert(source.path.clone(), text);
        }
    }
    Ok(TrialTexts { recorded: changed, globals, notes: changes.notes })
}

/// Changes of texts that are being gathered.
struct Changes<'t> {
    tree: &'t Tree,
    /// The folder of the trial.
    folder: &'t str,
    /// The folder that relative paths start from.
    prefix: &'t str,
    addresses: &'t mut TrialAddresses,
    /// The new texts of parts of a source, by their beginnings and ends. What is inserted in front of a part that is replaced
    /// begins there as well, and ends before it. A source that is included twice is changed once.
    edits: HashMap<u32, BTreeMap<(usize, usize), String>>,
    /// The beginnings of the lines of a source.
    lines: HashMap<u32, Vec<usize>>,
    /// The places that stand for others, by the kind and the text of these.
    places: HashMap<(String, String), String>,
    notes: Vec<String>,
}

impl Changes<'_> {
    /// Finds the addresses with datagrams: a `listen` for streams may stand in front of the `listen` for these.
    fn expect_datagrams(&mut self) {
        Node::each(&self.tree.nodes, &mut |node| {
            let has = |word: &str| node.args.iter().skip(1).any(|arg| arg.text == word);
            if node.name.text == "listen" && (has("udp") || has("quic")) {
                // A wrong address is an error when it is replaced.
                let addresses = ListenAddress::of(node.arg(0).unwrap_or_default(), Some(DEFAULT_PORT));
                addresses.unwrap_or_default().into_iter().for_each(|address| self.addresses.expect_datagrams(address));
            }
        });
    }

    /// Changes the directives of a level, which is inside of the block `around`.
    fn level(&mut self, nodes: &[Node], around: &str) -> Result<(), String> {
        for node in nodes {
            let name = node.name.text.as_str();
            self.directive(node, around)?;
            match name {
                "http" => self.http(node),
                "server" if around == "http" && !node.children().iter().any(|child| child.name.text == "listen") => {
                    let address = ListenAddress::of("*", Some(DEFAULT_PORT))?;
                    let listen = self.listen(&address, &[])?;
                    self.insert(node.end, &format!(" {listen};"));
                }
                _ => {}
            }
            // The context of a directive is what is around its server, too: `http` or `stream`.
            let inner =
                if name == "server" && !around.is_empty() { format!("{around}.server") } else { name.to_owned() };
            self.level(node.children(), &inner)?;
        }
        Ok(())
    }

    fn directive(&mut self, node: &Node, around: &str) -> Result<(), String> {
        let name = node.name.text.as_str();
        let first = node.arg(0).unwrap_or_default();
        let of_proxy = |end: &str| name.ends_with(end) && node.block.is_none();
        match name {
            "listen" if around.ends_with("server") => {
                let default = (around == "http.server").then_some(DEFAULT_PORT);
                let addresses = ListenAddress::of(first, default)?;
                let left_out = |word: &str| word == "bind" || word.starts_with("ipv6only=");
                let words = node.args.iter().skip(1).map(|word| word.text.as_str());
                let words: Vec<&str> = words.filter(|word| !left_out(word)).collect();
                let text = self.listen(&addresses, &words)?;
                self.replace(node, &text);
            }
            "access_log" if first != "off" => self.first(node, "log"),
            "error_log" => self.first(node, "log"),
            "daemon" | "master_process" | "pid" if around.is_empty() => {
                let value = OWN.iter().find(|(own, _)| *own == name).map_or("", |(_, value)| value);
                let text = format!("{name} {}", self.own(name, value));
                self.replace(node, &text);
            }
            "lock_file" => self.first(node, "lock"),
            "state_path" if first != "off" => self.first(node, "acme"),
            "uri" if around == "acme_issuer" => {
                self.note("certificates of a CA are not ordered: their servers have none in the trial");
                self.replace(node, &format!("uri https://{NOBODY}/"));
            }
            "endpoint" if around == "otel_exporter" => {
                self.note("no telemetry is exported");
                self.replace(node, &format!("endpoint {NOBODY}"));
            }
            "zone_sync_engine" if around.is_empty() => {
                self.note("nothing is shared with other machines: the trial is no part of the cluster");
                self.replace(node, &format!("zone_sync_engine redis://{NOBODY}"));
            }
            "state" if around == "upstream" => self.copied(node, 0, "")?,
            "keyval_zone" => {
                if let Some(place) = node.args.iter().position(|word| word.text.starts_with("state=")) {
                    self.copied(node, place, "state=")?;
                }
            }
            _ if of_proxy("_temp_path") => self.first(node, "temporary"),
            _ if of_proxy("_cache_path") => self.first(node, "cache"),
            _ if of_proxy("ssl_key_log") => self.first(node, "keys"),
            "proxy_store" | "fastcgi_store" | "uwsgi_store" | "scgi_store" if first != "off" => {
                self.note("what would be stored (proxy_store and its kin) is not stored");
                self.replace(node, &format!("{name} off"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds what `http` would have compiled-in places for.
    fn http(&mut self, http: &Node) {
        let has = |name: &str| http.children().iter().any(|child| child.name.text == name);
        let mut text = String::new();
        for name in TEMPORARY.into_iter().filter(|name| !has(name)) {
            text += &format!(" {name} {};", conf_word(&self.place("temporary", name)));
        }
        if !has("access_log") {
            text += &format!(" access_log {};", conf_word(&self.place("log", "")));
        }
        self.insert(http.end, &text);
    }

    /// The value of a directive that the trial has itself.
    fn own(&self, name: &str, value: &str) -> String {
        if name == "pid" { conf_word(&format!("{}/pid", self.folder)) } else { value.to_owned() }
    }

    /// A `listen` for each of these addresses, with these parameters; without the `;` of the last one.
    fn listen(&mut self, addresses: &[ListenAddress], parameters: &[&str]) -> Result<String, String> {
        let mut all = Vec::new();
        for address in addresses {
            let mapped = match self.addresses.map(address, self.folder)? {
                ListenAddress::Ip(mapped) => mapped.to_string(),
                ListenAddress::Unix(path) => conf_word(&format!("unix:{path}")),
            };
            let words = parameters.iter().map(|word| conf_word(word));
            all.push(["listen".to_owned(), mapped].into_iter().chain(words).collect::<Vec<_>>().join(" "));
        }
        Ok(all.join("; "))
    }

    /// The place in the folder of the trial that stands for another one.
    fn place(&mut self, kind: &str, text: &str) -> String {
        let number = self.places.len();
        let new = || format!("{}/{kind}-{number}", self.folder);
        self.places.entry((kind.to_owned(), text.to_owned())).or_insert_with(new).clone()
    }

    /// Replaces the first parameter, which is a path or a target of a log.
    fn first(&mut self, node: &Node, kind: &str) {
        let place = self.place(kind, node.arg(0).unwrap_or_default());
        self.parameter(node, 0, &place);
    }

    fn parameter(&mut self, node: &Node, place: usize, value: &str) {
        let words = node.args.iter().enumerate();
        let words = words.map(|(number, word)| conf_word(if number == place { value } else { &word.text }));
        let text = std::iter::once(node.name.text.clone()).chain(words).collect::<Vec<_>>().join(" ");
        self.replace(node, &text);
    }

    /// Has a state file replaced by a copy. The parameter is the path of the file behind `key`.
    ///
    /// # Errors
    /// It cannot be copied.
    fn copied(&mut self, node: &Node, place: usize, key: &str) -> Result<(), String> {
        let path = node.arg(place).and_then(|text| text.strip_prefix(key)).unwrap_or_default();
        let from = join(self.prefix, path);
        let to = self.place("state", &from);
        match std::fs::copy(path_of(&from), path_of(&to)) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("\"{from}\" cannot be copied: {error}")),
        }
        self.parameter(node, place, &format!("{key}{to}"));
        Ok(())
    }

    fn note(&mut self, text: &str) {
        if !self.notes.iter().any(|known| known == text) {
            self.notes.push(text.to_owned());
        }
    }

    /// The offset of a place in its text.
    fn offset(&mut self, place: Place) -> Option<usize> {
        let text = &self.tree.sources.get(place.file)?.text;
        let lines = self.lines.entry(place.file).or_insert_with(|| {
            let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            std::iter::once(0).chain(ends.map(|(end, _)| end + 1)).collect()
        });
        let line = lines.get(place.line.checked_sub(1)? as usize)?;
        Some(line + place.column.checked_sub(1)? as usize)
    }

    /// Replaces a directive, from its name to the sign that ends it.
    fn replace(&mut self, node: &Node, text: &str) {
        let (Some(begin), Some(end)) = (self.offset(node.name.place), self.offset(node.end)) else { return };
        self.edits.entry(node.name.place.file).or_default().insert((begin, end), text.to_owned());
    }

    /// Inserts a text behind the `{` at this place.
    fn insert(&mut self, place: Place, text: &str) {
        let Some(brace) = self.offset(place) else { return };
        self.edits.entry(place.file).or_default().insert((brace + 1, brace + 1), text.to_owned());
    }

    /// The text of a source with its changes. A change has as many lines as what it replaces.
    fn apply(&self, file: u32, text: &[u8]) -> Vec<u8> {
        let Some(edits) = self.edits.get(&file) else { return text.to_vec() };
        let (mut changed, mut at) = (Vec::with_capacity(text.len()), 0);
        for ((begin, end), new) in edits {
            // A directive has no other one in it that is replaced.
            let (Some(before), Some(old)) = (text.get(at..*begin), text.get(*begin..*end)) else { continue };
            changed.extend_from_slice(before);
            changed.extend_from_slice(&bytes_of(new));
            changed.extend(old.iter().filter(|byte| **byte == b'\n'));
            at = *end;
        }
        changed.extend_from_slice(text.get(at..).unwrap_or_default());
        changed
    }
}

#[cfg(test)]
mod tests {
    use freerun_conf::OneText;

    use super::*;

    /// The text for the trial, with its addresses as `[1]`, `[2]`, and the globals.
    fn changed(text: &str, globals: Option<&str>) -> (String, String) {
        let tree = freerun_conf::parse("x", globals, "", &mut OneText(text));
        assert!(tree.error.is_none(), "{:?}", tree.error);
        let mut addresses = TrialAddresses::default();
        let texts = change(&tree, &RecordedTexts::default(), ("/t", "/none/"), &mut addresses).expect("free ports");
        let mut text = String::from_utf8(texts.recorded.files["x"].clone()).expect("text");
        for (from, to) in addresses.iter() {
            if let (ListenAddress::Ip(from), ListenAddress::Ip(to)) = (from, to) {
                text = text.replace(&to.to_string(), &format!("<{from}>"));
            }
        }
        (text, texts.globals)
    }

    #[test]
    fn a_server_listens_and_writes_elsewhere() {
        let text = "pid /run/nginx.pid;\nhttp {\n access_log\n  '/var/log/a b' main\n buffer=4k; # log\n \
                    client_body_temp_path /b 1 2;\n proxy_cache_path \"/c\" keys_zone=a:1m;\n server { listen 80 default_server; \
                    listen [::]:443 ssl ipv6only=on;\n listen unix:/run/s; access_log off; error_log syslog:server=a warn; }\n \
                    server { location / { proxy_store on; proxy_temp_path t; } }\n upstream a { server b; state /none/s; }\n}\n\
                    stream { server { listen 8000-8001 udp; access_log /var/log/a; } }\n";
        let (text, globals) = changed(text, Some("daemon on;"));
        let expected = "pid /t/pid;\nhttp { proxy_temp_path /t/temporary-0; fastcgi_temp_path /t/temporary-1; \
                        uwsgi_temp_path /t/temporary-2; scgi_temp_path /t/temporary-3;\n access_log /t/log-4 main buffer=4k\n\n; # log\n \
                        client_body_temp_path /t/temporary-5 1 2;\n proxy_cache_path /t/cache-6 keys_zone=a:1m;\n server { listen \
                        <0.0.0.0:80> default_server; listen <[::]:443> ssl;\n listen unix:/t/2.sock; access_log off; error_log \
                        /t/log-7 warn; }\n server { listen <0.0.0.0:80>; location / { proxy_store off; proxy_temp_path \
                        /t/temporary-8; } }\n upstream a { server b; state /t/state-9; }\n}\n\
                        stream { server { listen <0.0.0.0:8000> udp; listen <0.0.0.0:8001> udp; access_log /t/log-10; } }\n";
        assert_eq!(text, expected);
        assert_eq!(globals, "daemon off; master_process on; ");
    }

    #[test]
    fn what_is_named_twice_has_one_place() {
        let (text, globals) =
            changed("http {\n access_log /a; server { access_log /a; access_log '/b c$host'; }\n}\n", None);
        let text = text.lines().nth(1).expect("a line");
        assert_eq!(text.matches("/t/log-5").count(), 2, "{text}");
        assert_eq!(text.matches("/t/log-").count(), 3, "{text}");
        assert_eq!(globals, "daemon off; master_process on; pid /t/pid; ");
    }

    #[test]
    fn nobody_else_is_asked_for_certificates_or_told_of_requests() {
        let text = "zone_sync_engine unix:/run/redis user=a;\nhttp {\n acme_issuer a { uri https://ca.example/dir; state_path /s; }\n otel_exporter { endpoint a:4317; }\n}\n";
        let (text, _) = changed(text, None);
        assert!(text.contains("zone_sync_engine redis://127.0.0.1:1;"), "{text}");
        assert!(text.contains("acme_issuer a { uri https://127.0.0.1:1/; state_path /t/acme-6; }"), "{text}");
        assert!(text.contains("otel_exporter { endpoint 127.0.0.1:1; }"), "{text}");
    }

    #[test]
    fn a_configuration_on_one_line_is_changed_in_all_its_places() {
        let text = "http{access_log /a;server{error_log /e;return 200;}server{listen 81;proxy_store on;}server{server_name a;}}";
        let (text, _) = changed(text, None);
        let expected = "http{ client_body_temp_path /t/temporary-0; proxy_temp_path /t/temporary-1; \
                        fastcgi_temp_path /t/temporary-2; uwsgi_temp_path /t/temporary-3; scgi_temp_path /t/temporary-4;\
                        access_log /t/log-5;server{ listen <0.0.0.0:80>;error_log /t/log-6;return 200;}\
                        server{listen <0.0.0.0:81>;proxy_store off;}server{ listen <0.0.0.0:80>;server_name a;}}";
        assert_eq!(text, expected);
    }

    #[test]
    fn datagrams_and_streams_of_one_address_have_one_port() {
        let text = "http { server { listen 443 ssl; listen 443 quic; } }\nstream { server { listen 53; } server { listen 53 udp; } }\n";
        let (text, _) = changed(text, None);
        assert!(text.contains("listen <0.0.0.0:443> ssl; listen <0.0.0.0:443> quic;"), "{text}");
        assert!(text.contains("listen <0.0.0.0:53>; } server { listen <0.0.0.0:53> udp;"), "{text}");
    }
}
