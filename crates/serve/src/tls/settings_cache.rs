//! Settings of sessions that were made with a certificate which a cache keeps (`ssl_certificate_cache`). They stay with the
//! certificate, so that a loop does not make them for each handshake, and go with it: when it is read again, or when another
//! configuration asks.

use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_tls::load::CertifiedKey;
use freerun_tls::session::ServerConfig;

/// The most settings that are kept with one certificate, each for another server.
const MOST: usize = 8;

/// Parts of the settings besides the certificates: a server, and the default server of the address. Their numbers are
/// unique among the servers of this and of earlier configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SettingsPurpose {
    pub(super) server: u64,
    pub(super) default: u64,
    /// Number of protocols above TLS on offer: it is the same list, with HTTP/2 at its beginning or without.
    pub(super) protocols: usize,
}

/// The settings that were made with a certificate.
#[derive(Debug, Default)]
pub(super) struct PreparedSettings(ArcSwap<Vec<Arc<PreparedEntry>>>);

#[derive(Debug)]
struct PreparedEntry {
    purpose: SettingsPurpose,
    /// All certificates that the settings were made with.
    keys: Vec<CertifiedKey>,
    config: ServerConfig,
}

impl PreparedEntry {
    fn is_of(&self, keys: &[CertifiedKey]) -> bool {
        self.keys.len() == keys.len() && self.keys.iter().zip(keys).all(|(own, other)| own.is_same(other))
    }
}

impl PreparedSettings {
    /// The settings for a purpose with these certificates: what was made last time, or what `make` makes. Loops that ask at
    /// the same time may each make them, which does no harm.
    ///
    /// # Errors
    /// The errors of `make`.
    pub(super) fn get<E>(
        &self,
        purpose: SettingsPurpose,
        keys: Vec<CertifiedKey>,
        make: impl FnOnce(Vec<CertifiedKey>) -> Result<ServerConfig, E>,
    ) -> Result<ServerConfig, E> {
        let known = self.0.load();
        if let Some(made) = known.iter().find(|made| made.purpose == purpose && made.is_of(&keys)) {
            return Ok(made.config.clone());
        }
        let config = make(keys.clone())?;
        let made = Arc::new(PreparedEntry { purpose, keys, config: config.clone() });
        self.0.rcu(|known| {
            // Those that were made with another certificate are of no use any more. Of the rest the newest stay.
            let others = known.iter().filter(|other| other.purpose != purpose).take(MOST - 1);
            std::iter::once(&made).chain(others).cloned().collect::<Vec<_>>()
        });
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::fixtures::certified;
    use freerun_tls::session::{ServerSettings, SettingsError};

    fn purpose(server: u64) -> SettingsPurpose {
        SettingsPurpose { server, default: 1, protocols: 1 }
    }

    fn make(keys: Vec<CertifiedKey>) -> Result<ServerConfig, SettingsError> {
        ServerSettings { keys, ..ServerSettings::default() }.build()
    }

    fn never(_: Vec<CertifiedKey>) -> Result<ServerConfig, SettingsError> {
        unreachable!("they were made before")
    }

    #[test]
    fn settings_are_made_once_for_a_purpose_and_the_same_certificates() {
        let (prepared, one, other) = (PreparedSettings::default(), certified("ec"), certified("ec"));
        for (purpose, keys) in [
            (SettingsPurpose { server: 1, default: 1, protocols: 1 }, vec![one.clone()]),
            (SettingsPurpose { server: 2, default: 1, protocols: 1 }, vec![one.clone()]),
            (SettingsPurpose { server: 1, default: 2, protocols: 1 }, vec![one.clone()]),
            // Another one, though it has the same contents; and one more.
            (SettingsPurpose { server: 1, default: 1, protocols: 1 }, vec![other.clone()]),
            (SettingsPurpose { server: 1, default: 1, protocols: 1 }, vec![other, one]),
        ] {
            let mut count = 0;
            for _ in 0..2 {
                let made = prepared.get(purpose, keys.clone(), |keys| {
                    count += 1;
                    make(keys)
                });
                assert!(made.is_ok());
            }
            assert_eq!(count, 1, "{purpose:?}");
        }
    }

    #[test]
    fn what_was_made_with_a_certificate_goes_when_another_one_comes() {
        let (prepared, old) = (PreparedSettings::default(), certified("ec"));
        for _ in 0..2 * MOST {
            assert!(prepared.get(purpose(1), vec![certified("ec")], make).is_ok());
        }
        assert_eq!(prepared.0.load().len(), 1);
        assert!(!prepared.0.load()[0].is_of(&[old]));
    }

    #[test]
    fn a_failure_is_not_kept() {
        let (prepared, key) = (PreparedSettings::default(), certified("ec"));
        assert_eq!(prepared.get(purpose(1), vec![key.clone()], |_| Err(())).err(), Some(()));
        assert!(prepared.get(purpose(1), vec![key], make).is_ok());
    }

    #[test]
    fn the_settings_of_a_few_servers_are_kept() {
        let (prepared, key, most) = (PreparedSettings::default(), certified("ec"), MOST as u64);
        for server in 0..most + 3 {
            assert!(prepared.get(purpose(server), vec![key.clone()], make).is_ok());
        }
        assert_eq!(prepared.0.load().len(), MOST);
        for server in 3..most + 3 {
            assert!(prepared.get(purpose(server), vec![key.clone()], never).is_ok(), "{server}");
        }
    }
}
