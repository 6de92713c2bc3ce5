//! `geoip2`: variables from a MaxMind database, looked up by the client's address. nginx's third-party module with that name
//! has the same directives and variables.

mod database;
mod scalar;

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Word, bytes_of, parse_address, parse_time, text_of};
use maxminddb::PathElement;

use self::database::Database;
use super::variable_name;
use crate::configuration::parts::Paths;
use crate::configuration::zones::ZoneTable;
use crate::listen::address::Address;
use crate::values::subject::Subject;
use crate::values::{Compute, ComputeResult, VariableReference, VariableTable};

/// The choice of the client's address that is looked up.
pub trait ClientAddress<S>: 'static {
    /// The address to look up, if the client's own is `peer`.
    fn of(subject: &S, peer: IpAddr) -> IpAddr;
}

/// Looks up the client's own address.
#[derive(Debug, Clone, Copy)]
pub struct OwnAddress;

impl<S> ClientAddress<S> for OwnAddress {
    fn of(_: &S, peer: IpAddr) -> IpAddr {
        peer
    }
}

/// The paths of all databases; the variables of the blocks are in the table of variables.
pub struct Databases<S, A = OwnAddress>(Vec<Vec<u8>>, PhantomData<fn(&S, A)>);

// Not derived, because that would demand the trait of the subject.
impl<S, A> Clone for Databases<S, A> {
    fn clone(&self) -> Databases<S, A> {
        Databases(self.0.clone(), PhantomData)
    }
}

impl<S, A> Default for Databases<S, A> {
    fn default() -> Databases<S, A> {
        Databases(Vec::new(), PhantomData)
    }
}

impl<S, A> fmt::Debug for Databases<S, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|path| text_of(path))).finish()
    }
}

impl<S: Subject, A: ClientAddress<S>> Setting for Databases<S, A> {
    const SHAPE: Shape = Shape::exactly(1, "file { $variable path; … }").with_raw_block();

    fn set(previous: Option<Databases<S, A>>, directive: &Node, cx: &mut Cx) -> Result<Databases<S, A>, Problem> {
        let mut databases = previous.unwrap_or_default();
        let word = &directive.args[0];
        let paths = cx.extensions.get_or_default::<Paths>();
        let serves = paths.serves;
        let path = paths.beside_configuration(&word.bytes());
        let shown = text_of(&path).into_owned();
        if databases.0.contains(&path) {
            return Err(Problem::new(format!("Duplicate GeoIP2 mmdb - {shown}")).at_node(directive));
        }
        let database = cx.extensions.get_or_default::<ZoneTable>().keep(&shown, || Database::new(&path));
        let fails =
            |error| Problem::new(format!("MMDB_open(\"{shown}\") failed - {error}")).at_node(directive).at(word.place);
        if serves { database.refresh().map(drop) } else { database.check() }.map_err(fails)?;
        // Its position does not matter: it applies to the whole block.
        let reload = directive.children().iter().rfind(|entry| entry.name.text == "auto_reload");
        let reload = reload.map(reload_time).transpose()?;
        for entry in directive.children().iter().filter(|entry| entry.name.text != "auto_reload") {
            define::<S, A>(entry, &database, reload, cx)
                .map_err(|problem| if problem.reported.is_none() { problem.at_node(entry) } else { problem })?;
        }
        databases.0.push(path);
        Ok(databases)
    }
}

fn reload_time(entry: &Node) -> Result<Duration, Problem> {
    let [word] = &*entry.args else {
        return Err(Problem::new("invalid number of arguments for auto_reload").at_node(entry));
    };
    let time = parse_time(&word.text).filter(|time| !time.is_zero());
    time.ok_or_else(|| {
        Problem::new(format!("invalid auto_reload time \"{}\"", word.text)).at_node(entry).at(word.place)
    })
}

