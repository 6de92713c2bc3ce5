//! The servers and locations as the configuration has them, for people who look for the place that answers a path.
//!
//! The list has directives of a fixed set, and nothing in it is secret: passwords in URLs, arguments of URLs, conditions and
//! texts of responses are left out.

use freerun_conf::{Node, Sources};

use crate::module::Module;

/// The most entries of the list.
const MAX_ENTRIES: usize = 20_000;

/// The most directives of an entry.
const MAX_DIRECTIVES: usize = 24;

/// The longest text of a directive, in characters.
const MAX_TEXT: usize = 200;

/// Directives of no module that say what makes the content of a location.
const CONTENT: &[&str] = &["return", "try_files", "root", "alias"];

/// Modules whose content is made of the files of the location's `root`.
const OF_FILES: &[&str] = &["mp4", "flv"];

/// The directives of these modules that make the content of a location of something else than files of its `root`.
pub fn content_directives<'m>(modules: &'m [&'m Module]) -> impl Iterator<Item = &'static str> + 'm {
    let others = modules.iter().filter(|module| !OF_FILES.contains(&module.name));
    others.flat_map(|module| module.content.iter().copied())
}

/// Further directives that are shown with their values.
const SHOWN: &[&str] = &[
    "rewrite",
    "index",
    "autoindex",
    "fancyindex",
    "random_index",
    "mp4",
    "flv",
    "slice",
    "dav_methods",
    "mirror",
    "proxy_cache",
    "fastcgi_cache",
    "uwsgi_cache",
    "scgi_cache",
    "limit_req",
    "limit_conn",
    "limit_except",
    "limit_rate",
    "allow",
    "deny",
    "satisfy",
    "auth_request",
    "internal",
    "expires",
    "client_max_body_size",
    "aio",
    "status_zone",
];

/// Directives whose names alone are shown.
const NAMED: &[&str] = &["auth_basic", "auth_jwt", "secure_link", "if", "sub_filter", "ssi", "mirror", "echo"];

/// The servers and locations of a configuration. It is a part of its generation, if a location shows the state.
#[derive(Debug, Default)]
pub struct RouteList {
    /// The entries, in the order of the configuration.
    pub entries: Vec<RouteEntry>,
    /// The number of entries for which there was no room.
    pub left_out: usize,
}

/// Whether a location of the configuration that is being read shows the list. It lives in the configuration's context.
#[derive(Debug, Clone, Copy, Default)]
pub struct WantsRouteList(pub bool);

/// A server or a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteEntry {
    /// The names of the server, or nothing.
    pub server: String,
    /// The addresses of the server, or nothing: its default.
    pub listens: String,
    /// `server`, `exact`, `prefix`, `final` (`^~`), `regex`, `variable` or `named`.
    pub kind: &'static str,
    /// The location as it is written, without its modifier.
    pub path: String,
    /// The file and the line.
    pub place: String,
    /// The directives, with what is no secret of their values.
    pub directives: Vec<String>,
}

impl RouteList {
    /// The list for the blocks inside `http`. `content` are the directives of modules that make a location's content.
    pub fn of(blocks: &[Node], sources: &Sources, content: &[&str]) -> RouteList {
        let mut list = RouteList::default();
        let root = root_of(blocks);
        for server in blocks.iter().filter(|node| node.name.text == "server") {
            let words = |name: &str, most: usize| -> String {
                let nodes = server.children().iter().filter(|node| node.name.text == name);
                let words = nodes.flat_map(|node| node.args.iter().take(most)).map(|word| word.text.as_str());
                limited(&words.collect::<Vec<_>>().join(" "))
            };
            let context = ServerContext {
                sources,
                content,
                server: &words("server_name", usize::MAX),
                listens: &words("listen", 1),
            };
            context.add(server, "server", String::new(), root, &mut list);
            let root = root_of(server.children()).or(root);
            context.add_locations(server, root, &mut list);
        }
        list
    }
}

/// The server whose locations are added.
struct ServerContext<'a> {
    sources: &'a Sources,
    content: &'a [&'a str],
    server: &'a str,
    listens: &'a str,
}

