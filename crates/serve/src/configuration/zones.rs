//! Zones: named state that all loops share and that outlives the configuration that declares it.
//!
//! nginx keeps such state in shared memory. Here it is ordinary data behind an `Arc`. While a configuration is read,
//! the [`ZoneTable`] in its context gathers its declarations. The zones of the running generation ([`Zones`]) were put
//! into the table before, so that a zone with the same name, kind, size and key keeps its state. A zone that no
//! generation names any more is freed with the last request that uses it.
//!
//! When the binary is changed while it runs, states go over to the worker of the new one as bytes. A state is made of the bytes
//! that have [arrived](ZoneTable::arrived) for its name, and [carried](ZoneTable::carry) to the next binary. The bytes come
//! from another version, so each kind of state decides by itself whether it understands them.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use freerun_conf::{Node, Place, Problem, Word, parse_size};
use zeroize::Zeroizing;

/// The smallest zone, in bytes: nginx's eight pages.
pub const MIN_SIZE: u64 = 32 * 1024;

type ErasedState = Arc<dyn Any + Send + Sync>;

/// A state as bytes. Some have secrets, so the memory is wiped.
pub type StateBytes = Zeroizing<Vec<u8>>;

/// Makes bytes of a state as it is at that moment; `None` if there is nothing that another process could use.
type Save = Arc<dyn Fn() -> Option<StateBytes> + Send + Sync>;

/// The states that an old binary has handed over, by name. Cloning shares them.
#[derive(Clone, Default)]
pub struct ArrivedStates(Arc<HashMap<String, Arc<StateBytes>>>);

impl ArrivedStates {
    /// Adds a state.
    pub fn put(&mut self, name: String, state: StateBytes) {
        Arc::make_mut(&mut self.0).insert(name, Arc::new(state));
    }

    /// The state of this name.
    pub fn get(&self, name: &str) -> Option<Arc<StateBytes>> {
        self.0.get(name).cloned()
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The purpose of a state: it is kept only if all of this stays the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Purpose {
    kind: &'static str,
    size: u64,
    key: String,
    of: TypeId,
}

/// The state of a generation's zones, to seed the next one with. Cloning shares it.
#[derive(Clone, Default)]
pub struct Zones {
    named: Arc<HashMap<String, (Purpose, ErasedState)>>,
    nameless: Arc<HashMap<(TypeId, String), ErasedState>>,
    carried: Arc<BTreeMap<String, Save>>,
    arrived: ArrivedStates,
}

impl Zones {
    /// Zones of no generation, with the states that an old binary has handed over.
    pub fn arrived(arrived: ArrivedStates) -> Zones {
        Zones { arrived, ..Zones::default() }
    }

    /// The states that a new binary can go on with, by name: each as a function that makes bytes of it, as it may be large.
    pub fn save(&self) -> impl Iterator<Item = (&str, &(dyn Fn() -> Option<StateBytes> + Send + Sync))> {
        self.carried.iter().map(|(name, save)| (name.as_str(), &**save))
    }
}

impl fmt::Debug for Zones {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.named.keys()).finish()
    }
}

/// A directive's reference to a zone. `D` is the configuration of the zone, including its state. A directive may refer
/// to a zone above its declaration, so it is known only when the whole configuration has been read.
pub struct Zone<D> {
    name: Arc<str>,
    definition: Arc<OnceLock<D>>,
    place: Place,
}

impl<D> Clone for Zone<D> {
    fn clone(&self) -> Zone<D> {
        Zone { name: self.name.clone(), definition: self.definition.clone(), place: self.place }
    }
}

impl<D> fmt::Debug for Zone<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "zone {}", self.name)
    }
}

impl<D> Zone<D> {
    /// The name of the zone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The place of the directive that refers to it.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The declared configuration. `None` only while the configuration is being read.
    pub fn get(&self) -> Option<&D> {
        self.definition.get()
    }
}

