//! The settings of sessions with a server at an address, when certificates may be replaced while the server runs.

use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_tls::session::{ServerConfig, ServerSettings, SessionSettings, SettingsError};

use super::slot::Slot;

/// What the settings of sessions are made of where certificates may be replaced, and what was made of them last.
#[derive(Debug)]
pub(super) struct Replaceable {
    settings: ServerSettings,
    slots: Vec<Slot>,
    made: ArcSwap<Made>,
}

/// The settings with the certificates of a moment.
#[derive(Debug)]
pub(super) struct Made {
    /// The versions of the certificates, in their order.
    versions: Vec<u64>,
    config: ServerConfig,
}

impl Made {
    fn of(settings: &ServerSettings, slots: &[Slot]) -> Result<Made, SettingsError> {
        let now: Vec<_> = slots.iter().filter_map(Slot::now).collect();
        let keys = now.iter().map(|now| now.key.clone()).collect();
        Ok(Made {
            versions: now.iter().map(|now| now.version).collect(),
            config: ServerSettings { keys, ..settings.clone() }.build()?,
        })
    }

    fn is_current(&self, slots: &[Slot]) -> bool {
        self.versions.iter().copied().eq(slots.iter().map(Slot::version))
    }
}

impl Replaceable {
    /// None of the certificates has a name with variables.
    pub(super) fn new(settings: ServerSettings, slots: Vec<Slot>) -> Result<Replaceable, SettingsError> {
        let made = ArcSwap::from_pointee(Made::of(&settings, &slots)?);
        Ok(Replaceable { settings, slots, made })
    }

    /// The settings with the certificates of this moment. They are made when somebody asks for the first time after one was
    /// replaced; loops that ask at the same time may each make them, which does no harm.
    pub(super) fn now(&self) -> Arc<Made> {
        let made = self.made.load_full();
        if made.is_current(&self.slots) {
            return made;
        }
        // Whether settings can be made does not depend on the certificates.
        let Ok(newer) = Made::of(&self.settings, &self.slots) else { return made };
        let newer = Arc::new(newer);
        self.made.store(newer.clone());
        newer
    }
}

/// The settings of sessions with a server at an address.
#[derive(Debug)]
pub struct AtAddress(Kind);

#[derive(Debug)]
enum Kind {
    Fixed(ServerConfig),
    Replaceable(Box<Bound>),
}

/// The settings of a server with certificates that may be replaced, bound to the address.
#[derive(Debug)]
struct Bound {
    of: Arc<Replaceable>,
    sessions: SessionSettings,
    context: [u8; 32],
    /// The protocols above TLS.
    alpn: Vec<Vec<u8>>,
    last: ArcSwap<(Arc<Made>, ServerConfig)>,
}

impl AtAddress {
    pub(super) fn fixed(
        config: &ServerConfig,
        sessions: &SessionSettings,
        context: &[u8; 32],
        alpn: &[&[u8]],
    ) -> AtAddress {
        AtAddress(Kind::Fixed(config.with_sessions(sessions, context).with_alpn(alpn)))
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
        AtAddress(Kind::Replaceable(Box::new(Bound {
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
            Kind::Fixed(config) => return config.clone(),
            Kind::Replaceable(bound) => bound,
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
        let slots = vec![Slot::Fixed(certified("ed25519")), Slot::Live(Live::new(pair.clone()))];
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
