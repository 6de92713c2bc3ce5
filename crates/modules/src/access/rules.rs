//! `allow` and `deny`: access by the client's address.

use freerun_conf::{SettingsSet, Shape, group, settings};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::core_settings::{CoreSettings, Satisfy};
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_proto::Status;
use freerun_serve::limits::access::Rules;

settings! {
    /// Access by the client's address.
    #[module = "access"]
    pub struct AccessSettings {
        /// Allows clients by their address or network, clients of Unix sockets (`unix:`), or `all`.
        ///
        /// The rules of a level are checked in their order, and the first match decides. The rules of a level replace
        /// the rules of the outer level. A client that no rule matches is allowed.
        #[name = "allow"]
        rules: Rules, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
    }
    also {
        /// Refuses clients with 403 by their address or network, clients of Unix sockets (`unix:`), or `all`.
        "deny" => rules: Shape::exactly(1, Rules::SYNTAX), in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
    }
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<AccessSettings>().rules.is_empty()
}

/// The module `access`.
pub static MODULE: Module = Module {
    name: "access",
    groups: &[group::<AccessSettings>()],
    handlers: &[Handler { phase: Phase::Access, wanted, run: Run::Now(run) }],
    ..Module::EMPTY
};

/// Whether a location with these settings refuses the client for its address, whatever else it sends.
pub fn refuses(settings: &SettingsSet, request: &Request) -> bool {
    settings.get::<AccessSettings>().rules.judge(request.peer()) == Some(false)
        && settings.get::<CoreSettings>().satisfy == Satisfy::All
}

fn run(request: &mut Request) -> Outcome {
    let settings = request.settings();
    match settings.get::<AccessSettings>().rules.judge(request.peer()) {
        None => Outcome::Declined,
        Some(true) => Outcome::Allowed,
        Some(false) => {
            // With `satisfy any` another handler may still allow the request.
            if settings.get::<CoreSettings>().satisfy == Satisfy::All {
                log_error!(request, Error, "access forbidden by rule");
            }
            Outcome::Status(Status::FORBIDDEN)
        }
    }
}
