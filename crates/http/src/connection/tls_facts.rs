//! What is known of the TLS of a client's connection besides its session.

use freerun_proto::tls::{NameForm, name_form};
use freerun_tls::verify::Verified;

/// What is known of the TLS of a client's connection besides its session, which the
/// [transport](freerun_transport::Transport) has.
#[derive(Debug)]
pub struct TlsFacts {
    /// The name that the client has asked for (SNI, RFC 6066 section 3), as it was sent: `$ssl_server_name`.
    pub asked_for: Option<Box<str>>,
    /// What came of the verification of the client's certificate (`ssl_verify_client`): none was sent, unless one was.
    pub verified: Verified,
    /// The ClientHello, if the configuration uses one of [`HELLO_VARIABLES`].
    pub hello: Option<Box<[u8]>>,
}

/// The variables whose values are made of the ClientHello.
pub const HELLO_VARIABLES: [&str; 5] = ["ssl_ciphers", "ssl_curves", "ssl_ja3_hash", "ssl_ja4", "ssl_sigalgs"];

impl Default for TlsFacts {
    fn default() -> TlsFacts {
        TlsFacts { asked_for: None, verified: Verified::None, hello: None }
    }
}

impl TlsFacts {
    /// The name that the client has asked for in the form that virtual servers are looked up by: in lower case, without a
    /// dot at its end. `None` if there is none, or it is no name of DNS.
    pub fn server_name(&self) -> Option<String> {
        let name = self.asked_for.as_deref().filter(|name| name_form(name.as_bytes()) == NameForm::Dns)?;
        Some(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())
    }
}
