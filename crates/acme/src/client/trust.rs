//! Whether the CA's own server is trusted.

use std::path::Path;

use freerun_serve::tls::handshake::outgoing_session::{NameRule, OutgoingTls, Verification};
use freerun_tls::session::ClientSettings;
use freerun_tls::verify::{DEFAULT_LEVEL, TrustBuilder, TrustStore};

use crate::settings::IssuerSettings;

/// Files in which systems keep the certificates that they trust: Debian, Fedora, openSUSE, Alpine.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// The most certificates between the CA's server and a trusted certificate.
const DEPTH: u32 = 10;

/// The settings of a TLS connection to the CA's server of this name. It is verified as other servers are
/// (`proxy_ssl_verify`), and its name or address by the rules of the Web. The system's certificates are read anew for each
/// connection, because orders are rare and the certificates change.
pub(super) fn outgoing_tls(settings: &IssuerSettings, name: &str) -> Result<OutgoingTls, String> {
    let trust = match (&settings.trusted, settings.verify) {
        (_, false) => None,
        (Some(pem), true) => Some(trust(pem, "ssl_trusted_certificate")?),
        (None, true) => Some(system(&BUNDLES)?),
    };
    let verification = trust.map(|trust| Verification {
        trust,
        depth: DEPTH,
        level: DEFAULT_LEVEL,
        name: name.to_owned(),
        rule: NameRule::Web,
    });
    let config = ClientSettings::default().build().map_err(|error| error.to_string())?;
    Ok(OutgoingTls { config, server_name: Some(name.to_owned()), sessions: None, verification })
}

fn trust(pem: &[u8], from: &str) -> Result<TrustStore, String> {
    let mut builder = TrustBuilder::default();
    builder.add_trusted_certificates(pem).map_err(|error| error.words(from))?;
    Ok(builder.build())
}

fn system(bundles: &[&str]) -> Result<TrustStore, String> {
    let found = bundles.iter().find_map(|path| Some((path, std::fs::read(Path::new(path)).ok()?)));
    let (path, pem) =
        found.ok_or("the system has no certificates of CAs; ssl_trusted_certificate says where they are")?;
    trust(&pem, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bundle_that_there_is_counts() {
        let folder = freerun_testkit::TempDir::new("bundles");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let pem = rcgen::generate_simple_self_signed(["a.example".to_owned()]).expect("a certificate").cert.pem();
        std::fs::write(path("good"), pem).expect("written");
        std::fs::write(path("bad"), "no certificates").expect("written");
        let tried = |names: [&str; 2]| system(&names.map(path).iter().map(String::as_str).collect::<Vec<_>>());
        assert!(tried(["missing", "good"]).is_ok());
        assert!(tried(["bad", "good"]).err().is_some_and(|why| why.contains("bad")));
        assert!(tried(["missing", "missing too"]).err().is_some_and(|why| why.contains("ssl_trusted_certificate")));
    }
}
