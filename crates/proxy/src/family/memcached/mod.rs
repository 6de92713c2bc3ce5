//! `memcached_pass`: responses taken from memcached.

pub mod exchange;

use freerun_conf::{Cx, Node, Problem, SettingsSet, Shape, Value, settings, text_of};
use freerun_http::content::media_type;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, Response};
use freerun_http::variables::{Reference, VariableTable};
use freerun_proto::memcached::escape_key;
use freerun_proto::{HeaderId, Status};

use crate::exchange::family::{Advice, AnyExchange, Family, PassedHead, RequestBody};
use crate::exchange::target::{PassTarget, TargetLookup};
use crate::exchange::{Fault, UpstreamHead};
use crate::family::memcached::exchange::MemcachedExchange;
use crate::family::pass_argument::{Pass, Scheme};
use crate::settings::members::MemcachedDirectives;
use crate::settings::options::Options;
use crate::settings::{FamilySettings, PrefixedSettings};

settings! {
    /// memcached: the directives that only this member of the family has.
    #[module = "memcached_values"]
    pub struct MemcachedSettings {
        /// Answers with the value that a memcached server keeps under the key `$memcached_key`: `host:port`, `unix:/path`,
        /// or the name of an `upstream` block. The variable has to be set somewhere.
        memcached_pass: Option<MemcachedPass>, in LOCATION | LOCATION_IF, local;
        /// A value whose flags have one of these bits is compressed: it is sent with `Content-Encoding: gzip`.
        memcached_gzip_flag: u32 = "0", in HTTP | SERVER | LOCATION;
    }
}

/// The argument of `memcached_pass`, and the key that is asked for.
#[derive(Clone)]
pub struct MemcachedPass {
    pass: Pass,
    key: Reference,
}

impl Value for MemcachedPass {
    const SHAPE: Shape = Shape::exactly(1, "address");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<MemcachedPass, Problem> {
        let word = &directive.args[0];
        let pass = Pass::parse(directive, word, false, cx)?;
        let key = cx.extensions.get_or_default::<VariableTable>().resolve("memcached_key", word.place);
        Ok(MemcachedPass { pass, key })
    }
}

fn own(request: &Request) -> &MemcachedSettings {
    request.settings().get::<MemcachedSettings>()
}

/// The key, unless it is empty.
fn key(request: &Request) -> Option<Vec<u8>> {
    let key = own(request).memcached_pass.as_ref()?.key.get(request)?;
    (!key.is_empty()).then(|| key.into_owned())
}

/// memcached as a member of the family.
pub struct Values;

impl Family for Values {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn options(&self, request: &Request) -> Options {
        request.settings().get::<PrefixedSettings<MemcachedDirectives>>().options(request)
    }

    fn table<'s>(&self, settings: &'s SettingsSet) -> &'s FamilySettings {
        settings.get::<PrefixedSettings<MemcachedDirectives>>()
    }

    fn target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r> {
        let Some(pass) = &own(request).memcached_pass else {
            return TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR)));
        };
        if key(request).is_none() {
            log_error!(request, Error, "the \"$memcached_key\" variable is not set");
            return TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR)));
        }
        pass.pass.resolve_target(request, Scheme { text: "memcached://", is_secure: false })
    }

    fn body(&self, _: &Request) -> RequestBody {
        RequestBody::None
    }

    fn exchange(&self, request: &Request, _: bool, _: &PassTarget, max_head: usize) -> AnyExchange {
        let key = key(request).unwrap_or_default();
        AnyExchange::Boxed(Box::new(MemcachedExchange::new(&key, own(request).memcached_gzip_flag, max_head)))
    }

    fn respond(&self, request: &mut Request, _: &PassTarget, head: UpstreamHead) -> Result<PassedHead, Fault> {
        if head.status == 404 {
            let key = key(request).unwrap_or_default();
            log_error!(
                request,
                Info,
                "key: \"{}\" was not found by memcached while reading response header from upstream",
                text_of(&escape_key(&key))
            );
            return Ok(PassedHead::Elsewhere(Outcome::Status(Status::NOT_FOUND)));
        }
        let mut response =
            Response::typed_by_uri(Status::new(head.status), media_type(request, &request.asked.path), Body::Empty);
        // The body has this length.
        let others = head.fields.iter().filter(|field| field.id != HeaderId::ContentLength);
        response.fields.extend(others.map(|field| field.keep()));
        // As in nginx, which sends one part of a value, or the whole value.
        (response.ranges, response.single_range) = (true, true);
        Ok(PassedHead::Response(response, Advice::default()))
    }

    fn is_idempotent(&self, _: &Request) -> bool {
        true
    }
}
