//! `server_name` and the choice of a server: exact names, then wildcards at the front (longest first), then wildcards
//! at the end (longest first), then regular expressions in the order of the configuration.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use freerun_conf::{Cx, Node, Problem, Setting, Shape};

use crate::regex::{Captures, GaveUp, Pattern};
use crate::request::location::Server;
use crate::variables::VariableTable;

/// One name of a server.
#[derive(Debug, Clone)]
pub enum Name {
    /// `example.com`; also the empty name, for requests without `Host`.
    Exact(String),
    /// `*.example.com`, kept as `.example.com`; with the flag, `example.com` itself too (`.example.com`).
    Front(String, bool),
    /// `www.example.*`, kept as `www.example.`.
    Back(String),
    /// `~^www\d+\.example\.com$`
    Regex(Arc<Pattern>),
}

/// The names of one server.
#[derive(Debug, Clone, Default)]
pub struct ServerNames {
    /// In the order written.
    pub names: Arc<Vec<Name>>,
    /// The first one as written, for `$server_name` and redirects.
    pub first: Arc<str>,
}

impl Setting for ServerNames {
    const SHAPE: Shape = Shape::at_least(1, "name …");

    fn set(previous: Option<ServerNames>, directive: &Node, cx: &mut Cx) -> Result<ServerNames, Problem> {
        let first = previous.as_ref().map(|names| names.first.clone());
        let mut names = previous.map(|names| names.names.to_vec()).unwrap_or_default();
        for word in &directive.args {
            let text = word.text.as_str();
            let invalid = |what: &str| Problem::new(format!("{what} \"{text}\"")).at(word.place);
            if let Some(pattern) = text.strip_prefix('~') {
                if pattern.is_empty() {
                    return Err(invalid("empty regex in server name"));
                }
                // nginx matches names without regard to case, because it lower-cases the host.
                let pattern = Pattern::new(pattern, true, cx.extensions.get_or_default::<VariableTable>());
                let pattern = pattern.map_err(|why| Problem::new(why).at(word.place))?;
                names.push(Name::Regex(Arc::new(pattern)));
                continue;
            }
            let lower = text.to_lowercase();
            if matches!(lower.as_str(), "." | "*." | ".*") {
                return Err(Problem::new(format!("server name \"{text}\" is invalid")).at(word.place));
            }
            let stars = lower.matches('*').count();
            names.push(if let Some(rest) = lower.strip_prefix("*.") {
                if stars > 1 || rest.is_empty() {
                    return Err(invalid("invalid server name or wildcard"));
                }
                Name::Front(format!(".{rest}"), false)
            } else if lower.starts_with('.') && stars == 0 && lower.len() > 1 {
                Name::Front(lower, true)
            } else if let Some(rest) = lower.strip_suffix(".*") {
                if stars > 1 || rest.is_empty() {
                    return Err(invalid("invalid server name or wildcard"));
                }
                Name::Back(format!("{rest}."))
            } else if stars > 0 {
                return Err(invalid("invalid server name or wildcard"));
            } else {
                Name::Exact(lower)
            });
        }
        let first = first.unwrap_or_else(|| {
            let written = directive.args[0].text.as_str();
            // `.example.com` stands for its own domain here.
            written.strip_prefix('.').unwrap_or(written).to_lowercase().into()
        });
        Ok(ServerNames { names: Arc::new(names), first })
    }
}

/// The servers of one address by name.
#[derive(Debug, Default)]
pub struct NameTable {
    // As in `Locations`: only configured names are entered.
    exact: FxHashMap<Box<str>, Arc<Server>>,
    front: FxHashMap<Box<str>, Arc<Server>>,
    back: FxHashMap<Box<str>, Arc<Server>>,
    regex: Vec<(Arc<Pattern>, Arc<Server>)>,
}

impl NameTable {
    /// Adds a name. The first server to claim it keeps it; `false` says that it was taken.
    pub fn add(&mut self, name: &Name, server: &Arc<Server>) -> bool {
        fn claim(map: &mut FxHashMap<Box<str>, Arc<Server>>, name: &str, server: &Arc<Server>) -> bool {
            if map.contains_key(name) {
                return false;
            }
            map.insert(name.into(), server.clone());
            true
        }
        match name {
            Name::Exact(name) => claim(&mut self.exact, name, server),
            Name::Front(suffix, itself) => {
                // One that stands for the domain too is taken whole or not at all.
                if *itself && (self.exact.contains_key(&suffix[1..]) || self.front.contains_key(suffix.as_str())) {
                    return false;
                }
                claim(&mut self.front, suffix, server) && (!*itself || claim(&mut self.exact, &suffix[1..], server))
            }
            Name::Back(prefix) => claim(&mut self.back, prefix, server),
            Name::Regex(pattern) => {
                self.regex.push((pattern.clone(), server.clone()));
                true
            }
        }
    }

    /// Whether every request goes to the default server anyway.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.front.is_empty() && self.back.is_empty() && self.regex.is_empty()
    }

    /// The server for a host (lower case, without port; empty where there is none, which no expression matches);
    /// captures of an expression go to `captures`.
    ///
    /// # Errors
    /// The match of an expression was given up.
    pub fn find(&self, host: &str, captures: &Captures) -> Result<Option<&Arc<Server>>, GaveUp> {
        if let Some(server) = self.exact.get(host) {
            return Ok(Some(server));
        }
        if host.is_empty() {
            return Ok(None);
        }
        if !self.front.is_empty() {
            let dots = host.bytes().enumerate().filter(|(_, byte)| *byte == b'.');
            for (dot, _) in dots {
                if dot > 0
                    && let Some(server) = self.front.get(&host[dot..])
                {
                    return Ok(Some(server));
                }
            }
        }
        if !self.back.is_empty() {
            let dots: Vec<usize> =
                host.bytes().enumerate().filter(|(_, byte)| *byte == b'.').map(|(dot, _)| dot).collect();
            for dot in dots.into_iter().rev() {
                if dot + 1 < host.len()
                    && let Some(server) = self.back.get(&host[..=dot])
                {
                    return Ok(Some(server));
                }
            }
        }
        for (pattern, server) in &self.regex {
            if pattern.matches(host.as_bytes(), captures)? {
                return Ok(Some(server));
            }
        }
        Ok(None)
    }
}
