//! The directives of `limit_req`.

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, parse_time, settings};
use freerun_http::request::Request;
use freerun_serve::configuration::engine_declared::EngineDeclared;
use freerun_serve::configuration::zones::{Zone, ZoneName, ZoneTable};
use freerun_serve::limits::bucket::{Bucket, Judgement, MAX_EXCESS};
use freerun_serve::limits::leases::{LeaseWait, Leases, LimitAlone, SharedLimit, SharedLimits};
use freerun_serve::limits::{LimitKey, RefusalLevel};
use freerun_serve::loops::figures::limits::{LimitFigures, LimitZones};

use super::states::States;
use crate::preaccess::key::RefusalStatus;

/// The longest wait of a request for its lease without `wait`.
const LEASE_WAIT: Duration = Duration::from_millis(20);

/// The kind of zone that this module uses.
const KIND: &str = "limit_req";

settings! {
    /// Limits the rate of requests with the same key: a leaky bucket.
    #[module = "limit_req"]
    pub struct LimitReqSettings {
        /// Defines a zone: the key that distinguishes requests, the size of its memory, and the rate of each key, in
        /// requests a second (`r/s`) or minute (`r/m`).
        ///
        /// A key takes 24 bytes: one megabyte has room for 43680. When the zone is full, the least recently used key
        /// (of the 16 keys that share a set of the table) makes room. Requests with an empty key are not counted. A
        /// zone keeps its state over a reload if its name, size and key stay; the rate may change.
        ///
        /// | parameter | |
        /// |---|---|
        /// | `sync` | several machines count together, through `zone_sync_engine`: each takes requests of a key ahead of their use. Together they admit in a time what one would, and at most 600 ms of the rate and a request for each machine more. A key takes 48 bytes |
        /// | `strict` | no request passes before the engine has answered for its key, and the machines together never admit more than one would |
        /// | `wait=20ms` | the longest wait of a request for the engine: where `strict` is set, where the machine has nothing for the key yet, or when a full bucket has room again. At most 256 requests of a zone wait at a time. After three waits in vain none does until there is an answer |
        /// | `alone=share` | while the engine is away, a machine has the rate and the burst divided by the number of machines that lived last; this is the default |
        /// | `alone=local` | while the engine is away, a machine has the whole rate and burst for itself |
        /// | `alone=refuse` | while the engine is away, requests with a key are refused |
        limit_req_zone: ReqZones, in HTTP,
            fidelity = Differs("a state takes 24 bytes instead of 64 or 128; of a full zone, the oldest among 16 states is dropped; a zone whose key or size changes on reload starts anew");
        /// Limits the requests of each key to the rate of the zone.
        ///
        /// As many as `burst` may come early: they wait until the rate allows them, except the first `delay` of them
        /// (`nodelay`: none waits). Requests beyond the burst are refused. A level may have several limits; the
        /// strictest decides, and a request that one limit refuses is counted by none.
        limit_req: ReqLimits, in HTTP | SERVER | LOCATION;
        /// Only counts, logs and sets `$limit_req_status`; nothing is delayed or refused.
        limit_req_dry_run: bool = "off", in HTTP | SERVER | LOCATION;
        /// The level that refusals are logged at; delays are logged one level lower.
        limit_req_log_level: RefusalLevel = "error", in HTTP | SERVER | LOCATION;
        /// The status of refused requests.
        limit_req_status: RefusalStatus = "503", in HTTP | SERVER | LOCATION;
    }
}

/// The `limit_req_zone` directives; the zones are in the configuration's [`ZoneTable`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ReqZones;

/// A zone as the configuration defines it.
#[derive(Debug)]
pub struct ReqZone {
    /// The key that distinguishes requests.
    pub key: LimitKey<Request>,
    /// The rate in thousandths of a request a second.
    pub rate: u64,
    /// The counts of the keys.
    pub counts: KeyCounts,
    /// Counters of the zone.
    pub figures: Arc<LimitFigures>,
}

/// The counts of the requests of each key.
#[derive(Debug, Clone)]
pub enum KeyCounts {
    /// The machine counts for itself.
    Own(Arc<States>),
    /// Several machines count together (`sync`). The time is the longest wait of a request for its lease.
    Shared(Arc<Leases>, Duration),
}

impl KeyCounts {
    /// The present time for the functions below.
    pub fn now(&self) -> u32 {
        match self {
            KeyCounts::Own(states) => states.now(),
            KeyCounts::Shared(leases, _) => leases.now(),
        }
    }

    /// Counts a request with this key, unless it is beyond the burst. `None`: the request has to wait for the engine.
    pub fn count(&self, key: &[u8], now: u32, bucket: Bucket) -> Option<Judgement> {
        match self {
            KeyCounts::Own(states) => Some(states.count(key, now, bucket)),
            KeyCounts::Shared(leases, _) => leases.count(key, now, bucket),
        }
    }

