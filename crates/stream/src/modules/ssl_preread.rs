//! `ssl_preread`: what a ClientHello says of a session that is passed on as it is.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_ssl_preread_module.html>

use std::borrow::Cow;
use std::cell::RefCell;

use freerun_conf::{SettingsSet, group, settings};
use freerun_proto::tls::is_tls;
use freerun_proto::tls::preread::{Preread, PrereadReader};
use freerun_serve::tls::client_facts::name_to_look_up;
use freerun_serve::values::{Variable, VariableValue};

use crate::module::Module;
use crate::path::named;
use crate::session::Session;
use crate::session::handler::{Handler, HandlerRun, Phase, PrereadProgress};

settings! {
    /// Variables from the ClientHello, without a TLS session.
    #[module = "stream/ssl_preread"]
    pub struct SslPrereadSettings {
        /// Whether the first message of a TLS session is read, for `$ssl_preread_server_name`, `$ssl_preread_protocol` and
        /// `$ssl_preread_alpn_protocols`.
        ///
        /// The bytes are passed on all the same. The server of the address whose `server_name` the client asks for has the
        /// session from then on.
        ssl_preread: bool = "off", in STREAM | STREAM_SERVER;
    }
}

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<SslPrereadSettings>().ssl_preread
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/ssl_preread",
    groups: &[group::<SslPrereadSettings>()],
    handlers: &[Handler { phase: Phase::Preread, wanted, run: HandlerRun::Preread(see) }],
    // As in nginx, these keep the values of their first use.
    variables: &[
        Variable::<Session>::named(
            "ssl_preread_alpn_protocols",
            "The protocols that the client offers by ALPN, joined by commas.",
            |session, _| known(session, |known| known.alpn.clone()),
        )
        .kept(),
        Variable::<Session>::named(
            "ssl_preread_protocol",
            "The highest version of TLS that the client offers, such as `TLSv1.3`.",
            |session, _| known(session, |known| known.protocol.as_bytes().to_vec()),
        )
        .kept(),
        Variable::<Session>::named(
            "ssl_preread_server_name",
            "The server that the client asks for by SNI.",
            |session, _| known(session, |known| known.server_name.clone()),
        )
        .kept(),
    ],
    ..Module::EMPTY
};

/// Facts from the first bytes of a session, which are, or may be, a TLS handshake.
#[derive(Default)]
struct HelloFacts {
    protocol: &'static str,
    server_name: Vec<u8>,
    alpn: Vec<u8>,
}

/// Progress of reading the first bytes. Without any bytes of TLS, the variables have no values.
#[derive(Default)]
struct PrereadState {
    reader: RefCell<PrereadReader>,
    known: RefCell<Option<HelloFacts>>,
}

fn see(session: &Session, bytes: &[u8]) -> PrereadProgress {
    let Some(first) = bytes.first() else { return PrereadProgress::NeedMore };
    if !is_tls(*first) {
        return PrereadProgress::Done;
    }
    let state = session.states.get::<PrereadState>();
    let Some(preread) = state.reader.borrow_mut().advance(bytes) else {
        state.known.borrow_mut().get_or_insert_default();
        return PrereadProgress::NeedMore;
    };
    if preread == Preread::default() {
        // It makes no sense: nothing is known.
        state.known.replace(None);
        return PrereadProgress::Done;
    }
    let known = HelloFacts::of(&preread, bytes);
    if let Some(name) = name_to_look_up(&known.server_name) {
        session.set_server(session.generation.server(&named(session, Some(&name))));
    }
    state.known.replace(Some(known));
    PrereadProgress::Done
}

impl HelloFacts {
    fn of(preread: &Preread, bytes: &[u8]) -> HelloFacts {
        let alpn: Vec<&[u8]> = preread.alpn(bytes).collect();
        HelloFacts {
            protocol: preread.protocol,
            server_name: preread.server_name(bytes).to_vec(),
            alpn: alpn.join(&b','),
        }
    }
}

fn known<'s>(session: &'s Session, value: impl FnOnce(&HelloFacts) -> Vec<u8>) -> VariableValue<'s> {
    let state = session.states.find::<PrereadState>()?;
    let known = state.known.borrow();
    known.as_ref().map(|known| Cow::Owned(value(known)))
}
