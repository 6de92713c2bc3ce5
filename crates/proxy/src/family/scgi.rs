//! `scgi_pass`: requests answered by applications that speak SCGI.

use std::convert::Infallible;

use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, settings};
use freerun_http::request::Request;
use freerun_proto::scgi::Variables;

use crate::exchange::family::Family;
use crate::exchange::{BodyPlan, Exchange, Fault};
use crate::family::cgi;
use crate::family::cgi::Script;
use crate::family::params;
use crate::family::params::Param;
use crate::family::pass_argument::Pass;
use crate::settings::FamilySettings;
use crate::settings::members::ScgiDirectives;
use crate::upstream::UpstreamRef;

settings! {
    /// SCGI: the directives that only this member of the family has.
    #[module = "scgi_application"]
    pub struct ScgiSettings {
        /// Passes requests to an SCGI server: `host:port`, `unix:/path`, the name of an `upstream` block, or variables that
        /// give one of these.
        scgi_pass: Option<ScgiPass>, in LOCATION | LOCATION_IF, content;
        /// A variable that is sent to the application, with variables in its value; with `if_not_empty` only if the
        /// value is not empty. These variables are inherited from an outer level only if a level has none.
        ///
        /// The fields of the request are variables, too, as `HTTP_NAME`, unless a variable with that name is set. A
        /// variable with the value `""` is left out together with the field. `CONTENT_LENGTH` always comes first.
        /// `HTTP_HOST` is `$host$is_request_port$request_port`: the host that has chosen the server, in lower case and
        /// without a dot at its end. The field `Host` does not count where the request line has another host.
        scgi_param: Many<Param>, in HTTP | SERVER | LOCATION;
    }
}

/// The argument of `scgi_pass`.
#[derive(Debug, Clone)]
pub struct ScgiPass(Pass);

impl Value for ScgiPass {
    const SHAPE: Shape = Shape::exactly(1, "address");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ScgiPass, Problem> {
        Pass::parse(directive, &directive.args[0], true, cx).map(ScgiPass)
    }
}

/// The group of a location; see [`cgi::fixed_group`].
pub fn fixed_group(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    cgi::fixed_group::<ScgiScript>(settings)
}

/// SCGI as a member of the family.
pub struct ScgiScript;

impl Script for ScgiScript {
    type Member = ScgiDirectives;
    const SCHEME: &'static str = "scgi://";
    const UPGRADES: bool = true;

    fn pass(settings: &SettingsSet) -> Option<&Pass> {
        settings.get::<ScgiSettings>().scgi_pass.as_ref().map(|pass| &pass.0)
    }

    fn params(settings: &SettingsSet) -> &[Param] {
        &settings.get::<ScgiSettings>().scgi_param
    }

    fn exchange(request: &Request, family: &FamilySettings) -> Box<dyn Exchange> {
        let fields = family.proxy_pass_request_headers;
        cgi::exchange(request, family, move |request, body, out| {
            let length = match body {
                BodyPlan::None => 0,
                BodyPlan::Length(length) => length,
                // A body without a length is read completely before, so that its length is known.
                BodyPlan::Unknown => return Err(Fault::Request("the length of the body is not known".into())),
            };
            let settings = request.settings().get::<ScgiSettings>();
            let mut variables = Variables::begin(length, out);
            let written = params::each(request, &settings.scgi_param, fields, |name, value| {
                variables.pair(name, value, out);
                Ok::<(), Infallible>(())
            });
            let Ok(()) = written;
            variables.end(out);
            Ok(())
        })
    }
}
