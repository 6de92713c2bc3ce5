//! A worker in this process. Its clients are ends of socket pairs and its log files are pipes.

use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use crate::multiplexed_tests::{self, ToyService, Wire};
use crate::testing::{self, ConfigurationRefusal, RunningWorker, Surroundings, WorkerStart};
use freerun_conf::OneText;
use freerun_http::request::{Address, ConnectionFacts};
use freerun_http::service::HttpService;
use freerun_http::settings::listen::SERVICE;
use freerun_runtime::log::{ErrorLog, LogFile, Writer};
use freerun_runtime::loops;
use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::loop_services::Room;
use freerun_serve::accept::service::MakeService;
use freerun_serve::accept::worker::Worker;
use freerun_serve::build::blueprint::Blueprint;
use freerun_serve::configuration::parts::Paths;
use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::hosts::Hosts;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::tls::files::{FileState, ReadFile, Stamp};

const SERVICES: &[MakeService] = &[HttpService::make, ToyService::make];

/// Reads a configuration with this text in its `http` block.
pub fn read(http: &str) -> Result<Blueprint, ConfigurationRefusal> {
    let read = testing::read(Surroundings {
        name: "test.conf",
        loader: &mut OneText(&format!("http {{ {http} }}")),
        paths: Paths { prefix: "/prefix/".to_owned(), conf_prefix: "/".to_owned(), ..Paths::default() },
        access_log: "default.log".to_owned(),
        hosts: Hosts::default(),
        secrets: ReadFile(Arc::new(read_file)),
    });
    read.map(|read| read.blueprint)
}

/// Reads a file with a certificate or a key.
fn read_file(path: &str, _: Option<Stamp>) -> io::Result<FileState> {
    let stamp = Stamp { device: 0, inode: 0, modified: (0, 0) };
    Ok(FileState::Contents { contents: std::fs::read(path)?.into(), stamp, broken: None })
}

/// A worker with one loop.
pub struct Server {
    worker: RunningWorker,
    writer: Writer,
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
        let writer = Writer::start().unwrap();
        let (blueprint, logs, ends) = blueprint(1, http, &writer);
        let start = WorkerStart {
            blueprint,
            logs,
            error_log: ErrorLog::none(),
            listeners: Vec::new(),
            connections: 16,
            services: SERVICES,
        };
        (Server { worker: RunningWorker::start(start).unwrap(), writer }, ends)
    }

    /// Takes over another configuration.
    pub fn reload(&mut self, http: &str) -> Vec<Log> {
        let (blueprint, logs, ends) = blueprint(self.worker.generation().number + 1, http, &self.writer);
        self.worker.reload(blueprint, logs).unwrap();
        ends
    }

    fn worker(&self) -> &Worker {
        self.worker.worker().unwrap()
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
        let spec = ListenSpec { service: service.to_owned(), ..(*self.worker.generation().listeners[0]).clone() };
        assert!(loop_listeners::tell(self.worker().shared(), 0, move |services| {
            let service = services.of(&spec).unwrap();
            services.accepted(service, (server, peer), &LoopLocal::new(Arc::new(spec)), false);
        }));
        client
    }

    /// A connection of the toy protocol from `peer` to the first address, over datagrams.
    ///
    /// `tls` are the facts of the TLS session that protects them, if there is one.
    pub fn connect_datagrams(&self, peer: Address, tls: Option<TlsFacts>) -> UnixDatagram {
        let (client, server) = UnixDatagram::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let (server, spec) = (OwnedFd::from(server), self.worker.generation().listeners[0].clone());
        assert!(loop_listeners::tell(self.worker().shared(), 0, move |services| {
            let loop_state = &services.loop_state;
            loop_state.admission.begin();
            let number = loop_state.shared.next_connection();
            let facts = ConnectionFacts::new(number, peer, LoopLocal::new(spec), loop_state.clone());
            if let Some(tls) = tls {
                facts.set_tls(tls);
            }
            multiplexed_tests::drive(Wire::of_datagrams(facts, server));
        }));
        client
    }

    /// Takes all places of the loop's connections, and looks for room for one more, as a listening socket does, until an idle
    /// connection is asked to close.
    pub fn look_for_room(&self) {
        assert!(loop_listeners::tell(self.worker().shared(), 0, |services| {
            let admission = &services.loop_state.admission;
            while !admission.is_full() {
                admission.begin();
            }
            loops::spawn(0, "looking for room", async {
                let services = loop_listeners::services_of_this_loop().unwrap();
                while services.make_room() == Room::None {
                    services.loop_state.admission.wait_for_room().await;
                }
            });
        }));
    }

    /// Begins to shut the worker down: idle connections are closed.
    pub fn drain(&mut self) {
        self.worker.worker_mut().unwrap().drain();
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
        self.worker().hand_over(|| ());
    }

    /// The first log.
    pub fn log(&self) -> LogFile {
        self.worker.generation().logs[0].clone()
    }

    /// Ends the worker as a signal would.
    pub fn stop(self) {
        self.worker.stop();
        assert!(self.writer.shutdown(Duration::from_secs(60)));
    }
}

/// The servers of a configuration, its open log files, and their reading ends.
fn blueprint(number: u64, http: &str, writer: &Writer) -> (Blueprint, Vec<LogFile>, Vec<Log>) {
    let blueprint = read(http).unwrap();
    let mut logs = Vec::new();
    let mut ends = Vec::new();
    for path in &blueprint.log_paths {
        let (reader, end) = io::pipe().unwrap();
        // Each file has a name of its own, because the same name would mean the same file.
        logs.push(writer.file(&format!("{number}:{path}"), end.into()));
        ends.push(Log(BufReader::new(reader)));
    }
    (blueprint, logs, ends)
}
