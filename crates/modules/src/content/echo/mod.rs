//! `echo` and its relatives: responses that a configuration writes itself, with text, pauses and subrequests.

mod body_lines;
mod commands;
mod source;
mod variables;

use std::time::Duration;

use freerun_conf::{SettingsSet, Shape, group, settings, text_of};
use freerun_http::body;
use freerun_http::content::media_type;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::phases::subrequest::target;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::{Filter, Handler, Outcome, Phase, Run, Slot};
use freerun_http::request::response::{Body, LocalBoxFuture, Response};
use freerun_http::template::Template;
use freerun_http::variables::Variable;
use freerun_proto::Status;
use freerun_runtime::{loops, timer};

use commands::{Commands, EchoCommand, Lines};
use variables::EchoState;

settings! {
    /// Responses that the configuration writes itself.
    #[module = "echo"]
    pub struct EchoSettings {
        /// Sends its arguments with blanks between them and a line end; `-n` leaves the line end out, `--` ends the options.
        ///
        /// All directives of a location whose names begin with `echo` run in their order. Their variables are evaluated
        /// when it is their turn.
        echo: Commands, in LOCATION | LOCATION_IF, content;
        /// The status of the response.
        echo_status: u16 = "200", in LOCATION | LOCATION_IF;
        /// Sends a line, as `echo` does, before the body that something else makes.
        echo_before_body: Lines, in LOCATION | LOCATION_IF;
        /// Sends a line behind the body that something else makes.
        echo_after_body: Lines, in LOCATION | LOCATION_IF;
    }
    also {
        /// Sends a text this number of times; the number may have underscores.
        "echo_duplicate" => echo: Shape::exactly(2, "count text"), in LOCATION | LOCATION_IF, content;
        /// Sends what there is before it goes on.
        "echo_flush" => echo: Shape::exactly(0, ""), in LOCATION | LOCATION_IF, content;
        /// Waits, with up to three digits behind the decimal point, and keeps nobody else waiting.
        "echo_sleep" => echo: Shape::exactly(1, "seconds"), in LOCATION | LOCATION_IF, content;
        /// The same as `echo_sleep`.
        "echo_blocking_sleep" => echo: Shape::exactly(1, "seconds"), in LOCATION | LOCATION_IF, content,
            fidelity = Differs("it keeps no other request waiting");
        /// Begins to count `$echo_timer_elapsed` anew.
        "echo_reset_timer" => echo: Shape::exactly(0, ""), in LOCATION | LOCATION_IF, content;
        /// Reads the body of the request, so that `$request_body` has it. It is read before the response begins.
        "echo_read_request_body" => echo: Shape::exactly(0, ""), in LOCATION | LOCATION_IF, content;
        /// Sends the body of the request, if it was read.
        "echo_request_body" => echo: Shape::exactly(0, ""), in LOCATION | LOCATION_IF, content;
        /// Sends the answer to a subrequest, and waits for it.
        "echo_location" => echo: Shape::between(1, 2, "uri [arguments]"), in LOCATION | LOCATION_IF, content;
        /// Sends the answer to a subrequest, and goes on meanwhile: several of them run at the same time.
        "echo_location_async" => echo: Shape::between(1, 2, "uri [arguments]"), in LOCATION | LOCATION_IF, content;
        /// Sends the answer to a subrequest with a method, arguments (`-q`) and a body (`-b text`, `-f file`), and waits for
        /// it.
        "echo_subrequest" => echo: Shape::at_least(2, "method uri [-q arguments] [-b body] [-f file]"),
            in LOCATION | LOCATION_IF, content;
        /// The same as `echo_subrequest`, but it goes on meanwhile.
        "echo_subrequest_async" => echo: Shape::at_least(2, "method uri [-q arguments] [-b body] [-f file]"),
            in LOCATION | LOCATION_IF, content;
        /// Runs what follows up to `echo_end` for each part of a text, which is `$echo_it` there. Empty parts are left out.
        "echo_foreach_split" => echo: Shape::between(2, 3, "[--] delimiter text"), in LOCATION | LOCATION_IF, content;
        /// Ends an `echo_foreach_split`.
        "echo_end" => echo: Shape::exactly(0, ""), in LOCATION | LOCATION_IF, content;
        /// Goes on with another URI or a named location. It has to come before anything is sent.
        "echo_exec" => echo: Shape::between(1, 2, "uri [arguments] | @name"), in LOCATION | LOCATION_IF, content;
    }
}

