//! `location` and the choice of a location: exact, longest prefix (final with `^~`), regular expressions in order,
//! predicates in order.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use freerun_conf::bytes_of;
use freerun_serve::values::captures::Captures;
use freerun_serve::values::{GaveUp, Pattern};
use rustc_hash::FxHashMap;

use super::prefix_keys::PrefixKeys;
use crate::lengths::length_bit;

/// The result of the choice.
pub enum LocationChoice<'l, L> {
    /// The chosen location.
    Location(&'l Arc<L>),
    /// A folder, instead of a location: the path is its name without the slash. The folder passes requests to another
    /// server, so the client is redirected to it.
    Folder(&'l Arc<L>),
    /// No location was chosen: the server's own settings apply.
    Nothing,
}

/// A location, and how far its choice is final.
type Choice<'l, L> = Option<(&'l Arc<L>, Certainty)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// A regular expression of an outer level may still match.
    Open,
    /// The location is exact, or was chosen by a regular expression.
    Final,
    /// The result is [`LocationChoice::Folder`].
    Folder,
}

/// The way in which a location is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialKind {
    /// The path has to be its name.
    Exact,
    /// Its name is the longest that the path begins with.
    LongestPrefix,
    /// A location that passes requests on: the path has to be its name without the slash.
    Folder,
    /// A regular expression has to match the path.
    Regex,
    /// A variable has to have a value other than `0`.
    Predicate,
}

/// A location that was tried while one was chosen.
#[derive(Debug)]
pub struct LocationTrial<'l, L> {
    /// The location.
    pub location: &'l Arc<L>,
    /// The way in which it was tried.
    pub kind: TrialKind,
    /// Whether it applies to the path. A later one may be chosen all the same.
    pub applies: bool,
}

/// The properties of a location that the choice needs.
pub trait Level: Sized {
    /// The name of the location, without modifier.
    fn name(&self) -> &str;

    /// Whether no regular expression is tried once its prefix is the longest (`^~`).
    fn is_final(&self) -> bool;

    /// Whether the location's requests are passed to another server.
    fn passes_on(&self) -> bool;

    /// The locations inside.
    fn nested(&self) -> &Locations<Self>;
}

/// The locations of a server, or those nested in a location.
#[derive(Debug)]
pub struct Locations<L> {
    // Clients choose the names that are looked up, but not those that are entered: a fast hash is safe.
    exact: FxHashMap<Box<[u8]>, Arc<L>>,
    /// The lengths of the exact names: one bit for each length, the last one for all longer ones.
    exact_lengths: u64,
    /// The prefix locations, in the order of their names.
    prefix: Vec<Prefix<L>>,
    /// Finds names of `prefix`.
    prefix_keys: PrefixKeys,
    regex: Vec<(Pattern, Arc<L>)>,
    /// The locations of predicates, in the order of the configuration.
    predicates: Vec<Arc<L>>,
    /// Locations that pass requests on and whose names end with a slash, by their names without it.
    folders: FxHashMap<Box<[u8]>, Arc<L>>,
    named: FxHashMap<Box<str>, Arc<L>>,
}

/// A location for all paths that begin with its name.
#[derive(Debug)]
struct Prefix<L> {
    name: Box<[u8]>,
    /// The prefix with the longest other name that this name begins with.
    within: Option<usize>,
    location: Arc<L>,
}

impl<L> Default for Locations<L> {
    fn default() -> Locations<L> {
        let (exact, exact_lengths, prefix, prefix_keys) = Default::default();
        let (regex, predicates, folders, named) = Default::default();
        Locations { exact, exact_lengths, prefix, prefix_keys, regex, predicates, folders, named }
    }
}

impl<L: Level> Locations<L> {
    /// Adds an `=` location; `false` when the name was taken.
    pub fn add_exact(&mut self, path: &str, location: Arc<L>) -> bool {
        self.add_folder(path, &location);
        let path = bytes_of(path);
        self.exact_lengths |= length_bit(path.len());
        self.exact.insert(path.into(), location).is_none()
    }

    /// Adds a prefix location; `false` when the name was taken.
    pub fn add_prefix(&mut self, path: &str, location: Arc<L>) -> bool {
        self.add_folder(path, &location);
        let name = bytes_of(path);
        let name = &*name;
        let at = match self.prefix.binary_search_by(|prefix| (*prefix.name).cmp(name)) {
            Ok(taken) => {
                self.prefix[taken].location = location;
                return false;
            }
            Err(at) => at,
        };
        let within = self.longest_prefix(name);
        // A name stands behind those that it begins with: the names before this one are not affected.
        for prefix in &mut self.prefix[at..] {
            prefix.within = prefix.within.map(|index| index + usize::from(index >= at));
        }
        // The names that begin with this name follow right behind it.
        for prefix in self.prefix[at..].iter_mut().take_while(|prefix| prefix.name.starts_with(name)) {
            if prefix.within == within {
                prefix.within = Some(at);
            }
        }
        self.prefix.insert(at, Prefix { name: name.into(), within, location });
        self.prefix_keys.insert(at, &|index: usize| &*self.prefix[index].name);
        true
    }

