//! Options of a client.

use super::forgery::{ForgedFrames, ForgingConfig};
use crate::{Tls, TlsVersion};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, IdleTimeout, NoneTokenStore, TokenMemoryCache, TransportConfig, VarInt};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Options of a client. By default it names `localhost`, trusts everybody, resumes nothing, and takes as much as comes. Clones
/// share the sessions and tokens that are kept.
#[derive(Clone)]
pub struct Http3Options {
    pub(super) tls: Tls,
    pub(super) tokens: Option<Arc<TokenMemoryCache>>,
    pub(super) authority: String,
    pub(super) bind: Option<IpAddr>,
    pub(super) is_bare: bool,
    pub(super) table: u32,
    pub(super) blocking: u16,
    stream_window: u32,
    connection_window: u32,
    idle: Duration,
    alive: Option<Duration>,
    pub(super) forged: Option<ForgedFrames>,
}

impl Default for Http3Options {
    fn default() -> Http3Options {
        Http3Options::new()
    }
}

impl Http3Options {
    /// The default options.
    pub fn new() -> Http3Options {
        Http3Options {
            tls: Tls::new().only(TlsVersion::V13).alpn(&["h3"]),
            tokens: None,
            authority: "localhost".to_owned(),
            bind: None,
            is_bare: false,
            table: 4096,
            blocking: 0,
            stream_window: 8 << 20,
            connection_window: 16 << 20,
            idle: Duration::from_secs(120),
            alive: None,
            forged: None,
        }
    }

    /// Changes the options of the session.
    pub fn tls(mut self, change: impl FnOnce(Tls) -> Tls) -> Http3Options {
        self.tls = change(self.tls);
        self
    }

    /// Asks for the server of this name, in the session and in requests.
    pub fn name(self, name: &str) -> Http3Options {
        Http3Options { authority: name.to_owned(), ..self }.tls(|tls| tls.name(name))
    }

    /// Keeps sessions and address tokens from now on. A session is resumed, with early data if the server allows it.
    pub fn resuming(self) -> Http3Options {
        Http3Options { tokens: Some(Arc::default()), ..self }.tls(|tls| tls.resuming().early([]))
    }

    /// Lets the server send this many bytes on a stream, and on all streams together, before the client reads them.
    pub fn windows(mut self, stream: u32, connection: u32) -> Http3Options {
        (self.stream_window, self.connection_window) = (stream, connection);
        self
    }

    /// Lets the server fill a table of fields of this size; 0 for none.
    pub fn table(self, size: u32) -> Http3Options {
        Http3Options { table: size, ..self }
    }

    /// Lets this many requests refer to entries of the server's table that are still on their way.
    pub fn blocking(self, streams: u16) -> Http3Options {
        Http3Options { blocking: streams, ..self }
    }

    /// Takes the server for gone when nothing came for this long.
    pub fn idle(self, time: Duration) -> Http3Options {
        Http3Options { idle: time, ..self }
    }

    /// Sends something when nothing was sent for this long: behind a router that changes ports, a client that only receives
    /// would not be heard of again.
    pub fn alive(self, time: Duration) -> Http3Options {
        Http3Options { alive: Some(time), ..self }
    }

    /// Sends from this address.
    pub fn from(self, address: IpAddr) -> Http3Options {
        Http3Options { bind: Some(address), ..self }
    }

    /// Opens no streams by itself: the test writes what the control stream has.
    pub fn bare(self) -> Http3Options {
        Http3Options { is_bare: true, ..self }
    }

    /// Lets the test write frames of QUIC, for one connection.
    pub fn forging(self) -> Http3Options {
        Http3Options { forged: Some(ForgedFrames::default()), ..self }
    }

    /// The options for the library.
    pub(super) fn config(&self) -> ClientConfig {
        let crypto = QuicClientConfig::try_from(self.tls.config()).expect("a suite for the first packets");
        let mut transport = TransportConfig::default();
        let idle = IdleTimeout::try_from(self.idle).unwrap_or(IdleTimeout::from(VarInt::MAX));
        transport
            .stream_receive_window(self.stream_window.into())
            .receive_window(self.connection_window.into())
            .max_concurrent_uni_streams(16_u32.into())
            .max_idle_timeout(Some(idle))
            .keep_alive_interval(self.alive)
            .datagram_receive_buffer_size(None);
        let mut config = match &self.forged {
            Some(frames) => {
                ClientConfig::new(Arc::new(ForgingConfig { config: Arc::new(crypto), frames: frames.clone() }))
            }
            None => ClientConfig::new(Arc::new(crypto)),
        };
        config.transport_config(Arc::new(transport));
        match &self.tokens {
            Some(tokens) => config.token_store(tokens.clone()),
            None => config.token_store(Arc::new(NoneTokenStore)),
        };
        config
    }
}
