//! The values of `limit_conn_zone` and `limit_conn`: how many subjects of a key are served at the same time.

use std::marker::PhantomData;
use std::sync::Arc;

use freerun_conf::{Contexts, Cx, Node, Problem, Setting, Shape};
use freerun_runtime::log::Level;
use smallvec::SmallVec;

use super::counts::{CountRefusal, CountedSubject, Counts, MAX_COUNT};
use super::key::LimitKey;
use crate::configuration::stateless::stateless;
use crate::configuration::zones::{Zone, ZoneName, ZoneTable};
use crate::loops::figures::limits::{LimitFigures, LimitOutcome, LimitZones};
use crate::values::subject::Subject;

/// The kind of the zones that these directives use.
const KIND: &str = "limit_conn";

/// The `limit_conn_zone` directives; their zones are in the configuration's [`ZoneTable`].
pub struct ConnZones<S>(PhantomData<fn(&S)>);

stateless!(ConnZones);

/// A zone, as the configuration defines it.
#[derive(Debug)]
struct ConnZone<S> {
    key: LimitKey<S>,
    counts: Arc<Counts>,
    figures: Arc<LimitFigures>,
}

impl<S: Subject> Setting for ConnZones<S> {
    const SHAPE: Shape = Shape::exactly(2, "key zone=name:size");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let key = LimitKey::<S>::parse(&directive.args[0], cx)?;
        let word = &directive.args[1];
        let Some(value) = word.text.strip_prefix("zone=") else {
            return Err(Problem::invalid_parameter(directive, word));
        };
        let zone = ZoneName::parse(directive, word, value)?;
        let text = key.text().to_owned();
        let is_http = cx.context == Contexts::HTTP;
        let table = cx.extensions.get_or_default::<ZoneTable>();
        let figures = table.keep(&format!("{KIND} {}", zone.name), LimitFigures::default);
        let zones = cx.extensions.get_or_default::<LimitZones>();
        let all = if is_http { &mut zones.connections } else { &mut zones.sessions };
        all.insert(zone.name.as_str().into(), figures.clone());
        let define = |counts| ConnZone { key, counts, figures };
        let table = cx.extensions.get_or_default::<ZoneTable>();
        table.declare(directive, KIND, &zone, &text, || Counts::new(zone.size), define)?;
        Ok(ConnZones(PhantomData))
    }
}

/// A `limit_conn` directive.
struct Limit<S> {
    zone: Zone<ConnZone<S>>,
    most: u64,
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for Limit<S> {
    fn clone(&self) -> Limit<S> {
        Limit { zone: self.zone.clone(), most: self.most }
    }
}

/// The `limit_conn` directives of a level.
pub struct ConnLimits<S>(Arc<Vec<Limit<S>>>);

impl<S> Clone for ConnLimits<S> {
    fn clone(&self) -> ConnLimits<S> {
        ConnLimits(self.0.clone())
    }
}

impl<S> Default for ConnLimits<S> {
    fn default() -> ConnLimits<S> {
        ConnLimits(Arc::default())
    }
}

impl<S> std::fmt::Debug for ConnLimits<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|limit| (&limit.zone, limit.most))).finish()
    }
}

impl<S: Subject> Setting for ConnLimits<S> {
    const SHAPE: Shape = Shape::exactly(2, "zone number");

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let (name, number) = (&directive.args[0], &directive.args[1]);
        let zone = cx.extensions.get_or_default::<ZoneTable>().refer::<ConnZone<S>>(&name.text, KIND, name.place)?;
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

/// The verdict of the limits of a level about a subject.
#[derive(Debug)]
pub enum ConnVerdict {
    /// No zone has a key for it.
    NotCounted,
    /// The subject is counted until this value is dropped.
    Counted(ConnPlaces),
    /// The limit is reached, or the zone has no room.
    Refused,
}

impl ConnVerdict {
    /// The value of `$limit_conn_status`, where a refusal is only logged with `dry`. `None` if the subject is not counted.
    pub fn status(&self, dry: bool) -> Option<&'static [u8]> {
        match self {
            ConnVerdict::NotCounted => None,
            ConnVerdict::Counted(_) => Some(b"PASSED"),
            ConnVerdict::Refused if dry => Some(b"REJECTED_DRY_RUN"),
            ConnVerdict::Refused => Some(b"REJECTED"),
        }
    }
}

/// The places of a subject in the counts: they become free when this is dropped.
#[derive(Debug, Default)]
pub struct ConnPlaces(SmallVec<[CountedSubject; 2]>);

impl ConnPlaces {
    /// The number of zones in which the subject is counted.
    pub fn zones(&self) -> usize {
        self.0.len()
    }
}

impl<S: Subject> ConnLimits<S> {
    /// Whether there is no limit.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of the limits would refuse the subject now.
    pub fn is_full(&self, subject: &S) -> bool {
        self.0.iter().any(|limit| {
            let Some(zone) = limit.zone.get() else { return false };
            zone.key.of(subject).is_some_and(|key| zone.counts.is_full(&key, limit.most))
        })
    }

    /// Counts a subject, unless one of the limits refuses it, which is logged at `level`. With `dry`, a refusal is only
    /// logged.
    pub fn enter(&self, subject: &S, dry: bool, level: Level) -> ConnVerdict {
        let mut held = SmallVec::new();
        let mut counted = false;
        for limit in self.0.iter() {
            let Some(zone) = limit.zone.get() else { continue };
            let Some(key) = zone.key.of(subject) else { continue };
            counted = true;
            match zone.counts.enter(&key, limit.most) {
                Ok(place) => {
                    zone.figures.count(LimitOutcome::Passed);
                    held.push(place);
                }
                Err(why) => {
                    zone.figures.count(if dry { LimitOutcome::RejectedDryRun } else { LimitOutcome::Rejected });
                    let dryly = if dry { ", dry run," } else { "" };
                    let zone = limit.zone.name();
                    match why {
                        CountRefusal::Limit => {
                            subject.log(level, format_args!("limiting connections{dryly} by zone \"{zone}\""));
                        }
                        CountRefusal::Exhausted => {
                            subject.log(level, format_args!("limiting connections{dryly} as zone \"{zone}\" is full"));
                        }
                    }
                    return ConnVerdict::Refused;
                }
            }
        }
        if counted { ConnVerdict::Counted(ConnPlaces(held)) } else { ConnVerdict::NotCounted }
    }
}
