//! `grpc_pass`: requests passed on over gRPC, which is HTTP/2 with trailers.

pub mod pass;
pub mod settings;

use freerun_conf::{Cx, Problem, SettingsSet};
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::Field;
use freerun_proto::response::RequestKind;
use freerun_proto::{HeaderId, Status};
use freerun_serve::tls::upstream::UpstreamTls;

use crate::exchange::family::{Advice, AnyExchange, Family, PassedHead, UpstreamProtocol};
use crate::exchange::http2::{Http2Exchange, WriteFields};
use crate::exchange::target::{PassTarget, TargetLookup};
use crate::exchange::{Fault, UpstreamHead};
use crate::family::grpc::settings::GrpcSettings;
use crate::family::headers;
use crate::family::headers::AsItIs;
use crate::family::http::http2;
use crate::family::http::request::{is_idempotent, own_method, own_method_text};
use crate::settings::members::GrpcDirectives;
use crate::settings::options::Options;
use crate::settings::{FamilySettings, Member, PrefixedSettings};
use crate::state::record::Record;
use crate::upstream::UpstreamRef;

/// The member's part of [`Module::settle`](freerun_http::module::Module): what the location has of TLS.
///
/// # Errors
/// What is wrong, in nginx's words.
pub fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    if let Some(pass) = settings.get::<GrpcSettings>().grpc_pass.as_ref().filter(|pass| pass.may_be_secure()) {
        // An `if` has the same directives of TLS as the location around it.
        let _ = pass.tls.set(settings.get::<PrefixedSettings<GrpcDirectives>>().upstream_tls(
            GrpcDirectives::PREFIX,
            vec![b"h2".to_vec()],
            cx,
        )?);
    }
    Ok(())
}

/// The group that a location passes requests to, if it is named without variables: for modules that send requests of
/// their own.
pub fn fixed_group(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    Some((&Calls, settings.get::<GrpcSettings>().grpc_pass.as_ref()?.fixed_group()?))
}

fn own(request: &Request) -> &GrpcSettings {
    request.settings().get::<GrpcSettings>()
}

fn family(request: &Request) -> &FamilySettings {
    request.settings().get::<PrefixedSettings<GrpcDirectives>>()
}

/// Passes the trailer fields on, except hidden ones.
fn trailers(request: &mut Request) {
    let Some(record) = request.own.find::<Record>() else { return };
    let passed = |(name, _): &&Field| !Calls.hides(request, HeaderId::of(name), name);
    let passed: Vec<Field> = record.with_trailers(|trailers| trailers.iter().filter(passed).cloned().collect());
    request.answered.trailers.extend(passed);
}

/// gRPC as a member of the family.
pub struct Calls;

impl Family for Calls {
    fn name(&self) -> &'static str {
        "grpc"
    }

    fn options(&self, request: &Request) -> Options {
        let mut options = family(request).options(request);
        options.pass_trailers = Some(trailers);
        options.kept_by_ping = own(request).grpc_keepalive_ping;
        options
    }

    fn table<'s>(&self, settings: &'s SettingsSet) -> &'s FamilySettings {
        settings.get::<PrefixedSettings<GrpcDirectives>>()
    }

    fn target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r> {
        match &own(request).grpc_pass {
            Some(pass) => pass.resolve_target(request),
            // The handler is set only where the directive is.
            None => TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR))),
        }
    }

    fn tls<'r>(&self, request: &'r Request) -> Option<&'r UpstreamTls> {
        own(request).grpc_pass.as_ref()?.tls.get().map(|tls| &**tls)
    }

    fn protocol(&self, _: &Request) -> UpstreamProtocol {
        UpstreamProtocol::Http2
    }

    fn exchange(&self, request: &Request, _: bool, _: &PassTarget, _: usize) -> AnyExchange {
        let write_fields: WriteFields = |request, to, body, head| {
            let set = &own(request).grpc_set_header;
            http2::write_start(own_method_text(request), to, set, request, || None, head);
            http2::write_length(body, set, request, head);
            http2::write_client_fields(set, family(request), request, head);
            Ok(())
        };
        AnyExchange::Boxed(Box::new(Http2Exchange::new(RequestKind::by(own_method(request)), write_fields)))
    }

    fn respond(&self, request: &mut Request, _: &PassTarget, head: UpstreamHead) -> Result<PassedHead, Fault> {
        let location = request.place.location.clone();
        let family = location.settings.get::<PrefixedSettings<GrpcDirectives>>();
        Ok(match headers::respond(request, family, &headers::HIDDEN, &AsItIs, head) {
            // As in nginx, a response has no say in how it is buffered, or how fast it is sent.
            PassedHead::Response(response, _) => PassedHead::Response(response, Advice::default()),
            elsewhere => elsewhere,
        })
    }

    fn hides(&self, request: &Request, id: HeaderId, name: &[u8]) -> bool {
        family(request).hides(id, name, &headers::HIDDEN)
    }

    fn passes_unknown_length(&self, _: &Request) -> bool {
        true
    }

    fn is_idempotent(&self, request: &Request) -> bool {
        is_idempotent(own_method(request))
    }
}
