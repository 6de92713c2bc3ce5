//! The request that would be sent to another server: for an explanation of a configuration. Nothing is sent, and no server
//! is chosen.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use freerun_conf::{Many, bytes_of, text_of};
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_proto::Status;
use freerun_serve::upstream::resolver_settings::ResolverSettings;

use crate::cached::lookup;
use crate::exchange::family::Family;
use crate::exchange::target::{PassTarget, TargetLookup};
use crate::exchange::{BodyPlan, Fault, To};
use crate::family::cgi::Cgi;
use crate::family::fastcgi::{FastCgiScript, FastCgiSettings};
use crate::family::grpc::Calls;
use crate::family::http::Http;
use crate::family::memcached::Values;
use crate::family::params::{self, Param};
use crate::family::proxy_pass::Url;
use crate::family::scgi::{ScgiScript, ScgiSettings};
use crate::family::tunnel::TunnelMember;
use crate::family::uwsgi::{UwsgiScript, UwsgiSettings};
use crate::settings::store::StoreSetting;

/// The request that a location of the family would pass on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassDescription {
    /// The scheme with its `://`: `http://`, `fastcgi://`.
    pub scheme: &'static str,
    /// The name of the `upstream` block, or the address as it is written. Empty if it has to be looked up by a resolver.
    pub servers: String,
    /// The URI that is asked for, in protocols with a request line.
    pub uri: Vec<u8>,
    /// The request in the form of HTTP/1, or the parameters as lines `NAME: value`; empty for other protocols.
    pub text: Vec<u8>,
    /// The key in the cache, if one is used.
    pub cache_key: Option<Vec<u8>>,
    /// Whether the cache is not looked at for this request (`…_cache_bypass`).
    pub is_bypassed: bool,
    /// Whether the response is not stored, whatever it is (`…_no_cache`).
    pub is_unstored: bool,
    /// Whether the response is stored as a file (`…_store`).
    pub is_kept: bool,
}

/// The member of the family that a module stands for.
fn family(module: &str) -> Option<&'static dyn Family> {
    Some(match module {
        "proxy" => &Http,
        "grpc" => &Calls,
        "fastcgi" => Cgi::<FastCgiScript>::FAMILY,
        "uwsgi" => Cgi::<UwsgiScript>::FAMILY,
        "scgi" => Cgi::<ScgiScript>::FAMILY,
        "memcached" => &Values,
        "tunnel" => &TunnelMember,
        _ => return None,
    })
}

/// Whether a module is a member of the family.
pub fn is_member(module: &str) -> bool {
    family(module).is_some()
}

/// Describes the request that this module of the family would pass on from the request's location.
///
/// # Errors
/// The request cannot be passed on, which is logged: the answer in its place. It is 500 for a module that is not of the family.
pub fn describe(request: &Request, module: &str) -> Result<PassDescription, Outcome> {
    let family = family(module).ok_or(Outcome::Status(Status::INTERNAL_SERVER_ERROR))?;
    let mut description = match family.target(request) {
        TargetLookup::Now(target) => of_target(request, family, &target?),
        TargetLookup::Later(later) => {
            let written = written(request, family);
            let asks_nobody = request.settings().get::<ResolverSettings>().resolver_and_timeout().is_none()
                || written.as_ref().is_some_and(|written| written.is_address());
            // What needs no resolver is known at once. Dropping the future gives a look-up up before it has begun.
            match asks_nobody.then(|| now(later)).flatten() {
                Some(target) => of_target(request, family, &target?),
                None => written.unwrap_or_default(),
            }
        }
    };
    if let Some(shared) = family.shared(request.settings()) {
        if shared.proxy_cache.is_on() && shared.proxy_cache_methods.has(request.asked.method) {
            description.cache_key = lookup::key(request, family, shared).ok().flatten();
        }
        description.is_bypassed = shared.proxy_cache_bypass.hold(request);
        description.is_unstored = shared.proxy_no_cache.hold(request);
        description.is_kept = !matches!(shared.proxy_store, StoreSetting::Off);
    }
    Ok(description)
}

impl PassDescription {
    /// Whether the servers are an address, and no name.
    fn is_address(&self) -> bool {
        let servers = self.servers.as_str();
        servers.starts_with("unix:") || servers.parse::<SocketAddr>().is_ok() || servers.parse::<IpAddr>().is_ok()
    }
}

/// The target of HTTP as variables give it, before a name in it is looked up.
fn written(request: &Request, family: &dyn Family) -> Option<PassDescription> {
    if family.name() != "proxy" {
        return None;
    }
    let mut text = Vec::new();
    family.cache_key(request, &mut text).ok()?;
    let text = text_of(&text);
    let url = Url::parse(&text)?;
    let scheme = if url.secure { "https://" } else { "http://" };
    let (servers, uri) = (url.authority.to_owned(), bytes_of(url.uri.unwrap_or_default()).into_owned());
    Some(PassDescription { scheme, servers, uri, ..PassDescription::default() })
}

fn of_target(request: &Request, family: &'static dyn Family, target: &PassTarget) -> PassDescription {
    let upstream = target.upstream();
    let servers = upstream.servers.as_ref().map_or_else(String::new, |servers| servers.name().to_owned());
    let uri = target.uri.to_vec();
    let mut description = PassDescription { scheme: upstream.scheme, servers, uri, ..PassDescription::default() };
    description.text = match family.name() {
        "proxy" => head(request, family, target).unwrap_or_default(),
        "fastcgi" => parameters(request, family, &request.settings().get::<FastCgiSettings>().fastcgi_param),
        "uwsgi" => parameters(request, family, &request.settings().get::<UwsgiSettings>().uwsgi_param),
        "scgi" => parameters(request, family, &request.settings().get::<ScgiSettings>().scgi_param),
        _ => Vec::new(),
    };
    description
}

/// The result of a future if that needs no waiting.
fn now<T>(mut future: Pin<Box<dyn Future<Output = T> + '_>>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// The head of the request in the form of HTTP/1, whatever the version is that is spoken.
///
/// # Errors
/// It cannot be expressed.
fn head(request: &Request, family: &dyn Family, target: &PassTarget) -> Result<Vec<u8>, Fault> {
    let servers = target.upstream().servers.as_ref().map_or("", |servers| servers.name());
    let to = To { target, peer: servers, server: servers };
    let max_head = family.table(request.settings()).max_head();
    let mut bytes = Vec::new();
    family.exchange(request, false, target, max_head).begin(request, &to, BodyPlan::None, &mut bytes)?;
    Ok(bytes)
}

/// The parameters as lines.
fn parameters(request: &Request, family: &dyn Family, written: &Many<Param>) -> Vec<u8> {
    let fields = family.table(request.settings()).proxy_pass_request_headers;
    let mut lines = Vec::new();
    let added: Result<(), Infallible> = params::each(request, written, fields, |name, value| {
        lines.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        Ok(())
    });
    match added {
        Ok(()) => lines,
        Err(never) => match never {},
    }
}
