//! The common part of the members that pass requests to scripts: FastCGI, uwsgi, SCGI.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use freerun_conf::{Cx, Problem, SettingsSet};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::Outcome;
use freerun_http::values::temp_path::TempPath;
use freerun_proto::response::RequestKind;
use freerun_proto::{HeaderId, Status};
use freerun_serve::tls::upstream::UpstreamTls;

use crate::exchange::family::{AnyExchange, Family, PassedHead, RequestBody};
use crate::exchange::http1::{HttpExchange, SentHead};
use crate::exchange::target::{PassTarget, TargetLookup};
use crate::exchange::{BodyPlan, Exchange, Fault, To, UpstreamHead};
use crate::family::headers;
use crate::family::headers::AsItIs;
use crate::family::http::request::is_idempotent;
use crate::family::params::{self, Param};
use crate::family::pass_argument::{Pass, Scheme};
use crate::settings::lists::HiddenFields;
use crate::settings::options::Options;
use crate::settings::{FamilySettings, Member, PrefixedSettings};
use crate::upstream::UpstreamRef;

/// A request with a head shorter than this can almost certainly be expressed in FastCGI or uwsgi, which have room for
/// 65535 bytes. Only encoding it shows whether it can.
const SURELY_SAID: usize = 48 * 1024;

/// The settings of TLS of a location, set when its directives are known.
pub type TlsOnce = OnceLock<Arc<UpstreamTls>>;

/// A member that passes requests to scripts.
pub trait Script: Send + Sync + 'static {
    /// The member's directives of the family's table.
    type Member: Member;
    /// The scheme that the log writes before an address: `fastcgi://`.
    const SCHEME: &'static str;
    /// Whether an application may leave the protocol (101) when the client asks for it.
    const UPGRADES: bool;
    /// The fields of responses that are not passed on.
    const HIDDEN: HiddenFields = headers::HIDDEN_CGI;

    /// The value of the member's pass directive.
    fn pass(settings: &SettingsSet) -> Option<&Pass>;

    /// The parameters that describe a request.
    fn params(settings: &SettingsSet) -> &[Param];

    /// Prefix of an address at this location in the log, and whether its servers have TLS.
    fn scheme(settings: &SettingsSet) -> Scheme {
        let _ = settings;
        Scheme { text: Self::SCHEME, is_secure: false }
    }

    /// Place of the location's settings of TLS, if its servers have TLS.
    fn tls(settings: &SettingsSet) -> Option<&TlsOnce> {
        let _ = settings;
        None
    }

    /// Makes an exchange for a try.
    fn exchange(request: &Request, family: &FamilySettings) -> Box<dyn Exchange>;
}

/// A [`Script`] as a member of the family.
pub struct Cgi<S>(PhantomData<fn() -> S>);

impl<S: Script> Cgi<S> {
    /// The member as an instance of [`Family`].
    pub const FAMILY: &'static dyn Family = &Cgi::<S>(PhantomData);
}

/// The group that a location passes requests to, if it is named without variables: for modules that send requests of
/// their own.
pub fn fixed_group<S: Script>(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    match S::pass(settings)? {
        Pass::Group(group, _) => Some((Cgi::<S>::FAMILY, group.clone())),
        Pass::Computed(_) => None,
    }
}

/// The member's part of [`Module::settle`](freerun_http::module::Module): checks that sizes fit each other, and has
/// the folder for temporary files made.
///
/// # Errors
/// What is wrong, in nginx's words.
pub fn settle<S: Script>(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let family = settings.get::<PrefixedSettings<S::Member>>();
    family.check_cache(S::Member::PREFIX, false, cx)?;
    family.check_sizes(S::Member::PREFIX)?;
    if let Some(tls) = S::tls(settings) {
        let _ = tls.set(family.upstream_tls(S::Member::PREFIX, Vec::new(), cx)?);
    }
    if S::pass(settings).is_some() {
        family.check_purge(S::Member::PREFIX)?;
        params::settle(S::params(settings), cx)?;
        settings.get::<CoreSettings>().client_body_temp_path.note(true, cx);
    }
    family.proxy_temp_path.note(S::pass(settings).is_some(), cx);
    Ok(())
}

