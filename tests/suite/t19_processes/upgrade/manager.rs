//! Service managers: sockets that they hand over, and what they are told.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use freerun_testkit::daemon::{Daemon, ends, signal};
use freerun_testkit::{Kind, PATIENCE, Setup, Site, TempDir, TestClient, TestServer, eventually, require, within};
use rustix::process::Signal;

/// Starts what comes behind with the sockets that are its stdin, stdout and stderr, as a service manager does. The number of
/// the process is that of the shell.
const STARTER: &str = "exec 3<&0 4<&1 5<&2 </dev/null >/dev/null 2>/dev/null; \
                       export LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=web:local:spare; exec \"$@\"";

fn start(daemon: &Daemon, sockets: [OwnedFd; 3]) -> Child {
    let server = daemon.command();
    let [web, local, spare] = sockets.map(Stdio::from);
    let mut command = Command::new("sh");
    command.args(["-c", STARTER, "sh"]).arg(server.get_program()).args(server.get_args());
    command.stdin(web).stdout(local).stderr(spare).spawn().expect("a shell")
}

#[test]
fn sockets_are_found_by_their_addresses_and_stay_the_manager_s() {
    if !require::freerun() {
        return;
    }
    let program = Kind::Freerun.program().expect("freerun");
    let [web, spare] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("binding"));
    let address = web.local_addr().expect("its address");
    let unused = spare.local_addr().expect("its address");
    let http = format!(
        "server {{ listen 127.0.0.1:@PORT@; listen {address}; listen unix:@DIR@/local; return 200 $server_port; }}"
    );
    let daemon = Daemon::prepare(&program, "daemon off;", &http);
    let local = UnixListener::bind(daemon.path("local")).expect("binding");
    // A connection that came before the server was there.
    let mut early = TestClient::connect(address);
    let child = start(&daemon, [web.into(), local.into(), spare.into()]);
    assert_eq!(early.get("/").text(), address.port().to_string());
    daemon.logs(&format!("using the service manager's sockets: {address} unix:"));
    eventually("its own socket", || TestClient::try_connect(daemon.address()).is_ok());
    UnixStream::connect(daemon.path("local")).expect("the manager's Unix socket");
    daemon.logs(&format!("the service manager's socket \"spare\" is not used: no \"listen\" directive names {unused}"));
    assert!(TestClient::try_connect(unused).is_err(), "it was closed");

    // A new binary has the sockets too, and knows whose they are.
    eventually("the pid file", || daemon.pid() == Some(child.id()));
    let (old, new) = daemon.change();
    signal(old, Signal::QUIT);
    let mut child = child;
    assert!(child.wait().expect("its end").success());
    assert_eq!(TestClient::connect(address).get("/").text(), address.port().to_string());
    signal(new, Signal::QUIT);
    ends(new);
    assert!(daemon.path("local").exists(), "the manager's file stays");
}

/// A service manager that is told something.
struct Manager {
    dir: TempDir,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Manager {
        let dir = TempDir::new("manager");
        let socket = UnixDatagram::bind(dir.path().join("notify")).expect("binding");
        Manager { dir, socket }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("notify")
    }

    /// Starts a server that tells it.
    fn run(&self, site: &Site, environment: &[(&str, &str)]) -> TestServer {
        let mut setup = Setup::server(site, "location /v { return 200 one; }");
        setup = setup.environment("NOTIFY_SOCKET", &self.path().display().to_string());
        for (name, value) in environment {
            setup = setup.environment(name, value);
        }
        setup.freerun()
    }

    /// The next message, if one comes in this time.
    fn try_next(&self, wait: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(wait)).expect("a timeout");
        let mut message = [0; 1024];
        let length = self.socket.recv(&mut message).ok()?;
        Some(String::from_utf8_lossy(&message[..length]).into_owned())
    }

    /// Waits for a message that begins with this, whatever comes before.
    #[track_caller]
    fn is_told_in_time(&self, wanted: &str) {
        let is_told = || self.try_next(PATIENCE).is_some_and(|told| told.starts_with(wanted));
        assert!(within(PATIENCE, is_told), "not told {wanted:?}");
    }

    /// The next message, which has to begin with this.
    #[track_caller]
    fn is_told(&self, wanted: &str) -> String {
        let told = self.try_next(PATIENCE).unwrap_or_default();
        assert!(told.starts_with(wanted), "{wanted:?}: {told:?}");
        told
    }
}

