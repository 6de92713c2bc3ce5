//! The variables of a client's TLS, for all services.
//!
//! <https://nginx.org/en/docs/http/ngx_http_ssl_module.html#variables>

use std::borrow::Cow;
use std::fmt::Write;
use std::marker::PhantomData;

use freerun_proto::tls::{ClientHello, Ja4, fingerprint};
use freerun_runtime::log::clock;
use freerun_tls::digest::sha256;
use freerun_tls::verify::PeerCertificate;
use md5::{Digest, Md5};

use crate::tls::agreed_session::AgreedSession;
pub use crate::values::subject::TlsSubject;
use crate::values::{Variable, VariableValue};

/// The variables `$ssl_…` of a kind of subject.
pub struct SslVariables<S>(PhantomData<fn(&S)>);

impl<S: TlsSubject> SslVariables<S> {
    /// The table of these variables. Those that need the ClientHello are named in
    /// [`HELLO_VARIABLES`](crate::tls::client_facts::HELLO_VARIABLES) too.
    pub const VARIABLES: &'static [Variable<S>] = &[
        Variable::named(
            "ssl_alpn_protocol",
            "The protocol that the handshake agreed on by ALPN, such as `h2`.",
            |r, _| agreed(r, |agreed| agreed.alpn.as_deref().map(<[u8]>::to_vec)),
        ),
        Variable::named("ssl_cipher", "The cipher suite of the connection, by OpenSSL's name.", |r, _| {
            agreed(r, |agreed| Some(agreed.cipher.into()))
        }),
        Variable::named(
            "ssl_ciphers",
            "The cipher suites that the client offered, joined by `:`; unknown ones in hexadecimal.",
            |r, _| offered(r, |hello, message| hello.cipher_names(message).to_string()),
        ),
        Variable::named(
            "ssl_client_cert",
            "The client's certificate in PEM, each line but the first one indented by a tab. \
             `$ssl_client_escaped_cert` suits fields of requests better.",
            |r, _| client(r, |certificate| certificate.pem_with_tabs()),
        ),
        Variable::named("ssl_client_escaped_cert", "The client's certificate in PEM, percent-encoded.", |r, _| {
            client(r, |certificate| certificate.pem_escaped())
        }),
        Variable::named(
            "ssl_client_fingerprint",
            "The SHA-1 fingerprint of the client's certificate, in hexadecimal.",
            |r, _| client(r, |certificate| certificate.fingerprint()),
        ),
        Variable::named("ssl_client_i_dn", "The issuer of the client's certificate, as RFC 2253 writes it.", |r, _| {
            client(r, |certificate| certificate.issuer())
        }),
        Variable::named(
            "ssl_client_i_dn_legacy",
            "The issuer of the client's certificate, as nginx before 1.11.6 wrote it: `/C=…/O=…`.",
            |r, _| client(r, |certificate| certificate.issuer_legacy()),
        ),
        Variable::named("ssl_client_raw_cert", "The client's certificate in PEM.", |r, _| {
            client(r, |certificate| certificate.pem())
        }),
        Variable::named(
            "ssl_client_s_dn",
            "The subject of the client's certificate, as RFC 2253 writes it.",
            |r, _| client(r, |certificate| certificate.subject()),
        ),
        Variable::named(
            "ssl_client_s_dn_legacy",
            "The subject of the client's certificate, as nginx before 1.11.6 wrote it: `/C=…/O=…`.",
            |r, _| client(r, |certificate| certificate.subject_legacy()),
        ),
        Variable::named(
            "ssl_client_serial",
            "The serial number of the client's certificate, in hexadecimal.",
            |r, _| client(r, |certificate| certificate.serial()),
        ),
        Variable::named("ssl_client_v_end", "When the client's certificate ends.", |r, _| {
            client(r, |certificate| certificate.end_text())
        }),
        Variable::named(
            "ssl_client_v_remain",
            "How many days are left before the client's certificate ends.",
            |r, _| {
                let now = clock::now().secs;
                client(r, |certificate| certificate.remaining_days(now).unwrap_or(0).to_string())
            },
        ),
        Variable::named("ssl_client_v_start", "When the client's certificate begins.", |r, _| {
            client(r, |certificate| certificate.begin_text())
        }),
        Variable::named(
            "ssl_client_verify",
            "Whether the client's certificate was verified: `SUCCESS`, `FAILED:reason`, or `NONE` if there was none.",
            |r, _| Some(Cow::Owned(r.tls_facts()?.verified().variable().into_owned().into_bytes())),
        ),
        Variable::named("ssl_curve", "The group that the keys were agreed on with, such as `X25519`.", |r, _| {
            agreed(r, |agreed| Some(agreed.group.into()))
        }),
        Variable::named(
            "ssl_curves",
            "The groups that the client offered, joined by `:`; unknown ones in hexadecimal.",
            |r, _| offered(r, |hello, message| hello.group_names(message).to_string()),
        ),
        Variable::named(
            "ssl_early_data",
            "`1` if the request came as early data of TLS 1.3 before the handshake was complete; empty otherwise.",
            |r, _| agreed(r, |agreed| agreed.is_early.then(|| b"1".to_vec())),
        ),
        Variable::named(
            "ssl_ech_outer_server_name",
            "The public name of Encrypted Client Hello. It has no value here, as no handshake uses it.",
            |_, _| None,
        ),
        Variable::named(
            "ssl_ech_status",
            "How Encrypted Client Hello went. It has no value here, as no handshake uses it.",
            |_, _| None,
        ),
        Variable::named(
            "ssl_ja3_hash",
            "The JA3 fingerprint of what the client offered: an MD5 in hexadecimal.",
            |r, _| offered(r, ja3_hash),
        ),
        Variable::named("ssl_ja4", "The JA4 fingerprint of what the client offered.", |r, _| {
            offered(r, |hello, message| Ja4::of(hello, message).hashed(sha256))
        }),
        Variable::named("ssl_protocol", "The version of TLS: `TLSv1.2` or `TLSv1.3`.", |r, _| {
            agreed(r, |agreed| Some(agreed.version.name().into()))
        }),
        Variable::named("ssl_server_name", "The server that the client asked for by SNI.", |r, _| {
            r.tls_facts()?.asked_for.as_deref().map(Cow::Borrowed)
        }),
        Variable::named("ssl_session_id", "The identifier of the TLS session, in hexadecimal.", |r, _| {
            agreed(r, |agreed| {
                let id = agreed.session_id?;
                Some(id.as_bytes().iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
            })
        }),
        Variable::named("ssl_session_reused", "`r` if the session was resumed; `.` otherwise.", |r, _| {
            agreed(r, |agreed| Some(if agreed.is_resumed { b"r".to_vec() } else { b".".to_vec() }))
        }),
        Variable::named("ssl_sigalgs", "The signature algorithms that the client offered, joined by `:`.", |r, _| {
            offered(r, |hello, message| hello.signature_names(message).to_string())
        }),
    ];
}

