//! The settings of sessions with a server at an address, when certificates may be replaced while the server runs.

use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_tls::session::{ServerConfig, ServerSettings, SessionSettings, SettingsError};

use super::slot::CertificateSlot;

/// Parts of the settings of sessions where certificates may be replaced, and the settings that were made of them last.
#[derive(Debug)]
pub(super) struct Replaceable {
    settings: ServerSettings,
    slots: Vec<CertificateSlot>,
    made: ArcSwap<AddressSettings>,
}

/// The settings with the certificates of a moment.
#[derive(Debug)]
pub(super) struct AddressSettings {
    /// The versions of the certificates, in their order.
    versions: Vec<u64>,
    config: ServerConfig,
}

impl AddressSettings {
    fn of(settings: &ServerSettings, slots: &[CertificateSlot]) -> Result<AddressSettings, SettingsError> {
        let now: Vec<_> = slots.iter().filter_map(CertificateSlot::now).collect();
        let keys = now.iter().map(|now| now.key.clone()).collect();
        Ok(AddressSettings {
            versions: now.iter().map(|now| now.version).collect(),
            config: ServerSettings { keys, ..settings.clone() }.build()?,
        })
    }

    fn is_current(&self, slots: &[CertificateSlot]) -> bool {
        self.versions.iter().copied().eq(slots.iter().map(CertificateSlot::version))
    }
}

impl Replaceable {
    /// None of the certificates has a name with variables.
    pub(super) fn new(settings: ServerSettings, slots: Vec<CertificateSlot>) -> Result<Replaceable, SettingsError> {
        let made = ArcSwap::from_pointee(AddressSettings::of(&settings, &slots)?);
        Ok(Replaceable { settings, slots, made })
    }

    /// The settings with the certificates of this moment. They are made when somebody asks for the first time after one was
    /// replaced; loops that ask at the same time may each make them, which does no harm.
    pub(super) fn now(&self) -> Arc<AddressSettings> {
        let made = self.made.load_full();
        if made.is_current(&self.slots) {
            return made;
        }
        // Whether settings can be made does not depend on the certificates.
        let Ok(newer) = AddressSettings::of(&self.settings, &self.slots) else { return made };
        let newer = Arc::new(newer);
        self.made.store(newer.clone());
        newer
    }
}

/// The settings of sessions with a server at an address.
#[derive(Debug)]
pub struct AtAddress(AddressKind);

#[derive(Debug)]
enum AddressKind {
    Fixed(ServerConfig),
    Replaceable(Box<BoundSettings>),
}

/// The settings of a server with certificates that may be replaced, bound to the address.
#[derive(Debug)]
struct BoundSettings {
    of: Arc<Replaceable>,
    sessions: SessionSettings,
    context: [u8; 32],
    /// The protocols above TLS.
    alpn: Vec<Vec<u8>>,
    last: ArcSwap<(Arc<AddressSettings>, ServerConfig)>,
}

impl AtAddress {
    pub(super) fn fixed(
        config: &ServerConfig,
        sessions: &SessionSettings,
        context: &[u8; 32],
        alpn: &[&[u8]],
    ) -> AtAddress {
        AtAddress(AddressKind::Fixed(config.with_sessions(sessions, context).with_alpn(alpn)))
    }

    pub(super) fn replaceable(
        of: &Arc<Replaceable>,
        sessions: &SessionSettings,
        context: &[u8; 32],
        alpn: &[&[u8]],
    ) -> AtAddress {
        let made = of.now();
        let config = made.config.with_sessions(sessions, context).with_alpn(alpn);
        let (of, sessions, context) = (of.clone(), sessions.clone(), *context);
        AtAddress(AddressKind::Replaceable(Box::new(BoundSettings {
            of,
            sessions,
            context,
            alpn: alpn.iter().map(|name| name.to_vec()).collect(),
            last: ArcSwap::from_pointee((made, config)),
        })))
    }

    /// The settings with the certificates of this moment.
    pub fn now(&self) -> ServerConfig {
        let bound = match &self.0 {
            AddressKind::Fixed(config) => return config.clone(),
            AddressKind::Replaceable(bound) => bound,
        };
        let made = bound.of.now();
        let last = bound.last.load();
        if Arc::ptr_eq(&last.0, &made) {
            return last.1.clone();
        }
        let config = made.config.with_sessions(&bound.sessions, &bound.context).with_alpn(&bound.alpn);
        bound.last.store(Arc::new((made, config.clone())));
        config
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::Live;
    use super::*;
    use crate::tls::fixtures::certified;
    use crate::tls::live::LivePair;
    use freerun_tls::session::SessionCache;
    use std::time::Duration;

    #[test]
    fn settings_are_made_anew_only_when_a_certificate_was_replaced() {
        let pair = Arc::new(LivePair::new("a", "a", certified("ec")));
        let slots = vec![CertificateSlot::Fixed(certified("ed25519")), CertificateSlot::Live(Live::new(pair.clone()))];
        let of = Arc::new(Replaceable::new(ServerSettings::default(), slots).expect("settings"));
        let sessions = SessionSettings {
            cache: SessionCache::Off,
            tickets: None,
            timeout: Duration::ZERO,
            figures: Arc::default(),
        };
        let bound = AtAddress::replaceable(&of, &sessions, &[0; 32], &[]);
        let first = of.now();
        let short = bound.now().signature_time();
        assert!(Arc::ptr_eq(&first, &of.now()));
        pair.replace(certified("rsa"));
        assert!(bound.now().signature_time() > short, "the key of RSA takes longer");
        let second = of.now();
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &of.now()));
    }
}