/// The module `echo`.
pub static MODULE: Module = Module {
    name: "echo",
    groups: &[group::<EchoSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(|request| Box::pin(answer(request))) }],
    content: commands::NAMES,
    settle: Some(|settings, cx| {
        if settings.get::<EchoSettings>().echo.list().iter().any(EchoCommand::needs_body) {
            settings.get::<CoreSettings>().client_body_temp_path.note(true, cx);
        }
        Ok(())
    }),
    filters: &[Filter { slot: Slot::Around, wanted: body_lines::wanted, run: body_lines::run }],
    variables: VARIABLES,
    ..Module::EMPTY
};

const VARIABLES: &[Variable] = variables::ALL;

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<EchoSettings>().echo.list().is_empty()
}

async fn answer(request: &mut Request) -> Outcome {
    let location = request.place.location.clone();
    let settings = location.settings.get::<EchoSettings>();
    let reads = settings.echo.list().iter().any(EchoCommand::needs_body);
    // A request without a body has none for its subrequests either.
    let body = if reads && !request.body.is_done() {
        body::collect(request).await.map(drop).map_err(|error| error.status())
    } else {
        body::begin_discarding(request)
    };
    if let Err(status) = body {
        return Outcome::Status(status);
    }
    let state = request.own.get::<EchoState>();
    if request.is_subrequest() {
        state.started.set(Some(loops::now()));
    }
    let mut begun = 0;
    for command in settings.echo.list() {
        match command {
            EchoCommand::Sleep(seconds) => {
                let Some(time) = sleeping_time(request, seconds) else {
                    return Outcome::Status(Status::INTERNAL_SERVER_ERROR);
                };
                tokio::select! {
                    () = timer::sleep(time) => {}
                    () = request.client.gone() => return Outcome::Status(Status::CLIENT_CLOSED_REQUEST),
                }
            }
            EchoCommand::ResetTimer => state.started.set(Some(loops::now())),
            EchoCommand::Flush | EchoCommand::ReadBody => {}
            EchoCommand::Exec(uri, args) => return exec(request, uri, args.as_ref()),
            _ => break,
        }
        begun += 1;
    }
    let media_type = media_type(request, &request.asked.path);
    let status = Status::new(settings.echo_status);
    let rest = source::EchoBody::new(request, settings.echo.clone(), begun, status);
    Response::typed_by_uri(status, media_type, Body::Source(Box::new(rest))).into()
}

/// The time to wait; `None` for a text that is no time, which is logged.
fn sleeping_time(request: &Request, seconds: &Template) -> Option<Duration> {
    let text = seconds.render(request);
    let time = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<f64>().ok());
    let time = time.and_then(|time| Duration::try_from_secs_f64(time).ok());
    if time.is_none() {
        log_error!(request, Error, "invalid sleep duration \"{}\"", text_of(&text));
    }
    time
}

fn exec(request: &mut Request, uri: &Template, args: Option<&Template>) -> Outcome {
    let uri = uri.render(request).into_owned();
    let given = args.map(|args| args.render(request).into_owned()).filter(|args| !args.is_empty());
    if uri.first() == Some(&b'@') {
        if let Some(args) = given {
            let (args, name) = (text_of(&args), text_of(&uri));
            log_error!(request, Warn, "querystring {args} ignored when exec'ing named location {name}");
        }
        return Outcome::Named(text_of(&uri).into_owned());
    }
    match target(b"", &uri) {
        Ok((path, args)) => Outcome::Redirect(path, given.or(args)),
        Err(path) => {
            log_error!(request, Error, "echo_exec sees unsafe uri: \"{}\"", text_of(&path));
            Outcome::Status(Status::INTERNAL_SERVER_ERROR)
        }
    }
}

/// A future of a source.
type Later<'a, T> = LocalBoxFuture<'a, T>;
