//! `uwsgi_pass`: requests answered by applications behind the uWSGI server.

use std::sync::Arc;

use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, bytes_of, settings};
use freerun_http::request::Request;
use freerun_proto::uwsgi::Packet;

use crate::exchange::family::Family;
use crate::exchange::{Exchange, Fault};
use crate::family::cgi;
use crate::family::cgi::{Script, TlsOnce};
use crate::family::headers::HIDDEN_UWSGI;
use crate::family::params;
use crate::family::params::Param;
use crate::family::pass_argument::{Pass, Scheme};
use crate::settings::FamilySettings;
use crate::settings::lists::HiddenFields;
use crate::settings::members::UwsgiDirectives;
use crate::upstream::UpstreamRef;

settings! {
    /// uwsgi: the directives that only this member of the family has.
    #[module = "uwsgi_application"]
    pub struct UwsgiSettings {
        /// Passes requests to a uWSGI server: `host:port`, `unix:/path`, the name of an `upstream` block, optionally
        /// with `uwsgi://` in front, or variables that give one of these.
        uwsgi_pass: Option<UwsgiPass>, in LOCATION | LOCATION_IF, content;
        /// A variable that is sent to the application, with variables in its value; with `if_not_empty` only if the
        /// value is not empty. These variables are inherited from an outer level only if a level has none.
        ///
        /// The fields of the request are variables, too, as `HTTP_NAME`, unless a variable with that name is set. A
        /// variable with the value `""` is left out together with the field. `HTTP_HOST` is
        /// `$host$is_request_port$request_port`: the host that has chosen the server, in lower case and without a dot
        /// at its end. The field `Host` does not count where the request line has another host.
        uwsgi_param: Many<Param>, in HTTP | SERVER | LOCATION;
        /// The first modifier of the packet: the kind of the request.
        uwsgi_modifier1: Modifier = "0", in HTTP | SERVER | LOCATION;
        /// The second modifier of the packet.
        uwsgi_modifier2: Modifier = "0", in HTTP | SERVER | LOCATION;
        /// A text that is sent unchanged in the packet after the variables, which some modifiers use instead of
        /// variables.
        uwsgi_string: Option<String>, in HTTP | SERVER | LOCATION;
    }
}

/// The argument of `uwsgi_pass`.
#[derive(Debug, Clone)]
pub struct UwsgiPass {
    to: Pass,
    /// Place of the settings of TLS, if the scheme is `suwsgi`.
    tls: Option<Arc<TlsOnce>>,
}

impl Value for UwsgiPass {
    const SHAPE: Shape = Shape::exactly(1, "address");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<UwsgiPass, Problem> {
        let mut address = directive.args[0].clone();
        if address.text.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("suwsgi://")) {
            address.text.drain(..9);
            let to = Pass::parse(directive, &address, true, cx)?;
            return Ok(UwsgiPass { to, tls: Some(Arc::default()) });
        }
        if address.text.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("uwsgi://")) {
            address.text.drain(..8);
        }
        Pass::parse(directive, &address, true, cx).map(|to| UwsgiPass { to, tls: None })
    }
}

/// The value of a modifier: one byte.
#[derive(Debug, Clone, Copy)]
pub struct Modifier(u8);

impl Value for Modifier {
    const SHAPE: Shape = Shape::exactly(1, "number");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Modifier, Problem> {
        let number = u64::parse(directive, cx)?;
        let byte = u8::try_from(number).map(Modifier);
        byte.map_err(|_| Problem::new("value must be between 0 and 255").at(directive.args[0].place))
    }
}

/// The group of a location; see [`cgi::fixed_group`].
pub fn fixed_group(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    cgi::fixed_group::<UwsgiScript>(settings)
}

/// uwsgi as a member of the family.
pub struct UwsgiScript;

impl Script for UwsgiScript {
    type Member = UwsgiDirectives;
    const SCHEME: &'static str = "uwsgi://";
    const UPGRADES: bool = true;
    const HIDDEN: HiddenFields = HIDDEN_UWSGI;

    fn pass(settings: &SettingsSet) -> Option<&Pass> {
        settings.get::<UwsgiSettings>().uwsgi_pass.as_ref().map(|pass| &pass.to)
    }

    fn params(settings: &SettingsSet) -> &[Param] {
        &settings.get::<UwsgiSettings>().uwsgi_param
    }

    fn scheme(settings: &SettingsSet) -> Scheme {
        match Self::tls(settings) {
            Some(_) => Scheme { text: "suwsgi://", is_secure: true },
            None => Scheme { text: Self::SCHEME, is_secure: false },
        }
    }

    fn tls(settings: &SettingsSet) -> Option<&TlsOnce> {
        settings.get::<UwsgiSettings>().uwsgi_pass.as_ref()?.tls.as_deref()
    }

    fn exchange(request: &Request, family: &FamilySettings) -> Box<dyn Exchange> {
        let fields = family.proxy_pass_request_headers;
        cgi::exchange(request, family, move |request, _, out| {
            let settings = request.settings().get::<UwsgiSettings>();
            let mut packet = Packet::begin(settings.uwsgi_modifier1.0, settings.uwsgi_modifier2.0, out);
            let written =
                params::each(request, &settings.uwsgi_param, fields, |name, value| packet.pair(name, value, out));
            let string = settings.uwsgi_string.as_deref().unwrap_or_default();
            let written = written.and_then(|()| packet.text(&bytes_of(string), out));
            written.map_err(|error| Fault::Request(error.to_string().into()))?;
            packet.end(out);
            Ok(())
        })
    }
}
