//! Commands of cargo that make packages: compiled at the first time, below `target/tools`.

use std::path::PathBuf;

use super::build::Build;
use crate::command::{StepError, cargo, run};

/// A command with the version that the packages are made with.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
}

/// Makes packages of Debian.
pub(super) const CARGO_DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };

/// Makes packages of RPM, without RPM's own tools.
pub(super) const CARGO_GENERATE_RPM: Tool = Tool { name: "cargo-generate-rpm", version: "0.21.1" };

/// Lists the packages of cargo in a program, as CycloneDX has it.
pub(super) const CARGO_CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9" };

impl Tool {
    /// The path of the command, which is compiled if it is not there. The time of that is some minutes.
    pub(super) fn path(&self, build: &Build) -> Result<PathBuf, StepError> {
        let root = build.repository.join("target/tools");
        let path = root.join("bin").join(self.name);
        if !path.is_file() {
            eprintln!("package: {} {} is compiled first", self.name, self.version);
            let mut install = cargo(&build.repository);
            install.args(["install", "--quiet", "--locked", self.name, "--version", self.version, "--root"]).arg(&root);
            run(install.arg("--target-dir").arg(root.join("build")))?;
        }
        Ok(path)
    }
}
