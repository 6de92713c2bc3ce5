//! Data that belongs to a configuration: paths, folders, and the values of modules.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use freerun_conf::bytes_of;

/// The folders that a configuration's relative paths begin at, and other properties of the process.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    /// The prefix (`-p`), for all paths except the configuration's own files. Ends with a slash.
    pub prefix: String,
    /// The folder of the configuration, for files that nginx counts as part of it. Ends with a slash.
    pub conf_prefix: String,
    /// Whether this process will serve with this configuration: the master only checks it, and should keep no large
    /// data.
    pub serves: bool,
    /// Whether the master may bind ports below 1024, which decides the port of a server without `listen`.
    pub privileged: bool,
}

impl Paths {
    /// `path`, relative to the prefix unless it is absolute.
    pub fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", self.prefix) }
    }

    /// `path`, relative to the configuration's folder unless it is absolute.
    pub fn beside_configuration(&self, path: &[u8]) -> Vec<u8> {
        if path.starts_with(b"/") { path.to_owned() } else { [&bytes_of(&self.conf_prefix), path].concat() }
    }
}

/// The states that modules keep with a generation, one value for each type. It is filled while the configuration is
/// read, as a part of its context; all loops read it afterwards.
#[derive(Clone, Default)]
pub struct Parts(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Parts {
    /// Adds a value.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), value);
    }

    /// The value of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

/// The degree to which anything depends on a folder that the master makes. A folder that several places name has the greatest
/// of their needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FolderNeed {
    /// A default that nothing in the configuration uses; nginx makes such folders, too.
    Unused,
    /// A default that requests may need. Without it these requests alone fail.
    Used,
    /// The configuration names it: without it the configuration cannot be used.
    Named,
}

/// A folder that the master makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TempFolder {
    /// The folder's path.
    pub path: String,
    /// The directive that names such a folder.
    pub directive: String,
    /// The degree to which anything depends on it.
    pub need: FolderNeed,
}

/// The places that the worker writes to besides [`TempFolders`], so that a sandbox can forbid all others. Lives in the
/// configuration's context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenPlaces {
    /// Files and folders.
    pub paths: Vec<String>,
    /// A directive whose files may be anywhere: below a root, where symbolic links may lead out of it.
    pub anywhere: Option<String>,
}

impl WrittenPlaces {
    /// Adds a file or a folder, which may be added more than once.
    pub fn add(&mut self, path: &str) {
        if !self.paths.iter().any(|known| known == path) {
            self.paths.push(path.to_owned());
        }
    }

    /// Adds the files whose names are this text, with variables: they are in the last folder that is named before the
    /// first variable.
    pub fn add_template(&mut self, text: &str) {
        let known = text.split('$').next().unwrap_or_default();
        let folder = known.rfind('/').map_or("/", |slash| &known[..=slash]);
        self.add(folder);
    }

    /// Notes that this directive may write anywhere.
    pub fn add_anywhere(&mut self, directive: &str) {
        self.anywhere.get_or_insert_with(|| directive.to_owned());
    }
}

/// The folders for temporary files, which the master makes. Lives in the configuration's context.
#[derive(Debug, Clone, Default)]
pub struct TempFolders(pub Vec<TempFolder>);

impl TempFolders {
    /// Adds a folder that the configuration names by this directive; it may be added more than once.
    pub fn add(&mut self, path: &str, directive: &str) {
        self.add_with(path, directive, FolderNeed::Named);
    }

    /// Adds a folder, which may be added more than once.
    pub fn add_with(&mut self, path: &str, directive: &str, need: FolderNeed) {
        match self.0.iter_mut().find(|known| known.path == path) {
            Some(known) => known.need = known.need.max(need),
            None => self.0.push(TempFolder { path: path.to_owned(), directive: directive.to_owned(), need }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_greatest_of_its_needs() {
        let mut folders = TempFolders::default();
        folders.add_with("/a", "x_temp_path", FolderNeed::Unused);
        folders.add_with("/a", "x_temp_path", FolderNeed::Used);
        folders.add_with("/b", "y_temp_path", FolderNeed::Unused);
        folders.add_with("/a", "x_temp_path", FolderNeed::Unused);
        folders.add("/b", "y_temp_path");
        let needs: Vec<_> = folders.0.iter().map(|folder| (folder.path.as_str(), folder.need)).collect();
        assert_eq!(needs, [("/a", FolderNeed::Used), ("/b", FolderNeed::Named)]);
    }
}