    /// The result that [`KeyCounts::count`] would have, without counting.
    pub fn ask(&self, key: &[u8], now: u32, bucket: Bucket) -> Option<Judgement> {
        match self {
            KeyCounts::Own(states) => Some(states.ask(key, now, bucket)),
            KeyCounts::Shared(leases, _) => leases.ask(key, now, bucket),
        }
    }

    /// The wait of a request with this key for the engine.
    pub fn wait(&self, key: &[u8]) -> Option<LeaseWait> {
        match self {
            KeyCounts::Own(_) => None,
            KeyCounts::Shared(leases, _) => Some(LeaseWait::new(leases.clone(), key)),
        }
    }

    /// The longest wait of a request for the engine.
    pub fn longest_wait(&self) -> Duration {
        match self {
            KeyCounts::Own(_) => Duration::ZERO,
            KeyCounts::Shared(_, longest) => *longest,
        }
    }
}

impl Setting for ReqZones {
    const SHAPE: Shape =
        Shape::between(3, 7, "key zone=name:size rate=rate [sync] [strict] [wait=time] [alone=local|share|refuse]");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let key = LimitKey::parse(&directive.args[0], cx)?;
        let (mut zone, mut rate) = (None, 1000);
        let (mut is_shared, mut alone, mut wait, mut strict) = (false, None, None, None);
        for word in &directive.args[1..] {
            match word.text.split_once('=') {
                Some(("zone", value)) => zone = Some(ZoneName::parse(directive, word, value)?),
                Some(("alone", name)) => {
                    let known = LimitAlone::ALL.into_iter().find(|(known, _)| *known == name);
                    let invalid = || {
                        let hint = "it is \"local\", \"share\" or \"refuse\"";
                        Problem::invalid_parameter(directive, word).hint(hint)
                    };
                    alone = Some((known.ok_or_else(invalid)?.1, word));
                }
                Some(("wait", time)) => {
                    let time = parse_time(time).filter(|time| !time.is_zero());
                    let time = time.ok_or_else(|| Problem::invalid_parameter(directive, word))?;
                    wait = Some((time, word));
                }
                None if word.text == "strict" => strict = Some(word),
                None if word.text == "sync" => {
                    EngineDeclared::check(directive, word, cx)?;
                    is_shared = true;
                }
                Some(("rate", value)) => {
                    let invalid = || Problem::new(format!("invalid rate \"{}\"", word.text)).at(word.place);
                    rate = parse_rate(value).ok_or_else(invalid)?;
                }
                _ => return Err(Problem::invalid_parameter(directive, word)),
            }
        }
        let zone = zone.ok_or_else(|| ZoneName::missing(directive))?;
        let of_shared = alone.map(|(_, word)| word).or(wait.map(|(_, word)| word)).or(strict);
        if let Some(word) = of_shared.filter(|_| !is_shared) {
            return Err(Problem::invalid_parameter(directive, word).hint("it belongs to \"sync\""));
        }
        let figures = if is_shared {
            let alone = alone.map(|(alone, _)| alone).unwrap_or_default();
            let wait = wait.map_or(LEASE_WAIT, |(wait, _)| wait);
            let sharing = SharedRate { alone, is_strict: strict.is_some(), wait };
            declare_shared(directive, &zone, key, rate, sharing, cx)?
        } else {
            declare_own(directive, &zone, key, rate, cx)?
        };
        cx.extensions.get_or_default::<LimitZones>().requests.insert(zone.name.as_str().into(), figures);
        Ok(ReqZones)
    }
}

/// Declares a zone that this machine has for itself. Its figures.
fn declare_own(
    directive: &Node,
    zone: &ZoneName,
    key: LimitKey<Request>,
    rate: u64,
    cx: &mut Cx,
) -> Result<Arc<LimitFigures>, Problem> {
    let text = key.text().to_owned();
    let table = cx.extensions.get_or_default::<ZoneTable>();
    let name = format!("{KIND} {} {} {text}", zone.name, zone.size);
    let arrived = table.arrived(&name);
    let restored = || arrived.and_then(|saved| States::restored(zone.size, &saved));
    let make = || restored().or_else(|| States::new(zone.size));
    let figures = table.keep(&format!("{KIND} {}", zone.name), LimitFigures::default);
    let mut kept = None;
    let define = |states: Arc<States>| {
        kept = Some(states.clone());
        ReqZone { key, rate, counts: KeyCounts::Own(states), figures: figures.clone() }
    };
    table.declare(directive, KIND, zone, &text, make, define)?;
    if let Some(states) = kept {
        table.carry(&name, &states, |states| Some(states.save()));
    }
    Ok(figures)
}

