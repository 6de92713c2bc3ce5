//! The texts of keys, and the requests that the response of a key answers.

/// The end of the text of a key whose response answers HEAD alone. No other text ends so, because texts have no NUL.
const HEAD_ALONE: &[u8] = b"\0HEAD";

/// The requests that the response of a key answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// All requests with this key: a response to GET answers HEAD, too.
    All,
    /// Only HEAD: the server was asked with HEAD, and its answer has no body. It must never be taken for a response to
    /// GET.
    HeadAlone,
}

impl Answers {
    /// The requests that the response answers that is stored under the key with this text.
    pub fn of(text: &[u8]) -> Answers {
        if text.ends_with(HEAD_ALONE) { Answers::HeadAlone } else { Answers::All }
    }
}

/// Turns the key text of a HEAD request into the key text of a response to HEAD alone.
pub fn for_head_alone(text: &mut Vec<u8>) {
    text.extend_from_slice(HEAD_ALONE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_to_head_has_a_key_of_its_own() {
        let mut text = b"http://a/HEAD".to_vec();
        assert_eq!(Answers::of(&text), Answers::All);
        for_head_alone(&mut text);
        assert_eq!(Answers::of(&text), Answers::HeadAlone);
        assert_eq!(Answers::of(b""), Answers::All);
    }
}
