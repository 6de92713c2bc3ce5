//! `freerun explain --request`: the way of a request through a configuration.
//!
//! The configuration is built as for a server, with a loop but without a listening socket. The request takes the steps of a
//! client's request there, while a [`Trace`](trace::Trace) observes it, so the explanation cannot differ from what a server does.
//! The handlers that would ask another server, or change something, do not run ([`handlers`]).

mod asked;
mod directives;
mod explanation;
mod handlers;
mod http;
mod listeners;
mod session;
mod trace;

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use freerun_conf::text_of;
use freerun_http::service::HttpService;
use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, Level, LogFile, Writer};
use freerun_runtime::pool::Pools;
use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::loop_services::LoopServices;
use freerun_serve::accept::service::MakeService;
use freerun_serve::accept::worker::{Worker, WorkerOptions};
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::zones::Zones;
use freerun_stream::service::StreamService;

use crate::cli::{ExplainRequest, Options};
use crate::commands::missing_configuration::tell_ways_on;
use crate::configuration::{self, Configuration, KnownFacts, Side};
use crate::console;
use crate::settings::user::privileged;
use crate::source::Input;
use crate::source::hosts;
use crate::source::loader::Recorder;
use directives::WrittenDirectives;

pub use asked::{AskedRequest, ExplainedSubject, address_of, host_and_port, parse as parse_request, split_port};
pub use explanation::Explanation;
pub use http::names_host;

/// The services of the loop.
const SERVICES: &[MakeService] = &[HttpService::make, StreamService::make];

