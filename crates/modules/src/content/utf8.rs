//! Answers that have to be UTF-8, whatever bytes are in the names that they tell.

use std::borrow::Cow;

use freerun_conf::display_only;
use serde::Serialize;

/// A value as JSON. A byte that is not UTF-8 is shown as U+FFFD.
///
/// # Errors
/// The value cannot be JSON, because it has keys that are no strings.
pub fn json(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    serde_json::to_string(value).map(shown)
}

/// A text of [`freerun_conf::text_of`], or a text that contains such texts. A byte that is not UTF-8 is shown as
/// U+FFFD.
pub fn shown(text: String) -> Vec<u8> {
    match display_only(&text) {
        Cow::Borrowed(_) => text.into_bytes(),
        Cow::Owned(shown) => shown.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use freerun_conf::text_of;
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_utf8() {
        let name = text_of(b"w\xe9\xc3\xa9").into_owned();
        assert_eq!(json(&json!({ &name: [&name] })).unwrap(), "{\"w\u{fffd}\u{e9}\":[\"w\u{fffd}\u{e9}\"]}".as_bytes());
        assert_eq!(shown(name), "w\u{fffd}\u{e9}".as_bytes());
        assert_eq!(shown("w\u{e9}".to_owned()), "w\u{e9}".as_bytes());
    }
}
