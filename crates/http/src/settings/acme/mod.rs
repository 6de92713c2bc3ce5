//! Certificates from a CA by ACME: `acme_issuer`, `acme_certificate`, `ssl_certificate auto`.
//!
//! Here they are read; what is wanted of them becomes a part of the generation ([`WantedCertificates`]), and a module does the rest.
//!
//! <https://nginx.org/en/docs/http/ngx_http_acme_module.html>

mod account;
mod certificate;
pub mod issuer;
mod wanted_certificates;

use std::sync::{Arc, OnceLock};

use freerun_acme::CertificateSettings;
use freerun_conf::{Cx, Node, Problem, Shape, Value, settings};
use freerun_serve::configuration::zones::ZoneName;

pub use certificate::AcmeCertificate;
pub(super) use wanted_certificates::live;
pub use wanted_certificates::{DeclaredIssuers, OfServer, WantedCertificate, WantedCertificates, of_server};

settings! {
    /// Certificates from a CA by ACME (RFC 8555).
    #[module = "acme"]
    pub struct AcmeSettings {
        /// Orders a certificate of an issuer for these identifiers: host names, or addresses (RFC 8738). Without identifiers it
        /// is for the server's names.
        ///
        /// `ssl_certificate $acme_certificate;` with `ssl_certificate_key $acme_certificate_key;` uses it. Until it has come, the
        /// server shows a temporary certificate, which nobody trusts; after a restart the one from `state_path` is there at
        /// once. It is renewed in time, when the CA says (RFC 9773) or after two thirds of its life, without a reload. Servers
        /// that want the same certificate of the same issuer share it. The next order comes an hour after a certificate at the
        /// earliest, or after half of its life if that is shorter.
        ///
        /// Wildcards and regular expressions are no identifiers; of the name `.example.com` the certificate is for
        /// `example.com` alone. `key=` is the kind of its key: `ecdsa:256` by default, `ecdsa:384`, `ecdsa:521`, `rsa:2048`,
        /// `rsa:3072` or `rsa:4096`.
        acme_certificate: Option<AcmeCertificate>, in SERVER;
        /// Names the memory for certificates, keys and challenges.
        acme_shared_zone: AcmeZone = "zone=ngx_acme_shared:256k", in HTTP, fidelity = NoEffect("all is shared without a zone, and has limits of its own");
    }
}

/// The value of `acme_shared_zone`.
#[derive(Debug, Clone)]
pub struct AcmeZone;

impl Value for AcmeZone {
    const SHAPE: Shape = Shape::exactly(1, "zone=name:size");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<AcmeZone, Problem> {
        let word = &directive.args[0];
        let value = word.text.strip_prefix("zone=").ok_or_else(|| Problem::invalid_parameter(directive, word))?;
        ZoneName::parse(directive, word, value).map(|_| AcmeZone)
    }
}

/// A certificate that a server wants: which one, once that is known.
pub type WantedOnce = Arc<OnceLock<CertificateSettings>>;
