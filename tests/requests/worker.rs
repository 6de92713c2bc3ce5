//! A worker with one loop in the test's own process: what the program does between its command line and its first
//! connection, without processes.

use freerun_conf::Loader;
use freerun_http::service::HttpService;
use freerun_modules::testing::{ReadConfiguration, RunningWorker, Surroundings, WorkerStart, read};
use freerun_runtime::log::{ErrorLog, LogFile, Writer};
use freerun_serve::configuration::parts::Paths;
use freerun_serve::listen::ListenSpec;
use freerun_serve::listen::hosts::Hosts;
use freerun_serve::logs::ErrorLogSettings;
use freerun_serve::tls::files::{FileState, ReadFile, Stamp, read_wiping};
use freerun_testkit::{InProcessWorker, Kind, Setup, TestServer, WorkerConfiguration};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::net::{IpAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

/// The most connections of a server.
const CONNECTIONS: usize = 512;

/// Setups that a worker in the test's own process can serve.
pub trait InProcess {
    /// Starts a worker in this process; with `FREERUN_TEST_AGAINST=nginx`, a process of nginx, so that a test's
    /// expectations can be checked against it.
    fn run_in_process(&self) -> TestServer;

    /// Starts a worker in this process, for tests that nginx cannot be compared with.
    fn in_process(&self) -> TestServer;
}

impl InProcess for Setup {
    #[track_caller]
    fn run_in_process(&self) -> TestServer {
        match Kind::under_test() {
            Kind::Freerun => self.in_process(),
            Kind::Nginx => self.start(Kind::Nginx),
        }
    }

    #[track_caller]
    fn in_process(&self) -> TestServer {
        self.start_worker(|configuration| Ok(Box::new(start(configuration)?)))
    }
}

/// The name of the configuration's own text.
const CONFIGURATION: &str = "nginx.conf";

/// The text of a configuration, and the files that it includes, each by its own name.
struct IncludedFiles<'a>(&'a str);

impl Loader for IncludedFiles<'_> {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        if path == CONFIGURATION { Ok(self.0.as_bytes().to_vec()) } else { fs::read(path) }
    }

    fn glob(&mut self, _: &str) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The worker, which ends when this is dropped. Then the test fails if one of its threads has panicked.
#[derive(Debug)]
struct LoopWorker {
    _worker: RunningWorker,
}

impl InProcessWorker for LoopWorker {}

fn start(configuration: &WorkerConfiguration<'_>) -> Result<LoopWorker, String> {
    let ReadConfiguration { main, blueprint } = read_text(configuration)?;
    for folder in &blueprint.temp_folders {
        let made = DirBuilder::new().recursive(true).create(&folder.path);
        made.map_err(|error| format!("mkdir() {}: {error}", folder.path))?;
    }
    // Each line is in its file when the call that logs it returns.
    let writer = Writer::direct();
    let logs = blueprint.log_paths.iter().map(|path| open(&writer, path)).collect::<Result<Vec<_>, _>>()?;
    let targets = &main.get::<ErrorLogSettings>().error_log;
    let error_log = ErrorLog::new(targets.iter().filter_map(|target| target.open(&logs)).collect());
    let mut listeners = Vec::new();
    for spec in &blueprint.listeners {
        let socket = listen(spec).map_err(|error| format!("bind() to {}: {error}", spec.name))?;
        listeners.push((ListenSpec::clone(spec), vec![socket]));
    }
    let services = &[HttpService::make as _];
    let start = WorkerStart { blueprint, logs, error_log, listeners, connections: CONNECTIONS, services };
    Ok(LoopWorker { _worker: RunningWorker::start(start)? })
}

fn read_text(configuration: &WorkerConfiguration<'_>) -> Result<ReadConfiguration, String> {
    let folder = format!("{}/", configuration.folder.display());
    let read = read(Surroundings {
        name: CONFIGURATION,
        loader: &mut IncludedFiles(configuration.text),
        paths: Paths { prefix: folder.clone(), conf_prefix: folder.clone(), serves: true, privileged: false },
        access_log: format!("{folder}access.log"),
        hosts: Hosts { lookup: Some(addresses), known: BTreeMap::new() },
        secrets: ReadFile(Arc::new(|path: &str, _: Option<Stamp>| read_secret(path))),
    });
    read.map_err(|refusal| refusal.line)
}

/// Reads a file that a directive of TLS names.
fn read_secret(path: &str) -> io::Result<FileState> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    let stamp = Stamp { device: metadata.dev(), inode: metadata.ino(), modified };
    let (contents, broken) = read_wiping(file, 0);
    Ok(FileState::Contents { contents, stamp, broken })
}

fn addresses(host: &str) -> Vec<IpAddr> {
    (host, 0).to_socket_addrs().into_iter().flatten().map(|address| address.ip()).collect()
}

fn open(writer: &Writer, path: &str) -> Result<LogFile, String> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    Ok(writer.file(path, file.map_err(|error| format!("open() {path}: {error}"))?.into()))
}

fn listen(spec: &ListenSpec) -> io::Result<OwnedFd> {
    if let Some(address) = spec.ip {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        return Ok(listener.into());
    }
    let listener = UnixListener::bind(spec.unix_path().unwrap_or_default())?;
    listener.set_nonblocking(true)?;
    Ok(listener.into())
}
