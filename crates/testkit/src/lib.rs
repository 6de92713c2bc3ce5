//! Harness for end-to-end, differential and fault tests.
//!
//! [`Setup`] describes a configuration, [`Server`] runs freerun or nginx with it, [`Client`] sends it exact bytes and
//! [`Response`] is its answer; with [`Tls`] both go through a session. [`http2`] speaks HTTP/2, on both sides of the
//! server under test. [`fuse`] is a disk that is slow, hangs or fails on demand. Functions panic with the error, as tests
//! need it; those named `try_…` return it. [`Upstream`] is a server behind the server under test, [`Application`] a real
//! one; [`relay`] is a network between two of them.

mod application;
pub mod binary;
mod certificates;
mod client;
mod datagrams;
mod dir;
mod dns;
mod ending;
pub mod fuse;
pub mod http2;
mod kind;
pub mod mmdb;
mod movie;
mod on_time;
mod peer;
pub mod ports;
pub mod private_tree;
pub mod relay;
pub mod require;
mod response;
mod server;
mod setup;
mod tls;
mod undisturbed;
mod upstream;
mod wait;

pub use application::Application;
pub use certificates::{Certificates, certificates};
pub use client::Client;
pub use datagrams::Datagrams;
pub use dir::{Site, TempDir};
pub use dns::{Dns, Reply};
pub use ending::Ending;
pub use kind::Kind;
pub use movie::{Movie, movie};
pub use on_time::{Steps, on_time};
pub use peer::{Peer, Received};
pub use response::{Parsed, Response, methods};
pub use server::{Checked, Server, check, run};
pub use setup::Setup;
pub use tls::{Agreed, Tls, TlsFailure, TlsServer, TlsVersion, Visitor};
pub use undisturbed::undisturbed;
pub use upstream::{Answering, Full, Refusing, Upstream, fastcgi_record, ok};
pub use wait::{PATIENCE, eventually, within};

/// Errors of the harness itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no freerun binary to test.
    #[error("no freerun binary: {0}")]
    Binary(String),
    /// The fixture could not be mounted.
    #[error("FUSE on {}: {source}", path.display())]
    Fuse {
        /// The mount point.
        path: std::path::PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The server did not start.
    #[error("{0}")]
    Start(String),
}
