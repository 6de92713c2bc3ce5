//! `charset`: the parameter of `Content-Type`, and the recoding of bodies with tables from the configuration.

mod map;
mod recode;

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, SettingsSet, Shape, Value, group, settings, text_of};
use freerun_http::content::charsets;
use freerun_http::content::charsets::CharsetNames;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::representation::Change;
use freerun_http::request::response::{Body, Response};
use freerun_http::values::media_types::MediaTypes;
use freerun_http::variables::{Reference, VariableTable};
use freerun_serve::configuration::parts::Parts;

use freerun_proto::Status;
use freerun_serve::values::lookups::variable_name;
use map::CharsetMaps;

settings! {
    /// Character sets.
    #[module = "charset"]
    pub struct CharsetSettings {
        /// Adds this character set to the `Content-Type`; if it differs from `source_charset`, the body is recoded.
        ///
        /// There has to be a `charset_map` between the two. Characters that the new set lacks become character
        /// references (`&#1234;`) when the source is UTF-8, and `?` otherwise.
        charset: Charset = "off", in HTTP | SERVER | LOCATION | LOCATION_IF,
            fidelity = Differs("in bodies that are not valid UTF-8, each wrong byte becomes `?`");
        /// The character set of the original bodies.
        source_charset: Option<Charset>, in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// Whether a response that has a character set already is recoded to `charset`.
        override_charset: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// Media types, besides `text/html`, of the responses that get a character set; `*` is all.
        charset_types: MediaTypes = "text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml",
            in HTTP | SERVER | LOCATION;
        /// Maps bytes of one character set to bytes of another, or to UTF-8, which has to be the second; all are
        /// written in hexadecimal. By default bytes below 80 are the same in both, and others become `?`.
        charset_map: CharsetMaps, in HTTP;
    }
}

/// The value of `charset`.
#[derive(Debug, Clone)]
pub enum Charset {
    /// No character set.
    Off,
    /// A fixed character set.
    Name(Bytes),
    /// The value of a variable.
    Variable(Reference),
}

impl Value for Charset {
    const SHAPE: Shape = Shape::exactly(1, "charset | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Charset, Problem> {
        let word = &directive.args[0];
        Ok(match word.text.as_str() {
            // As a source, `off` is a name like any other.
            "off" if directive.name.text == "charset" => Charset::Off,
            // The whole word is the variable's name.
            text if text.starts_with('$') => {
                let name = variable_name(word)?;
                Charset::Variable(cx.extensions.get_or_default::<VariableTable>().resolve(name, word.place))
            }
            _ => Charset::Name(cx.extensions.get_or_default::<CharsetNames>().spelling(&word.text)),
        })
    }
}

impl CharsetSettings {
    fn source(&self, request: &Request) -> Option<Bytes> {
        self.source_charset.as_ref().and_then(|charset| charset.value(request))
    }
}

impl Charset {
    fn value(&self, request: &Request) -> Option<Bytes> {
        match self {
            Charset::Off => None,
            Charset::Name(name) => Some(name.clone()),
            Charset::Variable(variable) => Some(variable.get(request).unwrap_or_default().into_owned().into()),
        }
    }
}

/// The module `charset`.
pub static MODULE: Module = Module {
    name: "charset",
    groups: &[group::<CharsetSettings>()],
    filters: &[Filter { slot: Slot::Charset, wanted, run }],
    settle: Some(settle),
    finish: Some(keep_names),
    ..Module::EMPTY
};

/// Keeps the names used in the configuration with its generation.
fn keep_names(_: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let names = cx.extensions.get_or_default::<CharsetNames>().clone();
    cx.extensions.get_or_default::<Parts>().insert(Arc::new(names));
    Ok(())
}

fn wanted(settings: &SettingsSet) -> bool {
    let settings = settings.get::<CharsetSettings>();
    // A part of a page with a known source is recoded to the page's character set. Where there are maps, another server
    // may ask for one.
    !matches!((&settings.charset, &settings.source_charset), (Charset::Off, None)) || !settings.charset_map.is_empty()
}

