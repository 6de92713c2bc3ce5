//! `dav_ext_methods`, `dav_ext_lock`: the rest of WebDAV that clients ask for (PROPFIND, OPTIONS, LOCK, UNLOCK of RFC 4918),
//! and locks that PUT, DELETE, MKCOL, COPY and MOVE respect.

mod conditions;
mod guard;
mod lock;
mod lock_state;
mod locks;
mod propfind;
mod xml;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, Value, group, keyword_enum, parse_time, settings};
use freerun_http::body;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Handler, Outcome, Phase, Run, Slot};
use freerun_http::request::response::{Body, LocalBoxFuture, Response};
use freerun_proto::{Method, Status};
use freerun_serve::configuration::zones::{Zone, ZoneName, ZoneTable};
use freerun_tls::random;

use locks::Locks;

use crate::access::rules;
use crate::content::dav;

keyword_enum! {
    /// A word of `dav_ext_methods`.
    enum ExtMethodWord {
        Off = "off",
        Propfind = "propfind",
        Options = "options",
        Lock = "lock",
        Unlock = "unlock",
    }
}

settings! {
    /// Properties and locks of files.
    #[module = "dav_ext"]
    pub struct DavExtSettings {
        /// The further methods that are allowed: PROPFIND (with `Depth` 0 or 1), OPTIONS, LOCK and UNLOCK.
        ///
        /// LOCK and UNLOCK need `dav_ext_lock`. `Allow` in the answer to OPTIONS has the methods of `dav_methods` and of this
        /// directive, without those for which `limit_except` refuses the client's address.
        dav_ext_methods: ExtMethods = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("properties that there are not are told as such (404), tokens are unguessable, locks may be shared, a wrong `If` is 412, UNLOCK needs the lock's token, `Allow` has no methods that are not allowed");
        /// The zone with the locks, which have to be respected: PUT, DELETE, MKCOL, COPY and MOVE are answered with 423 where
        /// another client has a lock.
        dav_ext_lock: Option<LockZone>, in HTTP | SERVER | LOCATION;
        /// Declares a zone for locks, which last for `timeout` (one minute by default) unless they are refreshed.
        dav_ext_lock_zone: LockZones, in HTTP,
            fidelity = Differs("a zone has at most 4096 locks; `If` has at most 64 conditions");
    }
}

/// The methods of a level, a bit for each word.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtMethods(u8);

impl ExtMethods {
    fn has(self, word: ExtMethodWord) -> bool {
        self.0 & 1 << word as u8 != 0
    }
}

impl Value for ExtMethods {
    const SHAPE: Shape = Shape::at_least(1, "off | PROPFIND | OPTIONS | LOCK | UNLOCK …");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<ExtMethods, Problem> {
        let mut methods = ExtMethods::default();
        for word in &directive.args {
            let known = ExtMethodWord::from_word(&word.text).ok_or_else(|| Problem::invalid_value(directive, word))?;
            methods.0 |= 1 << known as u8;
        }
        Ok(methods)
    }
}

/// The kind of the zones.
const KIND: &str = "dav_ext_lock";

/// The duration of a lock, if the zone does not say it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// A zone, as the configuration defines it.
#[derive(Debug)]
struct LockZoneEntry {
    locks: Arc<Locks>,
    time: Duration,
}

/// The `dav_ext_lock_zone` directives; the zones are in the configuration's table.
#[derive(Debug, Clone, Copy, Default)]
pub struct LockZones;

impl Setting for LockZones {
    const SHAPE: Shape = Shape::between(1, 2, "zone=name:size [timeout=time]");

    fn set(_: Option<LockZones>, directive: &Node, cx: &mut Cx) -> Result<LockZones, Problem> {
        // Tokens of locks are random.
        random::prepare();
        let (mut zone, mut time) = (None, DEFAULT_TIMEOUT);
        for word in &directive.args {
            if let Some(value) = word.text.strip_prefix("zone=") {
                zone = Some(ZoneName::parse(directive, word, value)?);
            } else if let Some(value) = word.text.strip_prefix("timeout=") {
                time = parse_time(value)
                    .filter(|time| !time.is_zero())
                    .ok_or_else(|| Problem::invalid_parameter(directive, word))?;
            } else {
                return Err(Problem::invalid_parameter(directive, word));
            }
        }
        let zone = zone.ok_or_else(|| ZoneName::missing(directive))?;
        let table = cx.extensions.get_or_default::<ZoneTable>();
        let name = format!("{KIND} {} {}", zone.name, zone.size);
        let arrived = table.arrived(&name);
        let make = || {
            let locks = Locks::new(zone.size);
            if let Some(arrived) = arrived {
                lock_state::restore(&locks, &arrived);
            }
            Some(locks)
        };
        let mut kept = None;
        let define = |locks: Arc<Locks>| {
            kept = Some(locks.clone());
            LockZoneEntry { locks, time }
        };
        table.declare(directive, KIND, &zone, "", make, define)?;
        if let Some(locks) = kept {
            table.carry(&name, &locks, |locks| Some(lock_state::save(locks)));
        }
        Ok(LockZones)
    }
}

