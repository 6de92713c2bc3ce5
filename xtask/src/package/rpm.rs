//! The package for distributions with RPM: all files of the tree, as the packages of Debian have them.

use std::path::PathBuf;
use std::process::Command;

use super::build::Build;
use super::tools::CARGO_GENERATE_RPM;
use super::{scripts, tree};
use crate::command::{StepError, ask};

/// The number of the package of a version, as `crates/freerun/Cargo.toml` has it.
const RELEASE: u32 = 1;

/// A folder of the tree, which is Debian's choice, and the place where distributions with RPM have such files.
const MOVED: (&str, &str) = ("usr/share/zsh/vendor-completions/", "usr/share/zsh/site-functions/");

/// Makes the package and answers where it is.
pub(super) fn package(build: &Build) -> Result<PathBuf, StepError> {
    scripts::complete(build, "rpm", &["post.sh", "preun.sh", "postun.sh"])?;
    let names = tree::files(&build.tree())?;
    tree::write(&build.folder, "rpm/assets.toml", assets(&names).as_bytes())?;
    let architecture = std::env::consts::ARCH;
    let file = build.folder.join(format!("freerun-{}-{RELEASE}.{architecture}.rpm", build.version));
    let mut rpm = Command::new(CARGO_GENERATE_RPM.path(build)?);
    rpm.current_dir(&build.repository).env("SOURCE_DATE_EPOCH", &build.epoch);
    // What the program needs is found in the same way whether RPM is installed or not.
    rpm.args(["--package", "crates/freerun", "--auto-req", "builtin", "--arch", architecture]);
    rpm.arg("--metadata-overwrite").arg(build.folder.join("rpm/assets.toml")).arg("--output").arg(&file);
    ask(&mut rpm)?;
    Ok(file)
}

/// The list of files that cargo-generate-rpm packs. What an administrator has changed below `/etc` stays.
fn assets(names: &[String]) -> String {
    let asset = |name: &String| {
        let mode = if name.starts_with("usr/sbin/") { "755" } else { "644" };
        let place = match name.strip_prefix(MOVED.0) {
            Some(file) => format!("{}{file}", MOVED.1),
            None => name.clone(),
        };
        let is_document = name.starts_with("usr/share/doc/") || name.starts_with("usr/share/man/");
        let more = match () {
            () if name.starts_with("etc/") => ", config = \"noreplace\"",
            () if is_document => ", doc = true",
            () => "",
        };
        format!("    {{ source = \"target/package/tree/{name}\", dest = \"/{place}\", mode = \"{mode}\"{more} }},\n")
    };
    format!("assets = [\n{}]\n", names.iter().map(asset).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn configuration_and_documents_are_marked_and_completions_have_their_place() {
        let names = ["etc/a.conf", "usr/sbin/a", "usr/share/man/man8/a.8.gz", "usr/share/zsh/vendor-completions/_a"];
        let table: toml::Table = toml::from_str(&assets(&names.map(str::to_owned))).expect("TOML");
        let assets = table["assets"].as_array().expect("a list");
        assert_eq!(assets[0]["config"].as_str(), Some("noreplace"));
        assert_eq!(assets[0]["mode"].as_str(), Some("644"));
        assert_eq!(assets[1]["mode"].as_str(), Some("755"));
        assert!(assets[1].get("doc").is_none());
        assert_eq!(assets[2]["doc"].as_bool(), Some(true));
        assert_eq!(assets[3]["dest"].as_str(), Some("/usr/share/zsh/site-functions/_a"));
        assert_eq!(assets[3]["source"].as_str(), Some("target/package/tree/usr/share/zsh/vendor-completions/_a"));
    }

    #[test]
    fn the_number_of_the_package_is_that_of_the_manifest() {
        let manifest = fs::read_to_string(crate::repository().join("crates/freerun/Cargo.toml")).expect("the manifest");
        let manifest: toml::Table = toml::from_str(&manifest).expect("the manifest");
        let release = &manifest["package"]["metadata"]["generate-rpm"]["release"];
        assert_eq!(release.as_str(), Some(RELEASE.to_string().as_str()));
    }
}