/// Checks that two names that are known have a map between them.
fn settle(settings: &SettingsSet, _: &mut Cx) -> Result<(), Problem> {
    let settings = settings.get::<CharsetSettings>();
    let (Charset::Name(target), Some(Charset::Name(source))) = (&settings.charset, &settings.source_charset) else {
        return Ok(());
    };
    if source.eq_ignore_ascii_case(target) || settings.charset_map.find(source, target).is_some() {
        return Ok(());
    }
    Err(Problem::new(missing(source, target)))
}

fn missing(source: &[u8], target: &[u8]) -> String {
    let (source, target) = (text_of(source), text_of(target));
    format!("no \"charset_map\" between the charsets \"{source}\" and \"{target}\"")
}

/// The character set of the client's response, for the parts of that page.
#[derive(Default)]
struct PageCharset(RefCell<Option<Bytes>>);

/// The character set that a response to the client's own request will have.
pub fn of(request: &Request, response: &Response) -> Option<Bytes> {
    let settings = request.settings().get::<CharsetSettings>();
    if response.charset.is_some() || !settings.charset_types.contains(&response.content_type) {
        return response.charset.clone();
    }
    settings.charset.value(request).filter(|name| !name.is_empty())
}

fn run(request: &mut Request, response: &mut Response) {
    let location = request.place.location.clone();
    let settings = &location.settings;
    let settings = settings.get::<CharsetSettings>();
    let page = request.shared().get::<PageCharset>();
    if request.is_subrequest() {
        let source = response.charset.take().or_else(|| settings.source(request));
        if let (Some(source), Some(target)) = (source, page.0.borrow().clone()) {
            recode(request, response, settings, &source, &target);
        }
        return;
    }
    if response.content_type.is_empty() {
        return;
    }
    if let Some(written) = response.as_written.clone()
        && let Some(target) = &written.charset
    {
        let own = written.read_as.1.clone();
        *page.0.borrow_mut() =
            if target.is_empty() { own } else { recode_for_server(request, response, settings, own, target) };
        return;
    }
    let own = response.charset.clone();
    if own.is_some() && !settings.override_charset || !settings.charset_types.contains(&response.content_type) {
        *page.0.borrow_mut() = own;
        return;
    }
    let Some(target) = settings.charset.value(request) else {
        *page.0.borrow_mut() = own;
        return;
    };
    let source = own.or_else(|| settings.source(request));
    match source {
        None if target.is_empty() => return,
        Some(source) if !recode(request, response, settings, &source, &target) => return,
        _ => {}
    }
    name(response, &target);
    page.0.borrow_mut().clone_from(&response.charset);
}

/// Names the character set that a body has now. Old browsers used the character set of a redirect for the page that it
/// leads to.
fn name(response: &mut Response, target: &Bytes) {
    response.charset = (!matches!(response.status, Status::MOVED_PERMANENTLY | Status::FOUND)).then(|| target.clone());
}

/// Recodes a body to the character set that the other server wants for the client (`X-Accel-Charset`), whatever the
/// configuration says. Returns the character set of the result.
fn recode_for_server(
    request: &Request,
    response: &mut Response,
    settings: &CharsetSettings,
    own: Option<Bytes>,
    target: &Bytes,
) -> Option<Bytes> {
    if own.as_ref().is_some_and(|own| !charsets::is_known(request, own)) {
        return own;
    }
    let source = own.clone().or_else(|| settings.source(request));
    if source.is_some_and(|source| !recode(request, response, settings, &source, target)) {
        response.charset.clone_from(&own);
        return own;
    }
    name(response, target);
    Some(target.clone())
}

/// Recodes the body if the character sets differ; `false` if there is no map between them.
fn recode(
    request: &Request,
    response: &mut Response,
    settings: &CharsetSettings,
    source: &[u8],
    target: &[u8],
) -> bool {
    if source.eq_ignore_ascii_case(target) {
        return true;
    }
    // A compressed body cannot be recoded; its character set can still be named.
    if response.field(b"Content-Encoding").is_some() {
        return false;
    }
    let Some(map) = settings.charset_map.find(source, target) else {
        log_error!(request, Error, "{}", missing(source, target));
        return false;
    };
    if !response.no_length && response.status != Status::NO_CONTENT {
        let body = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
        response.content_changes(if map.changes_length() { Change::CHARSET } else { Change::CHARSET_OF_BYTES });
        response.body = Body::Source(map.recode(body));
    }
    true
}
