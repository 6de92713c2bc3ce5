//! Secrets of sessions, for those who look at encrypted traffic.

use std::sync::Arc;

/// Takes a label, the random bytes of the client and a secret.
type Log = dyn Fn(&str, &[u8], &[u8]) + Send + Sync;

/// Gets the secrets of sessions: who knows them can read the sessions.
#[derive(Clone)]
pub struct KeyLog(Arc<Log>);

impl KeyLog {
    /// Secrets are given to this function as a label, the random bytes of the client and the secret, the columns of a file that
    /// NSS writes (`SSLKEYLOGFILE`). It is called within steps, so it must not wait.
    pub fn new(log: impl Fn(&str, &[u8], &[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(log))
    }

    pub(super) fn shared(self) -> Arc<dyn rustls::KeyLog> {
        Arc::new(self)
    }
}

impl rustls::KeyLog for KeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        (self.0)(label, client_random, secret);
    }
}

impl std::fmt::Debug for KeyLog {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("KeyLog")
    }
}
