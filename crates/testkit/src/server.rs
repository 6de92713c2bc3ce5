//! Runs freerun or nginx in a folder of its own.

use crate::in_process::{InProcessWorker, WorkerConfiguration};
use crate::setup::{Setup, fill_in};
use crate::{HarnessError, Kind, PATIENCE, Response, TempDir, TestClient, Tls, eventually, private_tree, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The time that a server may take to start: longer than anything else, since a debug build may have a hundred thousand
/// lines to read.
const START: Duration = Duration::from_secs(60);

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct TestServer {
    kind: Kind,
    process: ServerProcess,
    dir: TempDir,
    setup: Setup,
    ports: Vec<u16>,
}

/// The process that a server is.
#[derive(Debug)]
enum ServerProcess {
    /// A process of its own, and its status when it has ended.
    Own(Child, Option<ExitStatus>),
    /// The test's process, which has this worker until the server is dropped.
    Test(Mutex<Option<Box<dyn InProcessWorker>>>),
}

impl Setup {
    /// Starts a server with this configuration.
    ///
    /// # Panics
    /// The server does not start.
    #[track_caller]
    pub fn start(&self, kind: Kind) -> TestServer {
        match self.try_start(kind) {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts freerun with this configuration.
    ///
    /// # Panics
    /// The server does not start.
    #[track_caller]
    pub fn freerun(&self) -> TestServer {
        self.start(Kind::Freerun)
    }

    /// Starts the server that `FREERUN_TEST_AGAINST` names (`nginx`), or freerun if it is not set, so that a test's
    /// expectations can be checked against nginx itself.
    ///
    /// # Panics
    /// The server does not start.
    #[track_caller]
    pub fn run(&self) -> TestServer {
        self.start(Kind::under_test())
    }

    /// Starts a worker in the test's own process by `start`, which returns when the worker accepts connections.
    ///
    /// # Panics
    /// The configuration has lines outside of `http`, arguments or an environment, which take a process; or `start`
    /// fails.
    #[track_caller]
    pub fn start_worker(
        &self,
        start: impl FnOnce(&WorkerConfiguration<'_>) -> Result<Box<dyn InProcessWorker>, String>,
    ) -> TestServer {
        let dir = TempDir::new("worker");
        let mut ports = Vec::new();
        let text = fill_in(&self.worker_text(), dir.path(), self.document_root(), &mut ports);
        fs::write(dir.path().join("nginx.conf"), &text).expect("a configuration file");
        match start(&WorkerConfiguration { text: &text, folder: dir.path() }) {
            Ok(worker) => {
                let process = ServerProcess::Test(Mutex::new(Some(worker)));
                TestServer { kind: Kind::Freerun, process, dir, setup: self.clone(), ports }
            }
            Err(error) => panic!("the worker did not start: {error}\n{text}"),
        }
    }

    /// Starts a server with this configuration.
    ///
    /// # Errors
    /// The server ended, or did not listen in time; the error has its output.
    pub fn try_start(&self, kind: Kind) -> Result<TestServer, HarnessError> {
        TestServer::start(kind, self.clone())
    }
}

impl TestServer {
    fn start(kind: Kind, setup: Setup) -> Result<TestServer, HarnessError> {
        let dir = TempDir::new("server");
        let mut ports = Vec::new();
        let text = fill_in(&setup.text(), dir.path(), setup.document_root(), &mut ports);
        let failed = |what: String| HarnessError::Start(format!("{kind:?}: {what}"));
        fs::write(dir.path().join("nginx.conf"), &text).map_err(|error| failed(error.to_string()))?;
        fs::create_dir_all(dir.path().join("logs")).map_err(|error| failed(error.to_string()))?;
        private_tree::prepare(dir.path()).map_err(|error| failed(error.to_string()))?;
        let child = spawn(kind, &setup, dir.path(), &mut ports)?;
        let mut server = TestServer { kind, process: ServerProcess::Own(child, None), dir, setup, ports };
        server.wait_until_up()?;
        Ok(server)
    }

    /// Starts a server that has ended again: in the same folder, with its present configuration and the same ports.
    ///
    /// # Panics
    /// It has not ended, or does not start.
    #[track_caller]
    pub fn again(&mut self) {
        assert!(self.ended(), "it has not ended");
        // A process that was killed leaves its file behind.
        let _ = fs::remove_file(self.path("server.pid"));
        let started = spawn(self.kind, &self.setup, self.dir.path(), &mut self.ports).and_then(|child| {
            self.process = ServerProcess::Own(child, None);
            self.wait_until_up()
        });
        if let Err(error) = started {
            panic!("{error}");
        }
    }

    /// Waits until the process has started.
    fn wait_until_up(&mut self) -> Result<(), HarnessError> {
        let up = within(START, || self.ended() || self.has_pid_file() && self.answers());
        if up && !self.ended() {
            return Ok(());
        }
        let text = fs::read_to_string(self.path("nginx.conf")).unwrap_or_default();
        let (said, status) = (self.stderr() + &self.error_log(), self.exit_status());
        Err(HarnessError::Start(format!("{:?}: did not start ({status:?})\n{said}\n{text}", self.kind)))
    }

    /// Whether the server accepts connections, on its first port; without a port in the configuration, whether the pid
    /// file is there.
    fn answers(&self) -> bool {
        let text = fs::read_to_string(self.path("nginx.conf")).unwrap_or_default();
        if !text.contains(&self.ports[0].to_string()) {
            return self.has_pid_file();
        }
        TcpStream::connect_timeout(&self.address(), Duration::from_secs(1)).is_ok()
    }

    /// Whether the pid file is written, after which signals have their usual meaning.
    fn has_pid_file(&self) -> bool {
        fs::read_to_string(self.path("server.pid")).is_ok_and(|pid| pid.ends_with('\n'))
    }

    fn ended(&mut self) -> bool {
        self.exit_status().is_some()
    }

    /// The status of the process, if it has ended.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        match &mut self.process {
            ServerProcess::Own(child, status) => {
                *status = status.or_else(|| child.try_wait().ok().flatten());
                *status
            }
            ServerProcess::Test(_) => None,
        }
    }

    /// The kind of the server.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A path in the server's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The server's first port, written as `@PORT@`.
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// All its ports.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// A port of the server by its number, written as `@PORTn@`.
    pub fn port_number(&self, number: usize) -> u16 {
        self.ports[number - 1]
    }

    /// The address of its first port: `127.0.0.1:@PORT@`.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[0]))
    }

    /// The address of one of its ports: `127.0.0.1:@PORTn@`.
    pub fn address_number(&self, number: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[number - 1]))
    }

    /// A new connection.
    ///
    /// # Panics
    /// Connecting fails; the methods below panic in this case, too.
    #[track_caller]
    pub fn connect(&self) -> TestClient {
        TestClient::connect(self.address())
    }

    /// A new connection with TLS.
    #[track_caller]
    pub fn connect_tls(&self, tls: &Tls) -> TestClient {
        self.connect().tls(tls)
    }

    /// GETs a target on a new connection.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.connect().get(target)
    }

    /// GETs a target with further header lines, each ended by CR LF.
    #[track_caller]
    pub fn get_with(&self, target: &str, fields: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    }

    /// The JSON that freerun returns at `location = /status { status; }`.
    #[track_caller]
    pub fn status(&self) -> Value {
        let response = self.get("/status");
        assert_eq!(response.status, 200, "{}", response.text());
        serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
    }

    /// Sends these bytes on a new connection and reads one response.
    #[track_caller]
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> Response {
        let method = crate::methods(bytes.as_ref()).into_iter().next().unwrap_or_else(|| "GET".into());
        self.connect().send(bytes).response_to(&method)
    }

    /// The bytes that the server wrote to standard error.
    #[track_caller]
    pub fn stderr(&self) -> String {
        self.master();
        self.stderr_so_far()
    }

    /// The content of its standard error; nothing without a process.
    fn stderr_so_far(&self) -> String {
        read(&self.path("stderr"))
    }

    /// The content of its error log, `@DIR@/error.log`.
    pub fn error_log(&self) -> String {
        read(&self.path("error.log"))
    }

    /// The content of its error log without the lines about event loops that were held up. Only freerun has these
    /// lines, and on a busy machine they come by chance, also with the number of a connection. For comparisons of whole
    /// logs.
    pub fn error_log_of_traffic(&self) -> String {
        let log = self.error_log();
        log.split_inclusive('\n')
            .filter(|line| !(line.contains("event loop ") && line.contains(" stalled for ")))
            .collect()
    }

    /// The content of its access log, `@DIR@/access.log`.
    pub fn access_log(&self) -> String {
        read(&self.path("access.log"))
    }

    /// Waits until the error log contains this text.
    #[track_caller]
    pub fn logs(&self, text: &str) {
        if !within(PATIENCE, || self.error_log().contains(text)) {
            panic!("no {text:?} in the error log:\n{}", self.error_log());
        }
    }

    /// Waits until the access log has at least `count` lines, and returns them.
    #[track_caller]
    pub fn access_lines(&self, count: usize) -> Vec<String> {
        let lines = || self.access_log().lines().map(str::to_owned).collect::<Vec<_>>();
        eventually(&format!("{count} lines in the access log"), || lines().len() >= count);
        lines()
    }

    /// The process that was started.
    ///
    /// # Panics
    /// The server has no process of its own.
    #[track_caller]
    pub fn master(&self) -> u32 {
        match &self.process {
            ServerProcess::Own(child, _) => child.id(),
            ServerProcess::Test(_) => panic!("a worker in the test's process has no process of its own"),
        }
    }

    /// The child processes that serve (without nginx's cache processes).
    #[track_caller]
    pub fn workers(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = children(self.master());
        if self.kind == Kind::Nginx {
            let serves = |pid: &u32| read(Path::new(&format!("/proc/{pid}/cmdline"))).contains("worker");
            pids.retain(serves);
        }
        pids
    }

    /// The only worker.
    #[track_caller]
    pub fn worker(&self) -> u32 {
        eventually("one worker", || self.workers().len() == 1);
        self.workers()[0]
    }

    /// Sends the master a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        signal_process(self.master(), signal);
    }

    /// The present configuration.
    pub fn config(&self) -> String {
        read(&self.path("nginx.conf"))
    }

    /// Replaces text in the configuration file; [`reload`](Self::reload) puts it into effect.
    #[track_caller]
    pub fn edit(&self, from: &str, to: &str) {
        self.master();
        let text = self.config();
        assert!(text.contains(from), "no {from:?} in the configuration");
        let to = fill_in(to, self.dir.path(), self.setup.document_root(), &mut self.ports.clone());
        if let Err(error) = fs::write(self.path("nginx.conf"), text.replace(from, &to)) {
            panic!("writing the configuration: {error}");
        }
    }

    /// Sends SIGHUP, and waits until the present configuration is in use. For a configuration that may be refused, use
    /// [`signal`](Self::signal).
    ///
    /// # Panics
    /// The configuration is not taken into use; the methods below panic on failure, too.
    #[track_caller]
    pub fn reload(&self) {
        // nginx has other workers after a reload.
        let (before, workers) = (self.reloads(), self.workers());
        self.signal(Signal::HUP);
        let done = within(PATIENCE, || match self.kind {
            Kind::Freerun => self.reloads() > before,
            Kind::Nginx => self.workers().iter().any(|worker| !workers.contains(worker)),
        });
        if !done {
            panic!("the configuration is not taken:\n{}", tail(&self.error_log(), 40));
        }
    }

    /// The number of configurations after the first that have been taken into use, according to freerun's log.
    fn reloads(&self) -> usize {
        let log = self.error_log();
        log.lines().filter(|line| line.contains("configuration ") && line.ends_with(" is in use")).count()
    }

    /// Waits for the end that a signal has ordered.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.master();
        eventually("the server ends", || self.ended());
        match self.exit_status() {
            Some(status) => status,
            None => panic!("no status"),
        }
    }

    /// Whether the master is still running.
    #[track_caller]
    pub fn runs(&mut self) -> bool {
        self.master();
        !self.ended()
    }

    /// Sends SIGTERM, and waits for the end.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }
}