fn family<S: Script>(request: &Request) -> &FamilySettings {
    request.settings().get::<PrefixedSettings<S::Member>>()
}

/// The request's method, for the response's framing.
pub fn asked(request: &Request) -> RequestKind {
    if request.is_head() { RequestKind::Head } else { RequestKind::Other }
}

/// An exchange that differs from HTTP's only in the request's head.
pub fn exchange<W>(request: &Request, family: &FamilySettings, mut write: W) -> Box<dyn Exchange>
where
    W: FnMut(&Request, BodyPlan, &mut Vec<u8>) -> Result<(), Fault> + 'static,
{
    let write_head = move |request: &Request, _: &To<'_>, body, out: &mut Vec<u8>| {
        write(request, body, out).map(|()| SentHead::PLAIN)
    };
    Box::new(HttpExchange::cgi(asked(request), family.max_head(), write_head))
}

/// Encodes a request without sending it.
fn said<S: Script>(request: &Request) -> Result<(), Fault> {
    let nobody = To { target: &PassTarget::default(), peer: "", server: "" };
    S::exchange(request, family::<S>(request)).begin(request, &nobody, BodyPlan::None, &mut Vec::new())
}

impl<S: Script> Family for Cgi<S> {
    fn name(&self) -> &'static str {
        S::Member::PREFIX.trim_end_matches('_')
    }

    fn options(&self, request: &Request) -> Options {
        family::<S>(request).options(request)
    }

    fn table<'s>(&self, settings: &'s SettingsSet) -> &'s FamilySettings {
        settings.get::<PrefixedSettings<S::Member>>()
    }

    fn shared<'s>(&self, settings: &'s SettingsSet) -> Option<&'s FamilySettings> {
        Some(self.table(settings))
    }

    fn temp_path<'s>(&self, settings: &'s SettingsSet) -> Option<&'s TempPath> {
        Some(&settings.get::<PrefixedSettings<S::Member>>().proxy_temp_path)
    }

    fn target<'r>(&'r self, request: &'r Request) -> TargetLookup<'r> {
        // As in nginx, no server is chosen for a request that cannot be expressed in the protocol.
        if request.head.most_bytes() >= SURELY_SAID
            && let Err(fault) = said::<S>(request)
        {
            log_error!(request, Alert, "{fault}");
            return TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR)));
        }
        match S::pass(request.settings()) {
            Some(pass) => pass.resolve_target(request, S::scheme(request.settings())),
            // The handler is set only where the directive is.
            None => TargetLookup::Now(Err(Outcome::Status(Status::INTERNAL_SERVER_ERROR))),
        }
    }

    fn tls<'r>(&self, request: &'r Request) -> Option<&'r UpstreamTls> {
        S::tls(request.settings())?.get().map(|tls| &**tls)
    }

    fn body(&self, request: &Request) -> RequestBody {
        if family::<S>(request).proxy_pass_request_body { RequestBody::Client } else { RequestBody::None }
    }

    fn exchange(&self, request: &Request, _: bool, _: &PassTarget, _: usize) -> AnyExchange {
        AnyExchange::Boxed(S::exchange(request, family::<S>(request)))
    }

    fn respond(&self, request: &mut Request, _: &PassTarget, head: UpstreamHead) -> Result<PassedHead, Fault> {
        let location = request.place.location.clone();
        let family = location.settings.get::<PrefixedSettings<S::Member>>();
        Ok(headers::respond(request, family, &S::HIDDEN, &AsItIs, head))
    }

    fn hides(&self, request: &Request, id: HeaderId, name: &[u8]) -> bool {
        family::<S>(request).hides(id, name, &S::HIDDEN)
    }

    fn is_idempotent(&self, request: &Request) -> bool {
        is_idempotent(request.asked.method)
    }

    fn upgrades(&self, request: &Request) -> bool {
        S::UPGRADES && request.head.has(HeaderId::Upgrade)
    }
}
