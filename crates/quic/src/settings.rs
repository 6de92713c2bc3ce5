//! The settings of connections.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quinn_proto::crypto::ServerConfig as ServerCrypto;
use quinn_proto::{
    EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TokenLog, TokenReuseError, TransportConfig,
    ValidationTokenConfig, VarInt,
};

use crate::congestion::BoundedCubicConfig;
use crate::connection_id::{ConnectionIds, PlaceIds};
use crate::keys::QuicKeys;

/// The time for which the token of a Retry packet is good. It is longer than nginx's 3 s: a client behind a slow path may
/// have to send its packet again.
const RETRY_TOKEN: Duration = Duration::from_secs(15);

/// The time for which a token for later connections is good, as in nginx.
const LATER_TOKEN: Duration = Duration::from_secs(600);

/// Number of tokens for later connections that a client gets, as from nginx.
const LATER_TOKENS: u32 = 1;

/// Number of streams in one direction that the peer may have: three that HTTP/3 needs, and some that mean nothing
/// (RFC 9114 section 6.2.3).
const UNIDIRECTIONAL: u32 = 8;

/// Number of connection IDs that a client may give, as the library has it.
const ACTIVE_IDS: u64 = 5;

/// The most bytes that are kept until the other side has acknowledged them, before anything else is said.
const FIRST_SEND_WINDOW: u64 = 64 << 10;

/// The most bytes of datagrams that are kept until a ClientHello is whole and its settings are known.
const MOST_WAITING: u64 = 96 << 10;

/// The length of the longest datagram that is tried: the 1500 bytes of Ethernet, less the headers of UDP and of IPv4 or IPv6.
const LONGEST_IPV4: u16 = 1500 - 28;
const LONGEST_IPV6: u16 = 1500 - 48;

/// The step in bytes from which on longer datagrams are still looked for. DSL leaves paths 1492 bytes, so these are found.
const DATAGRAM_STEP: u16 = 8;

/// Settings of connections of one side.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConnectionSettings {
    /// Number of streams in both directions that the peer may have at once; a server has none with a client.
    pub max_streams: u32,
    /// The most bytes that the peer may send on one stream before they are read.
    pub stream_window: u32,
    /// The most bytes that the peer may send on all streams before they are read.
    pub connection_window: u32,
    /// The time without any datagram from the peer after which a connection ends.
    pub idle_timeout: Duration,
    /// Whether the kernel may cut several datagrams out of one message.
    pub gso: bool,
    /// Whether the peer has an address of IPv4, whose header is shorter.
    pub is_ipv4: bool,
}

/// The longest time without a datagram of a connection whose settings are not chosen yet.
const IDLE: Duration = Duration::from_secs(75);

impl Default for ConnectionSettings {
    /// The settings of a connection before a server is chosen.
    fn default() -> ConnectionSettings {
        ConnectionSettings {
            max_streams: 128,
            stream_window: 256 << 10,
            connection_window: 2 << 20,
            idle_timeout: IDLE,
            gso: true,
            is_ipv4: false,
        }
    }
}

impl ConnectionSettings {
    /// The limits that a client remembers for early data (RFC 9000 section 7.4.1).
    pub fn limits(&self) -> [u64; 5] {
        let ConnectionSettings { max_streams, stream_window, connection_window, .. } = *self;
        [max_streams.into(), UNIDIRECTIONAL.into(), stream_window.into(), connection_window.into(), ACTIVE_IDS]
    }

    /// The settings for the library.
    pub fn transport(&self) -> Arc<TransportConfig> {
        let mut transport = TransportConfig::default();
        let mut sizes = MtuDiscoveryConfig::default();
        sizes.upper_bound(if self.is_ipv4 { LONGEST_IPV4 } else { LONGEST_IPV6 }).minimum_change(DATAGRAM_STEP);
        transport
            .mtu_discovery_config(Some(sizes))
            .max_concurrent_bidi_streams(self.max_streams.into())
            .max_concurrent_uni_streams(UNIDIRECTIONAL.into())
            .stream_receive_window(self.stream_window.into())
            .receive_window(self.connection_window.into())
            .datagram_receive_buffer_size(None)
            .congestion_controller_factory(Arc::new(BoundedCubicConfig))
            .send_window(FIRST_SEND_WINDOW)
            .enable_segmentation_offload(self.gso);
        let most = IdleTimeout::try_from(self.idle_timeout).unwrap_or(IdleTimeout::from(VarInt::MAX));
        // No limit is a limit of 0 (RFC 9000 section 18.2).
        transport.max_idle_timeout(Some(most).filter(|_| !self.idle_timeout.is_zero()));
        Arc::new(transport)
    }
}

/// Tokens for later connections may be used several times, as with nginx.
struct ReusableTokens;

impl TokenLog for ReusableTokens {
    fn check_and_insert(&self, _: u128, _: SystemTime, _: Duration) -> Result<(), TokenReuseError> {
        Ok(())
    }
}

/// The settings of a server for one connection.
pub fn server(keys: &QuicKeys, crypto: Arc<dyn ServerCrypto>, transport: Arc<TransportConfig>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::new(crypto, keys.token.clone());
    let mut later = ValidationTokenConfig::default();
    later.lifetime(LATER_TOKEN).sent(LATER_TOKENS).log(Arc::new(ReusableTokens));
    config
        .transport_config(transport)
        .retry_token_lifetime(RETRY_TOKEN)
        .validation_token_config(later)
        .max_incoming(1)
        .incoming_buffer_size(MOST_WAITING)
        .incoming_buffer_size_total(MOST_WAITING);
    Arc::new(config)
}

/// The settings of the endpoint of the connection at this place.
pub fn endpoint(keys: &QuicKeys, ids: &ConnectionIds, place: u32) -> Arc<EndpointConfig> {
    let mut config = EndpointConfig::new(keys.reset.clone());
    let ids = ids.clone();
    config
        .cid_generator(move || Box::new(PlaceIds { ids: ids.clone(), place }))
        .supported_versions(vec![freerun_tls::session::QUIC_VERSION])
        // The caller limits how many resets it sends.
        .min_reset_interval(Duration::ZERO);
    Arc::new(config)
}
