//! `ssl_conf_command Ciphersuites`: the suites of TLS 1.3.

use super::Remark;
use freerun_proto::tls::names;

/// A suite of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ciphersuite {
    /// `TLS_AES_256_GCM_SHA384`.
    Aes256GcmSha384,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    Chacha20Poly1305Sha256,
    /// `TLS_AES_128_GCM_SHA256`.
    Aes128GcmSha256,
    /// `TLS_AES_128_CCM_SHA256`, which freerun does not have.
    Aes128CcmSha256,
    /// `TLS_AES_128_CCM_8_SHA256`, which freerun does not have.
    Aes128Ccm8Sha256,
}

impl Ciphersuite {
    /// Suites that are allowed without a setting, the most preferred first.
    pub const DEFAULT: [Ciphersuite; 3] =
        [Ciphersuite::Aes256GcmSha384, Ciphersuite::Chacha20Poly1305Sha256, Ciphersuite::Aes128GcmSha256];

    const ALL: [Ciphersuite; 5] = [
        Ciphersuite::Aes256GcmSha384,
        Ciphersuite::Chacha20Poly1305Sha256,
        Ciphersuite::Aes128GcmSha256,
        Ciphersuite::Aes128CcmSha256,
        Ciphersuite::Aes128Ccm8Sha256,
    ];

    /// The number that stands for it in a handshake.
    pub const fn id(self) -> u16 {
        match self {
            Ciphersuite::Aes128GcmSha256 => 0x1301,
            Ciphersuite::Aes256GcmSha384 => 0x1302,
            Ciphersuite::Chacha20Poly1305Sha256 => 0x1303,
            Ciphersuite::Aes128CcmSha256 => 0x1304,
            Ciphersuite::Aes128Ccm8Sha256 => 0x1305,
        }
    }

    /// Its name, which OpenSSL and IANA agree on.
    pub const fn name(self) -> &'static str {
        match names::cipher(self.id()) {
            Some(name) => name,
            None => "",
        }
    }

    /// Whether freerun has it.
    pub const fn usable(self) -> bool {
        !matches!(self, Ciphersuite::Aes128CcmSha256 | Ciphersuite::Aes128Ccm8Sha256)
    }
}

/// No suite is named that OpenSSL knows. The text is OpenSSL's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("error:0A0000B9:SSL routines::no cipher match")]
pub struct NoMatch;

/// Reads a list of suites with `:` between them. Unknown names are ignored as long as one is known. The empty text is no
/// mistake: it leaves no suite, and with that turns TLS 1.3 off.
pub fn parse(text: &str) -> Result<Vec<Ciphersuite>, NoMatch> {
    let mut suites = Vec::new();
    for name in text.split(':').map(str::trim) {
        let known = Ciphersuite::ALL.into_iter().find(|suite| suite.name() == name);
        if let Some(suite) = known.filter(|suite| !suites.contains(suite)) {
            suites.push(suite);
        }
    }
    if suites.is_empty() && !text.is_empty() { Err(NoMatch) } else { Ok(suites) }
}

/// Takes the suites that freerun has. None are left when the list has none of them: then TLS 1.3 is off.
pub fn usable(suites: &[Ciphersuite]) -> (Vec<Ciphersuite>, Option<Remark>) {
    let (usable, others): (Vec<_>, Vec<_>) = suites.iter().copied().partition(|suite| suite.usable());
    let names = others.into_iter().map(Ciphersuite::name).collect::<Vec<_>>().join(" ");
    let remark = match (usable.is_empty(), names.is_empty()) {
        (true, true) => Some(Remark::warn("no ciphersuite is named, TLSv1.3 is off".to_owned())),
        (true, false) => Some(Remark::warn(format!("{names} not supported, TLSv1.3 is off"))),
        (false, false) => Some(Remark::notice(format!("{names} not supported, ignored"))),
        (false, true) => None,
    };
    (usable, remark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openssl::RemarkLevel;

    #[test]
    fn lists() {
        use Ciphersuite::{Aes128CcmSha256, Aes128GcmSha256, Aes256GcmSha384};
        let cases: &[(&str, Result<&[Ciphersuite], NoMatch>)] = &[
            ("TLS_AES_128_GCM_SHA256", Ok(&[Aes128GcmSha256])),
            (
                "TLS_AES_256_GCM_SHA384 : :FOO:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384",
                Ok(&[Aes256GcmSha384, Aes128GcmSha256]),
            ),
            (" :TLS_AES_128_CCM_SHA256", Ok(&[Aes128CcmSha256])),
            ("", Ok(&[])),
            (" ", Err(NoMatch)),
            (":", Err(NoMatch)),
            ("FOO", Err(NoMatch)),
            ("tls_aes_128_gcm_sha256", Err(NoMatch)),
            ("TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384", Err(NoMatch)),
            ("ECDHE-RSA-AES128-GCM-SHA256", Err(NoMatch)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected.map(<[_]>::to_vec), "{text}");
        }
    }

    #[test]
    fn verdicts() {
        let said = |text: &str| {
            let (usable, remark) = usable(&parse(text).expect("OpenSSL accepts it"));
            (usable.len(), remark.map(|remark| (remark.level, remark.text)))
        };
        assert_eq!(said("TLS_AES_128_GCM_SHA256"), (1, None));
        let notice = (RemarkLevel::Notice, "TLS_AES_128_CCM_SHA256 not supported, ignored".to_owned());
        assert_eq!(said("TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256"), (1, Some(notice)));
        let warning = (RemarkLevel::Warn, "TLS_AES_128_CCM_8_SHA256 not supported, TLSv1.3 is off".to_owned());
        assert_eq!(said("TLS_AES_128_CCM_8_SHA256"), (0, Some(warning)));
        assert_eq!(said(""), (0, Some((RemarkLevel::Warn, "no ciphersuite is named, TLSv1.3 is off".to_owned()))));
    }
}
