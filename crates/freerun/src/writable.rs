//! The folders that a worker writes to: its sandbox forbids changes anywhere else.

use std::path::{Path, PathBuf};

use freerun_conf::path_of;
use freerun_sys::sandbox::are_files_restrictable;

use crate::configuration::Configuration;
use crate::settings::main::SandboxMode;

/// The folders that a configuration needs for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableFolders {
    /// The folders; `None`: any.
    pub folders: Option<Vec<PathBuf>>,
}

impl WritableFolders {
    /// The folders of temporary files, caches, certificates by ACME, states, and logs whose names have variables.
    ///
    /// Each stands for the folder above it. A folder that somebody has removed is made anew there, and the new text of a file is
    /// first written beside it.
    pub fn of(configuration: &Configuration) -> WritableFolders {
        let blueprint = &configuration.blueprint;
        let may_write_anywhere = blueprint.written.anywhere.is_some();
        if configuration.main().worker_sandbox != SandboxMode::On || may_write_anywhere || !are_files_restrictable() {
            return WritableFolders { folders: None };
        }
        let temporary = blueprint.temp_folders.iter().map(|folder| folder.path.as_str());
        let mut folders: Vec<PathBuf> = Vec::new();
        for path in temporary.chain(blueprint.written.paths.iter().map(String::as_str)) {
            let folder = folder_above(&path_of(path));
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        WritableFolders { folders: Some(folders) }
    }

    /// Whether a worker that may write to these folders may write to all that `other` needs.
    pub fn has_all_of(&self, other: &WritableFolders) -> bool {
        let Some(own) = &self.folders else { return true };
        let Some(needed) = &other.folders else { return false };
        needed.iter().all(|folder| own.iter().any(|own| folder.starts_with(own)))
    }
}

/// The folder above a path; the path itself if it ends with a slash.
fn folder_above(path: &Path) -> PathBuf {
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let above = if is_folder { Some(path) } else { path.parent() };
    above.unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(paths: &[&str]) -> WritableFolders {
        WritableFolders { folders: Some(paths.iter().map(PathBuf::from).collect()) }
    }

    #[test]
    fn a_worker_serves_what_needs_no_more_than_it_has() {
        let any = WritableFolders { folders: None };
        let own = folders(&["/var/cache/nginx", "/srv/"]);
        assert!(own.has_all_of(&own) && any.has_all_of(&own) && any.has_all_of(&any));
        assert!(own.has_all_of(&folders(&["/var/cache/nginx/deep", "/srv"])));
        assert!(!own.has_all_of(&any));
        assert!(!own.has_all_of(&folders(&["/var/cache"])));
        assert!(!own.has_all_of(&folders(&["/var/cache/nginx2"])));
    }

    #[test]
    fn a_path_stands_for_the_folder_above_it() {
        assert_eq!(folder_above(Path::new("/var/cache/nginx")), Path::new("/var/cache"));
        assert_eq!(folder_above(Path::new("/var/log/sites/")), Path::new("/var/log/sites/"));
        assert_eq!(folder_above(Path::new("/")), Path::new("/"));
    }
}
