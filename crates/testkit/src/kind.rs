//! The kinds of servers that tests run.

use crate::{HarnessError, binary};
use std::path::PathBuf;

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// freerun, the server under test.
    Freerun,
    /// nginx, for comparison.
    Nginx,
}

impl Kind {
    /// The kind of server that [`Setup::run`](crate::Setup::run) runs.
    pub fn under_test() -> Kind {
        match std::env::var("FREERUN_TEST_AGAINST").as_deref() {
            Ok("nginx") => Kind::Nginx,
            _ => Kind::Freerun,
        }
    }

    /// The program's path.
    ///
    /// # Errors
    /// The program does not exist.
    pub fn program(self) -> Result<PathBuf, HarnessError> {
        match self {
            Kind::Freerun => binary::freerun(),
            Kind::Nginx => binary::nginx_path().ok_or_else(|| HarnessError::Start("no nginx".to_owned())),
        }
    }
}
