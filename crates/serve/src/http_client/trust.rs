//! Whether the server that a request goes to is trusted: by the system's authorities, or by given ones.

use std::path::Path;

use freerun_tls::session::ClientSettings;
use freerun_tls::verify::{DEFAULT_LEVEL, TrustBuilder, TrustStore};

use crate::tls::handshake::outgoing_session::{NameRule, OutgoingTls, Verification};

/// Files in which systems keep the certificates that they trust: Debian, Fedora, openSUSE, Alpine.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The most certificates between the server and a trusted certificate.
const DEPTH: u32 = 10;

/// The settings of a TLS connection to the server of this name. With `trust`, its certificate is verified as upstream
/// servers are (`proxy_ssl_verify`), and its name or address by the rules of the Web. `alpn` are the protocols that it is
/// offered.
///
/// # Errors
/// The TLS library refuses the settings.
pub fn outgoing_tls(name: &str, trust: Option<TrustStore>, alpn: &[&str]) -> Result<OutgoingTls, String> {
    let verification = trust.map(|trust| Verification {
        trust,
        depth: DEPTH,
        level: DEFAULT_LEVEL,
        name: name.to_owned(),
        rule: NameRule::Web,
    });
    let alpn = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let config = ClientSettings { alpn, ..ClientSettings::default() }.build().map_err(|error| error.to_string())?;
    Ok(OutgoingTls { config, server_name: Some(name.to_owned()), sessions: None, verification })
}

/// Trust in the certificates of a text in PEM, which comes from `from`.
///
/// # Errors
/// One of them cannot be used.
pub fn of_pem(pem: &[u8], from: &str) -> Result<TrustStore, String> {
    let mut builder = TrustBuilder::default();
    builder.add_trusted_certificates(pem).map_err(|error| error.words(from))?;
    Ok(builder.build())
}

/// Trust in the system's authorities. It reads a file, so no event loop of clients calls it. `directive` names the authorities
/// where the system has none.
///
/// # Errors
/// There is no such file, or it cannot be used.
pub fn of_system(directive: &str) -> Result<TrustStore, String> {
    of_first(&BUNDLES, directive)
}

fn of_first(bundles: &[&str], directive: &str) -> Result<TrustStore, String> {
    let found = bundles.iter().find_map(|path| Some((path, std::fs::read(Path::new(path)).ok()?)));
    let (path, pem) =
        found.ok_or_else(|| format!("the system has no certificates of CAs; {directive} says where they are"))?;
    of_pem(&pem, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bundle_that_there_is_counts() {
        let folder = freerun_testkit::TempDir::new("bundles");
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("good"), include_bytes!("../../../tls/tests/fixtures/ec.crt")).expect("written");
        std::fs::write(path("bad"), "no certificates").expect("written");
        let tried = |names: [&str; 2]| {
            of_first(&names.map(path).iter().map(String::as_str).collect::<Vec<_>>(), "ssl_trusted_certificate")
        };
        assert!(tried(["missing", "good"]).is_ok());
        assert!(tried(["bad", "good"]).err().is_some_and(|why| why.contains("bad")));
        assert!(tried(["missing", "missing too"]).err().is_some_and(|why| why.contains("ssl_trusted_certificate")));
    }
}
