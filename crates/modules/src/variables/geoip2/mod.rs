//! `geoip2`: variables from a MaxMind database, looked up by the client's address. Directives and variables are those of the
//! third-party module for nginx of that name.

mod database;
mod scalar;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{
    Cidr, Cx, Many, Node, Problem, Setting, Shape, Value, Word, group, parse_address, parse_time, settings,
};
use freerun_http::generation::Paths;
use freerun_http::module::Module;
use freerun_http::request::{Address, Request};
use freerun_http::variables::{Compute, Found, Reference, VariableTable};
use freerun_serve::Subject as _;
use freerun_serve::zones::ZoneTable;
use maxminddb::PathElement;

use super::variable_name;
use database::Database;

settings! {
    /// Variables from MaxMind databases (`.mmdb`), as the third-party module geoip2 has them.
    #[module = "geoip2"]
    pub struct GeoIp2Settings {
        /// A database, and the variables that come out of it: `$name [default=value] [source=$address] path …;`, where the
        /// path leads to a value in the record of the client's address, or of the one in another variable.
        ///
        /// `$name metadata build_epoch | last_check | last_change;` tells a time, in seconds since 1970. `auto_reload time;`
        /// looks once in that time whether the file has changed. The path of the file is relative to the folder of the
        /// configuration.
        ///
        /// The database is in memory, at most 1 GB, and stays there over a reload if its file has not changed. It is read
        /// before the worker gives up its rights; afterwards, for a reload and `auto_reload`, its user has to be able to
        /// read it. While it is read anew, the old one answers.
        geoip2: Databases, in HTTP,
            fidelity = Differs("the file is read into memory and not mapped; `auto_reload` needs a valid time, `metadata` one of the three names; numbers over 64 bits are 32 hexadecimal digits");
        /// A network of proxies: for a client in one of them the last address in `X-Forwarded-For` counts.
        geoip2_proxy: Many<Proxy>, in HTTP;
        /// Whether proxies are looked for in `X-Forwarded-For`, too: the last address that is none of theirs counts.
        geoip2_proxy_recursive: bool = "off", in HTTP;
    }
}

/// The module.
pub static MODULE: Module = Module { name: "geoip2", groups: &[group::<GeoIp2Settings>()], ..Module::EMPTY };

/// A network of proxies.
#[derive(Debug, Clone, Copy)]
pub struct Proxy(Cidr);

impl Value for Proxy {
    const SHAPE: Shape = Shape::exactly(1, "address | CIDR");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Proxy, Problem> {
        let word = &directive.args[0];
        let invalid = || Problem::new(format!("invalid network \"{}\"", word.text)).at_node(directive).at(word.place);
        Cidr::of_word(directive, word, cx).map(Proxy).ok_or_else(invalid)
    }
}

/// The paths of all databases; what the blocks define is in the table of variables.
#[derive(Debug, Clone, Default)]
pub struct Databases(Vec<Vec<u8>>);

impl Setting for Databases {
    const SHAPE: Shape = Shape::exactly(1, "file { $variable path; … }").with_raw_block();

    fn set(previous: Option<Databases>, directive: &Node, cx: &mut Cx) -> Result<Databases, Problem> {
        let mut databases = previous.unwrap_or_default();
        let word = &directive.args[0];
        let paths = cx.extensions.get_or_default::<Paths>();
        let serves = paths.serves;
        let path = paths.beside_configuration(word.text.as_bytes());
        let shown = String::from_utf8_lossy(&path).into_owned();
        if databases.0.contains(&path) {
            return Err(Problem::new(format!("Duplicate GeoIP2 mmdb - {shown}")).at_node(directive));
        }
        let database = cx.extensions.get_or_default::<ZoneTable>().keep(&shown, || Database::new(&path));
        let fails =
            |error| Problem::new(format!("MMDB_open(\"{shown}\") failed - {error}")).at_node(directive).at(word.place);
        if serves { database.refresh().map(drop) } else { database.check() }.map_err(fails)?;
        // Where it stands does not matter: it holds for all of the block.
        let reload = directive.children().iter().rfind(|entry| entry.name.text == "auto_reload");
        let reload = reload.map(reload_time).transpose()?;
        for entry in directive.children().iter().filter(|entry| entry.name.text != "auto_reload") {
            define(entry, &database, reload, cx)
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
fn define(entry: &Node, database: &Arc<Database>, reload: Option<Duration>, cx: &mut Cx) -> Result<(), Problem> {
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
            default = Some(Some(value).filter(|value| !value.is_empty()).ok_or_else(invalid)?.as_bytes().into());
        } else if let Some(value) = word.text.strip_prefix("source=") {
            if value.is_empty() {
                return Err(invalid());
            }
            let wrong = || Problem::new(format!("invalid source variable name \"{value}\"")).at(word.place);
            let variable = value.strip_prefix('$').filter(|name| !name.is_empty()).ok_or_else(wrong)?;
            source = Some(cx.extensions.get_or_default::<VariableTable>().resolve(variable, word.place));
        } else {
            break;
        }
        words = rest;
    }
    let what = match words {
        [word, rest @ ..] if word.text == "metadata" => match rest {
            [field] => What::of_metadata(&field.text)
                .ok_or_else(|| Problem::new(format!("invalid metadata field \"{}\"", field.text)).at(field.place))?,
            _ => return Err(Problem::new("invalid number of arguments for metadata").at(word.place)),
        },
        words => What::Value(words.iter().map(|word| Step::new(&word.text)).collect()),
    };
    let lookup = Lookup { database, reload, default, source, what };
    let table = cx.extensions.get_or_default::<VariableTable>();
    table.define(name, Arc::new(lookup)).map_err(|problem| problem.at(first.place))
}

/// A word of a path: a key, or a place in an array.
#[derive(Debug)]
struct Step {
    key: Box<str>,
    index: Option<isize>,
}

impl Step {
    fn new(word: &str) -> Step {
        Step { key: word.into(), index: word.parse().ok() }
    }

