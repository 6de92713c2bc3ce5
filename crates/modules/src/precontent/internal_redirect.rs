//! `internal_redirect`: a request goes on with another URI after it was let in.

use freerun_conf::{group, settings, text_of};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::phases::subrequest::target;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::template::Template;
use freerun_proto::Status;

settings! {
    /// Going on elsewhere.
    #[module = "internal_redirect"]
    pub struct InternalRedirectSettings {
        /// Goes on with another URI or a named location, after limits and access were checked. The text may have variables;
        /// an empty one changes nothing.
        internal_redirect: Option<Template>, in SERVER | LOCATION;
    }
}

/// The module `internal_redirect`.
pub static MODULE: Module = Module {
    name: "internal_redirect",
    groups: &[group::<InternalRedirectSettings>()],
    handlers: &[Handler {
        phase: Phase::PreContent,
        wanted: |settings| settings.get::<InternalRedirectSettings>().internal_redirect.is_some(),
        run: Run::Now(run),
    }],
    ..Module::EMPTY
};

fn run(request: &mut Request) -> Outcome {
    let location = request.place.location.clone();
    let redirect = &location.settings.get::<InternalRedirectSettings>().internal_redirect;
    let uri = redirect.as_ref().map(|uri| uri.render(request).into_owned()).unwrap_or_default();
    match uri.first() {
        None => Outcome::Declined,
        Some(b'@') => Outcome::Named(text_of(&uri).into_owned()),
        Some(_) => match target(b"", &uri) {
            Ok((path, args)) => Outcome::Redirect(path, args),
            Err(path) => {
                log_error!(request, Error, "unsafe URI \"{}\" was detected", text_of(&path));
                Outcome::Status(Status::INTERNAL_SERVER_ERROR)
            }
        },
    }
}
