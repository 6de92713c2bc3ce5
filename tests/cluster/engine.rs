//! Engines: a server of Redis or Valkey, with the settings that it has by default.

use freerun_testkit::relay::{Path, Relay};
use freerun_testkit::{Application, PATIENCE, TempDir, ports, require, within};
use rustix::process::Signal;
use std::net::Ipv4Addr;
use std::path::{self, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A running engine.
pub(crate) struct Engine {
    server: Option<Application>,
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
    /// The folder with what it saves, which outlives a process.
    data: TempDir,
}

impl Engine {
    /// Starts Redis. `None`: there is none here, which the test has said.
    pub(crate) fn redis() -> Option<Engine> {
        Engine::redis_with(&[])
    }

    /// Starts Redis with further arguments.
    pub(crate) fn redis_with(arguments: &[&str]) -> Option<Engine> {
        let program = require::program("redis-server")?;
        Some(Engine::start(program, arguments))
    }

    /// Starts Valkey: from PATH, or as `.ci/run` has installed it, beside the tests' own folder for temporary files.
    pub(crate) fn valkey() -> Option<Engine> {
        let target = path::Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
        let installed = target.join("tools/valkey/valkey-server");
        let program = require::program_of("valkey-server", &["valkey-server", installed.to_str()?])?;
        Some(Engine::start(program, &[]))
    }

    /// Starts this program.
    pub(crate) fn start(program: PathBuf, arguments: &[&str]) -> Engine {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut engine =
            Engine { server: None, program, arguments, port: ports::free(), data: TempDir::new("engine-data") };
        engine.again();
        engine
    }

    /// Starts it at the same address. It has what it has saved.
    pub(crate) fn again(&mut self) {
        let folder = TempDir::new("engine");
        let mut command = Command::new(&self.program);
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string()]);
        command.arg("--dir").arg(self.data.path()).args(&self.arguments);
        self.server = Some(Application::start(command, &format!("127.0.0.1:{}", self.port), folder));
    }

    /// Ends it at once, and loses all that it had.
    pub(crate) fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.signal(Signal::KILL);
        }
    }

    /// Stops it, without a sign of that to whoever is connected.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        self.server.as_ref().expect("it runs").signal(signal);
    }

    /// Its address, as `zone_sync_engine` has it.
    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A way to it that can be cut, held up, and made slow.
    pub(crate) fn relay(&self) -> Relay {
        Relay::new((Ipv4Addr::LOCALHOST, self.port).into(), Path::round_trip(Duration::ZERO))
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The output of `redis-cli` with these arguments.
    #[track_caller]
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        ask(self.port, arguments)
    }
}

/// The output of `redis-cli` with these arguments, at this port.
#[track_caller]
pub(crate) fn ask(port: u16, arguments: &[&str]) -> String {
    let program = require::program("redis-cli").expect("redis-cli");
    let output = Command::new(program).args(["-p", &port.to_string()]).args(arguments).output().expect("redis-cli");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until `redis-cli` answers with a text that has this in it.
#[track_caller]
pub(crate) fn answers(port: u16, arguments: &[&str], text: &str) {
    let has = || ask(port, arguments).contains(text);
    assert!(within(PATIENCE, has), "{arguments:?}: {text:?} is expected: {}", ask(port, arguments));
}
