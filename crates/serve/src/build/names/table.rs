//! The choice of a server: exact names, then wildcards at the front (longest first), then wildcards
//! at the end (longest first), then regular expressions in the order of the configuration.

use std::sync::Arc;

use freerun_conf::{Cx, Place, Problem, Sources};
use rustc_hash::FxHashMap;

use crate::values::captures::Captures;
use crate::values::{GaveUp, Pattern};

/// A name of a server.
#[derive(Debug, Clone)]
pub enum ServerName {
    /// A whole name, as `example.com`; also the empty name, for requests without `Host`.
    Exact(String),
    /// A name with a wildcard at the front: `*.example.com`, kept as `.example.com`. With the flag, it matches
    /// `example.com` itself too (`.example.com`).
    Front(String, bool),
    /// A name with a wildcard at the end: `www.example.*`, kept as `www.example.`.
    Back(String),
    /// A regular expression, as `~^www\d+\.example\.com$`.
    Regex(Arc<Pattern>),
}

impl ServerName {
    /// Whether this is `host`, in lower case and without a port, or a wildcard for it. A regular expression is neither.
    pub fn is_text_of(&self, host: &str) -> bool {
        match self {
            ServerName::Exact(name) => !name.is_empty() && name == host,
            ServerName::Front(suffix, itself) => {
                host.len() > suffix.len() && host.ends_with(suffix.as_str()) || *itself && host == &suffix[1..]
            }
            ServerName::Back(prefix) => host.len() > prefix.len() && host.starts_with(prefix.as_str()),
            ServerName::Regex(_) => false,
        }
    }
}

/// Help with a name that the servers of both blocks have. nginx does not say which servers it warns of.
fn both(first: Option<Place>, second: Place, sources: &Sources) -> Option<String> {
    let (owner, other) = (sources.location(first?)?, sources.location(second)?);
    Some(if first == Some(second) {
        format!("the server in {owner} has it twice")
    } else {
        format!("the server in {owner} answers, and not the one in {other}")
    })
}

/// The servers of one address by name.
#[derive(Debug)]
pub struct NameTable<S> {
    // Only configured names are entered, so a fast hash is safe, as in `Locations`.
    exact: FxHashMap<Box<str>, Arc<S>>,
    front: FxHashMap<Box<str>, Arc<S>>,
    back: FxHashMap<Box<str>, Arc<S>>,
    regex: Vec<(Arc<Pattern>, Arc<S>)>,
}

impl<S> Default for NameTable<S> {
    fn default() -> NameTable<S> {
        let (exact, front, back, regex) = Default::default();
        NameTable { exact, front, back, regex }
    }
}

impl<S> NameTable<S> {
    /// The table of these servers, each with its names and the place of its block, at the address `on`. A name that another
    /// server has claimed before is warned of. The table is empty if the first server is asked whatever the name is.
    pub fn of<'s>(
        servers: impl Iterator<Item = (&'s [ServerName], &'s Arc<S>, Place)> + Clone,
        on: &str,
        cx: &mut Cx,
    ) -> NameTable<S>
    where
        S: 's,
    {
        let mut table = NameTable::default();
        // A lone server without a name that captures anything answers every request: it needs no table.
        let is_regex = |name: &ServerName| matches!(name, ServerName::Regex(_));
        if servers.clone().count() < 2 && !servers.clone().any(|(names, ..)| names.iter().any(is_regex)) {
            return table;
        }
        let empty = [ServerName::Exact(String::new())];
        // Of the servers, when there is something to be told of them.
        let mut places = None;
        for (names, server, place) in servers.clone() {
            for name in if names.is_empty() { &empty[..] } else { names } {
                if table.add(name, server) {
                    continue;
                }
                let text = match name {
                    ServerName::Exact(name) => name.clone(),
                    ServerName::Back(name) => format!("{name}*"),
                    ServerName::Front(name, true) => name.clone(),
                    ServerName::Front(name, false) => format!("*{name}"),
                    ServerName::Regex(_) => continue,
                };
                let places = places.get_or_insert_with(|| {
                    servers.clone().map(|(_, server, place)| (Arc::as_ptr(server), place)).collect::<FxHashMap<_, _>>()
                });
                let owner = table.owner(name).and_then(|owner| places.get(&Arc::as_ptr(owner)).copied());
                let problem = Problem::warning(format!("conflicting server name \"{text}\" on {on}, ignored"));
                cx.warn(problem.hint_if(both(owner, place, &cx.sources)));
            }
        }
        table
    }

    /// The server that keeps a name from being added.
    fn owner(&self, name: &ServerName) -> Option<&Arc<S>> {
        match name {
            ServerName::Exact(name) => self.exact.get(name.as_str()),
            ServerName::Front(suffix, itself) => {
                let whole = || self.exact.get(&suffix[1..]).filter(|_| *itself);
                self.front.get(suffix.as_str()).or_else(whole)
            }
            ServerName::Back(prefix) => self.back.get(prefix.as_str()),
            ServerName::Regex(_) => None,
        }
    }

    /// Adds a name. The first server to claim it keeps it; `false` if it was taken.
    pub fn add(&mut self, name: &ServerName, server: &Arc<S>) -> bool {
        fn claim<S>(map: &mut FxHashMap<Box<str>, Arc<S>>, name: &str, server: &Arc<S>) -> bool {
            if map.contains_key(name) {
                return false;
            }
            map.insert(name.into(), server.clone());
            true
        }
        match name {
            ServerName::Exact(name) => claim(&mut self.exact, name, server),
            ServerName::Front(suffix, itself) => {
                // A name that includes the domain itself is added as a whole or not at all.
                if *itself && (self.exact.contains_key(&suffix[1..]) || self.front.contains_key(suffix.as_str())) {
                    return false;
                }
                claim(&mut self.front, suffix, server) && (!*itself || claim(&mut self.exact, &suffix[1..], server))
            }
            ServerName::Back(prefix) => claim(&mut self.back, prefix, server),
            ServerName::Regex(pattern) => {
                self.regex.push((pattern.clone(), server.clone()));
                true
            }
        }
    }

    /// Whether every request goes to the default server anyway.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.front.is_empty() && self.back.is_empty() && self.regex.is_empty()
    }

    /// The server for a host. The host is in lower case and without a port; if it is empty because there is none, no
    /// regular expression matches it. The captures of a regular expression go to `captures`.
    ///
    /// # Errors
    /// The matching of a regular expression was given up.
    pub fn find(&self, host: &str, captures: &Captures) -> Result<Option<&Arc<S>>, GaveUp> {
        if let Some(server) = self.exact.get(host) {
            return Ok(Some(server));
        }
        if host.is_empty() {
            return Ok(None);
        }
        if !self.front.is_empty() {
            let dots = host.bytes().enumerate().filter(|(_, byte)| *byte == b'.');
            // As in nginx, a host that begins with the dot of a name is below it.
            for (dot, _) in dots {
                if let Some(server) = self.front.get(&host[dot..]) {
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