    fn element(&self, numbers_are_keys: bool) -> PathElement<'_> {
        match self.index {
            Some(index) if !numbers_are_keys => index.into(),
            _ => PathElement::Key(&self.key),
        }
    }
}

enum What {
    Value(Box<[Step]>),
    BuildEpoch,
    LastCheck,
    LastChange,
}

impl What {
    fn of_metadata(field: &str) -> Option<What> {
        Some(match field {
            "build_epoch" => What::BuildEpoch,
            "last_check" => What::LastCheck,
            "last_change" => What::LastChange,
            _ => return None,
        })
    }
}

/// A variable.
struct Lookup {
    database: Arc<Database>,
    reload: Option<Duration>,
    default: Option<Box<[u8]>>,
    source: Option<Reference>,
    what: What,
}

impl Lookup {
    fn address(&self, request: &Request) -> Option<IpAddr> {
        if let Some(source) = &self.source {
            let text = source.get(request)?;
            let address = parse_address(std::str::from_utf8(&text).ok()?)?;
            // No port, and none of the brackets that come with one.
            return (address.port() == 0 && !text.starts_with(b"[")).then(|| address.ip());
        }
        let Address::Ip(peer) = request.peer() else { return None };
        let settings = request.settings().get::<GeoIp2Settings>();
        if settings.geoip2_proxy.is_empty() {
            return Some(peer.ip());
        }
        let is_proxy = |address| settings.geoip2_proxy.iter().any(|proxy| proxy.0.contains(address));
        Some(request.forwarded(peer.ip(), is_proxy, settings.geoip2_proxy_recursive))
    }

    fn value(&self, request: &Request, steps: &[Step]) -> Option<Vec<u8>> {
        let loaded = self.database.loaded()?;
        let record = loaded.reader.lookup(self.address(request)?.to_canonical()).ok()?;
        // A number may be a key, too; a path that has both is nobody's.
        let has_numbers = steps.iter().any(|step| step.index.is_some());
        [true, false].into_iter().filter(|keys| *keys || has_numbers).find_map(|numbers_are_keys| {
            let path: Vec<PathElement<'_>> = steps.iter().map(|step| step.element(numbers_are_keys)).collect();
            record.decode_path::<scalar::Scalar>(&path).ok().flatten().map(|scalar| scalar.0)
        })
    }
}

impl Compute<Request> for Lookup {
    fn find(&self, request: &Request) -> Found {
        if let Some(interval) = self.reload {
            self.database.look_again(request, interval);
        }
        let time = |time: Option<i64>| time.map_or(Found::Missing, |time| Found::Text(time.to_string().into_bytes()));
        let loaded = || self.database.loaded();
        match &self.what {
            What::Value(steps) => match (self.value(request, steps), &self.default) {
                (Some(text), _) => Found::Text(text),
                (None, Some(_)) => Found::Entry(0),
                (None, None) => Found::Missing,
            },
            What::BuildEpoch => time(loaded().and_then(|loaded| loaded.reader.metadata().build_epoch.try_into().ok())),
            What::LastCheck => time(Some(self.database.last_check())),
            What::LastChange => time(loaded().map(|loaded| loaded.since)),
        }
    }

    fn entry(&self, _: u32) -> &[u8] {
        self.default.as_deref().unwrap_or_default()
    }
}
