//! The values of the directives about caching.

use std::sync::Arc;

use freerun_cache::cache::Cache;
use freerun_conf::{Cx, Flags, Node, Problem, Setting, Shape, Value, keyword_enum, parse_seconds, text_of};
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_proto::Method;
use freerun_serve::configuration::zones::{Zone, ZoneTable};

use crate::caches::zones;
use crate::caches::zones::{CacheDefinition, Caches, Registry};

/// The value of `cache`: the name of a cache.
#[derive(Debug, Clone)]
pub enum CacheName {
    /// Nothing is cached.
    Off,
    /// The cache of this zone.
    Zone(Zone<CacheDefinition>),
    /// Variables give the name of the zone.
    Computed(Template, Registry),
}

/// The error for a name that no cache has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cache \"{0}\" not found")]
pub struct UnknownCache(pub String);

impl Value for CacheName {
    const SHAPE: Shape = Shape::exactly(1, "zone | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<CacheName, Problem> {
        let word = &directive.args[0];
        if word.text == "off" {
            return Ok(CacheName::Off);
        }
        if word.text.contains('$') {
            let registry = cx.extensions.get_or_default::<Caches>().registry();
            return Template::parse(word, cx).map(|name| CacheName::Computed(name, registry));
        }
        let kind = zones::kind(&directive.name.text);
        cx.extensions.get_or_default::<ZoneTable>().refer(&word.text, kind, word.place).map(CacheName::Zone)
    }
}

impl CacheName {
    /// The cache for a request, if there is one.
    ///
    /// # Errors
    /// The variables give a name that no cache has.
    pub fn find<'c>(&'c self, request: &Request) -> Result<Option<&'c Arc<Cache>>, UnknownCache> {
        match self {
            CacheName::Off => Ok(None),
            CacheName::Zone(zone) => Ok(zone.get().map(|defined| &defined.folder.cache)),
            CacheName::Computed(template, registry) => {
                let name = template.render(request);
                if name.is_empty() || *name == *b"off" {
                    return Ok(None);
                }
                let unknown = || UnknownCache(text_of(&name).into_owned());
                registry.find(&name).map(|defined| Some(&defined.folder.cache)).ok_or_else(unknown)
            }
        }
    }

    /// Whether responses may be cached.
    pub fn is_on(&self) -> bool {
        !matches!(self, CacheName::Off)
    }
}

/// `cache_valid`: the number of seconds for which a response with a status is fresh, if it has no lifetime of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Valid(Arc<freerun_cache::rules::Valid>);

impl Setting for Valid {
    const SHAPE: Shape = Shape::at_least(1, "[status …] time");

    fn set(previous: Option<Valid>, directive: &Node, _: &mut Cx) -> Result<Valid, Problem> {
        let mut valid = previous.unwrap_or_default();
        let Some((last, words)) = directive.args.split_last() else { return Err(Problem::wrong_count(directive)) };
        let seconds = parse_seconds(&last.text)
            .ok_or_else(|| Problem::new(format!("invalid time value \"{}\"", last.text)).at(last.place))?;
        let mut statuses = Vec::with_capacity(words.len());
        for word in words {
            let status = word.text.parse().ok().filter(|status| (100..=599).contains(status));
            if status.is_none() && word.text != "any" {
                return Err(Problem::new(format!("invalid status \"{}\"", word.text)).at(word.place));
            }
            statuses.push(status);
        }
        Arc::make_mut(&mut valid.0).push(&statuses, u32::try_from(seconds).unwrap_or(u32::MAX));
        Ok(valid)
    }
}

impl Valid {
    /// The value in the form that the rules use.
    pub fn rules(&self) -> &freerun_cache::rules::Valid {
        &self.0
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
pub struct Methods(Flags<CacheMethod>);

impl Setting for Methods {
    const SHAPE: Shape = Shape::at_least(1, "GET | HEAD | POST …");

    fn set(previous: Option<Methods>, directive: &Node, cx: &mut Cx) -> Result<Methods, Problem> {
        Flags::set(previous.map(|Methods(flags)| flags), directive, cx).map(Methods)
    }
}

impl Methods {
    /// Whether responses to this method may be cached.
    pub fn has(self, method: Method) -> bool {
        matches!(method, Method::Get | Method::Head) || method == Method::Post && self.0.contains(CacheMethod::Post)
    }
}

/// Conditions. One of them has to hold for `cache_bypass`, `no_cache` and [`cache_purge`](crate::caches::purge_rule),
/// all of them for `allow_upstream`.
pub type Conditions = freerun_http::values::conditions::Conditions<Request>;
