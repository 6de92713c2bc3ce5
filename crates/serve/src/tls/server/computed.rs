//! Settings of sessions whose certificates are known only when a client has named the server.

use std::future::Future;
use std::sync::Arc;

use freerun_tls::session::{ServerConfig, ServerSettings};

use super::ServerTls;
use super::slot::Slot;
use crate::tls::computed::{KnownPairs, PairNames, PairReader};
use crate::tls::values::PasswordFile;

/// What the settings of sessions are made of where the names of some certificates have variables.
#[derive(Debug)]
pub struct Computed {
    settings: ServerSettings,
    /// The certificates in their order.
    slots: Vec<Slot>,
    passwords: Option<PasswordFile>,
    known: Arc<KnownPairs>,
    context: [u8; 32],
}

impl Computed {
    pub(super) fn new(
        settings: ServerSettings,
        slots: Vec<Slot>,
        passwords: Option<PasswordFile>,
        known: Arc<KnownPairs>,
        context: [u8; 32],
    ) -> Computed {
        Computed { settings, slots, passwords, known, context }
    }

    /// Which of the values of `ssl_certificate` and `ssl_certificate_key`, counted from 0, have to be computed.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        let computed = |(_, slot): &(usize, &Slot)| matches!(slot, Slot::Computed);
        self.slots.iter().enumerate().filter(computed).map(|(number, _)| number)
    }

    /// The settings of sessions at an address with this `default` server, with these protocols above TLS; `names` are the
    /// values that have to be computed, in the order of [`Computed::numbers`].
    ///
    /// # Errors
    /// The line for the error log; it is empty if the client has gone.
    pub async fn config_at<G: Future<Output = ()>>(
        &self,
        default: &ServerTls,
        alpn: &[&[u8]],
        names: &[PairNames],
        reader: &PairReader<'_, impl Fn() -> G>,
    ) -> Result<ServerConfig, String> {
        let mut names = names.iter();
        let mut keys = Vec::new();
        for slot in &self.slots {
            let loaded = match slot.now() {
                Some(now) => Some(now.key),
                None => match names.next() {
                    Some(names) => Some(self.known.load(names, self.passwords.as_ref(), reader).await?),
                    None => None,
                },
            };
            keys.extend(loaded);
        }
        let settings = ServerSettings { keys, ..self.settings.clone() };
        let config = settings.build().map_err(|error| error.to_string())?;
        Ok(config.with_sessions(&default.sessions, &self.context).with_alpn(alpn))
    }
}
