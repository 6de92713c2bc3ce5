//! `fastcgi_pass`: requests answered by applications that speak FastCGI.

pub mod exchange;
pub mod reply;
pub mod script;

#[cfg(test)]
mod framing_tests;

use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, settings};
use freerun_http::request::Request;

use crate::exchange::Exchange;
use crate::exchange::family::Family;
use crate::family::cgi;
use crate::family::cgi::Script;
use crate::family::fastcgi::exchange::FastCgiExchange;
use crate::family::fastcgi::script::Split;
use crate::family::params::Param;
use crate::family::pass_argument::Pass;
use crate::settings::FamilySettings;
use crate::settings::members::FastCgiDirectives;
use crate::upstream::UpstreamRef;

settings! {
    /// FastCGI: the directives that only this member of the family has.
    #[module = "fastcgi_application"]
    pub struct FastCgiSettings {
        /// Passes requests to a FastCGI server: `host:port`, `unix:/path`, the name of an `upstream` block, or variables
        /// that give one of these.
        fastcgi_pass: Option<FastCgiPass>, in LOCATION | LOCATION_IF, content;
        /// A parameter that is sent to the application, with variables in its value; with `if_not_empty` only if the
        /// value is not empty. Parameters are inherited from an outer level only if a level has none.
        ///
        /// The fields of the request are parameters, too, as `HTTP_NAME`, unless a parameter with that name is set. A
        /// parameter with the value `""` is left out together with the field. `HTTP_HOST` is
        /// `$host$is_request_port$request_port`: the host that has chosen the server, in lower case and without a dot
        /// at its end. The field `Host` does not count where the request line has another host.
        fastcgi_param: Many<Param>, in HTTP | SERVER | LOCATION;
        /// The file name that `$fastcgi_script_name` has after a path that ends with a slash.
        fastcgi_index: Option<String>, in HTTP | SERVER | LOCATION;
        /// An expression with two groups, which are `$fastcgi_script_name` and `$fastcgi_path_info`.
        fastcgi_split_path_info: Option<Split>, in HTTP | SERVER | LOCATION;
        /// A text in the application's error output that makes its response invalid, if it comes before the head.
        fastcgi_catch_stderr: Many<String>, in HTTP | SERVER | LOCATION;
        /// Asks the application to leave the connection open, so that it can be used for another request. The number of
        /// idle connections that are kept is set by `keepalive` of the group.
        fastcgi_keep_conn: bool = "off", in HTTP | SERVER | LOCATION;
    }
}

/// The argument of `fastcgi_pass`.
#[derive(Debug, Clone)]
pub struct FastCgiPass(Pass);

impl Value for FastCgiPass {
    const SHAPE: Shape = Shape::exactly(1, "address");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<FastCgiPass, Problem> {
        Pass::parse(directive, &directive.args[0], true, cx).map(FastCgiPass)
    }
}

/// The group of a location; see [`cgi::fixed_group`].
pub fn fixed_group(settings: &SettingsSet) -> Option<(&'static dyn Family, UpstreamRef)> {
    cgi::fixed_group::<FastCgiScript>(settings)
}

/// FastCGI as a member of the family.
pub struct FastCgiScript;

impl Script for FastCgiScript {
    type Member = FastCgiDirectives;
    const SCHEME: &'static str = "fastcgi://";
    const UPGRADES: bool = false;

    fn pass(settings: &SettingsSet) -> Option<&Pass> {
        settings.get::<FastCgiSettings>().fastcgi_pass.as_ref().map(|pass| &pass.0)
    }

    fn params(settings: &SettingsSet) -> &[Param] {
        &settings.get::<FastCgiSettings>().fastcgi_param
    }

    fn exchange(request: &Request, family: &FamilySettings) -> Box<dyn Exchange> {
        Box::new(FastCgiExchange::new(request, family.max_head(), family.proxy_pass_request_headers))
    }
}