impl ServerContext<'_> {
    fn add_locations(&self, block: &Node, root: Option<&str>, list: &mut RouteList) {
        for location in block.children().iter().filter(|node| node.name.text == "location") {
            let words = [location.arg(0), location.arg(1)].map(Option::unwrap_or_default);
            let (kind, path) = match words {
                ["=", path] => ("exact", path),
                ["^~", path] => ("final", path),
                ["~" | "~*", path] => ("regex", path),
                [path, _] if path.starts_with('@') => ("named", path),
                [path, _] if path.starts_with('$') => ("variable", path),
                [path, _] if path.starts_with('~') => ("regex", path),
                [path, _] if path.starts_with('=') => ("exact", &path[1..]),
                [path, _] => ("prefix", path.strip_prefix("^~").unwrap_or(path)),
            };
            self.add(location, kind, limited(path), root, list);
            self.add_locations(location, root_of(location.children()).or(root), list);
        }
    }

    fn add(&self, block: &Node, kind: &'static str, path: String, root: Option<&str>, list: &mut RouteList) {
        if list.entries.len() == MAX_ENTRIES {
            list.left_out += 1;
            return;
        }
        let own = block.children();
        let mut directives: Vec<String> =
            own.iter().filter_map(|node| directive(node, self.content)).take(MAX_DIRECTIVES).collect();
        let makes_content = |name: &str| CONTENT.contains(&name) || self.content.contains(&name);
        let makes_content = own.iter().any(|node| makes_content(&node.name.text));
        if let Some(root) = root.filter(|_| !makes_content) {
            directives.push(limited(&format!("root {root}")));
        }
        let place = block.name.place;
        let file = self.sources.get(place.file).map_or("", |source| &source.path);
        list.entries.push(RouteEntry {
            server: self.server.to_owned(),
            listens: self.listens.to_owned(),
            kind,
            path,
            place: format!("{file}:{}", place.line),
            directives,
        });
    }
}

/// The `root` among these directives.
fn root_of(nodes: &[Node]) -> Option<&str> {
    nodes.iter().find(|node| node.name.text == "root").and_then(|node| node.arg(0))
}

/// The text of a directive, if it is shown.
fn directive(node: &Node, content: &[&str]) -> Option<String> {
    let name = node.name.text.as_str();
    let values: Vec<String> = match name {
        "return" => match (node.arg(0), node.arg(1)) {
            // A text of a response may be anything.
            (Some(code), Some(url)) if code.starts_with('3') => vec![code.to_owned(), without_secrets(url)],
            (Some(code), None) if code.parse::<u16>().is_err() => vec![without_secrets(code)],
            (Some(code), _) => vec![code.to_owned()],
            _ => Vec::new(),
        },
        _ if NAMED.contains(&name) => match node.arg(0) {
            Some("off") => vec!["off".to_owned()],
            _ => Vec::new(),
        },
        _ if CONTENT.contains(&name) || SHOWN.contains(&name) || content.contains(&name) => {
            node.args.iter().map(|word| without_secrets(&word.text)).collect()
        }
        _ => return None,
    };
    let mut text = name.to_owned();
    for value in values {
        text.push(' ');
        text += &value;
    }
    Some(limited(&text))
}

/// A word without what a URL may keep secret: the user with the password, and the arguments.
fn without_secrets(word: &str) -> String {
    let mut text = word.to_owned();
    if let Some(begin) = text.find("://").map(|at| at + 3) {
        let end = text[begin..].find(['/', '?', '#']).map_or(text.len(), |at| begin + at);
        if let Some(at) = text[begin..end].rfind('@') {
            text.replace_range(begin..begin + at, "…");
        }
    }
    // In a regular expression, a question mark is followed by no arguments that have a value.
    if let Some(at) = text.find('?').filter(|at| text[*at..].contains('=')) {
        text.truncate(at + 1);
        text.push('…');
    }
    text
}

/// The beginning of a text.
fn limited(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_urls_keep_secret_is_left_out() {
        for (word, shown) in [
            ("http://app", "http://app"),
            ("http://user:password@app/x@y", "http://…@app/x@y"),
            ("https://a:b@c:d@app", "https://…@app"),
            ("/x?key=secret", "/x?…"),
            ("https://h/$1?token=secret&a=b", "https://h/$1?…"),
            ("^/(a|b)?/x$", "^/(a|b)?/x$"),
            ("unix:/run/app.sock:/x", "unix:/run/app.sock:/x"),
        ] {
            assert_eq!(without_secrets(word), shown);
        }
        assert_eq!(limited(&"ä".repeat(300)).chars().count(), MAX_TEXT + 1);
    }
}
