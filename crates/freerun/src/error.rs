//! The crate's error type.

use std::io;

use freerun_runtime::log::Errno;
use thiserror::Error;

/// Why a process could not start, take a bundle, or go on. The messages are nginx's where nginx has one, without the
/// level.
#[derive(Debug, Error)]
pub enum Error {
    /// A system call on something with a name failed: `open() "/x" failed (2: No such file or directory)`.
    #[error("{call}() \"{name}\" failed ({})", Errno(.error))]
    Named {
        /// The call.
        call: &'static str,
        /// The path.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// A system call failed: `fork() failed (11: …)`. The text holds everything before `failed`.
    #[error("{call} failed ({})", Errno(.error))]
    Call {
        /// The call with its arguments.
        call: String,
        /// What the system said.
        error: io::Error,
    },
    /// The peer on the socket between master and worker sent what makes no sense, or too much of it.
    #[error("bad message between master and worker: {0}")]
    Message(String),
    /// The other process is gone.
    #[error("the other process is gone")]
    Gone,
    /// The configuration is not usable; the problems have been told, or this is what the worker said.
    #[error("{0}")]
    Configuration(String),
}

impl Error {
    /// For `map_err` after a call on a path.
    pub fn named<'a, E: Into<io::Error>>(call: &'static str, name: &'a str) -> impl FnOnce(E) -> Error + use<'a, E> {
        move |error| Error::Named { call, name: name.to_owned(), error: error.into() }
    }

    /// For `map_err` after a call without a path.
    pub fn call<E: Into<io::Error>>(call: &str) -> impl FnOnce(E) -> Error + use<'_, E> {
        move |error| Error::Call { call: call.to_owned(), error: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_read_as_nginx_writes_them() {
        let none = || io::Error::from_raw_os_error(2);
        let error = Error::named("open", "/x")(none());
        assert_eq!(error.to_string(), r#"open() "/x" failed (2: No such file or directory)"#);
        let error = Error::call("kill(7, 15)")(none());
        assert_eq!(error.to_string(), "kill(7, 15) failed (2: No such file or directory)");
    }
}