#[test]
fn the_manager_is_told_of_each_step() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let manager = Manager::new();
    let mut server = manager.run(&site, &[]);
    manager.is_told("READY=1\nSTATUS=configuration 1 is in use\n");

    server.edit("return 200 one", "return 200 two");
    server.reload();
    let told = manager.is_told("RELOADING=1\nMONOTONIC_USEC=");
    let time = told.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap_or_default();
    assert!(time.parse::<u64>().is_ok_and(|time| time > 0), "{told}");
    manager.is_told("READY=1\nSTATUS=configuration 2 is in use\n");
    server.edit("return 200 two", "nonsense; return 200 two");
    server.signal(Signal::HUP);
    manager.is_told("RELOADING=1\n");
    manager.is_told("READY=1\nSTATUS=a configuration was refused, 2 is in use\n");
    server.edit("nonsense;", "");

    let old = server.master();
    server.signal(Signal::USR2);
    manager.is_told("READY=1\n");
    let new: u32 =
        std::fs::read_to_string(server.path("server.pid")).expect("a file").trim().parse().expect("a number");
    assert_ne!(new, old);
    // What was `systemctl reload` goes to the old one as long as that is the main process.
    server.signal(Signal::HUP);
    manager.is_told("RELOADING=1\n");
    manager.is_told("READY=1\nSTATUS=configuration 2 is in use\n");
    server.signal(Signal::QUIT);
    manager.is_told(&format!("MAINPID={new}\n"));
    server.wait();
    signal(new, Signal::TERM);
    manager.is_told("STOPPING=1\n");
    ends(new);
}

#[test]
fn the_watchdog_is_told_as_long_as_the_loops_live() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let manager = Manager::new();
    let server = manager.run(&site, &[("WATCHDOG_USEC", "400000")]);
    let is_told =
        || within(PATIENCE, || manager.try_next(Duration::from_secs(1)).is_some_and(|told| told == "WATCHDOG=1\n"));
    for _ in 0..5 {
        assert!(is_told());
    }
    let worker = server.worker();
    server.signal_pid(worker, Signal::STOP);
    // Ten times the interval.
    eventually("nothing is told any more", || manager.try_next(Duration::from_secs(1)).is_none());
    server.signal_pid(worker, Signal::CONT);
    assert!(is_told(), "it lives again");
}

/// A file of the configuration that cannot be read for a while stands for all that the master may have to wait for: names that
/// are looked up, a file system that does not answer.
#[test]
fn the_watchdog_is_told_while_the_configuration_is_read() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let manager = Manager::new();
    let server = manager.run(&site, &[("WATCHDOG_USEC", "400000")]);
    manager.is_told_in_time("READY=1\n");
    let slow = server.path("slow.conf");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &slow,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a pipe with a name");
    server.edit("return 200 one;", &format!("return 200 one; include {};", slow.display()));
    server.signal(Signal::HUP);
    manager.is_told_in_time("RELOADING=1\n");
    // What the worker has answered before comes first; it cannot be that much.
    for _ in 0..10 {
        manager.is_told("WATCHDOG=1\n");
    }
    std::fs::write(&slow, "# nothing\n").expect("writing");
    manager.is_told_in_time("READY=1\nSTATUS=configuration 2 is in use\n");
}

#[test]
fn the_watchdog_is_told_while_a_worker_that_was_started_again_builds() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let manager = Manager::new();
    let server = manager.run(&site, &[("WATCHDOG_USEC", "400000")]);
    manager.is_told_in_time("READY=1\n");
    // A worker that stands still before it has loops: one that is still building. It takes some tries to catch one.
    let builds =
        |worker: u32| std::fs::read_dir(format!("/proc/{worker}/task")).is_ok_and(|threads| threads.count() == 1);
    let mut before = server.worker();
    let mut caught = None;
    let tries = within(PATIENCE, || {
        server.signal_pid(before, Signal::KILL);
        let mut worker = None;
        eventually("another worker", || {
            worker = server.workers().into_iter().find(|worker| *worker != before);
            // Before it executes the program, it stops the master with it.
            let executes = |worker| std::fs::read_to_string(format!("/proc/{worker}/cmdline")).unwrap_or_default();
            worker.is_some_and(|worker| executes(worker).starts_with("freerun: worker"))
        });
        let worker = worker.expect("a worker");
        server.signal_pid(worker, Signal::STOP);
        before = worker;
        caught = builds(worker).then_some(worker);
        caught.is_some()
    });
    assert!(tries, "no worker was caught while it was building");
    // More than earlier workers can have said.
    for _ in 0..20 {
        manager.is_told_in_time("WATCHDOG=1\n");
    }
    server.signal_pid(caught.expect("a worker"), Signal::CONT);
    assert_eq!(server.get("/v").text(), "one");
}
