//! The libraries in the binary: the licences of all packages, and the reason of each dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::build::{Build, PackageError};
use super::tree;
use crate::command::{StepError, ask, at, cargo};

/// The page with the reasons.
const REASONS: &str = "docs/dependencies.md";

/// The folder in the tree.
const FOLDER: &str = "usr/share/doc/freerun";

/// Names of files with a licence begin so.
const LICENCE_NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// The number of levels below the folder of a package where such files are looked for: libraries in C have folders there.
const DEPTH: usize = 3;

/// The folder with texts that the packages of cargo leave out, in files with the names of these.
const MISSING: &str = "packaging/licences";

/// The begin of a text that is one of two to choose from, where the other one is chosen.
const NOT_CHOSEN: &str = "GNU GENERAL PUBLIC LICENSE";

/// The texts of freerun's own licences.
const OWN: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Writes both.
pub(super) fn write(build: &Build) -> Result<(), PackageError> {
    let reasons = build.repository.join(REASONS);
    tree::write(&build.tree(), &format!("{FOLDER}/dependencies.md"), &at(&reasons, fs::read(&reasons))?)?;
    Ok(tree::write(&build.tree(), &format!("{FOLDER}/licences"), licences(&build.repository)?.as_bytes())?)
}

/// A package in the binary.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkedPackage {
    /// The name and the version: `libc v0.2.1`.
    pub(super) name: String,
    licence: String,
}

/// The packages that are in the binary, as cargo says: others' packages, and freerun's own.
pub(super) fn linked(repository: &Path) -> Result<(BTreeSet<LinkedPackage>, BTreeSet<LinkedPackage>), StepError> {
    let mut command = cargo(repository);
    command.args(["tree", "--locked", "--package", "freerun", "--edges", "normal", "--prefix", "none"]);
    let text = ask(command.args(["--no-dedupe", "--format", "{p}|{l}"]))?;
    let (mut others, mut own) = (BTreeSet::new(), BTreeSet::new());
    for (name, licence) in text.lines().filter_map(|line| line.split_once('|')) {
        // freerun's own have a path behind the version.
        let (name, packages) = match name.split_once(" (/") {
            Some((name, _)) => (name.to_owned(), &mut own),
            None => (name.replace(" (proc-macro)", ""), &mut others),
        };
        packages.insert(LinkedPackage { name, licence: licence.replace('/', " OR ") });
    }
    Ok((others, own))
}

/// The texts of all licences, each with the packages that have it.
fn licences(repository: &Path) -> Result<String, PackageError> {
    let metadata = ask(cargo(repository).args(["metadata", "--locked", "--format-version", "1"]))?;
    let folders = folders(&metadata);
    let mut packages = String::new();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for LinkedPackage { name, licence } in linked(repository)?.0 {
        packages += &format!("{name}: {licence}\n");
        let mut own = match folders.get(&name) {
            Some(folder) => licence_texts(folder, DEPTH)?,
            None => Vec::new(),
        };
        let missing = repository.join(MISSING).join(name.split(' ').next().unwrap_or_default());
        if missing.is_file() {
            own.push(text(&missing)?);
        }
        if own.is_empty() {
            return Err(PackageError::NoLicence(name));
        }
        for text in own {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    let mut all = format!("The libraries in the program, with their licences:\n\n{packages}");
    for name in OWN {
        all += &section("freerun", &text(&repository.join(name))?);
    }
    for (text, names) in texts {
        all += &section(&names.into_iter().collect::<Vec<_>>().join(", "), &text);
    }
    Ok(all)
}

/// A licence below the names of those who have it.
fn section(names: &str, text: &str) -> String {
    format!("\n{}\n{names}\n\n{text}\n", "-".repeat(100))
}

/// The text in a file, in the same form for all.
fn text(path: &Path) -> Result<String, StepError> {
    Ok(String::from_utf8_lossy(&at(path, fs::read(path))?).trim().replace('\r', ""))
}

/// The texts of the licences in a package's folder, and in that many levels of folders below it.
fn licence_texts(folder: &Path, depth: usize) -> Result<Vec<String>, StepError> {
    let mut texts = Vec::new();
    for entry in at(folder, fs::read_dir(folder))? {
        let path = at(folder, entry)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().to_uppercase()).unwrap_or_default();
        if path.is_dir() && depth > 0 {
            texts.extend(licence_texts(&path, depth - 1)?);
        } else if path.is_file() && LICENCE_NAMES.iter().any(|begin| name.starts_with(begin)) {
            texts.push(text(&path)?);
        }
    }
    texts.retain(|text| !text.starts_with(NOT_CHOSEN));
    Ok(texts)
}

/// The folders of packages by name and version (`libc v0.2.1`), from what `cargo metadata` prints.
pub(super) fn folders(metadata: &str) -> BTreeMap<String, PathBuf> {
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
    fn each_library_in_the_program_has_the_text_of_its_licence() {
        let all = licences(&crate::repository()).expect("licences");
        // Those of freerun, of a library's C code, and of one that has the text here.
        for part in ["\nfreerun\n", "University of Cambridge", "Zoltan Herczeg", "Brotli Authors", "Daan Leijen"] {
            assert!(all.contains(part), "{part}");
        }
        assert!(!all.contains(NOT_CHOSEN));
    }

    #[test]
    fn packages_are_found_by_name_and_version() {
        let text = r#"{"packages": [{"name": "a", "version": "1.0.0", "manifest_path": "/r/a-1.0.0/Cargo.toml"}]}"#;
        assert_eq!(folders(text).get("a v1.0.0"), Some(&PathBuf::from("/r/a-1.0.0")));
        assert!(folders("no JSON").is_empty());
    }
}
