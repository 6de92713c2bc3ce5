//! `valid_referers`: whether a request comes from a page that may link here.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, Word, bytes_of, group, settings, text_of};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::settings::server::ServerSettings;
use freerun_http::variables::{Variable, VariableTable, VariableValue};
use freerun_proto::HeaderId;
use freerun_serve::build::names::ServerName;

settings! {
    /// Checks of the field `Referer`.
    #[module = "referer"]
    pub struct RefererSettings {
        /// The values of `Referer` for which `$invalid_referer` is empty. `none` means that the field is missing,
        /// `blocked` that its value was removed on the way. Others are `server_names`, names with `*` at one end and
        /// with the beginning of a path, and expressions (`~`) for the part after `http://`.
        valid_referers: Referers, in SERVER | LOCATION;
        /// Bucket size of the table of names.
        referer_hash_bucket_size: u32 = "64", in SERVER | LOCATION, fidelity = NoEffect("tables size themselves");
        /// Size of the table of names.
        referer_hash_max_size: usize = "2048", in SERVER | LOCATION, fidelity = NoEffect("tables size themselves");
    }
}

/// The valid referers of one level.
#[derive(Debug, Clone, Default)]
pub struct Referers(Option<Arc<RefererList>>);

#[derive(Debug, Clone, Default)]
struct RefererList {
    none: bool,
    blocked: bool,
    server_names: bool,
    /// The full names, each with the prefix that the path must have.
    exact: HashMap<Box<[u8]>, Box<[u8]>>,
    /// The names with an asterisk at the beginning, by the part after it, with its dot.
    front: HashMap<Box<[u8]>, Box<[u8]>>,
    /// The names with an asterisk at the end, by the part before it, with its dot.
    back: HashMap<Box<[u8]>, Box<[u8]>>,
    patterns: Vec<Arc<Pattern>>,
}

impl Setting for Referers {
    const SHAPE: Shape = Shape::at_least(1, "none | blocked | server_names | string …");

    fn set(previous: Option<Referers>, directive: &Node, cx: &mut Cx) -> Result<Referers, Problem> {
        let mut list = previous.and_then(|previous| previous.0).unwrap_or_default();
        let into = Arc::make_mut(&mut list);
        for word in &directive.args {
            into.add(word, cx)?;
        }
        Ok(Referers(Some(list)))
    }
}

impl RefererList {
    fn add(&mut self, word: &Word, cx: &mut Cx) -> Result<(), Problem> {
        let text = word.text.as_str();
        let fail = |message: String| Err(Problem::new(message).at(word.place));
        match text {
            "" => return fail("invalid referer \"\"".to_owned()),
            "none" => self.none = true,
            "blocked" => self.blocked = true,
            "server_names" => self.server_names = true,
            "~" => return fail("empty regex in \"~\"".to_owned()),
            _ => {
                if let Some(pattern) = text.strip_prefix('~') {
                    let pattern = Pattern::new(pattern, true, cx.extensions.get_or_default::<VariableTable>());
                    self.patterns.push(Arc::new(pattern.map_err(|why| Problem::new(why).at(word.place))?));
                    return Ok(());
                }
                let (host, path) = text.split_at(text.find('/').unwrap_or(text.len()));
                let path: Box<[u8]> = bytes_of(path).into();
                let host = host.to_ascii_lowercase();
                let rest = host.strip_prefix("*.").or_else(|| host.strip_suffix(".*")).unwrap_or(&host);
                if rest.contains('*') || rest.is_empty() && !host.is_empty() {
                    return fail(format!("invalid hostname or wildcard \"{host}\""));
                }
                let new = if let Some(end) = host.strip_prefix('*') {
                    self.front.insert(bytes_of(end).into(), path).is_none()
                } else if let Some(start) = host.strip_suffix('*') {
                    self.back.insert(bytes_of(start).into(), path).is_none()
                } else if let Some(bare) = host.strip_prefix('.') {
                    let one = self.exact.insert(bytes_of(bare).into(), path.clone()).is_none();
                    self.front.insert(bytes_of(&host).into(), path).is_none() && one
                } else {
                    self.exact.insert(bytes_of(&host).into(), path).is_none()
                };
                if !new {
                    return fail(format!("conflicting parameter \"{host}\""));
                }
            }
        }
        Ok(())
    }

