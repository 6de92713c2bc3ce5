//! `mirror`: repeats requests inside the server, and drops the answers.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, bytes_of, group, settings};
use freerun_http::body;
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::phases::subrequest::background;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_runtime::loops;
use freerun_serve::loops::background::Background;

/// The most mirrored requests that run on one loop. Beyond that, requests are not mirrored, and the log says so.
const MAX_RUNNING: usize = 1024;

settings! {
    /// Copies of requests inside the server.
    #[module = "mirror"]
    pub struct MirrorSettings {
        /// Sends a copy of each request to this URI, besides answering it; several directives send several copies. The
        /// answers are dropped.
        ///
        /// The URI is used as it is: without variables, arguments or escapes. The copy has the arguments of the request. `off` cancels what an outer level says. At
        /// most 1024 such requests run on each event loop at a time; when there are more, requests are not mirrored.
        mirror: Mirrors, in HTTP | SERVER | LOCATION,
            fidelity = Differs("the next request of the connection does not wait for mirrored ones");
        /// Whether the copy has the request's body, which is read completely before, whatever `proxy_request_buffering`
        /// says.
        mirror_request_body: bool = "on", in HTTP | SERVER | LOCATION;
    }
}

/// The URIs of the mirrored requests; none with `off`.
#[derive(Debug, Clone, Default)]
pub struct Mirrors(Arc<[String]>);

impl Setting for Mirrors {
    const SHAPE: Shape = Shape::exactly(1, "uri | off");

    fn set(previous: Option<Mirrors>, directive: &Node, _: &mut Cx) -> Result<Mirrors, Problem> {
        let uri = &directive.args[0].text;
        match previous {
            None if uri == "off" => Ok(Mirrors::default()),
            Some(previous) if uri == "off" || previous.0.is_empty() => Err(Problem::duplicate(directive)),
            previous => {
                let earlier = previous.unwrap_or_default().0;
                Ok(Mirrors(earlier.iter().chain([uri]).cloned().collect()))
            }
        }
    }
}

/// The module `mirror`.
pub static MODULE: Module = Module {
    name: "mirror",
    groups: &[group::<MirrorSettings>()],
    handlers: &[Handler {
        phase: Phase::PreContent,
        wanted: |settings| !settings.get::<MirrorSettings>().mirror.0.is_empty(),
        run: Run::Later(|request| Box::pin(run(request))),
    }],
    settle: Some(|settings, cx| {
        let own = settings.get::<MirrorSettings>();
        if !own.mirror.0.is_empty() && own.mirror_request_body {
            settings.get::<CoreSettings>().client_body_temp_path.note(true, cx);
        }
        Ok(())
    }),
    ..Module::EMPTY
};

/// The number of mirrored requests that run on a loop.
#[derive(Default)]
struct MirrorCount(Cell<usize>);

/// The place of one mirrored request.
struct MirrorPermit(Rc<MirrorCount>);

impl Drop for MirrorPermit {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

async fn run(request: &mut Request) -> Outcome {
    // The client's request is mirrored once, not its subrequests.
    if request.is_subrequest() {
        return Outcome::Declined;
    }
    let with_body = request.settings().get::<MirrorSettings>().mirror_request_body;
    if with_body
        && !request.body.is_done()
        && let Err(error) = body::collect(request).await
    {
        return Outcome::Status(error.status());
    }
    let running = request.client.loop_state.modules.get::<MirrorCount>();
    let uris = request.settings().get::<MirrorSettings>().mirror.0.clone();
    for uri in uris.iter() {
        if running.0.get() >= MAX_RUNNING {
            log_error!(request, Warn, "{MAX_RUNNING} mirrored requests are running, not mirrored to \"{uri}\"");
            break;
        }
        let (path, args) = (bytes_of(uri).into_owned(), request.asked.args.clone());
        let Ok(mirrored) = background(request, request.asked.method, path, args, with_body) else {
            break;
        };
        running.0.set(running.0.get() + 1);
        let place = (MirrorPermit(running.clone()), Background::new(&request.client.loop_state.shared.background));
        loops::spawn(request.client.number, "mirroring a request", async move {
            let _place = place;
            mirrored.await.finish();
        });
    }
    Outcome::Declined
}
