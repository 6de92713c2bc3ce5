//! The crate's error type.

use std::io;

use freerun_conf::{path_of, text_of_os};
use freerun_runtime::log::Errno;
use thiserror::Error;

/// The reason why a process could not start, take a bundle, or continue. The messages are nginx's if nginx has one,
/// without the level.
#[derive(Debug, Error)]
pub enum Error {
    /// A system call on a named object failed: `open() "/x" failed (2: No such file or directory)`.
    #[error("{call}() \"{name}\" failed ({})", Errno(.error))]
    Named {
        /// The call.
        call: &'static str,
        /// The path.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// A system call failed: `fork() failed (11: …)`. The text holds everything before `failed`.
    #[error("{call} failed ({})", Errno(.error))]
    Call {
        /// The call with its arguments.
        call: String,
        /// The system's error.
        error: io::Error,
    },
    /// The peer on the socket between master and worker sent a message that is invalid or too long.
    #[error("bad message between master and worker: {0}")]
    Message(String),
    /// The other process has ended.
    #[error("the other process is gone")]
    Gone,
    /// The configuration is not usable; the problems have been reported, or this is the worker's message.
    #[error("{0}")]
    Configuration(String),
}

impl Error {
    /// Makes an error of a failed call on a path, for `map_err`.
    pub fn named<'a, E: Into<io::Error>>(call: &'static str, name: &'a str) -> impl FnOnce(E) -> Error + use<'a, E> {
        move |error| Error::Named { call, name: name.to_owned(), error: error.into() }
    }

    /// Advice that may help.
    pub fn help(&self) -> Option<String> {
        let (Error::Named { error, .. } | Error::Call { error, .. }) = self else { return None };
        match (self, error.kind()) {
            (Error::Named { call: "open", name, .. }, io::ErrorKind::NotFound) => {
                let folder = path_of(name);
                let folder = text_of_os(folder.parent()?);
                Some(format!("make the folder \"{folder}\", which is not there"))
            }
            (_, io::ErrorKind::PermissionDenied) => {
                Some("root may do this; so may another user with other paths, and ports from 1024 on".to_owned())
            }
            (Error::Call { .. }, io::ErrorKind::AddrInUse) => {
                Some("another program listens there: \"ss -ltnp\" tells which".to_owned())
            }
            (Error::Call { .. }, io::ErrorKind::AddrNotAvailable) => Some(
                "no interface of this machine has the address: \"ip address\" shows those that there are".to_owned(),
            ),
            _ => None,
        }
    }

    /// Whether another port would do: this one is taken, or not for this user.
    pub fn is_about_port(&self) -> bool {
        use io::ErrorKind::{AddrInUse, PermissionDenied};
        matches!(self, Error::Call { error, .. } if matches!(error.kind(), AddrInUse | PermissionDenied))
    }

    /// Makes an error of a failed call without a path, for `map_err`.
    pub fn call<E: Into<io::Error>>(call: &str) -> impl FnOnce(E) -> Error + use<'_, E> {
        move |error| Error::Call { call: call.to_owned(), error: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_help_depends_on_the_system_s_error() {
        let of = |code| io::Error::from_raw_os_error(code);
        let help = |error: Error| error.help().unwrap_or_default();
        assert_eq!(help(Error::named("open", "/no/x.log")(of(2))), "make the folder \"/no\", which is not there");
        assert!(help(Error::call("bind() to 0.0.0.0:80")(of(13))).starts_with("root may do this"));
        assert!(help(Error::call("bind() to 0.0.0.0:80")(of(98))).contains("ss -ltnp"));
        assert!(help(Error::call("bind() to 192.0.2.1:80")(of(99))).contains("ip address"));
        assert_eq!(help(Error::call("fork()")(of(11))), "");
        assert_eq!(help(Error::Gone), "");
    }

    #[test]
    fn system_errors_read_as_nginx_writes_them() {
        let none = || io::Error::from_raw_os_error(2);
        let error = Error::named("open", "/x")(none());
        assert_eq!(error.to_string(), r#"open() "/x" failed (2: No such file or directory)"#);
        let error = Error::call("kill(7, 15)")(none());
        assert_eq!(error.to_string(), "kill(7, 15) failed (2: No such file or directory)");
    }
}