/// The zone of a level.
#[derive(Debug, Clone)]
pub struct LockZone(Zone<LockZoneEntry>);

impl Value for LockZone {
    const SHAPE: Shape = Shape::exactly(1, "zone=name");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<LockZone, Problem> {
        let word = &directive.args[0];
        let name = word.text.strip_prefix("zone=").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Problem::invalid_parameter(directive, word))?;
        let table = cx.extensions.get_or_default::<ZoneTable>();
        table.refer(name, KIND, word.place).map(LockZone)
    }
}

/// The module `dav_ext`.
pub static MODULE: Module = Module {
    name: "dav_ext",
    groups: &[group::<DavExtSettings>()],
    handlers: &[
        Handler {
            phase: Phase::PreContent,
            wanted: respects_locks,
            run: Run::Later(|request| Box::pin(guard::run(request))),
        },
        Handler { phase: Phase::Content, wanted, run: Run::Later(answer) },
    ],
    filters: &[Filter { slot: Slot::MoreHeaders, wanted: respects_locks, run: guard::release }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<DavExtSettings>().dav_ext_methods.0 & !(1 << ExtMethodWord::Off as u8) != 0
}

fn respects_locks(settings: &SettingsSet) -> bool {
    settings.get::<DavExtSettings>().dav_ext_lock.is_some()
}

/// The zone of a request's location.
fn zone(request: &Request) -> Option<&LockZoneEntry> {
    request.settings().get::<DavExtSettings>().dav_ext_lock.as_ref()?.0.get()
}

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    let methods = request.settings().get::<DavExtSettings>().dav_ext_methods;
    match request.asked.method {
        Method::Propfind if methods.has(ExtMethodWord::Propfind) => Box::pin(propfind::answer(request)),
        Method::Options if methods.has(ExtMethodWord::Options) => Box::pin(std::future::ready(options(request))),
        Method::Lock if methods.has(ExtMethodWord::Lock) => Box::pin(lock::lock(request)),
        Method::Unlock if methods.has(ExtMethodWord::Unlock) => Box::pin(std::future::ready(lock::unlock(request))),
        _ => Box::pin(std::future::ready(Outcome::Declined)),
    }
}

fn options(request: &mut Request) -> Outcome {
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let mut response = Response::new(Status::OK, Bytes::new(), Body::Empty);
    let classes: &[u8] = if zone(request).is_some() { b"1, 2" } else { b"1" };
    response.add(&b"DAV"[..], classes);
    let methods: Vec<&str> =
        KNOWN.into_iter().filter(|method| is_allowed(request, *method)).filter_map(Method::as_str).collect();
    response.add(&b"Allow"[..], methods.join(","));
    response.into()
}

/// The methods that a folder of WebDAV may have, in the order of nginx's module.
const KNOWN: [Method; 11] = [
    Method::Get,
    Method::Head,
    Method::Put,
    Method::Delete,
    Method::Mkcol,
    Method::Copy,
    Method::Move,
    Method::Propfind,
    Method::Options,
    Method::Lock,
    Method::Unlock,
];

/// Whether the location that the request is in has a method, and the client's address is let in where `limit_except` leads
/// requests with it.
fn is_allowed(request: &Request, method: Method) -> bool {
    let settings = request.settings();
    let further = settings.get::<DavExtSettings>().dav_ext_methods;
    let exists = match method {
        Method::Get | Method::Head => true,
        Method::Propfind => further.has(ExtMethodWord::Propfind),
        Method::Options => further.has(ExtMethodWord::Options),
        Method::Lock => further.has(ExtMethodWord::Lock),
        Method::Unlock => further.has(ExtMethodWord::Unlock),
        _ => dav::allows(settings, method),
    };
    let limited = request.place.location.limited(method);
    exists && limited.is_none_or(|location| !rules::refuses(&location.settings, request))
}

/// A path as locks have it: without the slash at its end.
fn key(mut path: Vec<u8>) -> Vec<u8> {
    if path.last() == Some(&b'/') {
        path.pop();
    }
    path
}

/// A document of this XML.
fn xml_response(status: Status, body: Vec<u8>) -> Box<Response> {
    let mut response = Response::new(status, &b"text/xml"[..], Body::Bytes(body.into()));
    response.charset = Some(Bytes::from_static(b"utf-8"));
    response
}

/// An answer without a body, for statuses that have no page.
fn bare(status: Status) -> Outcome {
    Response::new(status, Bytes::new(), Body::Empty).into()
}
