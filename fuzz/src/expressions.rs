//! Regular expressions, as the lint reads them.

use freerun_conf::expression::{Expression, bytes as bytes_of_part, last_bytes};

use crate::target::Target;
use crate::targets::owned;

/// Runs [`expression`].
pub static EXPRESSION: Target = Target {
    name: "expression",
    body: expression,
    seeds: || {
        owned(&[
            b"\x00^/(?<name>[^/]+)/(\\d{1,3}|[a-f0-9]{2,})?\\.(php|html)$" as &[u8],
            b"\x01^(([a-z])+.)+[A-Z]([a-z])+$",
            b"\x00(?i:a+)++(?=b)(?!c)\\Q.*\\E[[:alpha:]\\w-]\\x41\\x{263a}",
            b"\x00^((a+))+b|(?:x|y*)*z|(?P<n>.)\\1",
        ])
    },
    words: &[
        b"(", b")", b"[", b"]", b"[^", b"{1,}", b"{2}", b"*", b"+", b"?", b"|", b"\\", b"(?:", b"(?<a>", b"\\w",
        b"\\Q", b"\\E", b"[[:", b":]]", b"$",
    ],
};

/// Regular expressions, as the lint reads them: no panic, and no time that grows faster than the text. The first byte says whether
/// letters stand for both cases.
pub fn expression(data: &[u8]) {
    let Some((option, text)) = data.split_first() else { return };
    let text = freerun_conf::text_of(text);
    let Some(expression) = Expression::parse(&text, option & 1 == 1) else { return };
    let is_exponential = expression.is_exponential();
    let groups = text.matches('(').count();
    assert!(!is_exponential || groups > 0, "without a group no repetition is repeated: {text:?}");
    for number in 1..=groups.min(40) {
        let _ = expression.group(&number.to_string());
    }
    assert!(expression.group(&(groups + 1).to_string()).is_none(), "more groups than brackets: {text:?}");
    for part in expression.alternatives.iter().flatten() {
        let (all, last) = (bytes_of_part(part), last_bytes(part));
        // What a part may end with is something that it may have.
        assert!((0..=u8::MAX).all(|byte| !last.has(byte) || all.has(byte)), "{text:?}");
    }
}
