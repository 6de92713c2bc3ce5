//! The uwsgi protocol, the side of the web server: <https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html>.
//!
//! A request is one packet of variables, behind which the body follows as it is. A response is one of HTTP, or of CGI
//! ([`crate::response::HeadKind::HttpOrCgi`]).

/// The bytes of a packet's head: modifier 1, length, modifier 2.
pub const PACKET_HEAD: usize = 4;

/// The variables do not fit a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("uwsgi request is too big: {0}")]
pub struct PacketTooBig(pub usize);

/// Writes a packet of variables.
#[derive(Debug)]
pub struct Packet {
    /// The place of the packet's head in the output.
    start: usize,
}

impl Packet {
    /// Begins a packet at the end of the output. The modifiers are the kind of the packet: 0 and 0 for an application's
    /// variables.
    pub fn begin(modifier1: u8, modifier2: u8, out: &mut Vec<u8>) -> Packet {
        let start = out.len();
        out.extend_from_slice(&[modifier1, 0, 0, modifier2]);
        Packet { start }
    }

    /// Appends a variable.
    ///
    /// # Errors
    /// [`PacketTooBig`]: the packet would be longer than 65535 bytes.
    pub fn pair(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), PacketTooBig> {
        let len = out.len() - self.start - PACKET_HEAD + 4 + name.len() + value.len();
        // Each of the two is shorter than the packet.
        if len > usize::from(u16::MAX) {
            return Err(PacketTooBig(len));
        }
        for text in [name, value] {
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text);
        }
        Ok(())
    }

    /// Appends a text that is not a variable.
    ///
    /// # Errors
    /// [`PacketTooBig`]: the packet would be longer than 65535 bytes.
    pub fn text(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), PacketTooBig> {
        let len = out.len() - self.start - PACKET_HEAD + text.len();
        if len > usize::from(u16::MAX) {
            return Err(PacketTooBig(len));
        }
        out.extend_from_slice(text);
        Ok(())
    }

    /// Completes the packet.
    pub fn end(self, out: &mut [u8]) {
        let len = (out.len() - self.start - PACKET_HEAD) as u16;
        out[self.start + 1..self.start + 3].copy_from_slice(&len.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet() {
        let mut out = b"before".to_vec();
        let mut packet = Packet::begin(5, 30, &mut out);
        packet.pair(b"A", b"bc", &mut out).unwrap();
        packet.pair(b"EMPTY", b"", &mut out).unwrap();
        packet.pair(b"L", &[b'x'; 300], &mut out).unwrap();
        packet.end(&mut out);
        let mut expected = b"before\x05\x41\x01\x1e\x01\0A\x02\0bc\x05\0EMPTY\0\0\x01\0L\x2c\x01".to_vec();
        expected.extend_from_slice(&[b'x'; 300]);
        assert_eq!(out, expected);
        assert_eq!(out.len() - 10, 0x141);
    }

    #[test]
    fn a_packet_has_65535_bytes_at_most() {
        let mut out = Vec::new();
        let mut packet = Packet::begin(0, 0, &mut out);
        packet.pair(b"N", &vec![b'v'; 65_530], &mut out).unwrap();
        assert_eq!(packet.pair(b"", b"", &mut out), Err(PacketTooBig(65_539)));
        assert_eq!(packet.text(b"t", &mut out), Err(PacketTooBig(65_536)));
        packet.text(b"", &mut out).unwrap();
        packet.end(&mut out);
        assert_eq!(out[..4], [0, 0xff, 0xff, 0]);
        let mut out = Vec::new();
        let mut packet = Packet::begin(0, 0, &mut out);
        assert_eq!(packet.pair(b"N", &vec![b'v'; 70_000], &mut out), Err(PacketTooBig(70_005)));
        assert_eq!(PacketTooBig(70_005).to_string(), "uwsgi request is too big: 70005");
    }
}