/// Defines the variable of an entry.
fn define<S: Subject, A: ClientAddress<S>>(
    entry: &Node,
    database: &Arc<Database>,
    reload: Option<Duration>,
    cx: &mut Cx,
) -> Result<(), Problem> {
    let first = &entry.name;
    if !first.text.starts_with('$') {
        return Err(Problem::new(format!("invalid setting \"{}\"", first.text)));
    }
    if entry.block.is_some() {
        return Err(Problem::new("unexpected \"{\"").at_node(entry).at(entry.end));
    }
    let name = variable_name(first)?;
    let (database, mut default, mut source) = (database.clone(), None, None);
    let mut words: &[Word] = &entry.args;
    while let [word, rest @ ..] = words {
        let invalid = || Problem::new(format!("invalid setting \"{}\" for \"${name}\"", word.text)).at(word.place);
        if let Some(value) = word.text.strip_prefix("default=") {
            let value = Some(value).filter(|value| !value.is_empty()).ok_or_else(invalid)?;
            default = Some(bytes_of(value).into());
        } else if let Some(value) = word.text.strip_prefix("source=") {
            if value.is_empty() {
                return Err(invalid());
            }
            let wrong = || Problem::new(format!("invalid source variable name \"{value}\"")).at(word.place);
            let variable = value.strip_prefix('$').filter(|name| !name.is_empty()).ok_or_else(wrong)?;
            source = Some(cx.extensions.get_or_default::<VariableTable<S>>().resolve(variable, word.place));
        } else {
            break;
        }
        words = rest;
    }
    let what = match words {
        [word, rest @ ..] if word.text == "metadata" => match rest {
            [field] => LookupPath::of_metadata(&field.text)
                .ok_or_else(|| Problem::new(format!("invalid metadata field \"{}\"", field.text)).at(field.place))?,
            _ => return Err(Problem::new("invalid number of arguments for metadata").at(word.place)),
        },
        words => LookupPath::Value(words.iter().map(|word| PathStep::new(&word.text)).collect()),
    };
    let lookup = GeoLookup { database, reload, default, source, address: A::of, what };
    let table = cx.extensions.get_or_default::<VariableTable<S>>();
    table.define(name, Arc::new(lookup)).map_err(|problem| problem.at(first.place))
}

/// A step of a path: a key, or an index of an array.
#[derive(Debug)]
struct PathStep {
    key: Box<str>,
    index: Option<isize>,
}

impl PathStep {
    fn new(word: &str) -> PathStep {
        PathStep { key: word.into(), index: word.parse().ok() }
    }

    fn element(&self, numbers_are_keys: bool) -> PathElement<'_> {
        match self.index {
            Some(index) if !numbers_are_keys => index.into(),
            _ => PathElement::Key(&self.key),
        }
    }
}

enum LookupPath {
    Value(Box<[PathStep]>),
    BuildEpoch,
    LastCheck,
    LastChange,
}

impl LookupPath {
    fn of_metadata(field: &str) -> Option<LookupPath> {
        Some(match field {
            "build_epoch" => LookupPath::BuildEpoch,
            "last_check" => LookupPath::LastCheck,
            "last_change" => LookupPath::LastChange,
            _ => return None,
        })
    }
}

/// The lookup that computes a variable.
struct GeoLookup<S> {
    database: Arc<Database>,
    reload: Option<Duration>,
    default: Option<Box<[u8]>>,
    source: Option<VariableReference<S>>,
    address: fn(&S, IpAddr) -> IpAddr,
    what: LookupPath,
}

impl<S: Subject> GeoLookup<S> {
    fn address(&self, subject: &S) -> Option<IpAddr> {
        if let Some(source) = &self.source {
            let text = source.get(subject)?;
            let address = parse_address(std::str::from_utf8(&text).ok()?)?;
            // A port is not allowed, nor the brackets that come with one.
            return (address.port() == 0 && !text.starts_with(b"[")).then(|| address.ip());
        }
        let Address::Ip(peer) = subject.peer() else { return None };
        Some((self.address)(subject, peer.ip()))
    }

    fn value(&self, subject: &S, steps: &[PathStep]) -> Option<Vec<u8>> {
        let loaded = self.database.loaded()?;
        let record = loaded.reader.lookup(self.address(subject)?.to_canonical()).ok()?;
        // A number may be a key, too. Paths that mix numbers as keys and as indexes do not occur.
        let has_numbers = steps.iter().any(|step| step.index.is_some());
        [true, false].into_iter().filter(|keys| *keys || has_numbers).find_map(|numbers_are_keys| {
            let path: Vec<PathElement<'_>> = steps.iter().map(|step| step.element(numbers_are_keys)).collect();
            record.decode_path::<scalar::Scalar>(&path).ok().flatten().map(|scalar| scalar.0)
        })
    }
}

impl<S: Subject> Compute<S> for GeoLookup<S> {
    fn find(&self, subject: &S) -> ComputeResult {
        if let Some(interval) = self.reload {
            self.database.look_again(subject.services(), interval);
        }
        let time = |time: Option<i64>| {
            time.map_or(ComputeResult::Missing, |time| ComputeResult::Text(time.to_string().into_bytes()))
        };
        let loaded = || self.database.loaded();
        match &self.what {
            LookupPath::Value(steps) => match (self.value(subject, steps), &self.default) {
                (Some(text), _) => ComputeResult::Text(text),
                (None, Some(_)) => ComputeResult::Entry(0),
                (None, None) => ComputeResult::Missing,
            },
            LookupPath::BuildEpoch => {
                time(loaded().and_then(|loaded| loaded.reader.metadata().build_epoch.try_into().ok()))
            }
            LookupPath::LastCheck => time(Some(self.database.last_check())),
            LookupPath::LastChange => time(loaded().map(|loaded| loaded.since)),
        }
    }

    fn entry(&self, _: u32) -> &[u8] {
        self.default.as_deref().unwrap_or_default()
    }
}
