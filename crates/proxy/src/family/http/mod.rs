//! `proxy_pass`: requests passed on over HTTP.

pub mod http2;
pub mod request;
pub mod settings;
pub mod variables;

use freerun_conf::{Cx, Problem, SettingsSet};
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::Field;
use freerun_http::values::temp_path::TempPath;
use freerun_proto::proxy_protocol::write::{Carrier, TooLarge};
use freerun_proto::response::RequestKind;
use freerun_proto::{HeaderId, Status};
use freerun_serve::tls::upstream::UpstreamTls;
use freerun_serve::upstream::ProxyProtocol;

use crate::exchange::family::{AnyExchange, Family, PassedHead, RequestBody, UpstreamProtocol};
use crate::exchange::http1::{HttpExchange, WriteHead};
use crate::exchange::http2::{Http2Exchange, WriteFields};
use crate::exchange::target::{PassTarget, TargetLookup};
use crate::exchange::{Fault, UpstreamHead};
use crate::family::cookies;
use crate::family::headers;
use crate::family::headers::Changes;
use crate::family::http::settings::{HttpSettings, HttpVersion};
use crate::family::proxy_pass::{PassTo, ProxyPass};
use crate::settings::members::ProxyDirectives;
use crate::settings::options::Options;
use crate::settings::{FamilySettings, Member, PrefixedSettings};
use crate::state::record::Record;
use crate::upstream::UpstreamRef;

/// Checks the sizes of every level, used or not, like nginx; has the folder for temporary files made.
///
/// # Errors
/// What is wrong, in nginx's words.
pub fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let family = settings.get::<PrefixedSettings<ProxyDirectives>>();
    family.check_cache(ProxyDirectives::PREFIX, true, cx)?;
    family.check_sizes(ProxyDirectives::PREFIX)?;
    let own = settings.get::<HttpSettings>();
    if let Some(pass) = &own.proxy_pass {
        family.check_purge(ProxyDirectives::PREFIX)?;
        if pass.may_be_secure() {
            // An `if` has the same directives of TLS as the location around it.
            let alpn = own.proxy_http_version.alpn();
            let _ = pass.tls.set(family.upstream_tls(ProxyDirectives::PREFIX, alpn, cx)?);
        }
        if own.proxy_http_version == HttpVersion::Http3 {
            check_http3(own, family, pass)?;
        }
        settings.get::<CoreSettings>().client_body_temp_path.note(true, cx);
    }
    family.proxy_temp_path.note(own.proxy_pass.is_some(), cx);
    Ok(())
}

/// Checks what HTTP/3 needs.
///
/// # Errors
/// It is missing.
fn check_http3(own: &HttpSettings, family: &FamilySettings, pass: &ProxyPass) -> Result<(), Problem> {
    let problem = |message: &str, hint: &str| Err(Problem::new(message).at(pass.place).hint(hint));
    if !pass.may_be_secure() {
        return problem("\"proxy_http_version 3\" needs TLS", "the address has to begin with \"https://\"");
    }
    if !family.proxy_ssl_protocols.has_tls13() {
        return problem("\"proxy_http_version 3\" needs TLS 1.3", "\"proxy_ssl_protocols\" has to name \"TLSv1.3\"");
    }
    if own.proxy_protocol != ProxyProtocol::Off {
        return problem(
            "\"proxy_http_version 3\" carries no header of the PROXY protocol",
            "remove \"proxy_protocol\", or use another \"proxy_http_version\"",
        );
    }
    Ok(())
}

/// HTTP as a member of the family.
pub struct Http;

/// The group that a location passes requests to, if it is named without variables: for modules that send requests of
/// their own.
pub fn fixed_group(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    match &settings.get::<HttpSettings>().proxy_pass.as_ref()?.to {
        PassTo::Fixed(fixed) => Some((&Http, fixed.group.clone())),
        PassTo::Computed(_) => None,
    }
}

fn own(request: &Request) -> &HttpSettings {
    request.settings().get::<HttpSettings>()
}

fn family(request: &Request) -> &FamilySettings {
    request.settings().get::<PrefixedSettings<ProxyDirectives>>()
}

impl Changes for HttpSettings {
    fn location(&self, value: &[u8], request: &Request) -> Option<Vec<u8>> {
        self.proxy_redirect.location(value, self.proxy_pass.as_ref(), request)
    }

    fn refresh(&self, value: &[u8], request: &Request) -> Option<Vec<u8>> {
        self.proxy_redirect.refresh(value, self.proxy_pass.as_ref(), request)
    }

    fn cookie(&self, value: &[u8], request: &Request) -> Option<Vec<u8>> {
        let HttpSettings { proxy_cookie_domain, proxy_cookie_path, proxy_cookie_flags, .. } = self;
        cookies::rewrite(value, proxy_cookie_domain, proxy_cookie_path, proxy_cookie_flags, request)
    }
}

