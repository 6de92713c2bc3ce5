//! Tests with random bytes: the parser returns a result and does not panic.

use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;

use crate::corpus;
use crate::support::{apply, parse_text};

/// Parses, applies and prints a text; any result is accepted.
fn survive(text: &[u8]) {
    let tree = parse_text(text);
    if let Err(problems) = apply(&tree).0 {
        for problem in problems.iter() {
            let shown = problem.render(&tree.sources);
            assert!(shown.starts_with('['), "{shown:?}");
        }
    }
}

/// Pieces that have a meaning for the parser.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            ";",
            "\"",
            "'",
            "\\",
            "$",
            "${",
            "#",
            "\n",
            "\r",
            " ",
            "\t",
            ")",
            "\u{feff}",
            "\0",
            "include",
            "include *;",
            "http {",
            "server {",
            "location / {",
            "types {",
            "sendfile on;",
            "index a b;",
            "set $a b;",
            "keepalive_disable none",
            "send_timeout 1h30m;",
            "output_buffers 1 1k;",
            "if ($a) {",
            "é",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..400)) {
        survive(&text);
    }

    #[test]
    fn pieces(pieces in prop::collection::vec(piece(), 0..60)) {
        survive(&pieces.concat());
    }

    #[test]
    fn a_corpus_file_with_changes(
        index in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), piece(), 0usize..4), 1..12),
    ) {
        static FILES: LazyLock<Vec<(PathBuf, bool)>> =
            LazyLock::new(|| corpus::folder().map(|folder| corpus::files(&folder)).unwrap_or_default());
        let files = &*FILES;
        if !files.is_empty() {
            let mut text = std::fs::read(&index.get(files).0).expect("a readable file");
            text.truncate(64 << 10);
            for (at, piece, removed) in changes {
                let start = at.index(text.len() + 1);
                let end = (start + removed).min(text.len());
                text.splice(start..end, piece);
            }
            survive(&text);
        }
    }
}

#[test]
fn a_text_cut_at_every_byte() {
    let text =
        b"http { server { location ~ \"^/a{2}\\\"$\" { index ${a}b 'c' # d\n; types { a/b c; } } } } include x*;\n";
    for end in 0..=text.len() {
        survive(&text[..end]);
    }
}
