//! Packets whose frames a test has written itself: frames that no library sends.
//!
//! A packet of the connection carries them. They replace its frames just before it is encrypted, so its number and its keys are
//! right.

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// The frames for the next packet that has room for them.
#[derive(Clone, Default)]
pub(super) struct ForgedFrames(Arc<Mutex<Vec<u8>>>);

impl ForgedFrames {
    /// Sets the frames. Those before are forgotten.
    pub(super) fn set(&self, frames: &[u8]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = frames.to_vec();
    }

    /// Whether no packet has taken the frames.
    pub(super) fn are_left(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Replaces the frames of a packet, if there is room. The rest becomes PADDING.
    fn replace(&self, payload: &mut [u8]) {
        let mut frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !frames.is_empty() && frames.len() <= payload.len() {
            payload.fill(0);
            payload[..frames.len()].copy_from_slice(&frames);
            frames.clear();
        }
    }
}

/// Settings of sessions whose packets carry these frames.
pub(super) struct ForgingConfig {
    pub(super) config: Arc<QuicClientConfig>,
    pub(super) frames: ForgedFrames,
}

impl ClientConfig for ForgingConfig {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = self.config.clone().start_session(version, name, parameters)?;
        Ok(Box::new(ForgingSession { session, frames: self.frames.clone(), has_handshake: false }))
    }
}

struct ForgingSession {
    session: Box<dyn Session>,
    frames: ForgedFrames,
    /// The keys of handshake packets are there: the next ones are of packets that carry frames.
    has_handshake: bool,
}

impl ForgingSession {
    fn forging(&self, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(ForgingKey { key, frames: self.frames.clone() })
    }
}

impl Session for ForgingSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.session.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.session.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.session.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.session.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.session.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.session.read_handshake(bytes)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.session.transport_parameters()
    }

    fn write_handshake(&mut self, output: &mut Vec<u8>) -> Option<Keys> {
        let mut keys = self.session.write_handshake(output)?;
        if std::mem::replace(&mut self.has_handshake, true) {
            keys.packet.local = self.forging(keys.packet.local);
        }
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let KeyPair { local, remote } = self.session.next_1rtt_keys()?;
        Some(KeyPair { local: self.forging(local), remote })
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.session.is_valid_retry(id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.session.export_keying_material(output, label, context)
    }
}

struct ForgingKey {
    key: Box<dyn PacketKey>,
    frames: ForgedFrames,
}

impl PacketKey for ForgingKey {
    fn encrypt(&self, packet: u64, bytes: &mut [u8], header: usize) {
        let end = bytes.len() - self.key.tag_len();
        self.frames.replace(&mut bytes[header..end]);
        self.key.encrypt(packet, bytes, header);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.key.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}
