//! Messages between the processes that serve the same sockets of QUIC: another version of the program may have sent them.

use std::net::SocketAddr;

use freerun_serve::loops::message_boxes::{BoxMessage, PROCESSES, PassedPacket};

/// The longest message that a box takes: longer inputs never come from one.
const LONGEST: usize = 65_000;

/// A message: no panic, and what was understood is sent again as it was.
pub fn message(data: &[u8]) {
    let Some(message) = BoxMessage::decode(data) else { return };
    if let BoxMessage::Packet(packet) = &message {
        assert!(packet.sender < PROCESSES);
        assert!(packet.bytes.len() + packet.address.len() <= data.len());
    }
    match message.encode() {
        Some(bytes) => assert_eq!(BoxMessage::decode(&bytes), Some(message)),
        None => assert!(data.len() > LONGEST, "a message that fits is sent on"),
    }
}

/// A message of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let packet = |from: &str, bytes: &'static [u8]| {
        let from: SocketAddr = from.parse().expect("an address");
        BoxMessage::Packet(PassedPacket {
            sender: 1,
            sender_loop: 2,
            index: 300,
            is_returned: true,
            address: "[::]:443".into(),
            from,
            to: Some(from.ip()),
            ecn: 3,
            bytes,
        })
    };
    let addresses = vec!["127.0.0.1:443".to_owned(), "unix:/a".to_owned()];
    let messages = [
        packet("192.0.2.1:5", &[0x40; 30]),
        packet("[2001:db8::1]:5", b""),
        BoxMessage::Claim { process: 7, at: 1_700_000_000_000, addresses },
        BoxMessage::Offer { process: 0 },
        BoxMessage::Gone { process: 4 },
    ];
    messages.iter().map(|message| message.encode().expect("it is short")).collect()
}
