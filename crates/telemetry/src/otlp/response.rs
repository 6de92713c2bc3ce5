//! The answer of a collector that has taken an export, perhaps not all of it.

use super::attributes;
use super::protobuf::{FieldValue, MessageFields};

/// The longest message of a collector that is kept, in bytes.
const MAX_MESSAGE: usize = 200;

/// The message `partial_success` of `ExportTraceServiceResponse` and `ExportMetricsServiceResponse`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialSuccess {
    /// The number of spans or points that the collector has refused.
    pub rejected: u64,
    /// The collector's reason, or its advice.
    pub message: String,
}

impl PartialSuccess {
    /// Reads an answer. An answer without the message, or with bytes that cannot be read, has refused nothing.
    pub fn parse(answer: &[u8]) -> PartialSuccess {
        let mut found = PartialSuccess::default();
        for (field, value) in MessageFields(answer) {
            let (1, FieldValue::Bytes(inside)) = (field, value) else { continue };
            for part in MessageFields(inside) {
                match part {
                    (1, FieldValue::Number(rejected)) => found.rejected = rejected,
                    (2, FieldValue::Bytes(text)) => found.message = printable(text),
                    _ => {}
                }
            }
        }
        found
    }
}

/// A text of somebody else that may stand in a log: printable, and not too long.
pub(crate) fn printable(text: &[u8]) -> String {
    attributes::utf8(text, MAX_MESSAGE).chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_what_was_refused() {
        assert_eq!(PartialSuccess::parse(b""), PartialSuccess::default());
        let answer = b"\x0a\x07\x08\x05\x12\x03a\nb";
        assert_eq!(PartialSuccess::parse(answer), PartialSuccess { rejected: 5, message: "a b".to_owned() });
        assert_eq!(PartialSuccess::parse(b"\x0a\xff"), PartialSuccess::default());
        let long = [&b"\x0a\xcb\x01\x12\xc8\x01"[..], &[b'x'; 200]].concat();
        assert_eq!(PartialSuccess::parse(&long).message.len(), MAX_MESSAGE);
    }
}
