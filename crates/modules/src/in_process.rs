//! A worker in this process. Its clients are ends of socket pairs and its log files are pipes.

use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;

use crate::multiplexed_tests::{self, ToyService, Wire};
use freerun_conf::{Contexts, Cx, OneText, Problem, Registry, apply_block, parse};
use freerun_http::build::{Builder, STRUCTURE, core_groups};
use freerun_http::request::{Address, ConnectionFacts};
use freerun_http::service::HttpService;
use freerun_http::settings::listen::SERVICE;
use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, LogFile, Writer};
use freerun_runtime::pool::Pools;
use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::worker::{Worker, WorkerOptions};
use freerun_serve::build::blueprint::Blueprint;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::parts::Paths;
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::local::LoopLocal;

use crate::MODULES;
use crate::log::access::DefaultAccessLog;

/// The reason why a configuration is refused.
#[derive(Debug)]
pub struct Refused {
    /// The error line in nginx's form.
    pub line: String,
    /// A hint for the user.
    pub hint: Option<String>,
}

/// Reads a configuration with this text in its `http` block.
pub fn read(http: &str) -> Result<Blueprint, Refused> {
    let tree = parse("test.conf", None, "/", &mut OneText(&format!("http {{ {http} }}")));
    let mut cx = Cx::new(tree.sources.clone());
    cx.extensions.insert(Paths { prefix: "/prefix/".to_owned(), privileged: false, ..Paths::default() });
    cx.extensions.insert(DefaultAccessLog("default.log".to_owned()));
    let mut groups = core_groups();
    groups.extend(MODULES.iter().flat_map(|module| module.groups));
    let registry = Registry::new(&groups, STRUCTURE).unwrap();
    let built = build(&registry, &tree.nodes, &mut cx);
    cx.conclude(built, tree.error)
        .map_err(|problems| Refused { line: problems[0].first_line(&tree.sources), hint: problems[0].hint.clone() })
}

fn build(registry: &Registry, nodes: &[freerun_conf::Node], cx: &mut Cx) -> Result<Blueprint, Problem> {
    let builder = Builder { registry, modules: MODULES };
    builder.prepare(cx);
    let defaults = registry.defaults(cx)?;
    let (main, blocks) = apply_block(registry, Contexts::MAIN, nodes, &defaults, cx)?;
    builder.build(&blocks, &main, cx)
}

/// A worker with one loop.
pub struct Server {
    worker: Worker,
    writer: Writer,
    pools: Pools,
    files: Arc<FileSystem>,
    generation: Arc<Generation>,
}

/// The reading end of a log file.
pub struct Log(BufReader<PipeReader>);

impl Log {
    /// Waits for the next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.strip_suffix('\n').expect("a whole line").to_owned()
    }

    /// Reads the rest until all writers are closed.
    pub fn rest(mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Server {
    /// Starts a server, and returns the reading ends of its logs in the order in which the configuration names them.
    pub fn start(http: &str) -> (Server, Vec<Log>) {
        let pools = Pools::new();
        let set = pools.generation(&[]).unwrap();
        let files = FileSystem::new(set.default().clone()).unwrap();
        let writer = Writer::start().unwrap();
        let (generation, logs) = generation(1, http, &writer, &pools, &files);
        let options = WorkerOptions {
            loops: 1,
            respawned: 0,
            connections: 16,
            accept_mutex: false,
            multi_accept: false,
            cpus: Vec::new(),
        };
        let worker = Worker::start(&options, generation.clone(), &[HttpService::make, ToyService::make]).unwrap();
        for prepare in MODULES.iter().filter_map(|module| module.prepare) {
            prepare(&generation, worker.shared());
        }
        (Server { worker, writer, pools, files, generation }, logs)
    }

    /// Takes over another configuration.
    pub fn reload(&mut self, http: &str) -> Vec<Log> {
        let (generation, logs) = generation(self.generation.number + 1, http, &self.writer, &self.pools, &self.files);
        self.generation = generation.clone();
        self.worker.install(generation, Vec::new(), || ());
        logs
    }

    /// A connection from `peer` to the first address.
    pub fn connect(&self, peer: Address) -> UnixStream {
        self.connect_to(SERVICE, peer)
    }

    /// A connection from `peer` to the first address, as if that were configured for this service.
    pub fn connect_to(&self, service: &str, peer: Address) -> UnixStream {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let server: OwnedFd = server.into();
        let spec = ListenSpec { service: service.to_owned(), ..(*self.generation.listeners[0]).clone() };
        assert!(loop_listeners::tell(self.worker.shared(), 0, move |services| {
            let service = services.of(&spec).unwrap();
            services.accepted(service, (server, peer), &LoopLocal::new(Arc::new(spec)), false);
        }));
        client
    }

    /// A connection of the toy protocol from `peer` to the first address, over datagrams.
    pub fn connect_datagrams(&self, peer: Address) -> UnixDatagram {
        let (client, server) = UnixDatagram::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let (server, spec) = (OwnedFd::from(server), self.generation.listeners[0].clone());
        assert!(loop_listeners::tell(self.worker.shared(), 0, move |services| {
            let loop_state = &services.loop_state;
            loop_state.admission.begin();
            let number = loop_state.shared.next_connection();
            let facts = ConnectionFacts::new(number, peer, LoopLocal::new(spec), loop_state.clone());
            multiplexed_tests::drive(Wire::of_datagrams(facts, server));
        }));
        client
    }

    /// Sends bytes on a new connection and returns the whole answer.
    pub fn ask(&self, request: &[u8]) -> Vec<u8> {
        let mut client = self.connect(Address::Ip(([192, 0, 2, 7], 4711).into()));
        client.write_all(request).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Makes the loop hand over the gathered log lines.
    pub fn hand_over(&self) {
        self.worker.hand_over(|| ());
    }

    /// The first log.
    pub fn log(&self) -> LogFile {
        self.generation.logs[0].clone()
    }

    /// Ends the worker as a signal would.
    pub fn stop(self) {
        self.worker.stop();
        assert!(self.writer.shutdown(std::time::Duration::from_secs(60)));
    }
}

fn generation(
    number: u64,
    http: &str,
    writer: &Writer,
    pools: &Pools,
    files: &Arc<FileSystem>,
) -> (Arc<Generation>, Vec<Log>) {
    let blueprint = read(http).unwrap();
    let mut logs = Vec::new();
    let mut ends = Vec::new();
    for path in &blueprint.log_paths {
        let (reader, end) = io::pipe().unwrap();
        // Each file has a name of its own, because the same name would mean the same file.
        logs.push(writer.file(&format!("{number}:{path}"), end.into()));
        ends.push(Log(BufReader::new(reader)));
    }
    let pools = pools.generation(&[]).unwrap();
    let generation = blueprint.serve(number, logs, ErrorLog::none(), pools, files.clone());
    (Arc::new(generation), ends)
}
