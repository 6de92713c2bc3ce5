//! Data that belongs to a configuration: paths, folders, and the values of modules.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

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
        if path.starts_with(b"/") { path.to_owned() } else { [self.conf_prefix.as_bytes(), path].concat() }
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

/// The folders for temporary files, which the master makes. Lives in the configuration's context.
#[derive(Debug, Clone, Default)]
pub struct TempFolders(pub Vec<String>);

impl TempFolders {
    /// Adds a folder, which may be added more than once.
    pub fn add(&mut self, path: &str) {
        if !self.0.iter().any(|known| known == path) {
            self.0.push(path.to_owned());
        }
    }
}
