//! A server that is a daemon, so that there may be two of its masters at a time.

use std::cell::RefCell;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Kind, PATIENCE, Response, TempDir, TestClient, certificates, eventually, ports, private_tree, within};

/// A running server that is a daemon, in a folder of its own; dropping it stops its masters. It is started by the name `server` there, which is a link to the binary.
#[derive(Debug)]
pub struct Daemon {
    dir: TempDir,
    port: u16,
    /// The masters that were seen.
    masters: RefCell<Vec<u32>>,
}

impl Daemon {
    /// Starts this binary. `@DIR@`, `@PORT@` and `@CERTS@` in the texts stand for the folder, a port and the certificates.
    pub fn start(program: &Path, main: &str, http: &str) -> Daemon {
        let daemon = Daemon::prepare(program, main, http);
        let ended = daemon.command().status().expect("it can be started");
        assert!(ended.success(), "{}", daemon.log());
        // Signals that come before nginx has a worker are lost.
        eventually("a worker", || daemon.pid().is_some_and(|master| !daemon.workers(master).is_empty()));
        eventually("it listens", || TestClient::try_connect(daemon.address()).is_ok());
        daemon
    }

    /// Starts the server under test.
    pub fn run(main: &str, http: &str) -> Daemon {
        Daemon::start(&Kind::under_test().program().expect("a binary"), main, http)
    }

    /// A server that is not started yet.
    pub fn prepare(program: &Path, main: &str, http: &str) -> Daemon {
        let dir = TempDir::new("daemon");
        private_tree::prepare(dir.path()).expect("making folders");
        let daemon = Daemon { dir, port: ports::free(), masters: RefCell::default() };
        daemon.replace(program);
        daemon.configure(main, http);
        daemon
    }

    /// Writes the configuration.
    pub fn configure(&self, main: &str, http: &str) {
        let folders = if private_tree::is_possible() { String::new() } else { private_tree::lines_instead(http) };
        let text = format!("{main}\nevents {{}}\nhttp {{\n{folders}{http}\n}}\n");
        fs::write(self.path("nginx.conf"), self.fill_in(&text)).expect("writing the configuration");
    }

    fn fill_in(&self, text: &str) -> String {
        let text =
            text.replace("@DIR@", &self.dir.path().display().to_string()).replace("@PORT@", &self.port.to_string());
        if !text.contains("@CERTS@") {
            return text;
        }
        text.replace("@CERTS@", &certificates().folder().display().to_string())
    }

