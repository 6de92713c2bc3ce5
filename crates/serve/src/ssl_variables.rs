//! The variables of a client's TLS, for all services.
//!
//! <https://nginx.org/en/docs/http/ngx_http_ssl_module.html#variables>

use std::borrow::Cow;
use std::fmt::Write;
use std::marker::PhantomData;

use freerun_proto::tls::{ClientHello, Ja4, fingerprint};
use freerun_runtime::log::clock;
use freerun_tls::digest::sha256;
use freerun_tls::session::Agreed;
use freerun_tls::verify::PeerCertificate;
use md5::{Digest, Md5};

pub use crate::subject::TlsSubject;
use crate::values::{Value, Variable};

/// The variables `$ssl_…` of a kind of subject.
pub struct SslVariables<S>(PhantomData<fn(&S)>);

impl<S: TlsSubject> SslVariables<S> {
    /// The table of these variables. Those that need the ClientHello are named in
    /// [`HELLO_VARIABLES`](crate::tls::client_facts::HELLO_VARIABLES) too.
    pub const VARIABLES: &'static [Variable<S>] = &[
        Variable::named("ssl_alpn_protocol", |r, _| agreed(r, |agreed| agreed.alpn.map(<[u8]>::to_vec))),
        Variable::named("ssl_cipher", |r, _| agreed(r, |agreed| Some(agreed.cipher.into()))),
        Variable::named("ssl_ciphers", |r, _| offered(r, |hello, message| hello.cipher_names(message).to_string())),
        Variable::named("ssl_client_cert", |r, _| client(r, |certificate| certificate.pem_with_tabs())),
        Variable::named("ssl_client_escaped_cert", |r, _| client(r, |certificate| certificate.pem_escaped())),
        Variable::named("ssl_client_fingerprint", |r, _| client(r, |certificate| certificate.fingerprint())),
        Variable::named("ssl_client_i_dn", |r, _| client(r, |certificate| certificate.issuer())),
        Variable::named("ssl_client_i_dn_legacy", |r, _| client(r, |certificate| certificate.issuer_legacy())),
        Variable::named("ssl_client_raw_cert", |r, _| client(r, |certificate| certificate.pem())),
        Variable::named("ssl_client_s_dn", |r, _| client(r, |certificate| certificate.subject())),
        Variable::named("ssl_client_s_dn_legacy", |r, _| client(r, |certificate| certificate.subject_legacy())),
        Variable::named("ssl_client_serial", |r, _| client(r, |certificate| certificate.serial())),
        Variable::named("ssl_client_v_end", |r, _| client(r, |certificate| certificate.end_text())),
        Variable::named("ssl_client_v_remain", |r, _| {
            let now = clock::now().secs;
            client(r, |certificate| certificate.remaining_days(now).unwrap_or(0).to_string())
        }),
        Variable::named("ssl_client_v_start", |r, _| client(r, |certificate| certificate.begin_text())),
        Variable::named("ssl_client_verify", |r, _| {
            Some(Cow::Owned(r.tls_facts()?.verified().variable().into_owned().into_bytes()))
        }),
        Variable::named("ssl_curve", |r, _| agreed(r, |agreed| Some(agreed.group.into()))),
        Variable::named("ssl_curves", |r, _| offered(r, |hello, message| hello.group_names(message).to_string())),
        Variable::named("ssl_early_data", |r, _| agreed(r, |agreed| agreed.early_data.then(|| b"1".to_vec()))),
        Variable::named("ssl_ech_outer_server_name", |_, _| None),
        Variable::named("ssl_ech_status", |_, _| None),
        Variable::named("ssl_ja3_hash", |r, _| offered(r, ja3_hash)),
        Variable::named("ssl_ja4", |r, _| offered(r, |hello, message| Ja4::of(hello, message).hashed(sha256))),
        Variable::named("ssl_protocol", |r, _| agreed(r, |agreed| Some(agreed.version.name().into()))),
        Variable::named("ssl_server_name", |r, _| {
            r.tls_facts()?.asked_for.as_deref().map(|name| Cow::Borrowed(name.as_bytes()))
        }),
        Variable::named("ssl_session_id", |r, _| {
            agreed(r, |agreed| {
                agreed.session_id.map(|id| id.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
            })
        }),
        Variable::named("ssl_session_reused", |r, _| {
            agreed(r, |agreed| Some(if agreed.resumed { b"r".to_vec() } else { b".".to_vec() }))
        }),
        Variable::named("ssl_sigalgs", |r, _| offered(r, |hello, message| hello.signature_names(message).to_string())),
    ];
}

/// A value of what was agreed on.
fn agreed<S: TlsSubject>(subject: &S, value: impl FnOnce(Agreed<'_>) -> Option<Vec<u8>>) -> Value<'_> {
    subject.tls_stream()?.with_agreed(value).flatten().map(Cow::Owned)
}

/// A value of what the client's certificate says.
fn client<S: TlsSubject>(subject: &S, value: impl FnOnce(&PeerCertificate) -> String) -> Value<'_> {
    let own = subject.tls_stream()?.with_session(|session| {
        let own = session.peer_certificates().next()?;
        PeerCertificate::from_der(own)
    });
    own.flatten().map(|certificate| Cow::Owned(value(&certificate).into_bytes()))
}

/// A value of what the client has offered.
fn offered<S: TlsSubject>(subject: &S, value: impl FnOnce(&ClientHello, &[u8]) -> String) -> Value<'_> {
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
