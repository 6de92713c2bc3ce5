//! HTTP/3 towards clients (RFC 9114), over QUIC (RFC 9000).
//!
//! Only freerun is tested here: nginx has HTTP/3 since 1.25, and the tests' nginx may be older.

mod connections;
mod floods;
mod moves;
mod networks;
mod priorities;
mod reloads;
mod requests;
mod sessions;
mod tunnels;
mod upgrades;
mod uploads;

use freerun_testkit::http3::Http3;
use freerun_testkit::{Setup, Site, TestServer};

/// The certificate of the servers here.
pub const PAIR: &str = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";

/// A configuration with one server of HTTP/3 on `@PORT2@`, which also is one of HTTP/1 on `@PORT@`, with these lines in its
/// block.
pub fn quic(site: &Site, lines: &str) -> Setup {
    quic_with(site, "", lines)
}

/// As [`quic`], with these lines before the server.
pub fn quic_with(site: &Site, before: &str, lines: &str) -> Setup {
    Setup::new().root(site).http(before).http(&format!(
        "server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ quic reuseport; server_name localhost; root @ROOT@;
                   {PAIR} {lines} }}"
    ))
}

/// A new connection.
#[track_caller]
pub fn connect(server: &TestServer) -> Http3 {
    Http3::connect(server.address_number(2))
}

/// Bytes that differ everywhere.
pub fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + place / 253) as u8).collect()
}
