//! Attributes: names with values.

use std::borrow::Cow;

use freerun_conf::{display_only, text_of};

use super::protobuf::MessageWriter;

/// The longest value of an attribute in bytes; what is longer is cut off. A request has a dozen of them, and a collector takes
/// messages of 4 MiB by default.
pub const MAX_ATTRIBUTE_VALUE: usize = 2048;

/// The fields of `KeyValue` and `AnyValue`.
const KEY: u32 = 1;
const VALUE: u32 = 2;
const STRING_VALUE: u32 = 1;
const INT_VALUE: u32 = 3;

/// A text of at most `most` bytes, as UTF-8. Other bytes, and a character that is cut, become U+FFFD.
pub(super) fn utf8(bytes: &[u8], most: usize) -> String {
    let text = text_of(&bytes[..bytes.len().min(most)]);
    match display_only(&text) {
        Cow::Borrowed(shown) => shown.to_owned(),
        Cow::Owned(shown) => shown,
    }
}

/// Writes an attribute with a text. Bytes that are no UTF-8 are replaced: a collector refuses a whole batch for one of them.
pub(super) fn text(message: &mut MessageWriter<'_>, field: u32, name: &str, value: &[u8]) {
    message.message(field, |pair| {
        pair.bytes(KEY, name.as_bytes());
        pair.message(VALUE, |any| any.bytes(STRING_VALUE, utf8(value, MAX_ATTRIBUTE_VALUE).as_bytes()));
    });
}

/// Writes an attribute with a number.
pub(super) fn number(message: &mut MessageWriter<'_>, field: u32, name: &str, value: i64) {
    message.message(field, |pair| {
        pair.bytes(KEY, name.as_bytes());
        pair.message(VALUE, |any| any.int(INT_VALUE, value));
    });
}