    /// The prefix of paths for the name that matches a host best.
    fn find(&self, host: &[u8]) -> Option<&[u8]> {
        let dots = || host.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(dot, _)| dot);
        let front = || dots().find_map(|dot| self.front.get(&host[dot..]));
        let back = || dots().rev().find_map(|dot| self.back.get(&host[..=dot]));
        self.exact.get(host).or_else(front).or_else(back).map(|path| &**path)
    }
}

/// The module `referer`.
pub static MODULE: Module = Module {
    name: "referer",
    groups: &[group::<RefererSettings>()],
    variables: &[Variable::named(
        "invalid_referer",
        "Empty if the request's field `Referer` is one that `valid_referers` allows; `1` otherwise.",
        invalid,
    )
    .changeable()],
    settle: Some(settle),
    ..Module::EMPTY
};

fn settle(settings: &SettingsSet, _: &mut Cx) -> Result<(), Problem> {
    let Some(list) = &settings.get::<RefererSettings>().valid_referers.0 else { return Ok(()) };
    // As in nginx, which does not count expressions either, unless there are only expressions.
    let names = list.exact.len() + list.front.len() + list.back.len();
    if names == 0 && !list.server_names && (list.none || list.blocked) {
        let message = "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without any \
                       valid referer";
        return Err(Problem::new(message));
    }
    Ok(())
}

fn invalid<'r>(request: &'r Request, _: &str) -> VariableValue<'r> {
    let list = request.settings().get::<RefererSettings>().valid_referers.0.as_ref();
    let valid = list.is_none_or(|list| is_valid(request, list));
    Some(Cow::Borrowed(if valid { b"" } else { b"1" }))
}

/// The length of the shortest valid value; shorter ones are not looked up.
const MIN_LEN: usize = b"http://i.ru".len();
const MAX_HOST: usize = 256;

/// The part after `http://` or `https://`.
fn after_scheme(value: &[u8]) -> Option<&[u8]> {
    let scheme = |scheme: &[u8]| {
        let (start, rest) = value.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    scheme(b"http://").or_else(|| scheme(b"https://"))
}

fn is_valid(request: &Request, list: &RefererList) -> bool {
    let Some(value) = request.head.value(HeaderId::Referer) else { return list.none };
    let Some(rest) = after_scheme(value).filter(|_| value.len() >= MIN_LEN) else { return list.blocked };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b':')).unwrap_or(rest.len());
    if end > MAX_HOST {
        return false;
    }
    let host = rest[..end].to_ascii_lowercase();
    let path = &rest[memchr::memchr(b'/', rest).unwrap_or(rest.len())..];
    if let Some(wanted) = list.find(&host) {
        return path.starts_with(wanted);
    }
    if list.server_names && is_server_name(request, &host) {
        return true;
    }
    list.patterns.iter().any(|pattern| matches(request, pattern, rest))
}

fn matches(request: &Request, pattern: &Pattern, text: &[u8]) -> bool {
    pattern.is_match(text).unwrap_or_else(|error| {
        log_error!(request, Alert, "{error} on \"{}\"", text_of(text));
        false
    })
}

fn is_server_name(request: &Request, host: &[u8]) -> bool {
    let names = &request.place.server.entry.settings.get::<ServerSettings>().server_name.names;
    names.iter().any(|name| match name {
        ServerName::Exact(name) => name.as_bytes() == host && !host.is_empty(),
        ServerName::Front(end, itself) => host.ends_with(end.as_bytes()) || *itself && host == &end.as_bytes()[1..],
        ServerName::Back(start) => host.starts_with(start.as_bytes()),
        ServerName::Regex(pattern) => matches(request, pattern, host),
    })
}
