//! `limit_conn`: how many requests of a key are served at the same time.
//!
//! <https://nginx.org/en/docs/http/ngx_http_limit_conn_module.html>

mod counts;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, group, settings};
use freerun_http::module::{Handler, Module, Outcome, Phase, Run};
use freerun_http::request::Request;
use freerun_http::variables::Variable;
use freerun_serve::zones::{Named, Zone, ZoneTable};
use smallvec::SmallVec;

use super::key::{Key, RefusalLevel, RefusalStatus, tell};
use counts::{Counts, Held, MAX_COUNT, Refused};

/// What sort of zone this module uses.
const KIND: &str = "limit_conn";

settings! {
    /// Limits how many requests with the same key are served at the same time.
    #[module = "limit_conn"]
    pub struct LimitConnSettings {
        /// Defines a zone: what requests are told apart by, and how much memory there is for it.
        ///
        /// A key takes 8 bytes while requests of it are served. Where there is no place for another one (of the 32 that
        /// share a place in the table), its requests are refused. Requests for which the key is empty are not counted. A
        /// zone keeps its state over a reload if its name, size and key stay.
        limit_conn_zone: Zones, in HTTP,
            fidelity = Differs("a state takes 8 bytes instead of 32 or 64; a zone whose key or size changes on reload starts anew");
        /// Limits the requests of each key that are served at the same time.
        ///
        /// A connection counts only while it has a request whose head has been read. Several may stand at one level.
        limit_conn: Limits, in HTTP | SERVER | LOCATION;
        /// Only counts, logs and sets `$limit_conn_status`; nothing is refused.
        limit_conn_dry_run: bool = "off", in HTTP | SERVER | LOCATION;
        /// The level that refusals are logged at.
        limit_conn_log_level: RefusalLevel = "error", in HTTP | SERVER | LOCATION;
        /// The status of refused requests.
        limit_conn_status: RefusalStatus = "503", in HTTP | SERVER | LOCATION;
    }
}

/// `limit_conn_zone` directives; what they declare is in the configuration's [`ZoneTable`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Zones;

/// A zone, as the configuration defines it.
#[derive(Debug)]
struct Defined {
    key: Key,
    counts: Arc<Counts>,
}

impl Setting for Zones {
    const SHAPE: Shape = Shape::exactly(2, "key zone=name:size");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let key = Key::parse(&directive.args[0], cx)?;
        let word = &directive.args[1];
        let Some(value) = word.text.strip_prefix("zone=") else {
            return Err(Problem::invalid_parameter(directive, word));
        };
        let zone = Named::parse(directive, word, value)?;
        let text = key.text().to_owned();
        let define = |counts| Defined { key, counts };
        let table = cx.extensions.get_or_default::<ZoneTable>();
        table.declare(directive, KIND, &zone, &text, || Counts::new(zone.size), define)?;
        Ok(Zones)
    }
}

/// One `limit_conn`.
#[derive(Debug, Clone)]
struct Limit {
    zone: Zone<Defined>,
    most: u64,
}

/// The `limit_conn` of a level.
#[derive(Debug, Clone, Default)]
pub struct Limits(Arc<Vec<Limit>>);

impl Setting for Limits {
    const SHAPE: Shape = Shape::exactly(2, "zone number");

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let (name, number) = (&directive.args[0], &directive.args[1]);
        let zone = cx.extensions.get_or_default::<ZoneTable>().refer::<Defined>(&name.text, KIND, name.place)?;
        let mut limits = previous.unwrap_or_default();
        if limits.0.iter().any(|limit| limit.zone == zone) {
            return Err(Problem::duplicate(directive));
        }
        let all_digits = number.text.bytes().all(|byte| byte.is_ascii_digit());
        let most = match number.text.parse::<u64>() {
            Ok(most @ 1..=MAX_COUNT) if all_digits => most,
            Ok(1..) if all_digits => {
                return Err(Problem::new("connection limit must be less 65536").at(number.place));
            }
            _ => {
                let message = format!("invalid number of connections \"{}\"", number.text);
                return Err(Problem::new(message).at(number.place));
            }
        };
        Arc::make_mut(&mut limits.0).push(Limit { zone, most });
        Ok(limits)
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "limit_conn",
    groups: &[group::<LimitConnSettings>()],
    handlers: &[Handler { phase: Phase::PreAccess, wanted, run: Run::Now(run) }],
    variables: &[Variable::named("limit_conn_status", |request, _| {
        Some(Cow::Borrowed(request.find_shared::<Judged>()?.status.get()?))
    })],
    ..Module::EMPTY
};

/// What became of a request, and its places in the counts: they become free with the request, whatever its end. A request
/// is counted once, whatever internal redirects and subrequests it comes to.
#[derive(Default)]
struct Judged {
    status: Cell<Option<&'static [u8]>>,
    held: RefCell<SmallVec<[Held; 2]>>,
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<LimitConnSettings>().limit_conn.0.is_empty()
}

fn run(request: &mut Request) -> Outcome {
    let judged = request.shared().get::<Judged>();
    if judged.status.get().is_some() {
        return Outcome::Declined;
    }
    let location = request.location.clone();
    let settings = location.settings.get::<LimitConnSettings>();
    let mut held = SmallVec::new();
    let mut counted = false;
    for limit in settings.limit_conn.0.iter() {
        let Some(zone) = limit.zone.get() else { continue };
        let Some(key) = zone.key.of(request) else { continue };
        counted = true;
        match zone.counts.enter(&key, limit.most) {
            Ok(place) => held.push(place),
            Err(why) => {
                let (dry, level) = (settings.limit_conn_dry_run, settings.limit_conn_log_level.level());
                let dryly = if dry { ", dry run," } else { "" };
                let zone = limit.zone.name();
                match why {
                    Refused::Limit => {
                        tell(request, level, format_args!("limiting connections{dryly} by zone \"{zone}\""));
                    }
                    Refused::Exhausted => {
                        tell(request, level, format_args!("limiting connections{dryly} as zone \"{zone}\" is full"));
                    }
                }
                judged.status.set(Some(if dry { &b"REJECTED_DRY_RUN"[..] } else { b"REJECTED" }));
                return if dry { Outcome::Declined } else { Outcome::Status(settings.limit_conn_status.0) };
            }
        }
    }
    if counted {
        judged.status.set(Some(b"PASSED"));
        *judged.held.borrow_mut() = held;
    }
    Outcome::Declined
}
