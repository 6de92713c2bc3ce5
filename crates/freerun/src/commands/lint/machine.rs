//! The files that a configuration names, as far as rules ask for them.

use freerun_conf::path_of;

/// The files of the machine. Tests have some of their own.
pub trait Machine {
    /// The permissions of a file; `None` if there is none, or nothing is known of it.
    fn mode(&self, path: &str) -> Option<u32>;
}

/// The disk; relative paths start from the folder.
pub struct KeyFiles(pub String);

impl Machine for KeyFiles {
    fn mode(&self, path: &str) -> Option<u32> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", self.0) };
        Some(std::fs::metadata(path_of(&path)).ok()?.permissions().mode())
    }
}