/// A value of what was agreed on.
fn agreed<S: TlsSubject>(subject: &S, value: impl FnOnce(&AgreedSession) -> Option<Vec<u8>>) -> VariableValue<'_> {
    value(&*subject.tls_facts()?.agreed()?).map(Cow::Owned)
}

/// A value of what the client's certificate says.
fn client<S: TlsSubject>(subject: &S, value: impl FnOnce(&PeerCertificate) -> String) -> VariableValue<'_> {
    let agreed = subject.tls_facts()?.agreed()?;
    let certificate = PeerCertificate::from_der(agreed.own_certificate()?)?;
    Some(Cow::Owned(value(&certificate).into_bytes()))
}

/// A value of what the client has offered.
fn offered<S: TlsSubject>(subject: &S, value: impl FnOnce(&ClientHello, &[u8]) -> String) -> VariableValue<'_> {
    let message = subject.tls_facts()?.hello.as_deref()?;
    let hello = ClientHello::parse(message).ok()?;
    Some(Cow::Owned(value(&hello, message).into_bytes()))
}

fn ja3_hash(hello: &ClientHello, message: &[u8]) -> String {
    let mut hash = String::with_capacity(32);
    for byte in Md5::digest(fingerprint::ja3(hello, message).as_bytes()) {
        // Writing to a string does not fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}