/// The way in which several machines share a zone.
struct SharedRate {
    alone: LimitAlone,
    is_strict: bool,
    /// The longest wait of a request for its lease.
    wait: Duration,
}

/// Declares a zone that several machines share. Its figures.
fn declare_shared(
    directive: &Node,
    zone: &ZoneName,
    key: LimitKey<Request>,
    rate: u64,
    SharedRate { alone, is_strict, wait }: SharedRate,
    cx: &mut Cx,
) -> Result<Arc<LimitFigures>, Problem> {
    let text = format!("{} sync {} {is_strict}", key.text(), alone.name());
    let table = cx.extensions.get_or_default::<ZoneTable>();
    let figures = table.keep(&format!("{KIND} {}", zone.name), LimitFigures::default);
    let mut kept = None;
    let define = |leases: Arc<Leases>| {
        kept = Some(leases.clone());
        ReqZone { key, rate, counts: KeyCounts::Shared(leases, wait), figures: figures.clone() }
    };
    table.declare(directive, KIND, zone, &text, || Leases::new(zone.size, alone, is_strict), define)?;
    if let Some(leases) = kept {
        let shared = cx.extensions.get_or_default::<SharedLimits>();
        shared.zones.insert(zone.name.as_str().into(), SharedLimit { leases, rate });
    }
    Ok(figures)
}

/// Parses a rate into whole thousandths of a request a second, as in nginx: `1r/m` is 16.
fn parse_rate(text: &str) -> Option<u64> {
    let (number, seconds) = match (text.strip_suffix("r/s"), text.strip_suffix("r/m")) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 60),
        _ => (text, 1),
    };
    positive(number).map(|number| number.saturating_mul(1000) / seconds)
}

/// Parses a decimal number above 0 that fits nginx's integers.
fn positive(text: &str) -> Option<u64> {
    let number = text.parse::<i64>().ok().filter(|number| *number > 0 && text.as_bytes()[0].is_ascii_digit())?;
    u64::try_from(number).ok()
}

/// The value of one `limit_req`.
#[derive(Debug, Clone)]
pub struct Limit {
    /// The zone in which requests are counted.
    pub zone: Zone<ReqZone>,
    /// The largest excess, in thousandths of a request.
    pub burst: u64,
    /// The excess, in thousandths, from which on requests wait; `None`: they never do.
    pub delay: Option<u64>,
}

/// The values of all `limit_req` of a level.
#[derive(Debug, Clone, Default)]
pub struct ReqLimits(pub Arc<Vec<Limit>>);

impl Setting for ReqLimits {
    const SHAPE: Shape = Shape::between(1, 3, "zone=name [burst=number] [nodelay | delay=number]");

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let (mut zone, mut burst, mut delay) = (None, 0, Some(0));
        for word in &directive.args {
            let invalid = |what: &str| Problem::new(format!("invalid {what} value \"{}\"", word.text)).at(word.place);
            match word.text.split_once('=') {
                Some(("zone", name)) => {
                    let table = cx.extensions.get_or_default::<ZoneTable>();
                    zone = Some(table.refer::<ReqZone>(name, KIND, word.place)?);
                }
                Some(("burst", number)) => burst = positive(number).ok_or_else(|| invalid("burst"))?,
                Some(("delay", number)) => delay = Some(positive(number).ok_or_else(|| invalid("delay"))?),
                None if word.text == "nodelay" => delay = None,
                _ => return Err(Problem::invalid_parameter(directive, word)),
            }
        }
        let zone = zone.ok_or_else(|| ZoneName::missing(directive))?;
        let mut limits = previous.unwrap_or_default();
        if limits.0.iter().any(|limit| limit.zone == zone) {
            return Err(Problem::duplicate(directive));
        }
        let zone_name: Arc<str> = zone.name().into();
        let thousandths = |number: u64| number.saturating_mul(1000).min(MAX_EXCESS);
        let limit = Limit { zone, burst: thousandths(burst), delay: delay.map(thousandths) };
        let largest = cx.extensions.get_or_default::<SharedLimits>().bursts.entry(zone_name).or_default();
        *largest = limit.burst.max(*largest);
        Arc::make_mut(&mut limits.0).push(limit);
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_thousandths_a_second() {
        let cases = [
            ("1r/s", Some(1000)),
            ("1r/m", Some(16)),
            ("90r/m", Some(1500)),
            ("7", Some(7000)),
            ("9223372036854775807r/s", Some(u64::MAX)),
            ("0r/s", None),
            ("-1r/s", None),
            ("+1r/s", None),
            ("1.5r/s", None),
            ("1r/h", None),
            ("r/s", None),
            ("", None),
            ("9223372036854775808r/s", None),
        ];
        for (text, rate) in cases {
            assert_eq!(parse_rate(text), rate, "{text}");
        }
    }
}
