//! The worker's client of ACME, with what it has got.

use std::sync::Arc;

use freerun_acme::{Acme, CertificateStatus};
use freerun_serve::configuration::generation::Generation;

use super::server::Server;

/// The worker's client, which is kept over reloads: one of the [`Parts`](freerun_serve::configuration::parts::Parts) of each generation.
pub struct Client {
    pub(super) acme: Acme,
    pub(super) server: Arc<Server>,
}

impl Client {
    pub(super) fn new() -> Client {
        let server = Arc::new(Server::default());
        Client { acme: Acme::new(server.clone()), server }
    }

    /// States of the certificates of a generation.
    pub fn status(generation: &Generation) -> Vec<CertificateStatus> {
        let client = generation.parts.get::<Client>();
        client.map(|client| client.acme.status()).unwrap_or_default()
    }
}