impl<D> PartialEq for Zone<D> {
    /// Whether both are the same zone of the same configuration.
    fn eq(&self, other: &Zone<D>) -> bool {
        Arc::ptr_eq(&self.definition, &other.definition)
    }
}

struct ZoneEntry {
    kind: &'static str,
    /// The `OnceLock<D>` that all references share.
    definition: ErasedState,
    declared: Option<(Purpose, ErasedState)>,
    declared_at: Place,
    first_use: Place,
}

/// The zones of the configuration that is being read; lives in its context.
#[derive(Default)]
pub struct ZoneTable {
    seed: Zones,
    names: BTreeMap<String, ZoneEntry>,
    nameless: HashMap<(TypeId, String), ErasedState>,
    carried: BTreeMap<String, Save>,
}

impl ZoneTable {
    /// A table that continues the zones of the running generation, without declarations.
    pub fn seeded(seed: Zones) -> ZoneTable {
        ZoneTable { seed, ..ZoneTable::default() }
    }

    /// Refers to the zone `name` of this `kind`, declared anywhere in the configuration.
    ///
    /// # Errors
    /// The name belongs to a zone of another kind, in nginx's words.
    pub fn refer<D: Send + Sync + 'static>(
        &mut self,
        name: &str,
        kind: &'static str,
        place: Place,
    ) -> Result<Zone<D>, Problem> {
        let entry = self.names.entry(name.to_owned()).or_insert_with(|| ZoneEntry {
            kind,
            definition: Arc::new(OnceLock::<D>::new()),
            declared: None,
            declared_at: Place::NONE,
            first_use: place,
        });
        match entry.definition.clone().downcast::<OnceLock<D>>() {
            Ok(definition) if entry.kind == kind => Ok(Zone { name: name.into(), definition, place }),
            _ => {
                let message = format!("the shared memory zone \"{name}\" is already declared for a different use");
                Err(Problem::new(message).at(place).first_at(entry.first_use))
            }
        }
    }

    /// Declares a zone. It takes over the state `S` of the running generation's zone with the same name, kind, size and
    /// key, or `make` makes one (`None` if there is no memory). Making it has to be cheap, because `-t` does it too.
    /// `define` makes the value that references see.
    ///
    /// # Errors
    /// The name is taken by a zone with another size, another use, or by the same one, in nginx's words.
    pub fn declare<S: Send + Sync + 'static, D: Send + Sync + 'static>(
        &mut self,
        directive: &Node,
        kind: &'static str,
        named: &ZoneName,
        key: &str,
        make: impl FnOnce() -> Option<S>,
        define: impl FnOnce(Arc<S>) -> D,
    ) -> Result<(), Problem> {
        let ZoneName { name, size, place } = named;
        let zone = self.refer::<D>(name, kind, *place)?;
        let purpose = Purpose { kind, size: *size, key: key.to_owned(), of: TypeId::of::<S>() };
        let earlier = self.names.get(name).and_then(|entry| Some((entry.declared_at, entry.declared.as_ref()?)));
        if let Some((first, (known, _))) = earlier {
            let message = if known.size == *size {
                format!("{} \"{name}\" is already bound to key \"{}\"", directive.name.text, known.key)
            } else {
                let known = known.size;
                format!("the size {size} of shared memory zone \"{name}\" conflicts with already declared size {known}")
            };
            return Err(Problem::new(message).at(*place).first_at(first));
        }
        let before = self.seed.named.get(name).filter(|(before, _)| *before == purpose);
        let state = match before.and_then(|(_, state)| state.clone().downcast::<S>().ok()) {
            Some(state) => state,
            None => Arc::new(
                make().ok_or_else(|| Problem::new(format!("there is no memory for zone \"{name}\"")).at(*place))?,
            ),
        };
        // No other place sets it: a second declaration was refused above.
        let _ = zone.definition.set(define(state.clone()));
        if let Some(entry) = self.names.get_mut(name) {
            entry.declared = Some((purpose, state));
            entry.declared_at = *place;
        }
        Ok(())
    }

    /// Whether a zone of this kind, name and size is declared already, for directives that may share one.
    pub fn has(&self, named: &ZoneName, kind: &str) -> bool {
        let entry = self.names.get(&named.name).filter(|entry| entry.kind == kind);
        entry.and_then(|entry| entry.declared.as_ref()).is_some_and(|(purpose, _)| purpose.size == named.size)
    }

    /// State without a name in the configuration. It survives reloads, as long as each configuration asks for it with the
    /// same `key`, which should contain all values that must not differ. It is the running generation's state, the state
    /// that another directive of this configuration has asked for, or a new one.
    pub fn keep<S: Send + Sync + 'static>(&mut self, key: &str, make: impl FnOnce() -> S) -> Arc<S> {
        match self.keep_if(key, || Some(make())) {
            Some(state) => state,
            None => unreachable!("it is always made"),
        }
    }

    /// The running generation's state of this key, if it has one.
    pub fn running<S: Send + Sync + 'static>(&self, key: &str) -> Option<Arc<S>> {
        self.seed.nameless.get(&(TypeId::of::<S>(), key.to_owned()))?.clone().downcast().ok()
    }

    /// As [`ZoneTable::keep`], but the running generation's state does not count.
    pub fn renew<S: Send + Sync + 'static>(&mut self, key: &str, make: impl FnOnce() -> S) -> Arc<S> {
        let place = (TypeId::of::<S>(), key.to_owned());
        let known = self.nameless.get(&place).cloned().and_then(|state| state.downcast::<S>().ok());
        let state = known.unwrap_or_else(|| Arc::new(make()));
        self.nameless.insert(place, state.clone());
        state
    }

    /// As [`ZoneTable::keep`], for state that cannot always be made; it is `None` then.
    pub fn keep_if<S: Send + Sync + 'static>(&mut self, key: &str, make: impl FnOnce() -> Option<S>) -> Option<Arc<S>> {
        let place = (TypeId::of::<S>(), key.to_owned());
        let known = self.nameless.get(&place).or_else(|| self.seed.nameless.get(&place)).cloned();
        let state = match known.and_then(|state| state.downcast::<S>().ok()) {
            Some(state) => state,
            None => Arc::new(make()?),
        };
        self.nameless.insert(place, state.clone());
        Some(state)
    }

    /// The state of this name that an old binary has handed over. There is none once a configuration is in use.
    pub fn arrived(&self, name: &str) -> Option<Arc<StateBytes>> {
        self.seed.arrived.get(name)
    }

    /// Has a state go over to a new binary under this name, which should contain all values that must not differ.
    pub fn carry<S: Send + Sync + 'static>(&mut self, name: &str, state: &Arc<S>, save: fn(&S) -> Option<StateBytes>) {
        let state = state.clone();
        self.carried.insert(name.to_owned(), Arc::new(move || save(&state)));
    }

    /// Finds the first use of a zone that no directive declares, after the whole configuration has been read.
    ///
    /// # Errors
    /// nginx's `zero size shared memory zone "x"`.
    pub fn check(&self) -> Result<(), Problem> {
        match self.names.iter().find(|(_, entry)| entry.declared.is_none()) {
            None => Ok(()),
            Some((name, entry)) => {
                let declared = self.names.iter().filter(|(_, other)| other.declared.is_some());
                let same_kind = declared.filter(|(_, other)| other.kind == entry.kind).map(|(name, _)| name.as_str());
                let near = freerun_conf::near(name, same_kind).map(|near| format!("did you mean \"{near}\"?"));
                // Zones of caches are declared together with their folders.
                let what = if entry.kind.ends_with("_cache") { "path" } else { "zone" };
                let hint = near.unwrap_or_else(|| format!("no {}_{what} directive declares it", entry.kind));
                let message = format!("zero size shared memory zone \"{name}\"");
                Err(Problem::new(message).at(entry.first_use).hint(hint))
            }
        }
    }

    /// The zones of the configuration, for its generation.
    pub fn zones(&self) -> Zones {
        let named = self.names.iter().filter_map(|(name, entry)| Some((name.clone(), entry.declared.clone()?)));
        Zones {
            named: Arc::new(named.collect()),
            nameless: Arc::new(self.nameless.clone()),
            carried: Arc::new(self.carried.clone()),
            arrived: ArrivedStates::default(),
        }
    }
}

