//! Answers to ACME challenges: pages for http-01 (RFC 8555, section 8.3), certificates for tls-alpn-01 (RFC 8737). With
//! them a CA makes sure that its customer controls a name.
//!
//! All event loops share the table and read it without a lock; whoever orders certificates writes to it.

use std::fmt;

use bytes::Bytes;
use freerun_proto::tls::ClientHello;
use freerun_tls::load::CertifiedKey;
use freerun_tls::session::{ServerConfig, ServerSettings};
use papaya::HashMap;

/// Folder of the pages for http-01.
pub const FOLDER: &[u8] = b"/.well-known/acme-challenge/";

/// The protocol that a client offers which looks at a challenge of tls-alpn-01.
const PROTOCOL: &[u8] = b"acme-tls/1";

/// The most answers of each kind. A name has one while its certificate is ordered.
pub const MOST: usize = 4096;

/// Reason why an answer was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    /// There are [`MOST`] already.
    #[error("there are too many challenges")]
    Full,
    /// A session cannot be made of the certificate.
    #[error("the certificate of the challenge cannot be used")]
    Certificate,
}

/// The answers to challenges that are known at this moment.
#[derive(Default)]
pub struct Challenges {
    pages: HashMap<String, Bytes>,
    sessions: HashMap<String, ServerConfig>,
}

impl fmt::Debug for Challenges {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Challenges({} pages, {} sessions)", self.pages.len(), self.sessions.len())
    }
}

impl Challenges {
    /// Answers requests for this token below [`FOLDER`] with this text from now on.
    ///
    /// # Errors
    /// There are too many.
    pub fn add_page(&self, token: &str, text: &str) -> Result<(), ChallengeError> {
        if self.pages.len() >= MOST {
            return Err(ChallengeError::Full);
        }
        self.pages.pin().insert(token.to_owned(), Bytes::copy_from_slice(text.as_bytes()));
        Ok(())
    }

    /// Forgets a token.
    pub fn remove_page(&self, token: &str) {
        self.pages.pin().remove(token);
    }

    /// Shows this certificate from now on to clients that ask for this name, which is in lower case, by the protocol
    /// `acme-tls/1`.
    ///
    /// # Errors
    /// There are too many, or the certificate cannot be used.
    pub fn add_certificate(&self, name: &str, certificate: CertifiedKey) -> Result<(), ChallengeError> {
        if self.sessions.len() >= MOST {
            return Err(ChallengeError::Full);
        }
        // Such a connection is never resumed.
        let settings = ServerSettings {
            keys: vec![certificate],
            alpn: vec![PROTOCOL.to_vec()],
            tickets: 0,
            ..ServerSettings::default()
        };
        let session = settings.build().map_err(|_| ChallengeError::Certificate)?;
        self.sessions.pin().insert(name.to_owned(), session);
        Ok(())
    }

    /// Forgets the certificate for a name.
    pub fn remove_certificate(&self, name: &str) {
        self.sessions.pin().remove(name);
    }

    /// The page for a path in normal form, if it is one of a challenge.
    pub fn page(&self, path: &[u8]) -> Option<Bytes> {
        let token = std::str::from_utf8(path.strip_prefix(FOLDER)?).ok()?;
        self.pages.pin().get(token).cloned()
    }

    /// The settings of a session with a client that looks at the challenge of a name: it offers `acme-tls/1` and no other
    /// protocol (RFC 8737, section 3). Such a connection is closed after the handshake.
    pub fn session(&self, hello: &ClientHello, message: &[u8]) -> Option<ServerConfig> {
        let mut offered = hello.alpn(message);
        if offered.next() != Some(PROTOCOL) || offered.next().is_some() {
            return None;
        }
        let name = std::str::from_utf8(hello.server_name(message)?).ok()?;
        self.sessions.pin().get(&name.to_ascii_lowercase()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use freerun_tls::issue::temporary;

    use super::*;

    #[test]
    fn pages_are_known_until_they_are_removed() {
        let challenges = Challenges::default();
        challenges.add_page("a-1", "a-1.key").expect("room");
        assert_eq!(challenges.page(b"/.well-known/acme-challenge/a-1").as_deref(), Some(&b"a-1.key"[..]));
        for other in [&b"/.well-known/acme-challenge/a-"[..], b"/.well-known/acme-challenge/", b"/a-1", b"\xff"] {
            assert_eq!(challenges.page(other), None);
        }
        challenges.remove_page("a-1");
        assert_eq!(challenges.page(b"/.well-known/acme-challenge/a-1"), None);
    }

    #[test]
    fn there_is_a_limit() {
        let challenges = Challenges::default();
        for number in 0..MOST {
            challenges.add_page(&number.to_string(), "").expect("room");
        }
        assert_eq!(challenges.add_page("one more", ""), Err(ChallengeError::Full));
        challenges.remove_page("0");
        assert_eq!(challenges.add_page("one more", ""), Ok(()));
    }

    /// A ClientHello of TLS 1.2 with these protocols and this server name.
    fn hello(name: &str, protocols: &[&str]) -> Vec<u8> {
        let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat();
        let names = sized(&[&[0][..], &sized(name.as_bytes())].concat());
        let list: Vec<u8> =
            protocols.iter().flat_map(|one| [&[one.len() as u8][..], one.as_bytes()].concat()).collect();
        let mut extensions = [&[0, 0][..], &sized(&names)].concat();
        if !list.is_empty() {
            extensions.extend([&[0, 16][..], &sized(&sized(&list))].concat());
        }
        let body = [&[3, 3][..], &[7; 32], &[0], &sized(&[0xc0, 0x2b]), &[1, 0], &sized(&extensions)].concat();
        [&[1, 0][..], &sized(&body)].concat()
    }

    #[test]
    fn a_session_is_for_a_known_name_and_for_the_protocol_alone() {
        let challenges = Challenges::default();
        let certificate = temporary(&["a.example".to_owned()], 1_790_000_000, 3600).expect("a certificate");
        challenges.add_certificate("a.example", certificate.certified().expect("a pair")).expect("room");
        let is_known = |name: &str, protocols: &[&str]| {
            let message = hello(name, protocols);
            let hello = ClientHello::parse(&message).expect("a hello");
            challenges.session(&hello, &message).is_some()
        };
        assert!(is_known("a.example", &["acme-tls/1"]) && is_known("A.Example", &["acme-tls/1"]));
        assert!(!is_known("b.example", &["acme-tls/1"]));
        assert!(!is_known("a.example", &["h2", "acme-tls/1"]) && !is_known("a.example", &["acme-tls/1", "h2"]));
        assert!(!is_known("a.example", &["h2"]) && !is_known("a.example", &[]));
        challenges.remove_certificate("a.example");
        assert!(!is_known("a.example", &["acme-tls/1"]));
    }
}
