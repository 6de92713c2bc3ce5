//! `allow` and `deny`: access by the client's address.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_access_module.html>

use freerun_conf::{SettingsSet, Shape, group, settings};
use freerun_runtime::log::Level;
use freerun_serve::Subject;
use freerun_serve::limits::access::Rules;

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{Handler, HandlerRun, Phase, PhaseOutcome, status};

settings! {
    /// Access to sessions by the client's address.
    #[module = "stream/access"]
    pub struct AccessSettings {
        /// Allows clients by their address or network, clients of Unix sockets (`unix:`), or `all`.
        ///
        /// The rules are checked in their order, and the first match decides. The rules of a server replace the rules
        /// of `stream`. A client that no rule matches is allowed.
        #[name = "allow"]
        rules: Rules, in STREAM | STREAM_SERVER;
    }
    also {
        /// Refuses clients with status 403 by their address or network, clients of Unix sockets (`unix:`), or `all`.
        "deny" => rules: Shape::exactly(1, Rules::SYNTAX), in STREAM | STREAM_SERVER;
    }
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<AccessSettings>().rules.is_empty()
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/access",
    groups: &[group::<AccessSettings>()],
    handlers: &[Handler { phase: Phase::Access, wanted, run: HandlerRun::Now(run) }],
    ..Module::EMPTY
};

fn run(session: &Session) -> PhaseOutcome {
    match session.settings().get::<AccessSettings>().rules.judge(session.peer()) {
        None | Some(true) => PhaseOutcome::Declined,
        Some(false) => {
            session.log(Level::Error, format_args!("access forbidden by rule"));
            PhaseOutcome::End(status::FORBIDDEN)
        }
    }
}
