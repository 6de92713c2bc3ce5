//! Whether an HTTP/1 connection persists after a message: RFC 9112 section 9.3.

use crate::Version;
use crate::ascii::tokens;

/// The options about persistence in the `Connection` fields of a message. Other options (RFC 9110 section 7.6.1) are
/// ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionOptions {
    /// Whether the option `close` came.
    pub close: bool,
    /// Whether the option `keep-alive` came.
    pub keep_alive: bool,
}

impl ConnectionOptions {
    /// Adds the options of a `Connection` field.
    #[inline]
    pub fn add(&mut self, value: &[u8]) {
        match value {
            b"keep-alive" => self.keep_alive = true,
            b"close" => self.close = true,
            list => {
                for token in tokens(list) {
                    self.close |= token.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
    }

    /// Whether the sender of a message of that version allows the connection to be used again. `close` forbids it,
    /// HTTP/1.1 and later versions allow it, and before that `keep-alive` has to. The message's framing matters as
    /// well: a body that ends with the connection does not let it persist.
    #[inline]
    pub const fn persists(self, version: Version) -> bool {
        !self.close && (self.keep_alive || !matches!(version, Version::Http09 | Version::Http10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_fields_decide() {
        const NO: [bool; 3] = [false; 3];
        const ALL: [bool; 3] = [true; 3];
        // The versions are HTTP/0.9, which has no fields but follows the same rule, HTTP/1.0 and HTTP/1.1.
        const NEW: [bool; 3] = [false, false, true];
        let table: [(&[&str], [bool; 3]); 16] = [
            (&[], NEW),
            (&[""], NEW),
            (&["close"], NO),
            (&["Close"], NO),
            (&[" ,\tCLOSE ,"], NO),
            (&["keep-alive"], ALL),
            (&["Keep-Alive"], ALL),
            (&["te, keep-alive"], ALL),
            (&["close, keep-alive"], NO),
            (&["keep-alive, close"], NO),
            (&["keep-alive", "close"], NO),
            (&["close", "keep-alive"], NO),
            (&["upgrade"], NEW),
            (&["closed"], NEW),
            (&["keep-alive;x"], NEW),
            (&["close keep-alive"], NEW),
        ];
        for (fields, kept) in table {
            let mut options = ConnectionOptions::default();
            fields.iter().for_each(|value| options.add(value.as_bytes()));
            let versions = [Version::Http09, Version::Http10, Version::Http11];
            assert_eq!(versions.map(|version| options.persists(version)), kept, "{fields:?}");
        }
    }
}