/// The time that an explanation may take: files are looked at, and some of them may be on a disk that hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The client's address, unless another one is given.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Explains a request, and prints the explanation.
pub fn run(options: &ExplainRequest) -> ExitCode {
    match explain(options) {
        Ok(explanation) => {
            console::output(&if options.json { explanation.json() } else { explanation.text() });
            ExitCode::SUCCESS
        }
        Err(told) => {
            if !told.is_empty() {
                console::print(&format!("freerun: explain: {told}\n"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Explains a request.
///
/// # Errors
/// The reason why there is no explanation; it is empty if it was printed already.
fn explain(options: &ExplainRequest) -> Result<Explanation, String> {
    let asked = asked::parse(&options.request)?;
    let explainer = Explainer::start(&options.options, options.from)?;
    let explained = explainer.explain(asked, options);
    let explained =
        explained.map(|explanation| Explanation { error_log: explainer.rehearsal.error_log(), ..explanation });
    explainer.stop();
    explained
}

/// A configuration whose requests can be explained, one after the other.
pub struct Explainer {
    rehearsal: Loop,
    directives: Arc<WrittenDirectives>,
}

impl Explainer {
    /// Reads the configuration that these options name, and starts a loop with it. What the log has of requests from `client`, or
    /// else from this machine, is more than it has of others.
    ///
    /// # Errors
    /// The configuration is refused, which was printed, or the loop cannot be started.
    pub fn start(options: &Options, client: Option<IpAddr>) -> Result<Explainer, String> {
        let (configuration, directives) = read(options)?;
        let rehearsal = Loop::start(configuration, client.unwrap_or(CLIENT));
        let rehearsal = rehearsal.map_err(|error| format!("a loop cannot be started: {error}"))?;
        Ok(Explainer { rehearsal, directives: Arc::new(directives) })
    }

    /// Explains what becomes of a request or a session. `options` have its fields, and the addresses of both ends.
    ///
    /// # Errors
    /// It does not come to a server, or the explanation takes too long.
    pub fn explain(&self, asked: ExplainedSubject, options: &ExplainRequest) -> Result<Explanation, String> {
        let (rehearsal, directives) = (&self.rehearsal, self.directives.clone());
        let generation = rehearsal.generation.clone();
        match asked {
            ExplainedSubject::Http(request) => http::explain(rehearsal, &generation, request, options, directives),
            ExplainedSubject::Stream(session) => {
                session::explain(rehearsal, &generation, &session, options, directives)
            }
        }
    }

    /// Ends the loop.
    pub fn stop(self) {
        self.rehearsal.stop();
    }
}

/// Reads the configuration as a master does, and then as a worker does.
///
/// # Errors
/// It is refused, which was printed.
fn read(options: &Options) -> Result<(Configuration, WrittenDirectives), String> {
    let paths = options.paths();
    let input = Input {
        conf: paths.conf,
        globals: options.globals.clone(),
        prefix: paths.prefix,
        conf_prefix: paths.conf_prefix,
        error_log: paths.error_log,
        privileged: privileged(),
    };
    let refused = |failure: Box<configuration::Failure>| {
        console::tell_failure(&ErrorLog::none().with_console(), &failure);
        tell_ways_on(options, &input.conf);
        String::new()
    };
    let mut loader = Recorder::default();
    let tree = freerun_conf::parse(&input.conf, input.globals.as_deref(), &input.conf_prefix, &mut loader);
    let directives = WrittenDirectives::new(&tree);
    let known = KnownFacts { lookup: Some(hosts::known_here), ..KnownFacts::default() };
    let master = configuration::build_tree(&input, tree.clone(), &mut loader, Side::Master, known, Zones::default());
    let Configuration { hosts, secrets, .. } = master.map_err(refused)?;
    let known = KnownFacts { hosts, secrets, ..KnownFacts::default() };
    let worker = configuration::build_tree(&input, tree, &mut loader, Side::Worker, known, Zones::default());
    Ok((worker.map_err(refused)?, directives))
}

/// A loop that serves by a configuration, and has no listening sockets.
struct Loop {
    worker: Worker,
    generation: Arc<Generation>,
    /// The file that all logs are written to.
    log: File,
}

impl Loop {
    /// Starts the loop. The client's requests are logged from the level `notice` on.
    ///
    /// # Errors
    /// A thread or a file could not be made.
    fn start(configuration: Configuration, client: IpAddr) -> std::io::Result<Loop> {
        let log = File::from(rustix::fs::memfd_create("log", rustix::fs::MemfdFlags::CLOEXEC)?);
        // All logs are one file, whose name says that it is no file of the configuration.
        let file: LogFile = Writer::direct().file("explanation", log.try_clone()?.into());
        let logs = vec![file.clone(); configuration.logs.len()];
        let error_log = ErrorLog::new(vec![(file, Level::Notice)]);
        let set = Pools::new().generation(&configuration.pools)?;
        let files = FileSystem::new(set.default().clone())?;
        let connections = configuration.events().worker_connections.0 as usize;
        let generation = Arc::new(configuration.blueprint.serve(1, logs, error_log, set, files));
        let options = WorkerOptions::one_loop(connections);
        let worker = Worker::start(&options, generation.clone(), SERVICES)?;
        let levels = [(client, Some(Level::Notice))].into();
        // There is one client.
        let _ = worker.shared().client_levels.change(&levels);
        Ok(Loop { worker, generation, log })
    }

    /// Runs a job on the loop, and waits for what it sends.
    ///
    /// # Errors
    /// It takes too long.
    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&LoopServices, mpsc::Sender<T>) + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = mpsc::channel();
        loop_listeners::tell(self.worker.shared(), 0, move |services| job(services, sender));
        receiver.recv_timeout(PATIENCE).map_err(|_| {
            format!("there is no result after {} seconds: a file may be on a disk that hangs", PATIENCE.as_secs())
        })
    }

    /// The messages of the logs, without their times, numbers and contexts.
    fn error_log(&self) -> Vec<String> {
        let (mut log, mut bytes) = (&self.log, Vec::new());
        // The file is in memory.
        let _ = log.rewind().and_then(|()| log.read_to_end(&mut bytes));
        text_of(&bytes).lines().filter_map(message).collect()
    }

    fn stop(self) {
        self.worker.stop();
    }
}

/// The level and the message of a line of the error log.
fn message(line: &str) -> Option<String> {
    let level = &line[line.find(" [")? + 1..];
    let level = &level[..=level.find(']')?];
    let rest = line.split_once(": ")?.1;
    let rest = match rest.strip_prefix('*') {
        Some(numbered) => numbered.split_once(' ')?.1,
        None => rest,
    };
    let end = rest.find(", client: ").unwrap_or(rest.len());
    Some(format!("{level} {}", &rest[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_lose_what_is_around_them() {
        let line = "2026/01/02 03:04:05 [error] 12#13: *1 open() \"/a: b\" failed (2: No such file or directory), client: \
                    127.0.0.1, server: , request: \"GET / HTTP/1.1\"";
        let expected = "[error] open() \"/a: b\" failed (2: No such file or directory)";
        assert_eq!(message(line).as_deref(), Some(expected));
        assert_eq!(message("GET / HTTP/1.1"), None);
    }
}