    /// The command that starts the server.
    pub fn command(&self) -> Command {
        let mut words = if private_tree::is_possible() { private_tree::words(self.dir.path()) } else { Vec::new() };
        words.push(self.path("server").display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("-p").arg(self.dir.path()).arg("-c").arg(self.path("nginx.conf")).arg("-g");
        command.arg(self.fill_in("pid @DIR@/server.pid; error_log @DIR@/error.log info;")).arg("-e");
        command.arg(self.path("error.log")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Puts another binary in the place of the present one.
    pub fn replace(&self, program: &Path) {
        let (link, new) = (self.path("server"), self.path("server.new"));
        symlink(program, &new).and_then(|()| fs::rename(&new, &link)).expect("a link to the binary");
    }

    /// A path in the server's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The address of `127.0.0.1:@PORT@`.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// GETs a target on a new connection.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        TestClient::connect(self.address()).get(target)
    }

    /// The id in the pid file.
    pub fn pid(&self) -> Option<u32> {
        self.pid_in("server.pid")
    }

    /// The id in the pid file of the old binary.
    pub fn old_pid(&self) -> Option<u32> {
        self.pid_in("server.pid.oldbin")
    }

    fn pid_in(&self, name: &str) -> Option<u32> {
        let pid = fs::read_to_string(self.path(name)).ok()?.trim().parse().ok()?;
        let mut masters = self.masters.borrow_mut();
        if !masters.contains(&pid) {
            masters.push(pid);
        }
        Some(pid)
    }

    /// The master that the pid file names.
    #[track_caller]
    pub fn master(&self) -> u32 {
        self.pid().expect("a pid file")
    }

    /// Sends `USR2`, and waits until a new binary has a worker. Returns the old master and the new one.
    #[track_caller]
    pub fn change(&self) -> (u32, u32) {
        let old = self.master();
        signal(old, Signal::USR2);
        let is_there = within(PATIENCE, || {
            self.old_pid() == Some(old) && self.pid().is_some_and(|new| new != old && !self.workers(new).is_empty())
        });
        assert!(is_there, "there is no new binary:\n{}", self.log());
        (old, self.master())
    }

    /// Changes the binary as the manual says, to the end. Returns the new master.
    #[track_caller]
    pub fn complete_change(&self) -> u32 {
        let (old, new) = self.change();
        signal(old, Signal::WINCH);
        eventually("the old worker has ended", || self.workers(old).is_empty());
        signal(old, Signal::QUIT);
        ends(old);
        new
    }

    /// The processes of a master that serve.
    pub fn workers(&self, master: u32) -> Vec<u32> {
        children(master)
            .into_iter()
            .filter(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(is_worker))
            .collect()
    }

    /// The content of the error log.
    pub fn log(&self) -> String {
        fs::read(self.path("error.log")).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Waits until the error log has this text.
    #[track_caller]
    pub fn logs(&self, text: &str) {
        assert!(within(PATIENCE, || self.log().contains(text)), "no {text:?} in the log:\n{}", self.log());
    }
}

fn is_worker(name: String) -> bool {
    name.contains("worker process")
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = (self.pid(), self.old_pid());
        let own = self.dir.path().display().to_string();
        for master in self.masters.borrow().iter().copied() {
            // Another process may have the number by now.
            let is_own = || fs::read_to_string(format!("/proc/{master}/cmdline")).is_ok_and(|name| name.contains(&own));
            if is_own() {
                signal(master, Signal::TERM);
                if !within(PATIENCE, || !lives(master)) {
                    signal(master, Signal::KILL);
                }
            }
        }
        let log = self.log();
        if std::thread::panicking() {
            eprintln!("--- the log\n{log}");
        } else {
            assert!(!log.contains("panicked at"), "{log}");
        }
    }
}

/// Sends a process a signal; nothing happens if the process is gone.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Whether the process is there, and not only its exit status.
pub fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| !status.contains("State:\tZ"))
}

/// Waits for the end of a process.
#[track_caller]
pub fn ends(pid: u32) {
    eventually(&format!("process {pid} ends"), || !lives(pid));
}

/// The child processes.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Clients that ask on new connections all the time.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Result<usize, String>>>,
}

impl Load {
    /// Starts this number of clients. Each answer has to have this body.
    pub fn start(address: SocketAddr, clients: usize, body: &'static str) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let ask = move |stop: Arc<AtomicBool>| {
            let mut count = 0;
            while !stop.load(Relaxed) {
                let failed = |what: &str, why: String| format!("request {count}: {what}: {why}");
                let mut client =
                    TestClient::try_connect(address).map_err(|error| failed("connecting", error.to_string()))?;
                let request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
                client.try_send(request).map_err(|error| failed("sending", error.to_string()))?;
                let response = client.try_response("GET").map_err(|error| failed("reading", error))?;
                if response.status != 200 || response.text() != body {
                    return Err(failed("the answer", format!("{} {}", response.status, response.text())));
                }
                count += 1;
            }
            Ok(count)
        };
        let start = |_| {
            let stop = stop.clone();
            std::thread::spawn(move || ask(stop))
        };
        let clients = (0..clients).map(start).collect();
        Load { stop, clients }
    }

    /// Ends the clients: none of their requests may have failed. Returns how many there were.
    #[track_caller]
    pub fn end(self) -> usize {
        self.stop.store(true, Relaxed);
        let ended: Vec<_> = self.clients.into_iter().map(|client| client.join().expect("a client")).collect();
        let failed: Vec<_> = ended.iter().filter_map(|ended| ended.as_ref().err()).collect();
        assert!(failed.is_empty(), "{failed:?}");
        ended.into_iter().flatten().sum()
    }
}