/// The name and size of a zone, from `zone=name:size`, and their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneName {
    /// The name.
    pub name: String,
    /// The size in bytes; at least [`MIN_SIZE`].
    pub size: u64,
    /// The place of the parameter.
    pub place: Place,
}

impl ZoneName {
    /// Reads the parameter `zone=name:size` of `directive`; `value` is what follows the `=`.
    ///
    /// # Errors
    /// There is no name or no size, or the size is too small, in nginx's words.
    pub fn parse(directive: &Node, word: &Word, value: &str) -> Result<ZoneName, Problem> {
        let invalid = || Problem::new(format!("invalid zone size \"{}\"", word.text)).at(word.place);
        let (name, size) = value.split_once(':').ok_or_else(invalid)?;
        let size = parse_size(size).ok_or_else(invalid)?;
        if size < MIN_SIZE {
            let problem = Problem::new(format!("zone \"{}\" is too small", word.text)).at(word.place);
            return Err(problem.hint("a zone has at least 32k"));
        }
        if name.is_empty() {
            return Err(ZoneName::missing(directive));
        }
        Ok(ZoneName { name: name.to_owned(), size, place: word.place })
    }

    /// The problem of a directive that names no zone.
    pub fn missing(directive: &Node) -> Problem {
        Problem::new(format!("\"{}\" must have \"zone\" parameter", directive.name.text)).at_node(directive)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use freerun_conf::{Cx, OneText, Severity, Sources};

    use super::*;

    fn node(text: &str) -> Node {
        freerun_conf::parse("x", None, "", &mut OneText(text)).nodes.remove(0)
    }

    fn named(text: &str) -> Result<ZoneName, String> {
        let word = Word::synthetic(text);
        let value = text.strip_prefix("zone=").unwrap();
        ZoneName::parse(&node("limit_x_zone;"), &word, value).map_err(|problem| problem.message)
    }

    fn declare(table: &mut ZoneTable, zone: &str, key: &str, kind: &'static str) -> Result<(), String> {
        let named = named(zone).unwrap();
        let made =
            table.declare(&node("limit_x_zone;"), kind, &named, key, || Some(AtomicU64::default()), |state| state);
        made.map_err(|problem| problem.message)
    }

    fn state(table: &mut ZoneTable, name: &str) -> Arc<AtomicU64> {
        let zone: Zone<Arc<AtomicU64>> = table.refer(name, "limit_x", Place::NONE).unwrap();
        zone.get().unwrap().clone()
    }

    #[test]
    fn state_goes_on_where_nothing_about_it_changed() {
        let mut first = ZoneTable::default();
        declare(&mut first, "zone=a:32k", "$k", "limit_x").unwrap();
        state(&mut first, "a").store(7, Relaxed);
        let again = |zone: &str, key: &str| {
            let mut next = ZoneTable::seeded(first.zones());
            declare(&mut next, zone, key, "limit_x").unwrap();
            state(&mut next, "a").load(Relaxed)
        };
        assert_eq!(again("zone=a:32k", "$k"), 7);
        assert_eq!(again("zone=a:64k", "$k"), 0);
        assert_eq!(again("zone=a:32k", "$other"), 0);
        // State that one configuration leaves out is not there for the next one.
        let none = ZoneTable::seeded(first.zones()).zones();
        let mut later = ZoneTable::seeded(none);
        declare(&mut later, "zone=a:32k", "$k", "limit_x").unwrap();
        assert_eq!(state(&mut later, "a").load(Relaxed), 0);
    }

    #[test]
    fn a_zone_may_be_used_above_its_declaration() {
        let mut table = ZoneTable::default();
        let zone: Zone<Arc<AtomicU64>> = table.refer("a", "limit_x", Place::NONE).unwrap();
        let told = table.check().unwrap_err();
        assert_eq!((told.message.as_str(), told.level), ("zero size shared memory zone \"a\"", Severity::Emerg));
        declare(&mut table, "zone=a:1m", "$k", "limit_x").unwrap();
        assert!(table.check().is_ok());
        assert!(zone.get().is_some());
    }

    #[test]
    fn names_are_taken_once() {
        let mut table = ZoneTable::default();
        declare(&mut table, "zone=a:1m", "$k", "limit_x").unwrap();
        let cases = [
            ("zone=a:1m", "limit_x", "limit_x_zone \"a\" is already bound to key \"$k\""),
            (
                "zone=a:2m",
                "limit_x",
                "the size 2097152 of shared memory zone \"a\" conflicts with already declared size 1048576",
            ),
            ("zone=a:1m", "limit_y", "the shared memory zone \"a\" is already declared for a different use"),
        ];
        for (zone, kind, told) in cases {
            assert_eq!(declare(&mut table, zone, "$other", kind).unwrap_err(), told);
        }
    }

    #[test]
    fn parameters_are_checked_as_nginx_does() {
        let cases = [
            ("zone=a", "invalid zone size \"zone=a\""),
            ("zone=a:", "invalid zone size \"zone=a:\""),
            ("zone=a:x", "invalid zone size \"zone=a:x\""),
            ("zone=a:1g", "invalid zone size \"zone=a:1g\""),
            ("zone=a:31k", "zone \"zone=a:31k\" is too small"),
            ("zone=:1m", "\"limit_x_zone\" must have \"zone\" parameter"),
        ];
        for (text, told) in cases {
            assert_eq!(named(text).unwrap_err(), told);
        }
        let good = named("zone=a:32k").unwrap();
        assert_eq!((good.name.as_str(), good.size), ("a", 32768));
    }

    #[test]
    fn a_state_goes_over_to_another_process_once() {
        let save = |state: &AtomicU64| match state.load(Relaxed) {
            0 => None,
            number => Some(StateBytes::new(vec![number as u8])),
        };
        let mut old = ZoneTable::default();
        for (name, number) in [("a", 7), ("b", 0)] {
            let state = old.keep(name, || AtomicU64::new(number));
            old.carry(name, &state, save);
        }
        let mut arrived = ArrivedStates::default();
        for (name, state) in old.zones().save() {
            state().into_iter().for_each(|state| arrived.put(name.to_owned(), state));
        }
        assert_eq!((arrived.len(), arrived.is_empty()), (1, false));
        let first = ZoneTable::seeded(Zones::arrived(arrived));
        assert_eq!(first.arrived("a").map(|state| state.to_vec()), Some(vec![7]));
        assert!(first.arrived("b").is_none());
        // A reload keeps the state itself; what has arrived would be an older one.
        assert!(ZoneTable::seeded(first.zones()).arrived("a").is_none());
    }

    #[test]
    fn nameless_state_is_found_by_its_key() {
        let mut first = ZoneTable::default();
        let made = first.keep("max=1", AtomicU64::default);
        assert!(Arc::ptr_eq(&made, &first.keep("max=1", AtomicU64::default)));
        assert!(!Arc::ptr_eq(&made, &first.keep("max=2", AtomicU64::default)));
        let mut cx = Cx::new(Sources::default());
        cx.extensions.insert(ZoneTable::seeded(first.zones()));
        let next = cx.extensions.get_or_default::<ZoneTable>();
        assert!(Arc::ptr_eq(&made, &next.keep("max=1", AtomicU64::default)));
    }
}
