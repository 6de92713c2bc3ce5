//! Packages of Debian: `freerun`, and `freerun-nginx`, which has it be the program of Debian's nginx.

use std::path::PathBuf;
use std::process::Command;

use super::build::{Build, set_times};
use super::tools::CARGO_DEB;
use super::{scripts, tree};
use crate::command::{StepError, ask, run};

/// The number of the package of a version, as cargo-deb has it.
const REVISION: u32 = 1;

/// The packages: the name, and the variant of it in `crates/freerun/Cargo.toml`.
const PACKAGES: [(&str, Option<&str>); 2] = [("freerun", None), ("freerun-nginx", Some("nginx"))];

/// Makes the packages and answers where they are.
pub(super) fn packages(build: &Build) -> Result<Vec<PathBuf>, StepError> {
    let nginx_tree = build.folder.join("nginx-tree");
    for (name, _) in PACKAGES {
        tree::write(&build.folder, &format!("deb/overrides/{name}"), overrides(name).as_bytes())?;
    }
    run(Command::new("mkdir").arg("-p").arg(nginx_tree.join("usr/sbin")))?;
    run(Command::new("ln").args(["-s", "freerun"]).arg(nginx_tree.join("usr/sbin/nginx")))?;
    set_times(build, &nginx_tree)?;
    set_times(build, &build.folder.join("deb"))?;
    let tool = CARGO_DEB.path(build)?;
    let mut files = Vec::new();
    for (name, variant) in PACKAGES {
        complete(build, name)?;
        let file = build.folder.join(format!("{name}_{}-{REVISION}_{}.deb", build.version, architecture()?));
        let mut deb = Command::new(&tool);
        deb.current_dir(&build.repository).env("SOURCE_DATE_EPOCH", &build.epoch);
        deb.args(["--package", "freerun", "--no-build", "--no-strip", "--locked", "--output"]).arg(&file);
        if let Some(variant) = variant {
            deb.args(["--variant", variant]);
        }
        ask(&mut deb)?;
        files.push(file);
    }
    Ok(files)
}

/// The tags of lintian that are meant so, for each package.
fn overrides(name: &str) -> String {
    let upload = format!("# These packages are in no archive of Debian.\n{name}: initial-upload-closes-no-bugs *\n");
    match name {
        "freerun-nginx" => {
            upload
                + "# The program is a link to the other package's, which has the manual page.\n\
                      freerun-nginx: no-manual-page [usr/sbin/nginx]\n"
        }
        _ => upload,
    }
}

/// Debian's name of this machine's architecture.
fn architecture() -> Result<String, StepError> {
    Ok(ask(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned())
}

/// Completes the maintainer scripts of a package, and writes its changelog.
fn complete(build: &Build, name: &str) -> Result<(), StepError> {
    scripts::complete(build, &format!("deb/{name}"), &["preinst", "postinst", "prerm", "postrm"])?;
    let date = ask(Command::new("date").args(["--utc", "--rfc-email", "--date", &format!("@{}", build.epoch)]))?;
    let changelog = format!(
        "{name} ({}-{REVISION}) unstable; urgency=medium\n\n  * Version {}, see /usr/share/doc/freerun/changelog.gz.\n\n -- freerun \
         developers <developers@freerun.example>  {date}",
        build.version, build.version
    );
    tree::write(&build.folder.join("deb"), "changelog", changelog.as_bytes())
}
