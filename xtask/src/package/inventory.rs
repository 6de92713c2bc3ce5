//! The libraries in the binary: the licences of all packages, and the reason of each dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::build::{Build, PackageError, at};
use super::tree;
use crate::command::{ask, cargo};

/// The page with the reasons.
const REASONS: &str = "docs/dependencies.md";

/// The folder in the tree.
const FOLDER: &str = "usr/share/doc/freerun";

/// Names of files with a licence begin so.
const LICENCE_NAMES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// Writes both.
pub(super) fn write(build: &Build) -> Result<(), PackageError> {
    let reasons = build.repository.join(REASONS);
    tree::write(&build.tree(), &format!("{FOLDER}/dependencies.md"), &at(&reasons, fs::read(&reasons))?)?;
    tree::write(&build.tree(), &format!("{FOLDER}/licences"), licences(build)?.as_bytes())
}

/// A package in the binary.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LinkedPackage {
    /// The name and the version: `libc v0.2.1`.
    name: String,
    licence: String,
}

/// The packages of others that are in the binary, as cargo says.
fn linked(build: &Build) -> Result<BTreeSet<LinkedPackage>, PackageError> {
    let mut command = cargo(&build.repository);
    command.args(["tree", "--locked", "--package", "freerun", "--edges", "normal", "--prefix", "none"]);
    let text = ask(command.args(["--no-dedupe", "--format", "{p}|{l}"]))?;
    let lines = text.lines().filter_map(|line| line.split_once('|'));
    // freerun's own have a path behind the version.
    let others = lines.filter(|(name, _)| !name.contains(" (/"));
    let linked = |(name, licence): (&str, &str)| LinkedPackage {
        name: name.replace(" (proc-macro)", ""),
        licence: licence.replace('/', " OR "),
    };
    Ok(others.map(linked).collect())
}

/// The texts of all licences, each with the packages that have it.
fn licences(build: &Build) -> Result<String, PackageError> {
    let metadata = ask(cargo(&build.repository).args(["metadata", "--locked", "--format-version", "1"]))?;
    let folders = folders(&metadata);
    let mut packages = String::new();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for LinkedPackage { name, licence } in linked(build)? {
        packages += &format!("{name}: {licence}\n");
        let Some(folder) = folders.get(&name) else { continue };
        for text in licence_texts(folder)? {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    let mut all = format!("The packages in the program, with their licences:\n\n{packages}");
    for (text, names) in texts {
        let names: Vec<String> = names.into_iter().collect();
        all += &format!("\n{}\n{}\n\n{text}\n", "-".repeat(100), names.join(", "));
    }
    Ok(all)
}

/// The texts of the licences in a package's folder.
fn licence_texts(folder: &Path) -> Result<Vec<String>, PackageError> {
    let mut texts = Vec::new();
    for entry in at(folder, fs::read_dir(folder))? {
        let path = at(folder, entry)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().to_uppercase()).unwrap_or_default();
        if path.is_file() && LICENCE_NAMES.iter().any(|begin| name.starts_with(begin)) {
            texts.push(String::from_utf8_lossy(&at(&path, fs::read(&path))?).trim().replace('\r', ""));
        }
    }
    Ok(texts)
}

/// The folders of packages by name and version (`libc v0.2.1`), from what `cargo metadata` prints.
fn folders(metadata: &str) -> BTreeMap<String, PathBuf> {
    let Ok(metadata) = serde_json::from_str::<serde_json::Value>(metadata) else { return BTreeMap::new() };
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let folder = |package: &serde_json::Value| {
        let name = format!("{} v{}", package["name"].as_str()?, package["version"].as_str()?);
        Some((name, Path::new(package["manifest_path"].as_str()?).parent()?.to_path_buf()))
    };
    packages.iter().filter_map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of dependencies in the manifest of the workspace that are not its own.
    fn declared() -> BTreeSet<String> {
        let path = crate::repository().join("Cargo.toml");
        let text = fs::read_to_string(path).expect("the manifest");
        let manifest: toml::Table = toml::from_str(&text).expect("the manifest");
        let dependencies = manifest["workspace"]["dependencies"].as_table().expect("dependencies");
        dependencies.keys().filter(|name| !name.starts_with("freerun-")).cloned().collect()
    }

    #[test]
    fn each_dependency_has_a_reason() {
        let text = fs::read_to_string(crate::repository().join(REASONS)).expect(REASONS);
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let explained: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
        assert_eq!(explained, declared(), "{REASONS} has one row for each dependency of the workspace");
    }

    #[test]
    fn packages_are_found_by_name_and_version() {
        let text = r#"{"packages": [{"name": "a", "version": "1.0.0", "manifest_path": "/r/a-1.0.0/Cargo.toml"}]}"#;
        assert_eq!(folders(text).get("a v1.0.0"), Some(&PathBuf::from("/r/a-1.0.0")));
        assert!(folders("no JSON").is_empty());
    }
}
