//! `auth_request`: the answer to a subrequest decides about access.

use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, bytes_of, group, settings};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::phases::subrequest::{Subrequest, subrequest};
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_http::template::Template;
use freerun_http::variables::{RequestSetTarget, VariableTable};
use freerun_http::write::text;
use freerun_proto::Status;

settings! {
    /// Access decided by a subrequest to another location.
    #[module = "auth_request"]
    pub struct AuthRequestSettings {
        /// Sends a subrequest to this URI: a status of 2xx allows the request, 401 and 403 refuse it, any other is an
        /// error.
        ///
        /// The URI is used as it is: without variables, arguments or escapes. `off` cancels the value of an outer
        /// level.
        ///
        /// A client that is refused with 401 gets the `WWW-Authenticate` fields of the subrequest's answer. With
        /// CONNECT (`tunnel_pass`) it is refused with 407, and gets them as `Proxy-Authenticate`.
        auth_request: String = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("the refusal of CONNECT has the status that clients of a proxy understand: 407 instead of 401");
        /// Sets a variable to this value after the subrequest. Variables in the value are evaluated in the subrequest.
        auth_request_set: Many<Assignment>, in HTTP | SERVER | LOCATION;
    }
}

/// A variable and its value.
#[derive(Clone)]
pub struct Assignment {
    target: RequestSetTarget,
    value: Template,
}

impl Value for Assignment {
    const SHAPE: Shape = Shape::exactly(2, "$variable value");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Assignment, Problem> {
        let word = &directive.args[0];
        let name = word.text.strip_prefix('$').filter(|name| !name.is_empty());
        let name =
            name.ok_or_else(|| Problem::new(format!("invalid variable name \"{}\"", word.text)).at(word.place))?;
        let target = cx.extensions.get_or_default::<VariableTable>().assign_if_known(name);
        let target = target.map_err(|problem| problem.at(word.place))?;
        Ok(Assignment { target, value: Template::parse(&directive.args[1], cx)? })
    }
}

/// The module `auth_request`.
pub static MODULE: Module = Module {
    name: "auth_request",
    groups: &[group::<AuthRequestSettings>()],
    handlers: &[Handler { phase: Phase::Access, wanted, run: Run::Later(run) }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    !matches!(settings.get::<AuthRequestSettings>().auth_request.as_str(), "off" | "")
}

fn run(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        let location = request.place.location.clone();
        let settings = location.settings.get::<AuthRequestSettings>();
        let path = bytes_of(&settings.auth_request).into_owned();
        let Ok(asking) = subrequest(request, path, None) else { return Outcome::Status(Status::INTERNAL_SERVER_ERROR) };
        let mut answer = asking.await;
        let status = answer.status();
        if answer.response.is_none() {
            answer.finish();
            return Outcome::Status(status);
        }
        for Assignment { target, value } in settings.auth_request_set.iter() {
            if let Err(outcome) = assign(request, &mut answer, *target, value) {
                return outcome;
            }
        }
        if status == Status::UNAUTHORIZED {
            challenges(&answer).into_iter().for_each(|challenge| request.answered.add_challenge(challenge));
        }
        answer.finish();
        match status.code() {
            200..300 => Outcome::Allowed,
            401 => Outcome::Status(request.unauthorized()),
            403 => Outcome::Status(Status::FORBIDDEN),
            status => {
                log_error!(request, Error, "auth request unexpected status: {status}");
                Outcome::Status(Status::INTERNAL_SERVER_ERROR)
            }
        }
    })
}

/// Sets a variable to its value, evaluated in the subrequest.
fn assign(
    request: &mut Request,
    answer: &mut Subrequest,
    target: RequestSetTarget,
    value: &Template,
) -> Result<(), Outcome> {
    if let Some(response) = &answer.response {
        text::preview(&mut answer.request, response);
    }
    match target {
        RequestSetTarget::Slot(slot) => {
            let text = value.render(&answer.request).into_owned();
            request.values().set(slot, &text).map_err(|full| {
                log_error!(request, Error, "{full}");
                Outcome::Status(Status::INTERNAL_SERVER_ERROR)
            })
        }
        RequestSetTarget::Call(set) => {
            let text = value.render(&answer.request).into_owned();
            set(request, &text);
            Ok(())
        }
    }
}

/// The authentication challenges in the subrequest's answer.
fn challenges(answer: &Subrequest) -> Vec<bytes::Bytes> {
    let Some(response) = &answer.response else { return Vec::new() };
    let told = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"WWW-Authenticate"));
    told.map(|(_, value)| value.clone()).collect()
}
