//! Settings of sessions whose certificates are known only when a client has named the server.

use std::future::Future;
use std::sync::Arc;

use freerun_tls::session::{ServerConfig, ServerSettings};

use super::ServerTls;
use super::slot::CertificateSlot;
use crate::tls::computed::{KnownPairs, LoadedPair, PairNames, PairReader};
use crate::tls::settings_cache::SettingsPurpose;
use crate::tls::values::{ComputedFile, PasswordFile};

/// Parts of the settings of sessions where the names of some certificates have variables.
#[derive(Debug)]
pub struct ComputedSettings {
    /// The number of the server.
    server: u64,
    settings: ServerSettings,
    /// The certificates in their order.
    slots: Vec<CertificateSlot>,
    passwords: Option<PasswordFile>,
    known: Arc<KnownPairs>,
    context: [u8; 32],
}

impl ComputedSettings {
    pub(super) fn new(
        server: u64,
        settings: ServerSettings,
        slots: Vec<CertificateSlot>,
        passwords: Option<PasswordFile>,
        known: Arc<KnownPairs>,
        context: [u8; 32],
    ) -> ComputedSettings {
        ComputedSettings { server, settings, slots, passwords, known, context }
    }

    /// The values of `ssl_certificate` and `ssl_certificate_key` that have to be computed, in their order.
    ///
    /// `files` gives the certificate and key with this number, counted from 0, and `value` the value of a text with
    /// variables.
    pub fn names<'f, T: 'f>(
        &self,
        files: impl Fn(usize) -> Option<(&'f ComputedFile<T>, &'f ComputedFile<T>)>,
        value: impl Fn(&T) -> Vec<u8>,
    ) -> Vec<PairNames> {
        let computed = self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, CertificateSlot::Computed));
        let pair = |(number, _)| {
            let (certificate, key) = files(number)?;
            Some(PairNames { certificate: certificate.computed(&value), key: key.computed(&value) })
        };
        computed.filter_map(pair).collect()
    }

    /// The settings of sessions at an address with this `default` server, with these protocols above TLS; `names` are the
    /// [values](ComputedSettings::names) that have to be computed.
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
        let (mut keys, mut loaded) = (Vec::new(), Vec::new());
        for slot in &self.slots {
            if let Some(now) = slot.now() {
                keys.push(now.key);
            } else if let Some(names) = names.next() {
                let pair = self.known.load(names, self.passwords.as_ref(), reader).await?;
                keys.push(pair.key.clone());
                loaded.push(pair);
            }
        }
        let make = |keys| {
            let config = ServerSettings { keys, ..self.settings.clone() }.build().map_err(|error| error.to_string())?;
            Ok(config.with_sessions(&default.sessions, &self.context).with_alpn(alpn))
        };
        let purpose = SettingsPurpose { server: self.server, default: default.number, protocols: alpn.len() };
        // If one of the certificates is read anew each time, so are the settings.
        match loaded.iter().map(LoadedPair::prepared).collect::<Option<Vec<_>>>().as_deref() {
            Some([prepared, ..]) => prepared.get(purpose, keys, make),
            _ => make(keys),
        }
    }
}
