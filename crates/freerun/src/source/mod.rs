//! Sources of a configuration: the parameters, the texts, and the answers about names and files that it needs at once.

pub mod hosts;
pub mod loader;
mod patient_file;
pub mod state_files;

use serde::{Deserialize, Serialize};

/// The parameters for reading a configuration; they are the same in master and worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The main file.
    pub conf: String,
    /// The directives of the option `-g`.
    pub globals: Option<String>,
    /// The folder that relative paths start from; ends with `/`.
    pub prefix: String,
    /// The folder that the paths of `include` start from; ends with `/`, or is empty.
    pub conf_prefix: String,
    /// The error log if the configuration names none: a path, or `stderr`.
    pub error_log: String,
    /// Whether the master has the rights of root, which decides the default port.
    pub privileged: bool,
}
