//! Surrogate tags: names that responses carry. A purge of a tag removes all responses that carry it.

use bytes::Bytes;

use super::headers::{Field, members};

/// The tags of a response, sorted, each once, from `Surrogate-Key` (white space between them) and `Cache-Tag` (a comma
/// between them). Case is significant. The size of the response's head bounds their number.
pub fn tags(fields: &[Field]) -> Vec<Bytes> {
    let mut tags: Vec<Bytes> = Vec::new();
    for (name, value) in fields {
        if name.eq_ignore_ascii_case(b"surrogate-key") {
            let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            tags.extend(words.map(|word| value.slice_ref(word)));
        } else if name.eq_ignore_ascii_case(b"cache-tag") {
            tags.extend(members(value).map(|member| value.slice_ref(member)));
        }
    }
    tags.sort_unstable();
    tags.dedup();
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_both_fields() {
        let fields = |pairs: &[(&'static str, &'static str)]| {
            tags(&pairs.iter().map(|&(name, value)| (Bytes::from(name), Bytes::from(value))).collect::<Vec<_>>())
        };
        assert_eq!(fields(&[("X", "a")]), [] as [Bytes; 0]);
        assert_eq!(fields(&[("surrogate-key", " b  a\tb ")]), ["a", "b"]);
        assert_eq!(fields(&[("Cache-Tag", "x y, z,,"), ("Surrogate-Key", "z A")]), ["A", "x y", "z"]);
    }
}
