//! The context of every benchmark: options, machine, scratch folder, programs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorContext, Result};
use crate::machine::Machine;
use crate::options::Options;
use crate::process;
use crate::scratch::Scratch;
use crate::spec::Kind;
use crate::user::{self, User};

/// A run of the program.
#[derive(Debug)]
pub struct Bench {
    /// The command line.
    pub options: Options,
    /// The machine.
    pub machine: Machine,
    /// The scratch folder.
    pub scratch: Scratch,
    /// The user that the workers run as; `None` leaves them the user of this process.
    pub user: Option<User>,
    /// The freerun binary, or why there is none.
    freerun: std::result::Result<PathBuf, String>,
}

/// The repository.
pub fn repository() -> &'static Path {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.parent().unwrap_or(bench)
}

/// The folder of what is built.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

impl Bench {
    /// Looks around, makes the scratch folder and builds freerun.
    pub fn prepare(options: Options) -> Result<Bench> {
        let machine = Machine::look(options.nginx.as_deref());
        process::raise_limit()?;
        machine.program("wrk")?;
        if let Some(command) = machine.missing() {
            eprintln!("some programs are missing; to have them: {command}");
        }
        let root = options.scratch.clone().unwrap_or_else(|| target().join("bench"));
        let scratch = Scratch::open(&root, options.keep)?;
        let user = user::pick(&options.user, &scratch);
        let freerun = match &options.freerun {
            _ if !wants_freerun(&options) => Err("left out".into()),
            Some(path) => fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display())),
            None => build("freerun", &["-p", "freerun"]).map_err(|error| error.to_string()),
        };
        if let Err(reason) = &freerun {
            eprintln!("freerun is not measured: {reason}");
        }
        Ok(Bench { options, machine, scratch, user, freerun })
    }

    /// The program of `kind`.
    pub fn program(&self, kind: Kind) -> Result<PathBuf> {
        match kind {
            Kind::Freerun => self.freerun.clone().map_err(Error::Setup),
            Kind::Floor => std::env::current_exe().doing("find this program"),
            _ => self.machine.program(kind.name()).map(Path::to_path_buf),
        }
    }

    /// The freerun binary, if there is one.
    pub fn freerun(&self) -> Option<&Path> {
        self.freerun.as_deref().ok()
    }

    /// The path of wrk.
    pub fn wrk(&self) -> Result<&Path> {
        self.machine.program("wrk")
    }

    /// Says what is going on.
    pub fn say(&self, text: &str) {
        eprintln!("{text}");
    }
}

fn wants_freerun(options: &Options) -> bool {
    options.only.is_empty() || options.only.iter().any(|name| name.starts_with("freerun"))
}

/// Builds a binary of this workspace in the release profile and answers its path.
pub fn build(binary: &str, args: &[&str]) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    process::run(&cargo, &[&["build", "--release", "--quiet"], args].concat(), repository())?;
    let path = target().join("release").join(binary);
    fs::canonicalize(&path).doing(path.display())
}
