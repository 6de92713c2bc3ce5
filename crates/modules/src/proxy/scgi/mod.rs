//! `scgi_pass`: requests answered by applications that speak SCGI.

use std::convert::Infallible;

use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, group, settings};
use freerun_http::module::{Handler, Module, Phase, Run};
use freerun_http::request::Request;
use freerun_proto::scgi::Variables;

use super::cgi::{self, Cgi, Script};
use super::forward;
use super::exchange::{BodyPlan, Exchange, Family, Fault};
use super::members::Scgi;
use super::params::{self, Param};
use super::pass::Pass;
use super::settings::{FamilySettings, Prefixed};
use crate::upstream::UpstreamRef;

settings! {
    /// SCGI: what only it has.
    #[module = "scgi_application"]
    pub struct ScgiSettings {
        /// Passes requests to an SCGI server: `host:port`, `unix:/path`, the name of an `upstream` block, or variables that
        /// give one of these.
        scgi_pass: Option<ScgiPass>, in LOCATION | LOCATION_IF, content;
        /// A variable that the application gets, with variables in its value; with `if_not_empty` only if that is not empty.
        /// They are inherited from an outer level only where none is written.
        ///
        /// The fields of the request are variables, too, as `HTTP_NAME`, unless one of that name is written; one with the value
        /// `""` is left out together with the field.
        /// `CONTENT_LENGTH` always comes first.
        scgi_param: Many<Param>, in HTTP | SERVER | LOCATION;
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "scgi",
    groups: &[group::<Prefixed<Scgi>>(), group::<ScgiSettings>()],
    handlers: &[Handler {
        phase: Phase::Content,
        wanted: |settings| ScgiScript::pass(settings).is_some(),
        run: Run::Later(|request| forward::pass(request, Cgi::<ScgiScript>::FAMILY)),
    }],
    content: Some("scgi_pass"),
    settle: Some(cgi::settle::<ScgiScript>),
    ..Module::EMPTY
};

/// The argument of `scgi_pass`.
#[derive(Debug, Clone)]
pub struct ScgiPass(Pass);

impl Value for ScgiPass {
    const SHAPE: Shape = Shape::exactly(1, "address");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ScgiPass, Problem> {
        Pass::parse(directive, &directive.args[0], true, cx).map(ScgiPass)
    }
}

/// See [`cgi::fixed_group`].
pub fn fixed_group(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    cgi::fixed_group::<ScgiScript>(settings)
}

struct ScgiScript;

impl Script for ScgiScript {
    type Member = Scgi;
    const SCHEME: &'static str = "scgi://";
    const UPGRADES: bool = true;

    fn pass(settings: &SettingsSet) -> Option<&Pass> {
        settings.get::<ScgiSettings>().scgi_pass.as_ref().map(|pass| &pass.0)
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
