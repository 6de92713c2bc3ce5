//! The parameters that describe a request to an application behind FastCGI, uwsgi or SCGI: `fastcgi_param` and the
//! corresponding directives, and the request's fields as `HTTP_NAME`.

use std::sync::{Arc, OnceLock};

use freerun_conf::{Cx, Many, Node, Problem, Shape, Value, Word, bytes_of};
use freerun_http::message::head::HeadField;
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_proto::HeaderId;
use freerun_proto::encode::push_number;

use crate::state::cache_fetch;
use crate::state::cache_fetch::CacheFetch;

/// The prefix of a parameter that stands for a field of the request.
const FIELD: &[u8] = b"HTTP_";

/// The parameter that names the host that the request is for.
const HOST: &[u8] = b"HTTP_HOST";

/// A `fastcgi_param` directive.
#[derive(Debug, Clone)]
pub struct Param {
    name: Box<[u8]>,
    written: Word,
    /// The value, once a level that passes requests on has the parameter: elsewhere it may name unknown variables.
    value: Arc<OnceLock<Template>>,
    /// Whether the parameter is left out if its value is empty.
    if_not_empty: bool,
    /// Whether the parameter is never sent, and neither is the field of the request that it stands for: `HTTP_PROXY
    /// ""`.
    hides: bool,
}

impl Value for Param {
    const SHAPE: Shape = Shape::between(2, 3, "name value [if_not_empty]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Param, Problem> {
        let if_not_empty = match directive.args.get(2) {
            None => false,
            Some(word) if word.text == "if_not_empty" => true,
            Some(word) => return Err(Problem::new(format!("invalid parameter \"{}\"", word.text)).at(word.place)),
        };
        let name: Box<[u8]> = directive.args[0].bytes().into();
        // As in nginx: only if the configuration itself has an empty value.
        let hides = name.len() > FIELD.len() && name.starts_with(FIELD) && directive.args[1].text.is_empty();
        Ok(Param { name, written: directive.args[1].clone(), value: Arc::default(), if_not_empty, hides })
    }
}

/// Reads the values of the parameters, for a level that passes requests on.
///
/// # Errors
/// A value is not valid.
pub fn settle(params: &[Param], cx: &mut Cx) -> Result<(), Problem> {
    for param in params.iter().filter(|param| param.value.get().is_none()) {
        let _ = param.value.set(Template::parse(&param.written, cx)?);
    }
    Ok(())
}

/// Passes every parameter to `add`: first the parameters of the configuration in their order. With `fields` the fields
/// of the request follow, except where the configuration sets the parameter.
///
/// `HTTP_HOST` is the host that has chosen the server, in its normal form. If a field `Host` could say something else,
/// the application would act for another host than the one whose rules were applied (RFC 9112 section 3.2.2). Repeated
/// fields are one parameter, joined like `$http_name`.
///
/// # Errors
/// The errors of `add`.
pub fn each<E>(
    request: &Request,
    params: &Many<Param>,
    fields: bool,
    mut add: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    for param in params.iter().filter(|param| !param.hides) {
        let Some(value) = param.value.get() else { continue };
        let value = value.render(request);
        if !(param.if_not_empty && value.is_empty()) {
            add(&param.name, &value)?;
        }
    }
    let asking = CacheFetch::of(request);
    if let Some(asking) = &asking {
        let mut result = Ok(());
        asking.with_validators(|id, value| {
            let name = parameter(id.name().as_bytes());
            if result.is_ok() && !params.iter().any(|param| *param.name == *name) {
                result = add(&name, value);
            }
        });
        result?;
    }
    let names_host = params.iter().any(|param| *param.name == *HOST);
    let host = if names_host { Vec::new() } else { host(request) };
    if !host.is_empty() {
        add(HOST, &host)?;
    }
    if !fields {
        return Ok(());
    }
    let (mut name, mut joined) = (Vec::new(), Vec::new());
    let all = request.head.fields();
    for (index, field) in all.clone().enumerate() {
        let same = |other: &HeadField<'_>| is_same(&field, other);
        let is_for_cache = asking.is_some() && cache_fetch::is_about_parts(field.id);
        let left_out = field.id == HeaderId::Host || is_for_cache;
        if left_out || all.clone().take(index).any(|other| same(&other)) {
            continue;
        }
        name.clear();
        name.extend_from_slice(FIELD);
        let written = field.name.iter();
        name.extend(written.map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        if params.iter().any(|param| *param.name == *name) {
            continue;
        }
        let first = field.value;
        let mut others = all.clone().skip(index + 1).filter(same).peekable();
        if others.peek().is_none() {
            add(&name, first)?;
            continue;
        }
        joined.clear();
        joined.extend_from_slice(first);
        for other in others {
            joined.extend_from_slice(if field.id == HeaderId::Cookie { b"; " } else { b", " });
            joined.extend_from_slice(other.value);
        }
        add(&name, &joined)?;
    }
    Ok(())
}

/// The host and the port that the request is for: `$host$is_request_port$request_port`.
fn host(request: &Request) -> Vec<u8> {
    let host = request.asked.host.as_deref().unwrap_or(&request.place.server.name);
    let mut value = bytes_of(host).into_owned();
    if let Some(port) = request.head.host().and_then(|host| host.port) {
        value.push(b':');
        push_number(&mut value, port.into());
    }
    value
}

/// The name of the parameter that stands for a field.
fn parameter(field: &[u8]) -> Vec<u8> {
    let name = field.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
    FIELD.iter().copied().chain(name).collect()
}

/// Whether two fields have the same name.
fn is_same(one: &HeadField<'_>, other: &HeadField<'_>) -> bool {
    one.id == other.id && (one.id != HeaderId::Other || one.name.eq_ignore_ascii_case(other.name))
}
