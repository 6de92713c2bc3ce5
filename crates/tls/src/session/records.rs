//! The outside of records: their headers, and how many bytes they take.

use rustls::{CipherSuite, SupportedCipherSuite};

/// The bytes before a record's content: its type, a version and its length.
pub(super) const HEADER: usize = 5;

/// The content type of alerts.
const ALERT: u8 = 21;

/// The content type of handshake messages.
const HANDSHAKE: u8 = 22;

/// The type of the message.
const SERVER_HELLO: u8 = 2;

/// The bytes before the session's id in that message: its type and length, the version, and the server's random bytes.
const BEFORE_SESSION_ID: usize = 4 + 2 + 32;

/// The longest id of a session.
pub(super) const MAX_SESSION_ID: usize = 32;

/// More bytes than an encrypted alert has.
pub(super) const ALERT_ROOM: usize = 64;

/// The number of bytes in a record besides its plaintext: the header, the authentication code, and the version's
/// addition. This is the content's type or a part of the nonce.
pub(super) fn overhead(suite: Option<SupportedCipherSuite>) -> usize {
    let added = match suite.map(|suite| suite.suite()) {
        Some(
            CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS13_AES_256_GCM_SHA384
            | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        ) => 1,
        Some(
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ) => 0,
        _ => 8,
    };
    HEADER + 16 + added
}

/// The amount of plaintext that fits in this number of bytes of output, in records of `fragment` bytes.
pub(super) fn plaintext_room(fragment: usize, overhead: usize, output: usize) -> usize {
    let record = fragment + overhead;
    output / record * fragment + (output % record).saturating_sub(overhead)
}

/// The alert among these records, if it is not encrypted.
pub(super) fn sent_alert(mut records: &[u8]) -> Option<u8> {
    loop {
        let [kind, _, _, high, low] = records.first_chunk::<HEADER>()?;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        match (*kind, records.get(HEADER..HEADER + length)?) {
            (ALERT, [_, alert]) => return Some(*alert),
            _ => records = &records[HEADER + length..],
        }
    }
}

/// The id of the session in the ServerHello at the front of these records. There is none if the first record is so small that
/// the id does not end in it.
pub(super) fn hello_session_id(records: &[u8]) -> Option<&[u8]> {
    let [kind, _, _, high, low] = records.first_chunk::<HEADER>()?;
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let (HANDSHAKE, body) = (*kind, records.get(HEADER..HEADER + length)?) else { return None };
    let (SERVER_HELLO, body) = (*body.first()?, body.get(BEFORE_SESSION_ID..)?) else { return None };
    let (length, rest) = body.split_first()?;
    rest.get(..usize::from(*length)).filter(|id| id.len() <= MAX_SESSION_ID)
}

/// The random value with which a ServerHello asks for another ClientHello (RFC 8446 section 4.1.3).
const RETRY: [u8; 32] = [
    0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91, 0xC2, 0xA2, 0x11,
    0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C,
];

/// Whether these records of a server begin with a HelloRetryRequest: a ServerHello that asks for another ClientHello by the random
/// value behind its version.
pub fn asks_again(records: &[u8]) -> bool {
    let random = |random: &[u8]| random.starts_with(&RETRY);
    matches!(records, [HANDSHAKE, _, _, _, _, SERVER_HELLO, _, _, _, _, _, behind @ ..] if random(behind))
}

/// Whether there is a complete record at the front of these bytes.
pub fn has_whole_record(received: &[u8]) -> bool {
    let Some([_, _, _, high, low]) = received.first_chunk::<HEADER>() else { return false };
    received.len() - HEADER >= usize::from(u16::from_be_bytes([*high, *low]))
}

#[cfg(test)]
mod tests {
    use super::{BEFORE_SESSION_ID, hello_session_id};

    #[test]
    fn the_id_of_a_session_is_only_read_from_one_record() {
        let id: Vec<u8> = (1..=32).collect();
        let hello = [&[2][..], &[0; BEFORE_SESSION_ID - 1], &[32], &id, &[0; 10]].concat();
        let record = |part: &[u8]| [&[22, 3, 3, 0, part.len() as u8][..], part].concat();
        let end = BEFORE_SESSION_ID + 1 + 32;
        for first in [end, end + 1, hello.len()] {
            let records = [record(&hello[..first]), record(&hello[first..])].concat();
            assert_eq!(hello_session_id(&records), Some(&id[..]), "{first}");
        }
        for first in [1, BEFORE_SESSION_ID, 59, end - 1] {
            let records = [record(&hello[..first]), record(&hello[first..])].concat();
            assert_eq!(hello_session_id(&records), None, "{first}");
        }
        assert_eq!(hello_session_id(&record(&hello)[..60]), None, "a record that is not whole");
    }
}
