//! Servers of TLS for the tests here and in `tests/requests`.

use freerun_testkit::{Setup, Site};

/// A configuration with one server on `@PORT@` that speaks TLS with the certificate `ec`, with these lines in its block.
pub fn secure(site: &Site, lines: &str) -> Setup {
    secure_with(site, "ec", lines)
}

/// As [`secure`], with another certificate.
pub fn secure_with(site: &Site, certificate: &str, lines: &str) -> Setup {
    Setup::new().root(site).http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; root @ROOT@;
                   ssl_certificate @CERTS@/{certificate}.crt; ssl_certificate_key @CERTS@/{certificate}.key;
                   ssl_protocols TLSv1.2 TLSv1.3; {lines} }}"
    ))
}
