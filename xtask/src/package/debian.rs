//! Packages of Debian: `freerun`, and `freerun-nginx`, which has it be the program of Debian's nginx.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::build::{Build, PackageError, at, set_times};
use super::tools::CARGO_DEB;
use super::tree;
use crate::command::{ask, run};

/// The place in a maintainer script where the function of `packaging/deb/change-binary.sh` is inserted.
const CHANGE_BINARY: &str = "#CHANGE_BINARY#\n";

/// The number of the package of a version, as cargo-deb has it.
const REVISION: u32 = 1;

/// The packages: the name, and the variant of it in `crates/freerun/Cargo.toml`.
const PACKAGES: [(&str, Option<&str>); 2] = [("freerun", None), ("freerun-nginx", Some("nginx"))];

/// Makes the packages and answers where they are.
pub(super) fn packages(build: &Build) -> Result<Vec<PathBuf>, PackageError> {
    let nginx_tree = build.folder.join("nginx-tree");
    for (name, tree) in [("freerun", build.tree()), ("freerun-nginx", nginx_tree.clone())] {
        tree::write(&tree, &format!("usr/share/lintian/overrides/{name}"), overrides(name).as_bytes())?;
    }
    run(Command::new("mkdir").arg("-p").arg(nginx_tree.join("usr/sbin")))?;
    run(Command::new("ln").args(["-s", "freerun"]).arg(nginx_tree.join("usr/sbin/nginx")))?;
    set_times(build, &nginx_tree)?;
    let tool = CARGO_DEB.path(build)?;
    let mut files = Vec::new();
    for (name, variant) in PACKAGES {
        scripts(build, name)?;
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
fn architecture() -> Result<String, PackageError> {
    Ok(ask(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned())
}

/// Writes scripts of a folder of `packaging/` below the folder of the packages, with the function that changes the binary.
fn complete_scripts(build: &Build, folder: &str, names: &[&str]) -> Result<(), PackageError> {
    let shared = build.repository.join("packaging/deb/change-binary.sh");
    let shared = at(&shared, fs::read_to_string(&shared))?;
    for script in names {
        let path = build.repository.join("packaging").join(folder).join(script);
        if path.is_file() {
            let text = at(&path, fs::read_to_string(&path))?.replace(CHANGE_BINARY, &shared);
            tree::write(&build.folder.join(folder), script, text.as_bytes())?;
        }
    }
    Ok(())
}

/// Completes the maintainer scripts of a package, and writes its changelog.
fn scripts(build: &Build, name: &str) -> Result<(), PackageError> {
    complete_scripts(build, &format!("deb/{name}"), &["preinst", "postinst", "prerm", "postrm"])?;
    let date = ask(Command::new("date").args(["--utc", "--rfc-email", "--date", &format!("@{}", build.epoch)]))?;
    let changelog = format!(
        "{name} ({}-{REVISION}) unstable; urgency=medium\n\n  * Version {}, see /usr/share/doc/freerun/changelog.gz.\n\n -- freerun \
         developers <developers@freerun.example>  {date}",
        build.version, build.version
    );
    tree::write(&build.folder.join("deb"), "changelog", changelog.as_bytes())
}
