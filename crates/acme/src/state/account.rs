//! The text of an account's file: JSON.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// The largest file that is read, in bytes.
pub(crate) const MAX_FILE: usize = 64 << 10;

/// Contents of an account's file.
#[derive(Serialize, Deserialize)]
pub(crate) struct AccountFile {
    /// The CA's directory.
    pub(crate) uri: String,
    /// The contacts that the CA was told last.
    pub(crate) contacts: Vec<String>,
    /// The identifier of the external account's key, if the account is bound to one.
    pub(crate) external_account: Option<String>,
    /// The account's URL and its private key, as the library writes them.
    pub(crate) credentials: instant_acme::AccountCredentials,
}

impl AccountFile {
    /// The text of the file; it holds a private key.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(serde_json::to_string_pretty(self).unwrap_or_default())
    }

    /// Reads the text of a file; `None` if it is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<AccountFile> {
        if bytes.len() > MAX_FILE { None } else { serde_json::from_slice(bytes).ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_not() {
        let text = r#"{"uri":"https://ca/","contacts":["mailto:a@b"],"external_account":null,
            "credentials":{"id":"https://ca/1","key_pkcs8":"MIGH","directory":"https://ca/"}}"#;
        let file = AccountFile::parse(text.as_bytes()).expect("a whole file");
        let text = file.to_text();
        assert_eq!(AccountFile::parse(text.as_bytes()).expect("the same again").to_text(), text);
        for end in 0..text.len() {
            assert!(AccountFile::parse(&text.as_bytes()[..end]).is_none(), "{end}");
        }
        assert!(AccountFile::parse(&vec![b' '; MAX_FILE + 1]).is_none());
    }
}
