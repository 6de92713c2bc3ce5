//! `auth_require`: access by the values of variables.

use freerun_conf::{group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};

use super::checks::Checks;

settings! {
    /// Access by the values of variables.
    #[module = "auth_require"]
    pub struct RequireSettings {
        /// Lets a request pass only if all of these values are neither empty nor `0`. `error=` is the status of the answer
        /// to others, 403 by default. `off` cancels the directives of an outer level.
        auth_require: Checks, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
    }
}

/// The module `auth_require`.
pub static MODULE: Module = Module {
    name: "auth_require",
    groups: &[group::<RequireSettings>()],
    handlers: &[Handler {
        phase: Phase::Access,
        wanted: |settings| !settings.get::<RequireSettings>().auth_require.is_empty(),
        run: Run::Now(check),
    }],
    ..Module::EMPTY
};

fn check(request: &mut Request) -> Outcome {
    let location = request.place.location.clone();
    match location.settings.get::<RequireSettings>().auth_require.refusal(request) {
        None => Outcome::Allowed,
        Some(status) => Outcome::Status(status),
    }
}
