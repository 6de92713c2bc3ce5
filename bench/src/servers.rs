//! The servers side by side: how each is started, and whether it answers.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::bench::Bench;
use crate::configs::{self, Addresses};
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt::wait_for;
use crate::process::{Placement, Process};
use crate::spec::Spec;

/// The time that a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server; stopped when dropped.
#[derive(Debug)]
pub struct Server {
    /// Its settings.
    pub spec: Spec,
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The addresses that it listens on for TLS, with each of its certificates.
    pub secure: Vec<SocketAddr>,
    /// Its folder, with configuration and logs.
    pub folder: PathBuf,
    /// The process, master of all others.
    pub process: Process,
}

impl Server {
    /// Starts `spec` and waits until it listens.
    pub fn start(bench: &Bench, spec: &Spec, placement: &Placement) -> Result<Server> {
        let program = bench.program(spec.kind)?;
        let folder = bench.scratch.folder(&format!("servers/{}", spec.name.replace(' ', "-")))?;
        let addresses = free_addresses(spec.secure.len())?;
        let launch = configs::write(spec, &folder, &addresses, bench.user.as_ref())?;
        let output = folder.join("output");
        let process = Process::start(&program, &launch, placement, &output)?;
        let Addresses { plain: address, secure } = addresses;
        let mut server = Server { spec: spec.clone(), address, secure, folder: folder.clone(), process };
        let listening = wait_for(START_LIMIT, Duration::from_millis(20), || {
            if !server.process.is_running() {
                return Err(Error::Failed(format!("{} ended at once{}", spec.name, complaint(&folder))));
            }
            Ok(TcpStream::connect_timeout(&address, START_LIMIT).ok())
        })?;
        match listening {
            Some(_) => Ok(server),
            None => Err(Error::Failed(format!("{} does not listen{}", spec.name, complaint(&folder)))),
        }
    }

    /// Writes the configuration anew with another generation.
    pub fn rewrite(&self, bench: &Bench, generation: usize) -> Result<()> {
        let spec = Spec { generation, ..self.spec.clone() };
        let addresses = Addresses { plain: self.address, secure: self.secure.clone() };
        configs::write(&spec, &self.folder, &addresses, bench.user.as_ref()).map(|_| ())
    }

    /// Asks the server to read its configuration again (SIGHUP).
    pub fn reload(&self) -> Result<()> {
        self.process.signal(Signal::HUP)
    }

    /// Ends the server.
    pub fn stop(mut self) {
        self.process.stop();
    }

    /// The processes that answer requests: all but a master.
    pub fn workers(&self) -> Vec<i32> {
        let tree = self.process.tree();
        if tree.len() > 1 { tree[1..].to_vec() } else { tree }
    }
}

/// The output of a server that did not start.
fn complaint(folder: &Path) -> String {
    let text = ["output", "error.log"].iter().find_map(|name| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        let line = text.lines().find(|line| line.contains("[emerg]")).or_else(|| text.lines().last())?;
        Some(line.to_owned())
    });
    text.map_or_else(String::new, |line| format!(": {line}"))
}

/// Different ones: all are taken before the first is given back.
fn free_addresses(secure: usize) -> Result<Addresses> {
    let take = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("find a free port");
    let taken = (0..=secure).map(take).collect::<Result<Vec<_>>>()?;
    let address = |listener: &TcpListener| listener.local_addr().doing("find a free port");
    let mut secure = taken.iter().map(address).collect::<Result<Vec<_>>>()?;
    Ok(Addresses { plain: secure.remove(0), secure })
}

/// Starts all of `specs` that are wanted; the second value tells which did not start and why.
pub fn start_all(bench: &Bench, specs: &[Spec], placement: &Placement) -> Result<(Vec<Server>, Vec<String>)> {
    let (mut servers, mut notes) = (Vec::new(), Vec::new());
    for spec in specs.iter().filter(|spec| bench.options.wants(&spec.name)) {
        match Server::start(bench, spec, placement) {
            Ok(server) => servers.push(server),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => notes.push(format!("{} not measured: {error}", spec.name)),
        }
    }
    if servers.is_empty() {
        return Err(Error::Setup(format!("no server could be started: {}", notes.join("; "))));
    }
    Ok((servers, notes))
}
