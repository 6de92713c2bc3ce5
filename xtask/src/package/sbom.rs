//! The list of what is in the program for programs that look for known vulnerabilities (SBOM), in the form of CycloneDX.
//!
//! cargo-cyclonedx makes it of what cargo says of the whole workspace, where tests and tools have libraries switch on features
//! that the program does not have. Those that are not in the program are taken out again: nobody should be warned of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::build::{Build, PackageError};
use super::inventory;
use super::tools::CARGO_CYCLONEDX;
use crate::command::{ask, at, cargo};

/// The name of a file that the tool writes beside each manifest, without the ending that it adds.
const NAME: &str = "freerun.cdx";

/// The version of CycloneDX.
const SPECIFICATION: &str = "1.5";

/// The form of a number of a list that [`serial_number`] makes: UUIDs of version 8 (RFC 9562), whose other digits are free.
const UUID: &str = "xxxxxxxx-xxxx-8xxx-8xxx-xxxxxxxxxxxx";

/// Writes the list and answers where it is.
pub(super) fn write(build: &Build) -> Result<PathBuf, PackageError> {
    let metadata = ask(cargo(&build.repository).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let folders = inventory::folders(&metadata);
    let mut list = Command::new(CARGO_CYCLONEDX.path(build)?);
    list.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", SPECIFICATION, "--no-build-deps"]);
    list.args(["--override-filename", NAME, "--manifest-path"]).arg(build.repository.join("crates/freerun/Cargo.toml"));
    let done = ask(list.current_dir(&build.repository).env("SOURCE_DATE_EPOCH", &build.epoch));
    let written = |folder: &PathBuf| folder.join(NAME).with_extension("cdx.json");
    let whole = written(&build.repository.join("crates/freerun"));
    let text = done.map(|_| fs::read_to_string(&whole));
    for file in folders.values().map(written).filter(|file| file.exists()) {
        at(&file, fs::remove_file(&file))?;
    }
    let text = at(&whole, text?)?;

    let (others, own) = inventory::linked(&build.repository)?;
    let inside = others.into_iter().chain(own).map(|linked| linked.name).collect();
    let text = text.replace(&format!("path+file://{}/", build.repository.display()), "path+file:///freerun/");
    let mut list: Value = serde_json::from_str(&text).map_err(PackageError::NoList)?;
    keep(&mut list, &inside);
    let file = build.folder.join(format!("{}.cdx.json", build.name()));
    at(&file, fs::write(&file, list.to_string()))?;
    let sum = ask(Command::new("sha256sum").arg(&file))?;
    list["serialNumber"] = serial_number(&sum).into();
    at(&file, fs::write(&file, format!("{list:#}\n")))?;
    Ok(file)
}

/// Takes the components out of a list that are not `inside` (`libc v0.2.1`), and what depends on them.
fn keep(list: &mut Value, inside: &BTreeSet<String>) {
    let is_inside = |component: &Value| {
        let (name, version) = (component["name"].as_str(), component["version"].as_str());
        inside.contains(&format!("{} v{}", name.unwrap_or_default(), version.unwrap_or_default()))
    };
    let reference = |component: &Value| component["bom-ref"].as_str().map(str::to_owned);
    let mut known: BTreeSet<String> = reference(&list["metadata"]["component"]).into_iter().collect();
    if let Some(components) = list["components"].as_array_mut() {
        components.retain(is_inside);
        known.extend(components.iter().filter_map(reference));
    }
    let is_known = |reference: &Value| reference.as_str().is_some_and(|reference| known.contains(reference));
    if let Some(dependencies) = list["dependencies"].as_array_mut() {
        dependencies.retain(|one| is_known(&one["ref"]));
        for on in dependencies.iter_mut().filter_map(|one| one.get_mut("dependsOn")?.as_array_mut()) {
            on.retain(is_known);
        }
    }
}

/// The number of a list, from a checksum of it: equal lists have one number.
fn serial_number(sum: &str) -> String {
    let mut digits = sum.chars();
    let digit = |place| if place == 'x' { digits.next().unwrap_or('0') } else { place };
    format!("urn:uuid:{}", UUID.chars().map(digit).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_what_is_in_the_program_alone() {
        let mut list = serde_json::json!({
            "metadata": {"component": {"bom-ref": "#freerun"}},
            "components": [
                {"bom-ref": "#a", "name": "a", "version": "1.0.0"},
                {"bom-ref": "#a2", "name": "a", "version": "2.0.0"},
            ],
            "dependencies": [
                {"ref": "#freerun", "dependsOn": ["#a", "#a2"]},
                {"ref": "#a"},
                {"ref": "#a2", "dependsOn": ["#a"]},
            ],
        });
        keep(&mut list, &BTreeSet::from(["a v1.0.0".to_owned()]));
        assert_eq!(list["components"], serde_json::json!([{"bom-ref": "#a", "name": "a", "version": "1.0.0"}]));
        let dependencies = serde_json::json!([{"ref": "#freerun", "dependsOn": ["#a"]}, {"ref": "#a"}]);
        assert_eq!(list["dependencies"], dependencies);
    }

    #[test]
    fn the_number_of_a_list_has_the_digits_of_its_sum() {
        let sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  file\n";
        assert_eq!(serial_number(sum), "urn:uuid:01234567-89ab-8cde-8f01-23456789abcd");
    }
}
