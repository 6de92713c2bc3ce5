//! A real server behind the server under test: php-fpm, uwsgi, memcached, a script of Node or Python.

use std::fs::File;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{PATIENCE, TempDir, within};

/// A running application. It ends, with all processes that it started, when it is dropped.
#[derive(Debug)]
pub struct Application {
    child: Child,
    address: String,
    dir: TempDir,
}

impl Application {
    /// Starts the program `command`, which listens on `address` (`127.0.0.1:port` or `unix:/path`), and waits until it
    /// listens. Its output goes to a file in `dir`, which may also have its other files.
    ///
    /// # Panics
    /// The program cannot be started, or does not listen in time.
    #[track_caller]
    pub fn start(mut command: Command, address: &str, dir: TempDir) -> Application {
        let log = File::create(dir.path().join("output")).expect("a file for its output");
        let other = log.try_clone().expect("the same file");
        command.stdin(Stdio::null()).stdout(log).stderr(other).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut application = Application { child, address: address.to_owned(), dir };
        let mut ended = false;
        let listens = within(PATIENCE, || {
            ended = application.child.try_wait().is_ok_and(|status| status.is_some());
            ended || application.listens()
        });
        assert!(listens && !ended, "{command:?} does not listen on {address}:\n{}", application.output());
        application
    }

    fn listens(&self) -> bool {
        match self.address.strip_prefix("unix:") {
            Some(path) => UnixStream::connect(path).is_ok(),
            None => self
                .address
                .to_socket_addrs()
                .is_ok_and(|mut addresses| addresses.any(|address| TcpStream::connect(address).is_ok())),
        }
    }

    /// The address in the form that a directive such as `proxy_pass` needs.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The output that the program has written.
    pub fn output(&self) -> String {
        std::fs::read(self.dir.path().join("output"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Sends its process a signal.
    ///
    /// # Panics
    /// The process has ended.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let pid = self.group().expect("a process");
        kill_process(pid, signal).expect("a signal");
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- output of the application on {}\n{}", self.address, self.output());
        }
        let Some(pid) = self.group() else { return };
        let ended = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        if !ended(&mut self.child) {
            let _ = kill_process(pid, Signal::TERM);
            within(Duration::from_secs(3), || ended(&mut self.child));
        }
        // If the group is gone, there is nothing left to kill; no other code has waited for its leader.
        let _ = kill_process_group(pid, Signal::KILL);
        within(Duration::from_secs(3), || ended(&mut self.child));
    }
}
