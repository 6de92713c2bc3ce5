//! Blocks of fields (RFC 7541). They are written by hand, so that a test says how each field is represented, and read
//! by an HPACK of others.

use std::fmt;

/// A list of fields, in their order.
pub type Fields = Vec<(String, String)>;

/// A block that is being written. Strings are not compressed by Huffman's code, and nothing is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldBlock {
    bytes: Vec<u8>,
}

impl AsRef<[u8]> for FieldBlock {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl FieldBlock {
    /// An empty block.
    pub fn new() -> FieldBlock {
        FieldBlock::default()
    }

    /// The four pseudo-fields of a request to `localhost` over plain TCP.
    pub fn request(method: &str, path: &str) -> FieldBlock {
        FieldBlock::request_to("http", "localhost", method, path)
    }

    /// The four pseudo-fields of a request.
    pub fn request_to(scheme: &str, authority: &str, method: &str, path: &str) -> FieldBlock {
        let block = FieldBlock::new().field(":method", method).field(":scheme", scheme);
        block.field(":path", path).field(":authority", authority)
    }

    /// The four pseudo-fields of a GET of `localhost`.
    pub fn get(path: &str) -> FieldBlock {
        FieldBlock::request("GET", path)
    }

    /// The pseudo-field of a response.
    pub fn status(status: u16) -> FieldBlock {
        FieldBlock::new().field(":status", status.to_string())
    }

    /// A field as a literal with its name, that changes no table (section 6.2.2).
    #[must_use]
    pub fn field(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> FieldBlock {
        self.raw([0]).string(name).string(value)
    }

    /// Several fields as [`field`](Self::field) writes them.
    #[must_use]
    pub fn fields(self, fields: &[(&str, &str)]) -> FieldBlock {
        fields.iter().fold(self, |block, (name, value)| block.field(name, value))
    }

    /// A field as a literal with its name, that is put into the dynamic table (section 6.2.1).
    #[must_use]
    pub fn kept(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> FieldBlock {
        self.raw([0x40]).string(name).string(value)
    }

    /// A field as a literal with its name, that no proxy may put into a table (section 6.2.3).
    #[must_use]
    pub fn secret(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> FieldBlock {
        self.raw([0x10]).string(name).string(value)
    }

    /// A field with the name of an entry of the tables and a literal value, that changes no table.
    #[must_use]
    pub fn named(self, index: u64, value: impl AsRef<[u8]>) -> FieldBlock {
        self.integer(index, 4, 0).string(value)
    }

    /// A field with the name of an entry of the tables and a literal value, that is put into the dynamic table.
    #[must_use]
    pub fn named_kept(self, index: u64, value: impl AsRef<[u8]>) -> FieldBlock {
        self.integer(index, 6, 0x40).string(value)
    }

    /// An entry of the tables (section 6.1); the newest of the dynamic table is 62.
    #[must_use]
    pub fn indexed(self, index: u64) -> FieldBlock {
        self.integer(index, 7, 0x80)
    }

    /// A change of the dynamic table's size (section 6.3).
    #[must_use]
    pub fn table_size(self, size: u64) -> FieldBlock {
        self.integer(size, 5, 0x20)
    }

    /// Appends bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: impl AsRef<[u8]>) -> FieldBlock {
        self.bytes.extend(bytes.as_ref());
        self
    }

    /// Appends an integer in a prefix of `bits` bits, with these bits before it (section 5.1).
    #[must_use]
    pub fn integer(mut self, value: u64, bits: u32, before: u8) -> FieldBlock {
        let most = (1_u64 << bits) - 1;
        self.bytes.push(before | value.min(most) as u8);
        if let Some(mut rest) = value.checked_sub(most) {
            while rest >= 128 {
                self.bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            self.bytes.push(rest as u8);
        }
        self
    }

    /// A string literal (section 5.2).
    #[must_use]
    pub fn string(self, text: impl AsRef<[u8]>) -> FieldBlock {
        let text = text.as_ref();
        self.integer(text.len() as u64, 7, 0).raw(text)
    }

    /// The length of the block so far, in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Decoder of the other side's blocks, with its dynamic table.
pub(super) struct Decoder(fluke_hpack::Decoder<'static>);

impl Decoder {
    /// A decoder whose table may have this number of bytes.
    pub(super) fn new(size: u32) -> Decoder {
        let mut decoder = fluke_hpack::Decoder::new();
        decoder.set_max_allowed_table_size(size as usize);
        Decoder(decoder)
    }

    /// Sets the number of bytes that the other side's table may have from now on.
    pub(super) fn allow(&mut self, size: u32) {
        self.0.set_max_allowed_table_size(size as usize);
    }

    /// The fields of a block.
    pub(super) fn decode(&mut self, block: &[u8]) -> Result<Fields, String> {
        let text = |bytes: Vec<u8>| match String::from_utf8(bytes) {
            Ok(text) => text,
            // One character for each byte.
            Err(error) => error.into_bytes().into_iter().map(char::from).collect(),
        };
        let fields = self.0.decode(block).map_err(|error| format!("{error:?} in {}", block.escape_ascii()))?;
        Ok(fields.into_iter().map(|(name, value)| (text(name), text(value))).collect())
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Decoder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7541, appendix C.
    #[test]
    fn the_examples_of_the_rfc() {
        assert_eq!(FieldBlock::new().integer(10, 5, 0).as_ref(), [10]);
        assert_eq!(FieldBlock::new().integer(1337, 5, 0).as_ref(), [31, 154, 10]);
        assert_eq!(FieldBlock::new().integer(42, 8, 0).as_ref(), [42]);
        assert_eq!(
            FieldBlock::new().kept("custom-key", "custom-header").as_ref(),
            b"\x40\x0acustom-key\x0dcustom-header"
        );
        assert_eq!(FieldBlock::new().named(4, "/sample/path").as_ref(), b"\x04\x0c/sample/path");
        assert_eq!(FieldBlock::new().secret("password", "secret").as_ref(), b"\x10\x08password\x06secret");
        assert_eq!(FieldBlock::new().indexed(2).as_ref(), [0x82]);
        let first = FieldBlock::new().indexed(2).indexed(6).indexed(4).named_kept(1, "www.example.com");
        assert_eq!(first.as_ref(), b"\x82\x86\x84\x41\x0fwww.example.com");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut decoder = Decoder::new(4096);
        let block = FieldBlock::get("/a").kept("x", "1").named_kept(62, "2").indexed(63).secret("y", "3").indexed(62);
        let fields = decoder.decode(block.as_ref()).expect("fields");
        let shown: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            shown,
            [":method=GET", ":scheme=http", ":path=/a", ":authority=localhost", "x=1", "x=2", "x=1", "y=3", "x=2"]
        );
        assert!(decoder.decode(FieldBlock::new().indexed(70).as_ref()).is_err());
        assert!(decoder.decode(FieldBlock::new().table_size(4097).indexed(2).as_ref()).is_err());
        let fields = decoder.decode(FieldBlock::new().field("x", [0xff, b'a']).as_ref()).expect("fields");
        assert_eq!(fields, [("x".to_owned(), "\u{ff}a".to_owned())]);
    }
}
