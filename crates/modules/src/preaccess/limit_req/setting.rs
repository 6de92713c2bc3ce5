//! The directives of `limit_req`.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, settings};
use freerun_http::request::Request;
use freerun_serve::configuration::zones::{Zone, ZoneName, ZoneTable};
use freerun_serve::limits::bucket::MAX_EXCESS;
use freerun_serve::limits::{LimitKey, RefusalLevel};
use freerun_serve::loops::figures::limits::{LimitFigures, LimitZones};

use super::states::States;
use crate::preaccess::key::RefusalStatus;

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
    /// The states of the keys.
    pub states: Arc<States>,
    /// Counters of the zone.
    pub figures: Arc<LimitFigures>,
}

impl Setting for ReqZones {
    const SHAPE: Shape = Shape::exactly(3, "key zone=name:size rate=rate");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let key = LimitKey::parse(&directive.args[0], cx)?;
        let (mut zone, mut rate) = (None, 1000);
        for word in &directive.args[1..] {
            match word.text.split_once('=') {
                Some(("zone", value)) => zone = Some(ZoneName::parse(directive, word, value)?),
                Some(("rate", value)) => {
                    let invalid = || Problem::new(format!("invalid rate \"{}\"", word.text)).at(word.place);
                    rate = parse_rate(value).ok_or_else(invalid)?;
                }
                _ => return Err(Problem::invalid_parameter(directive, word)),
            }
        }
        let zone = zone.ok_or_else(|| ZoneName::missing(directive))?;
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
            ReqZone { key, rate, states, figures: figures.clone() }
        };
        table.declare(directive, KIND, &zone, &text, make, define)?;
        if let Some(states) = kept {
            table.carry(&name, &states, |states| Some(states.save()));
        }
        cx.extensions.get_or_default::<LimitZones>().requests.insert(zone.name.as_str().into(), figures);
        Ok(ReqZones)
    }
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
        let thousandths = |number: u64| number.saturating_mul(1000).min(MAX_EXCESS);
        let limit = Limit { zone, burst: thousandths(burst), delay: delay.map(thousandths) };
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
