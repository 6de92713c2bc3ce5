//! Harness for end-to-end, differential and fault tests.
//!
//! [`Setup`] describes a configuration, [`Server`] runs freerun or nginx with it, [`Client`] speaks to it in exact bytes and
//! [`Response`] is what came back. [`fuse`] is a disk that is slow, hangs or fails as told. Functions panic with what went wrong,
//! as tests want it; those named `try_…` return it. [`Upstream`] is a server behind the server under test,
//! [`Application`] a real one.

mod application;
pub mod binary;
mod client;
mod dir;
mod dns;
pub mod fuse;
pub mod mmdb;
mod movie;
mod peer;
pub mod ports;
pub mod require;
mod response;
mod server;
mod setup;
mod upstream;
mod wait;

pub use application::Application;
pub use client::{Client, Ending};
pub use dir::{Site, TempDir};
pub use dns::{Dns, Reply};
pub use movie::{Movie, movie};
pub use peer::{Peer, Received};
pub use response::{Parsed, Response, methods};
pub use server::{Checked, Server, check, run};
pub use setup::{Kind, Setup};
pub use upstream::{Answering, Refusing, Upstream, ok};
pub use wait::{PATIENCE, eventually, within};

/// What can go wrong in the harness itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no freerun to test.
    #[error("no freerun binary: {0}")]
    Binary(String),
    /// The fixture could not be mounted.
    #[error("FUSE on {}: {source}", path.display())]
    Fuse {
        /// The mount point.
        path: std::path::PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The server did not start.
    #[error("{0}")]
    Start(String),
}
