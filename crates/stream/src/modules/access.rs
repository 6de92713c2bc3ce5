//! `allow` and `deny`: access by the client's address.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_access_module.html>

use freerun_conf::{SettingsSet, Shape, group, settings};
use freerun_runtime::log::Level;
use freerun_serve::Subject;
use freerun_serve::limits::access::Rules;

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{Handler, Outcome, Phase, Run, status};

settings! {
    /// Access to sessions by the client's address.
    #[module = "stream/access"]
    pub struct AccessSettings {
        /// Allows clients: those of an address, a network, Unix sockets (`unix:`), or `all`.
        ///
        /// The rules are checked in their order, and the first one that matches decides. The rules of a server replace those of
        /// `stream`. A client that no rule matches is allowed.
        #[name = "allow"]
        rules: Rules, in STREAM | STREAM_SERVER;
    }
    also {
        /// Refuses clients with status 403: those of an address, a network, Unix sockets (`unix:`), or `all`.
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
    handlers: &[Handler { phase: Phase::Access, wanted, run: Run::Now(run) }],
    ..Module::EMPTY
};

fn run(session: &Session) -> Outcome {
    match session.settings().get::<AccessSettings>().rules.judge(session.peer()) {
        None | Some(true) => Outcome::Declined,
        Some(false) => {
            session.log(Level::Error, format_args!("access forbidden by rule"));
            Outcome::End(status::FORBIDDEN)
        }
    }
}
