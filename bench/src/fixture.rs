//! The slow file system of the tests (FUSE, crate `freerun-testkit`), mounted by its own process.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bench::{Bench, build};
use crate::error::{Error, ErrorContext, Result};
use crate::process::{Placement, Process};

/// A mounted fixture; unmounted when dropped. It must outlive the servers that use it.
#[derive(Debug)]
pub struct Fixture {
    // Dropping the process ends it with SIGTERM, on which it unmounts.
    _process: Process,
    /// The folder that it is mounted on.
    pub path: PathBuf,
}

/// Builds the fixture's program.
pub fn program() -> Result<PathBuf> {
    build("freerun-fuse-fixture", &["-p", "freerun-testkit", "--bin", "freerun-fuse-fixture"])
}

impl Fixture {
    /// Mounts a file system in the scratch folder and gives it `commands`.
    pub fn mount(bench: &Bench, program: &Path, commands: &[String]) -> Result<Fixture> {
        if !Path::new("/dev/fuse").exists() {
            return Err(Error::Setup("there is no /dev/fuse: load the kernel module fuse".into()));
        }
        let path = bench.scratch.folder("fuse/slow")?;
        let args: Vec<String> = std::iter::once(path.display().to_string()).chain(commands.iter().cloned()).collect();
        let mut process = Process::start_piped(program, &args, &Placement::default())?;
        let mut line = String::new();
        if let Some(output) = process.output() {
            BufReader::new(output).read_line(&mut line).doing("read from the fixture")?;
        }
        if line.trim() != "ready" {
            process.wait(Duration::from_secs(1))?;
            return Err(Error::Setup(format!("the FUSE fixture cannot be mounted on {} (needs root)", path.display())));
        }
        Ok(Fixture { _process: process, path })
    }
}
