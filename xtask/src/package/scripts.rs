//! The scripts that a package manager runs: files of `packaging/`, completed by the function that changes the binary of a
//! running server.

use std::fs;

use super::build::Build;
use super::tree;
use crate::command::{StepError, at};

/// The file with the function.
const CHANGE_BINARY: &str = "packaging/change-binary.sh";

/// The place in a script where it is inserted.
const PLACE: &str = "#CHANGE_BINARY#\n";

/// Completes the scripts that a folder of `packaging/` has, and writes them to a folder of this name in `target/package`.
pub(super) fn complete(build: &Build, folder: &str, names: &[&str]) -> Result<(), StepError> {
    let shared = build.repository.join(CHANGE_BINARY);
    let shared = at(&shared, fs::read_to_string(&shared))?;
    for script in names {
        let path = build.repository.join("packaging").join(folder).join(script);
        if path.is_file() {
            let text = at(&path, fs::read_to_string(&path))?.replace(PLACE, &shared);
            tree::write(&build.folder.join(folder), script, text.as_bytes())?;
        }
    }
    Ok(())
}
