//! What a configuration keeps with it: paths, folders, and the values of modules.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

/// Paths that a configuration's relative ones begin at, and what else the process gives it.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    /// `-p`: for everything but the configuration's own files. Ends with a slash.
    pub prefix: String,
    /// The folder of the configuration, for the files that nginx takes to be part of it. Ends with a slash.
    pub conf_prefix: String,
    /// Whether this process will serve by what it reads: the master only checks it, and should keep nothing large.
    pub serves: bool,
    /// Whether the master may bind ports below 1024: decides the port of a server without `listen`.
    pub privileged: bool,
}

impl Paths {
    /// `path`, put after the prefix if it is relative.
    pub fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", self.prefix) }
    }

    /// `path`, put after the configuration's folder if it is relative.
    pub fn beside_configuration(&self, path: &[u8]) -> Vec<u8> {
        if path.starts_with(b"/") { path.to_owned() } else { [self.conf_prefix.as_bytes(), path].concat() }
    }
}

/// What modules keep with a generation, one value a type. Filled while the configuration is read, as a part of its
/// context; read by all loops afterwards.
#[derive(Clone, Default)]
pub struct Parts(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Parts {
    /// Puts a value.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), value);
    }

    /// The value of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

/// Folders for temporary files, which the master makes. Lives in the configuration's context.
#[derive(Debug, Clone, Default)]
pub struct TempFolders(pub Vec<String>);

impl TempFolders {
    /// Has the folder made; it may be named more than once.
    pub fn add(&mut self, path: &str) {
        if !self.0.iter().any(|known| known == path) {
            self.0.push(path.to_owned());
        }
    }
}
