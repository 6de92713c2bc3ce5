//! `cache_purge`: by conditions, as in nginx's paid edition, or in the words of the module ngx_cache_purge.

use std::sync::Arc;

use freerun_conf::{Contexts, Cx, Node, Problem, Setting, Shape};
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_serve::configuration::zones::{Zone, ZoneTable};
use freerun_serve::limits::access::Rules;

use crate::caches::values::Conditions;
use crate::caches::zones;
use crate::caches::zones::CacheDefinition;

/// The method that purges with `on`.
const USUAL_METHOD: &str = "PURGE";

/// Which requests purge, and what.
#[derive(Clone, Default)]
pub enum PurgeRule {
    /// None.
    #[default]
    Never,
    /// Requests for which a condition holds.
    If(Conditions),
    /// Requests with a method.
    Method(Arc<MethodRule>),
    /// All requests: the location purges a key of a zone.
    Key(Zone<CacheDefinition>, Template),
}

/// A method that purges.
#[derive(Debug)]
pub struct MethodRule {
    name: String,
    /// Everything in the cache is purged.
    pub purges_all: bool,
    /// The clients that may use it; empty: all may.
    from: Rules,
}

impl MethodRule {
    fn new(name: &str) -> MethodRule {
        MethodRule { name: name.to_owned(), purges_all: false, from: Rules::default() }
    }

    /// Whether the client may use it.
    pub fn allows(&self, request: &Request) -> bool {
        self.from.is_empty() || self.from.judge(request.peer()) == Some(true)
    }
}

impl Setting for PurgeRule {
    const SHAPE: Shape =
        Shape::at_least(1, "string … | on | off | method [purge_all] [from all | address …] | zone key");

    fn set(previous: Option<PurgeRule>, directive: &Node, cx: &mut Cx) -> Result<PurgeRule, Problem> {
        let words: Vec<&str> = directive.args.iter().map(|word| word.text.as_str()).collect();
        let is_condition = words[0].contains('$') || matches!(words[..], ["0" | ""]);
        match (previous, is_condition) {
            (None | Some(PurgeRule::Never), true) => Conditions::set(None, directive, cx).map(PurgeRule::If),
            (Some(PurgeRule::If(before)), true) => Conditions::set(Some(before), directive, cx).map(PurgeRule::If),
            (None, false) => PurgeRule::of_module(&words, directive, cx),
            (Some(_), _) => Err(Problem::duplicate(directive)),
        }
    }
}

impl PurgeRule {
    /// Reads the words of ngx_cache_purge.
    fn of_module(words: &[&str], directive: &Node, cx: &mut Cx) -> Result<PurgeRule, Problem> {
        let method = |rule: MethodRule| Ok(PurgeRule::Method(Arc::new(rule)));
        match *words {
            ["off"] => Ok(PurgeRule::Never),
            ["on"] => method(MethodRule::new(USUAL_METHOD)),
            [name] if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                let problem = Problem::invalid_parameter(directive, &directive.args[0]);
                Err(problem.hint("every request would be a purge: give a variable, or a method such as PURGE"))
            }
            [name] => method(MethodRule::new(name)),
            [zone, key] if !matches!(key, "from" | "purge_all") => {
                let name = &directive.name.text;
                if cx.context != Contexts::LOCATION {
                    return Err(Problem::directive(directive, "with a key is not allowed here"));
                }
                let kind = zones::kind(name);
                let zone = cx.extensions.get_or_default::<ZoneTable>().refer(zone, kind, directive.args[0].place)?;
                Ok(PurgeRule::Key(zone, Template::parse(&directive.args[1], cx)?))
            }
            [name, ref rest @ ..] => {
                let mut rule = MethodRule::new(if name == "on" { USUAL_METHOD } else { name });
                let mut at = 1;
                if rest.first() == Some(&"purge_all") {
                    rule.purges_all = true;
                    at = 2;
                }
                if let Some(word) = directive.args.get(at) {
                    if word.text != "from" || directive.args.len() == at + 1 {
                        let text = format!("invalid parameter \"{}\", expected \"from\" keyword", word.text);
                        return Err(Problem::new(text).at(word.place));
                    }
                    for word in &directive.args[at + 1..] {
                        rule.from.add(word, true, directive, cx)?;
                    }
                }
                method(rule)
            }
            [] => Err(Problem::wrong_count(directive)),
        }
    }

    /// The rule of a method, if it is the request's. A request that was given the method GET on its way here asks for an
    /// error page, and purges nothing.
    pub fn of_method(&self, request: &Request) -> Option<&Arc<MethodRule>> {
        let has_own_method = request.asked.method == request.head.method();
        match self {
            PurgeRule::Method(rule) if has_own_method && request.head.method_text() == rule.name.as_bytes() => {
                Some(rule)
            }
            _ => None,
        }
    }

    /// Whether a condition for purging holds.
    pub fn holds(&self, request: &Request) -> bool {
        matches!(self, PurgeRule::If(conditions) if conditions.hold(request))
    }

    /// The zone and the key that a location purges.
    pub fn key(&self) -> Option<(&Zone<CacheDefinition>, &Template)> {
        match self {
            PurgeRule::Key(zone, key) => Some((zone, key)),
            _ => None,
        }
    }
}
