//! Servers of HTTP/2 for the tests here and in `tests/requests`, and what they serve.

use freerun_testkit::http2::Http2;
use freerun_testkit::{Setup, Site, TestServer};

/// A configuration with one server of HTTP/2 in the clear on `@PORT@`, with these lines in its block.
pub fn plain(site: &Site, lines: &str) -> Setup {
    Setup::new()
        .root(site)
        .http(&format!("server {{ listen 127.0.0.1:@PORT@ http2; server_name localhost; root @ROOT@; {lines} }}"))
}

/// A configuration with one server of HTTP/2 over TLS on `@PORT@`, with these lines in its block.
pub fn secure(site: &Site, lines: &str) -> Setup {
    Setup::new().root(site).http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl http2; server_name localhost; root @ROOT@;
                   ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
                   ssl_protocols TLSv1.2 TLSv1.3; {lines} }}"
    ))
}

/// A new connection of HTTP/2 in the clear, with empty SETTINGS.
#[track_caller]
pub fn connect(server: &TestServer) -> Http2 {
    Http2::new(server.connect())
}

/// Bytes that differ everywhere.
pub fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + place / 253) as u8).collect()
}
