//! The values of the directives about caching.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Place, Problem, Setting, Shape, Value, keyword_enum, parse_seconds};
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_http::zones::{Zone, ZoneTable};
use freerun_proto::Method;

use super::zones::{self, Defined};
use crate::proxy::settings::FamilySettings;
use crate::proxy::settings::store::Store;

/// `cache`: which one.
#[derive(Debug, Clone)]
pub enum CacheName {
    /// Nothing is cached.
    Off,
    /// The one of this zone.
    Zone(Zone<Defined>),
    /// The variables name its zone.
    Computed(Template),
}

impl Value for CacheName {
    const SHAPE: Shape = Shape::exactly(1, "zone | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<CacheName, Problem> {
        let word = &directive.args[0];
        if word.text == "off" {
            return Ok(CacheName::Off);
        }
        if word.text.contains('$') {
            return Template::parse(word, cx).map(CacheName::Computed);
        }
        let kind = zones::kind(&directive.name.text);
        cx.extensions.get_or_default::<ZoneTable>().refer(&word.text, kind, word.place).map(CacheName::Zone)
    }
}

impl CacheName {
    /// Whether something may be cached.
    pub fn is_on(&self) -> bool {
        !matches!(self, CacheName::Off)
    }
}

/// The statuses that a time without statuses is for.
const USUAL: [u16; 3] = [200, 301, 302];

/// `cache_valid`: for how many seconds a response with a status is fresh, where it says nothing itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Valid(Arc<Vec<(Option<u16>, u64)>>);

impl Setting for Valid {
    const SHAPE: Shape = Shape::at_least(1, "[status …] time");

    fn set(previous: Option<Valid>, directive: &Node, _: &mut Cx) -> Result<Valid, Problem> {
        let mut valid = previous.unwrap_or_default();
        let list = Arc::make_mut(&mut valid.0);
        let Some((last, statuses)) = directive.args.split_last() else { return Err(Problem::wrong_count(directive)) };
        let seconds = parse_seconds(&last.text)
            .ok_or_else(|| Problem::new(format!("invalid time value \"{}\"", last.text)).at(last.place))?;
        if statuses.is_empty() {
            list.extend(USUAL.map(|status| (Some(status), seconds)));
        }
        for word in statuses {
            if word.text == "any" {
                list.push((None, seconds));
                continue;
            }
            let status = word.text.parse().ok().filter(|status| (100..=599).contains(status));
            let wrong = || Problem::new(format!("invalid status \"{}\"", word.text)).at(word.place);
            list.push((Some(status.ok_or_else(wrong)?), seconds));
        }
        Ok(valid)
    }
}

impl Valid {
    /// For how many seconds; the first one that fits counts.
    pub fn of(&self, status: u16) -> Option<u64> {
        self.0.iter().find(|(known, _)| known.is_none_or(|known| known == status)).map(|(_, seconds)| *seconds)
    }
}

keyword_enum! {
    /// A method whose responses may be cached.
    pub enum CacheMethod {
        /// GET
        Get = "GET",
        /// HEAD
        Head = "HEAD",
        /// POST
        Post = "POST",
    }
}

/// `cache_methods`; GET and HEAD are always among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods {
    post: bool,
}

impl Value for Methods {
    const SHAPE: Shape = Shape::at_least(1, "GET | HEAD | POST …");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Methods, Problem> {
        let flags = freerun_conf::Flags::<CacheMethod>::parse(directive, cx)?;
        Ok(Methods { post: flags.contains(CacheMethod::Post) })
    }
}

impl Methods {
    /// Whether responses to it may be cached.
    pub fn has(self, method: Method) -> bool {
        matches!(method, Method::Get | Method::Head) || self.post && method == Method::Post
    }
}

/// Conditions of `cache_bypass`, `no_cache` and `cache_purge`: of all of them, one has to hold.
#[derive(Debug, Clone, Default)]
pub struct Conditions(Arc<Vec<Template>>);

impl Setting for Conditions {
    const SHAPE: Shape = Shape::at_least(1, "string …");

    fn set(previous: Option<Conditions>, directive: &Node, cx: &mut Cx) -> Result<Conditions, Problem> {
        let mut conditions = previous.unwrap_or_default();
        for word in &directive.args {
            let template = Template::parse(word, cx)?;
            Arc::make_mut(&mut conditions.0).push(template);
        }
        Ok(conditions)
    }
}

impl Conditions {
    /// Whether one of them is neither empty nor `0`.
    pub fn hold(&self, request: &Request) -> bool {
        self.0.iter().any(|condition| {
            let value = condition.render(request);
            !value.is_empty() && *value != *b"0"
        })
    }
}

impl FamilySettings {
    /// Checks what merged settings show of a cache, of a member with this prefix.
    ///
    /// # Errors
    /// The zone is none.
    pub fn check_cache(&self, prefix: &str, has_key: bool, cx: &mut Cx) -> Result<(), Problem> {
        if let CacheName::Zone(zone) = &self.proxy_cache
            && zone.get().is_none()
        {
            let near = cx.extensions.get_or_default::<super::zones::Caches>().near(zone.name());
            let problem = Problem::new(format!("\"{prefix}cache\" zone \"{}\" is unknown", zone.name()));
            return Err(match near {
                Some(near) => problem.hint(format!("did you mean \"{near}\"?")),
                None => problem.hint(format!("no {prefix}cache_path declares it")),
            });
        }
        if self.proxy_cache.is_on() && self.proxy_cache_key.is_none() && !has_key {
            cx.warn(Problem::warning(format!("no \"{prefix}cache_key\" for \"{prefix}cache\"")).at(Place::NONE));
        }
        Ok(())
    }

    /// Of what is cached and what is stored as files, only one holds: what a level says takes the place of the other one from
    /// outside.
    pub(in crate::proxy) fn settle_store(&mut self, cache: Option<&CacheName>, store: Option<&Store>) {
        if cache.is_some_and(CacheName::is_on) {
            self.proxy_store = Store::Off;
        } else if store.is_some_and(|store| !matches!(store, Store::Off)) {
            self.proxy_cache = CacheName::Off;
        }
    }
}