    fn add_folder(&mut self, path: &str, location: &Arc<L>) {
        if let Some(folder) = path.strip_suffix('/').filter(|_| location.passes_on()) {
            self.folders.insert(bytes_of(folder).into(), location.clone());
        }
    }

    /// Adds a regular expression.
    pub fn add_regex(&mut self, pattern: Pattern, location: Arc<L>) {
        self.regex.push((pattern, location));
    }

    /// Adds the location of a predicate.
    pub fn add_predicate(&mut self, location: Arc<L>) {
        self.predicates.push(location);
    }

    /// Adds a named location (with its `@`); `false` if the name is taken, which keeps its first location.
    pub fn add_named(&mut self, name: &str, location: Arc<L>) -> bool {
        match self.named.entry(name.into()) {
            Entry::Vacant(entry) => {
                entry.insert(location);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// The named location with this name (with its `@`).
    pub fn named(&self, name: &str) -> Option<&Arc<L>> {
        self.named.get(name)
    }

    /// The position of the longest name that the path begins with.
    fn longest_prefix(&self, path: &[u8]) -> Option<usize> {
        // The names between that name and the path all begin with it, too.
        let equal = self.prefix_keys.equal(path)?;
        let up_to_path = self.prefix[equal.clone()].partition_point(|prefix| *prefix.name <= *path);
        let mut at = (equal.start + up_to_path).checked_sub(1)?;
        while !path.starts_with(&self.prefix[at].name) {
            at = self.prefix[at].within?;
        }
        Some(at)
    }

    /// Whether there is no location to choose.
    fn is_empty(&self) -> bool {
        self.exact_lengths == 0 && self.prefix.is_empty() && self.regex.is_empty() && self.predicates.is_empty()
    }

    fn folder(&self, path: &[u8]) -> Option<&Arc<L>> {
        if self.folders.is_empty() { None } else { self.folders.get(path) }
    }

    /// Chooses a location. `holds` says whether the predicate of a location holds.
    ///
    /// # Errors
    /// The matching of a regular expression was given up.
    pub fn find(
        &self,
        path: &[u8],
        captures: &Captures,
        holds: &impl Fn(&L) -> bool,
    ) -> Result<LocationChoice<'_, L>, GaveUp> {
        self.find_observed(path, captures, holds, &mut |_| ())
    }

    /// Chooses a location as [`Locations::find`] does, and shows `observe` each location that is tried, in the order in which
    /// they are.
    ///
    /// # Errors
    /// The matching of a regular expression was given up.
    #[inline]
    pub fn find_observed<'l>(
        &'l self,
        path: &[u8],
        captures: &Captures,
        holds: &impl Fn(&L) -> bool,
        observe: &mut impl FnMut(LocationTrial<'l, L>),
    ) -> Result<LocationChoice<'l, L>, GaveUp> {
        Ok(match self.choose(path, captures, holds, observe)? {
            Some((location, Certainty::Folder)) => LocationChoice::Folder(location),
            Some((location, _)) => LocationChoice::Location(location),
            None => LocationChoice::Nothing,
        })
    }

    /// The location, and whether it is final: then neither a regular expression nor a predicate of an outer level is tried.
    fn choose<'l>(
        &'l self,
        path: &[u8],
        captures: &Captures,
        holds: &impl Fn(&L) -> bool,
        observe: &mut impl FnMut(LocationTrial<'l, L>),
    ) -> Result<Choice<'l, L>, GaveUp> {
        let mut tried = |location, kind, applies| observe(LocationTrial { location, kind, applies });
        if self.exact_lengths & length_bit(path.len()) != 0
            && let Some(location) = self.exact.get(path)
        {
            tried(location, TrialKind::Exact, true);
            return Ok(Some((location, Certainty::Final)));
        }
        let prefix = self.longest_prefix(path).map(|at| &self.prefix[at].location);
        if let Some(folder) = self.folder(path).filter(|_| prefix.is_none_or(|found| found.name().len() < path.len())) {
            tried(folder, TrialKind::Folder, true);
            return Ok(Some((folder, Certainty::Folder)));
        }
        if let Some(location) = prefix {
            tried(location, TrialKind::LongestPrefix, true);
        }
        let nested = match prefix {
            Some(location) if !location.nested().is_empty() => {
                location.nested().choose(path, captures, holds, observe)?
            }
            _ => None,
        };
        if nested.is_some_and(|(_, certainty)| certainty != Certainty::Open) {
            return Ok(nested);
        }
        // `^~` applies to its own level only.
        if !prefix.is_some_and(|location| location.is_final()) {
            for (pattern, location) in &self.regex {
                let applies = pattern.matches(path, captures)?;
                observe(LocationTrial { location, kind: TrialKind::Regex, applies });
                if applies {
                    let inner = location.nested().choose(path, captures, holds, observe)?;
                    return Ok(Some((inner.map_or(location, |(inner, _)| inner), Certainty::Final)));
                }
            }
            for location in &self.predicates {
                let applies = holds(location);
                observe(LocationTrial { location, kind: TrialKind::Predicate, applies });
                if applies {
                    let inner = location.nested().choose(path, captures, holds, observe)?;
                    return Ok(Some((inner.map_or(location, |(inner, _)| inner), Certainty::Final)));
                }
            }
        }
        Ok(nested.or(prefix.map(|location| (location, Certainty::Open))))
    }
}
