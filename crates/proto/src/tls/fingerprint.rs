//! Fingerprints of clients, from what they offer: JA3 and JA4.
//!
//! Random values (RFC 8701) are left out of both. The caller gets the bytes to hash, because it has the hash functions.

use std::fmt::Write;

use super::hello::{ClientHello, ExtensionType};
use super::is_grease;

/// The text whose MD5 in hexadecimal is the JA3 of a client: version, cipher suites, extensions, groups and formats of
/// points. They are decimal numbers in the order sent, `-` between the numbers of a list and `,` between the lists.
pub fn ja3(hello: &ClientHello, message: &[u8]) -> String {
    let mut text = hello.legacy_version.to_string();
    let ids = |text: &mut String, ids: &mut dyn Iterator<Item = u16>| {
        text.push(',');
        for (number, id) in ids.filter(|&id| !is_grease(id)).enumerate() {
            let dash = if number == 0 { "" } else { "-" };
            let _ = write!(text, "{dash}{id}");
        }
    };
    ids(&mut text, &mut hello.cipher_suites(message));
    ids(&mut text, &mut hello.extensions(message).map(|(kind, _)| kind));
    ids(&mut text, &mut hello.groups(message));
    let formats = hello.ec_point_formats.unwrap_or_default().of(message);
    ids(&mut text, &mut formats.iter().map(|&format| format.into()));
    text
}

/// The JA4 of a client of TLS over TCP, as FoxIO describes it, in its three parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ja4 {
    /// Transport, version, whether there is a server's name, numbers of cipher suites and extensions, and the ends of the
    /// first application protocol.
    pub a: String,
    /// The cipher suites in hexadecimal, sorted.
    pub ciphers: String,
    /// The extensions but `server_name` and ALPN in hexadecimal, sorted; then, behind a `_`, the signature schemes as sent.
    pub extensions: String,
}

impl Ja4 {
    /// The fingerprint of a client.
    pub fn of(hello: &ClientHello, message: &[u8]) -> Ja4 {
        let sorted = |ids: &mut dyn Iterator<Item = u16>| {
            let mut ids: Vec<u16> = ids.filter(|&id| !is_grease(id)).collect();
            ids.sort_unstable();
            ids
        };
        let ciphers = sorted(&mut hello.cipher_suites(message));
        let mut extensions = sorted(&mut hello.extensions(message).map(|(kind, _)| kind));
        let a = format!(
            "t{}{}{:02}{:02}{}",
            version(hello, message),
            if hello.server_name.is_some() { 'd' } else { 'i' },
            ciphers.len().min(99),
            extensions.len().min(99),
            protocol_ends(hello.alpn(message).next().unwrap_or_default()),
        );
        extensions.retain(|&kind| ![ExtensionType::SERVER_NAME, ExtensionType::ALPN].contains(&ExtensionType(kind)));
        let mut extensions = hex_list(extensions.into_iter());
        let schemes = hex_list(hello.signature_algorithms(message).filter(|&scheme| !is_grease(scheme)));
        if !schemes.is_empty() {
            extensions.push('_');
            extensions.push_str(&schemes);
        }
        Ja4 { a, ciphers: hex_list(ciphers.into_iter()), extensions }
    }

    /// The fingerprint; `sha256` hashes two parts of it.
    pub fn hashed(&self, sha256: impl Fn(&[u8]) -> [u8; 32]) -> String {
        let mut text = self.a.clone();
        for part in [&self.ciphers, &self.extensions] {
            text.push('_');
            // Nothing is not hashed, so that it is seen to be nothing. There are no schemes without their extension.
            let hash = if part.is_empty() { [0; 32] } else { sha256(part.as_bytes()) };
            for byte in &hash[..6] {
                let _ = write!(text, "{byte:02x}");
            }
        }
        text
    }

    /// The fingerprint without hashes, `JA4_r`.
    pub fn raw(&self) -> String {
        format!("{}_{}_{}", self.a, self.ciphers, self.extensions)
    }
}

/// The highest version, in two characters. `legacy_version` counts as it is where there is no other.
fn version(hello: &ClientHello, message: &[u8]) -> &'static str {
    let version = match hello.supported_versions {
        Some(_) => hello.highest_version(message),
        None => Some(hello.legacy_version),
    };
    match version {
        Some(0x0304) => "13",
        Some(0x0303) => "12",
        Some(0x0302) => "11",
        Some(0x0301) => "10",
        Some(0x0300) => "s3",
        _ => "00",
    }
}

/// The first and the last character of a protocol's name; of its hexadecimal form, where one of these bytes is neither a
/// letter nor a digit.
fn protocol_ends(name: &[u8]) -> String {
    let (Some(&first), Some(&last)) = (name.first(), name.last()) else { return "00".to_owned() };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [first, last].map(char::from).iter().collect();
    }
    format!("{:x}{:x}", first >> 4, last & 15)
}

fn hex_list(ids: impl Iterator<Item = u16>) -> String {
    let mut text = String::new();
    for (number, id) in ids.enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{id:04x}");
    }
    text
}