/// Passes the trailer fields on, except hidden ones.
fn trailers(request: &mut Request) {
    let Some(record) = request.own.find::<Record>() else { return };
    let family = family(request);
    let passed = |(name, _): &&Field| !family.hides(HeaderId::of(name), name, &headers::HIDDEN);
    let passed: Vec<Field> = record.with_trailers(|trailers| trailers.iter().filter(passed).cloned().collect());
    request.answered.trailers.extend(passed);
}

impl Family for Http {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn options(&self, request: &Request) -> Options {
        let mut options = family(request).options(request);
        options.pass_trailers = own(request).proxy_pass_trailers.then_some(trailers);
        options
    }

    fn table<'s>(&self, settings: &'s SettingsSet) -> &'s FamilySettings {
        settings.get::<PrefixedSettings<ProxyDirectives>>()
    }

    fn shared<'s>(&self, settings: &'s SettingsSet) -> Option<&'s FamilySettings> {
        Some(self.table(settings))
    }

    fn temp_path<'s>(&self, settings: &'s SettingsSet) -> Option<&'s TempPath> {
        Some(&settings.get::<PrefixedSettings<ProxyDirectives>>().proxy_temp_path)
    }

    fn target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r> {
        match &own(request).proxy_pass {
            Some(pass) => pass.resolve_target(request),
            // The handler is set only where the directive is.
            None => TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR))),
        }
    }

    fn cache_key(&self, request: &Request, out: &mut Vec<u8>) -> Result<bool, Outcome> {
        match &own(request).proxy_pass {
            Some(pass) => pass.describe(request, out).map(|()| true),
            None => Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR)),
        }
    }

    fn tls<'r>(&self, request: &'r Request) -> Option<&'r UpstreamTls> {
        own(request).proxy_pass.as_ref()?.tls.get().map(|tls| &**tls)
    }

    fn proxy_header(&self, request: &Request) -> Result<Vec<u8>, TooLarge> {
        let HttpSettings { proxy_protocol, proxy_protocol_tlv, .. } = own(request);
        let mut header = Vec::new();
        if *proxy_protocol != ProxyProtocol::Off {
            proxy_protocol.write(request, proxy_protocol_tlv, Carrier::Stream, &mut header)?;
        }
        Ok(header)
    }

    fn own_proxy_header(&self, settings: &SettingsSet) -> Vec<u8> {
        settings.get::<HttpSettings>().proxy_protocol.of_nobody()
    }

    fn converts_head(&self, request: &Request) -> bool {
        family(request).proxy_cache_convert_head
    }

    fn asks_for_part(&self, request: &Request) -> bool {
        own(request).proxy_set_header.sets(HeaderId::Range, request)
    }

    fn body(&self, request: &Request) -> RequestBody {
        match &own(request).proxy_set_body {
            Some(body) => RequestBody::Set(body.render(request).into_owned().into()),
            None if family(request).proxy_pass_request_body => RequestBody::Client,
            None => RequestBody::None,
        }
    }

    fn protocol(&self, request: &Request) -> UpstreamProtocol {
        match own(request).proxy_http_version {
            HttpVersion::Http2 => UpstreamProtocol::Http2,
            HttpVersion::Http3 => UpstreamProtocol::Http3,
            HttpVersion::Http10 | HttpVersion::Http11 => UpstreamProtocol::Sequential,
        }
    }

    fn exchange(&self, request: &Request, is_stream: bool, _: &PassTarget, max_head: usize) -> AnyExchange {
        let method = self::request::known_method(own(request), request);
        if is_stream {
            let write_fields: WriteFields =
                |request, to, body, head| http2::write_fields(own(request), family(request), request, to, body, head);
            return AnyExchange::Boxed(Box::new(Http2Exchange::new(RequestKind::by(method), write_fields)));
        }
        let write_head: WriteHead =
            |request, to, body, out| self::request::write_head(own(request), family(request), request, to, body, out);
        AnyExchange::Http(HttpExchange::new(RequestKind::by(method), max_head, write_head))
    }

    fn respond(&self, request: &mut Request, _: &PassTarget, head: UpstreamHead) -> Result<PassedHead, Fault> {
        let location = request.place.location.clone();
        let (own, family) =
            (location.settings.get::<HttpSettings>(), location.settings.get::<PrefixedSettings<ProxyDirectives>>());
        Ok(headers::respond(request, family, &headers::HIDDEN, own, head))
    }

    fn hides(&self, request: &Request, id: HeaderId, name: &[u8]) -> bool {
        family(request).hides(id, name, &headers::HIDDEN)
    }

    fn passes_unknown_length(&self, request: &Request) -> bool {
        own(request).proxy_http_version != HttpVersion::Http10
    }

    fn is_idempotent(&self, request: &Request) -> bool {
        self::request::is_idempotent(self::request::known_method(own(request), request))
    }

    fn upgrades(&self, request: &Request) -> bool {
        // As in nginx also for a client of HTTP/1.0, such as a proxy in front of this one. The configuration has the
        // field passed on, and the server has agreed.
        own(request).proxy_http_version == HttpVersion::Http11
            && request.head.has(HeaderId::Upgrade)
            && own(request).proxy_set_header.sets(HeaderId::Upgrade, request)
    }
}