/// Starts the process of a server with the configuration in this folder.
fn spawn(kind: Kind, setup: &Setup, dir: &Path, ports: &mut Vec<u16>) -> Result<Child, HarnessError> {
    let failed = |error: std::io::Error| HarnessError::Start(format!("{kind:?}: {error}"));
    let stderr = fs::File::options().create(true).append(true).open(dir.join("stderr")).map_err(failed)?;
    let mut command = setup.command(kind, dir)?;
    if let Some(globals) = setup.globals(kind) {
        command.arg("-g").arg(fill_in(&globals, dir, None, ports));
    }
    command.arg("-c").arg(dir.join("nginx.conf")).arg("-p").arg(dir).arg("-e").arg(dir.join("error.log"));
    command.args(setup.arguments()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    command.spawn().map_err(failed)
}

/// Whether this line of a log tells of a panic that no test has asked for, as `debug_panic` does.
fn is_fault(line: &str) -> bool {
    line.contains("panicked at") && !line.contains("preaccess/debug_block.rs")
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let ServerProcess::Test(worker) = &mut self.process {
            drop(worker.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        } else if !self.ended() {
            let workers = children(self.master());
            self.signal(Signal::TERM);
            if !within(Duration::from_secs(5), || self.ended()) {
                eprintln!("{:?} did not end on TERM", self.kind);
                self.signal(Signal::KILL);
                for worker in workers {
                    signal_process(worker, Signal::KILL);
                }
                // A process that waits for a hanging disk does not even die; it is left alone.
                within(Duration::from_secs(5), || self.ended());
            }
        }
        let log = self.error_log() + &self.stderr_so_far();
        if std::thread::panicking() {
            eprintln!("--- {:?}'s log, last lines\n{}", self.kind, tail(&log, 40));
        } else if self.kind == Kind::Freerun && log.lines().any(is_fault) {
            panic!("the server panicked:\n{}", tail(&log, 60));
        }
    }
}

/// Sends a process a signal; an error means that it is gone.
pub(crate) fn signal_process(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

impl TestServer {
    /// Sends any process of this server a signal.
    pub fn signal_pid(&self, pid: u32, signal: Signal) {
        signal_process(pid, signal);
    }
}

fn children(pid: u32) -> Vec<u32> {
    // There is one list for each thread of the parent.
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = threads.flatten().map(|thread| read(&thread.path().join("children")));
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The result of a run of the program that ends by itself.
#[derive(Debug)]
pub struct ProgramOutput {
    /// The exit code; `None` if a signal ended it, or the time ran out.
    pub code: Option<i32>,
    /// Standard error.
    pub stderr: String,
    /// Standard output.
    pub stdout: String,
    /// Whether it had to be killed because it did not end in time.
    pub timed_out: bool,
}

/// Runs `-t` with this text as the whole configuration; in its output, `@DIR@` and `@PORT@` stand for their values
/// again.
///
/// # Errors
/// The program could not be started.
pub fn check(kind: Kind, text: &str) -> Result<ProgramOutput, HarnessError> {
    let dir = TempDir::new("check");
    let mut ports = Vec::new();
    let text = fill_in(text, dir.path(), None, &mut ports);
    let conf = dir.path().join("nginx.conf");
    fs::write(&conf, text).map_err(|error| HarnessError::Start(error.to_string()))?;
    let (conf, prefix) = (conf.display().to_string(), dir.path().display().to_string());
    let log = dir.path().join("error.log").display().to_string();
    let mut checked = run(kind, &["-t", "-c", &conf, "-p", &prefix, "-e", &log], PATIENCE)?;
    checked.stderr = checked.stderr.replace(&prefix, "@DIR@").replace(&ports[0].to_string(), "@PORT@");
    Ok(checked)
}

/// Runs the program with these arguments until it ends.
///
/// # Errors
/// It could not be started.
pub fn run(kind: Kind, arguments: &[&str], time: Duration) -> Result<ProgramOutput, HarnessError> {
    let dir = TempDir::new("run");
    let failed = |error: std::io::Error| HarnessError::Start(error.to_string());
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    // These are files, not pipes: a daemon that outlives the command would hold a pipe open.
    let mut child = Command::new(kind.program()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).map_err(failed)?)
        .stderr(fs::File::create(&err).map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let mut status = None;
    let in_time = within(time, || {
        status = child.try_wait().ok().flatten();
        status.is_some()
    });
    if !in_time {
        // It may have ended just now.
        let _ = child.kill();
        let _ = child.wait();
    }
    Ok(ProgramOutput {
        code: status.and_then(|status| status.code()),
        stderr: read(&err),
        stdout: read(&out),
        timed_out: !in_time,
    })
}
