//! Harness for end-to-end, differential and fault tests.
//!
//! [`Setup`] describes a configuration, [`TestServer`] runs freerun or nginx with it, [`TestClient`] sends it exact bytes and
//! [`Response`] is its answer; with [`Tls`] both go through a session. [`http2`] speaks HTTP/2, on both sides of the
//! server under test, and [`http3`] speaks HTTP/3 as a client. [`fuse`] is a disk that is slow, hangs or fails on demand.
//! Functions panic with the error, as tests need it; those named `try_…` return it. [`TestUpstream`] is a server behind the
//! server under test, [`Application`] a real one; [`relay`] is a network between two of them, and [`DatagramRelay`] one for
//! datagrams, with faults.

mod application;
pub mod binary;
mod certificates;
mod client;
mod collector;
mod connection_end;
pub mod daemon;
mod datagram_relay;
mod datagrams;
mod dir;
mod dns;
pub mod fuse;
pub mod http2;
pub mod http3;
mod in_process;
mod kind;
pub mod mmdb;
mod mount_isolation;
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
mod upstream;
mod wait;

pub use application::Application;
pub use certificates::{Certificates, certificates};
pub use client::TestClient;
pub use collector::{Attributes, CollectedExport, CollectedMetric, CollectedSpan, Collector, CollectorAnswer};
pub use connection_end::ConnectionEnd;
pub use datagram_relay::{DatagramRelay, NetworkFaults, RelayedDatagrams};
pub use datagrams::Datagrams;
pub use dir::{Site, TempDir};
pub use dns::{Dns, DnsReply};
pub use in_process::{InProcessWorker, WorkerConfiguration};
pub use kind::Kind;
pub use mount_isolation::undisturbed;
pub use movie::{Movie, movie};
pub use on_time::{Steps, on_time};
pub use peer::{Peer, ReceivedRequest};
pub use response::{ParsedResponse, Response, methods};
pub use server::{ProgramOutput, TestServer, check, run};
pub use setup::Setup;
pub use tls::{AgreedParameters, Tls, TlsFailure, TlsServer, TlsVersion, Visitor};
pub use upstream::{AnsweringUpstream, Full, RefusingAddress, TestUpstream, fastcgi_record, ok};
pub use wait::{PATIENCE, eventually, within};

/// Errors of the harness itself.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
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
