//! Contents of a peer's certificate.

use crate::load::{KeyKind, MAX_PEER_CHAIN, names};
use freerun_sys::x509::Certificate;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use std::fmt::Write;

/// The certificate of a peer. It is some kilobytes of memory, so it is dropped when what is wanted of it is known.
#[derive(Debug, Clone)]
pub struct PeerCertificate(Certificate);

/// The length of a day, in seconds.
const DAY: i64 = 86_400;

impl PeerCertificate {
    /// Reads a certificate in DER. `None`: it is none, or too large.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        (der.len() <= MAX_PEER_CHAIN).then(|| Certificate::from_der(der).map(Self)).flatten()
    }

    /// `$ssl_client_s_dn`: the subject in the form of RFC 2253.
    pub fn subject(&self) -> String {
        self.0.subject()
    }

    /// `$ssl_client_i_dn`: the issuer in the form of RFC 2253.
    pub fn issuer(&self) -> String {
        self.0.issuer()
    }

    /// `$ssl_client_s_dn_legacy`: the subject in OpenSSL's old form.
    pub fn subject_legacy(&self) -> String {
        self.0.subject_legacy()
    }

    /// `$ssl_client_i_dn_legacy`: the issuer in OpenSSL's old form.
    pub fn issuer_legacy(&self) -> String {
        self.0.issuer_legacy()
    }

    /// `$ssl_client_serial`: the serial number in hexadecimal.
    pub fn serial(&self) -> String {
        self.0.serial()
    }

    /// `$ssl_client_fingerprint`: the SHA-1 hash in hexadecimal.
    pub fn fingerprint(&self) -> String {
        let mut text = String::with_capacity(40);
        for byte in self.0.sha1() {
            _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// `$ssl_client_v_start`: when it begins to be valid.
    pub fn begin_text(&self) -> String {
        self.0.begin_text()
    }

    /// `$ssl_client_v_end`: when it ends to be valid.
    pub fn end_text(&self) -> String {
        self.0.end_text()
    }

    /// The end of its validity, in seconds since 1970. `None`: its time cannot be read.
    pub fn end(&self) -> Option<i64> {
        self.0.end()
    }

    /// `$ssl_client_v_remain`: for how many whole days it is still valid, 0 if it is not. `None`: its time cannot be
    /// read, and the variable is empty. `now` is in seconds since 1970.
    pub fn remaining_days(&self, now: i64) -> Option<i64> {
        self.0.end().map(|end| (end.saturating_sub(now) / DAY).max(0))
    }

    /// `$ssl_client_raw_cert`: the certificate in PEM.
    pub fn pem(&self) -> String {
        self.0.to_pem()
    }

    /// `$ssl_client_cert`: the certificate in PEM without the end of its last line, with a tab before each line but the
    /// first.
    pub fn pem_with_tabs(&self) -> String {
        self.pem().trim_end().replace('\n', "\n\t")
    }

    /// `$ssl_client_escaped_cert`: the certificate in PEM, as a component of a URI.
    pub fn pem_escaped(&self) -> String {
        let pem = self.pem();
        let mut text = String::with_capacity(pem.len() * 11 / 10);
        for byte in pem.bytes() {
            if byte.is_ascii_alphanumeric() || byte == b'-' {
                text.push(char::from(byte));
            } else {
                _ = write!(text, "%{byte:02X}");
            }
        }
        text
    }

    /// Whether the certificate is for this host (`proxy_ssl_name`), by its DNS names, or by its common names if it has
    /// no DNS names. The text of an IP address is a name like others, as with nginx.
    pub fn matches_host(&self, host: &str) -> bool {
        self.0.matches_host(host)
    }

    /// The DNS names and IP addresses among the alternative names of the subject.
    pub fn names(&self) -> Vec<String> {
        names(&self.0)
    }

    /// The first common name of the subject that can be written in UTF-8, if there is one.
    pub fn common_name(&self) -> Option<Vec<u8>> {
        self.0.common_names().into_iter().next()
    }

    /// The kind of key that it is for.
    pub fn key_kind(&self) -> KeyKind {
        self.0.key_kind()
    }

    /// The public key in DER (`SubjectPublicKeyInfo`, RFC 5280 section 4.1.2.7).
    pub fn public_key_der(&self) -> Vec<u8> {
        self.0.public_key_der()
    }

    /// The locations of OCSP responders, as they are written in the certificate: anybody's bytes.
    pub fn ocsp_responders(&self) -> Vec<Vec<u8>> {
        self.0.ocsp_responders()
    }
}

/// Whether a certificate in DER is for a host by the rules of the Web (RFC 9525): by its alternative names alone, and an
/// address by the addresses among them.
pub fn is_for_host(certificate: &[u8], host: &str) -> bool {
    let Ok(host) = ServerName::try_from(host) else { return false };
    let certificate = CertificateDer::from(certificate);
    ParsedCertificate::try_from(&certificate).is_ok_and(|parsed| verify_server_name(&parsed, &host).is_ok())
}
