//! What the encoder puts into the table, and what it refers to.

use super::*;

/// An encoder and the decoder of its peer.
struct Pair {
    encoder: QpackEncoder,
    decoder: QpackDecoder,
}

impl Pair {
    fn new() -> Pair {
        let mut encoder = QpackEncoder::new();
        encoder.set_most(4096, 4096, 0);
        Pair { encoder, decoder: QpackDecoder::new(4096) }
    }

    /// Writes a field in a section of its own, and says how it is written: `+` with an insertion, `-` in full, `=` by its
    /// index, `s` as a static entry. The peer has everything afterwards.
    fn way(&mut self, name: &str, value: &str) -> char {
        let inserted = self.encoder.inserted();
        let section = section(&mut self.encoder, 0, &[(name, value)]);
        let way = match section[2] {
            0xc0.. => 's',
            0x80.. => '=',
            _ if self.encoder.inserted() > inserted => '+',
            _ => '-',
        };
        let instructions = std::mem::take(self.encoder.instructions());
        assert_eq!(insert(&mut self.decoder, &instructions), Ok(()));
        let fields = decode(&mut self.decoder, 0, &section);
        assert_eq!(fields, Ok(Some(vec![owned(&name.to_ascii_lowercase(), value)])));
        self.decoder.report();
        let instructions = std::mem::take(self.decoder.instructions());
        assert!(progress(&mut self.encoder, &instructions).is_ok());
        assert_eq!(self.encoder.table_size(), self.decoder.table_size());
        way
    }

    fn ways(&mut self, name: &str, values: &[&str]) -> String {
        values.iter().map(|value| self.way(name, value)).collect()
    }
}

#[test]
fn fields_go_into_the_table_by_their_names() {
    for name in ["Server", "content-type", "Cache-Control", "X-Powered-By", "grpc-status"] {
        assert_eq!(Pair::new().ways(name, &["a", "a", "b", "b", "a"]), "+=+==", "{name}");
    }
    for name in ["ETag", "Last-Modified", "Date", "X-Request-ID", "x-unknown"] {
        assert_eq!(Pair::new().ways(name, &["a", "b", "c", "a", "a"]), "---+=", "{name}");
    }
    for name in ["Set-Cookie", "Cookie", "Authorization", "Proxy-Authorization", "Content-Length", "content-range"] {
        assert_eq!(Pair::new().ways(name, &["a", "a", "a"]), "---", "{name}");
    }
    assert_eq!(Pair::new().ways("Date", &["a", "a", "a", "b", "b", "b", "a"]), "-+=-+=+", "an old date is not found");
}

#[test]
fn static_entries_are_named_by_their_indices() {
    for (name, value) in [("Content-Type", "text/css"), ("vary", "accept-encoding"), ("Accept-Ranges", "bytes")] {
        assert_eq!(Pair::new().ways(name, &[value, value]), "ss", "{name}");
    }
    let mut encoder = QpackEncoder::new();
    for status in 100..600 {
        let mut out = Vec::new();
        let start = encoder.begin(0, &mut out);
        encoder.status(status, &mut out);
        encoder.finish(start, &mut out);
        let fields = decode(&mut QpackDecoder::new(0), 0, &out);
        assert_eq!(fields, Ok(Some(vec![owned(":status", &status.to_string())])));
        assert_eq!(
            out.len() < 5,
            super::super::statics::find(crate::compression::names::STATUS, status.to_string().as_bytes()).is_some()
        );
    }
}

#[test]
fn nothing_is_referred_to_before_it_has_arrived() {
    let Pair { mut encoder, mut decoder } = Pair::new();
    for stream in [0, 4, 8] {
        let section = section(&mut encoder, stream, &[("server", "x")]);
        assert_eq!(section[..2], [0, 0], "the section refers to nothing");
    }
    assert_eq!((encoder.inserted(), encoder.open_sections()), (1, 0));
    assert_eq!(insert(&mut decoder, encoder.instructions()), Ok(()));
    decoder.report();
    assert!(progress(&mut encoder, decoder.instructions()).is_ok());
    assert_eq!(section(&mut encoder, 12, &[("server", "x")]), [2, 0, 0x80]);
}

#[test]
fn no_more_streams_are_blocked_than_the_peer_allows() {
    let mut encoder = QpackEncoder::new();
    encoder.set_most(4096, 4096, 2);
    let mut blocks = |stream, value| section(&mut encoder, stream, &[("server", value)])[0] != 0;
    assert!(blocks(0, "a") && blocks(4, "a"));
    assert!(!blocks(8, "a") && !blocks(8, "b"), "a third stream would be blocked");
    assert!(blocks(4, "b"), "a stream that is blocked may be so twice");
    assert!(progress(&mut encoder, b"\x84").is_ok());
    assert_eq!(section(&mut encoder, 8, &[("server", "a")])[..2], [2, 1], "that entry has arrived");
    assert_eq!(section(&mut encoder, 8, &[("server", "b")])[0], 3, "and one stream fewer is blocked");
    assert_eq!(section(&mut encoder, 12, &[("server", "b")])[0], 0);
}

#[test]
fn entries_in_use_are_neither_evicted_nor_lost() {
    let Pair { mut encoder, mut decoder } = Pair::new();
    let mut exchange = |encoder: &mut QpackEncoder, stream, fields: &[(&str, &str)], is_read: bool| {
        let section = section(encoder, stream, fields);
        assert_eq!(insert(&mut decoder, &std::mem::take(encoder.instructions())), Ok(()));
        decoder.report();
        if is_read {
            let decoded = decode(&mut decoder, stream, &section).expect("a section").expect("nothing to wait for");
            let expected: Vec<_> = fields.iter().map(|(name, value)| owned(name, value)).collect();
            assert_eq!(decoded, expected);
        }
        assert!(progress(encoder, &std::mem::take(decoder.instructions())).is_ok());
        section
    };
    exchange(&mut encoder, 0, &[("server", "x")], true);
    let waiting = exchange(&mut encoder, 4, &[("server", "x")], false);
    assert_eq!(waiting, [2, 0, 0x80]);
    // More than the table has room for, but the oldest entry is needed.
    for number in 0..200 {
        let value = format!("{number:0>100}");
        exchange(&mut encoder, 8, &[("x-cache", &value)], true);
    }
    let inserted = encoder.inserted();
    assert!((20..40).contains(&inserted), "{inserted} entries have room behind one that stays");
    assert!(progress(&mut encoder, b"\x84").is_ok());
    // Now it may go. What is used goes on being in the table.
    for number in 0..200 {
        let value = format!("{number:0>99}");
        let section = exchange(&mut encoder, 8, &[("x-cache", &value), ("server", "x")], true);
        assert!(number < 100 || section.len() < 120, "{} bytes", section.len());
    }
    assert!(encoder.inserted() > inserted + 200);
}

#[test]
fn nothing_is_inserted_while_instructions_are_not_read() {
    let mut encoder = QpackEncoder::new();
    encoder.set_most(4096, 4096, 10);
    encoder.pause(true);
    assert_eq!(section(&mut encoder, 0, &[("server", "x")])[0], 0);
    assert!(encoder.instructions().is_empty());
    encoder.pause(false);
    assert_eq!(section(&mut encoder, 0, &[("server", "x")])[0], 2);
}

#[test]
fn an_idle_encoder_gives_its_table_up() {
    let mut pair = Pair::new();
    assert_eq!(pair.ways("server", &["a", "a"]), "+=");
    pair.encoder.forget();
    assert_eq!(pair.encoder.table_size(), 0);
    assert_eq!(pair.ways("server", &["a", "a", "b", "b"]), "+=+=");
    let section = section(&mut pair.encoder, 4, &[("server", "a")]);
    pair.encoder.forget();
    assert!(pair.encoder.table_size() > 0, "the peer still needs it");
    assert_eq!(decode(&mut pair.decoder, 4, &section), Ok(Some(vec![owned("server", "a")])));
}

#[test]
fn a_small_table_of_the_peer_is_respected() {
    let mut encoder = QpackEncoder::new();
    encoder.set_most(100, 4096, 10);
    let mut decoder = QpackDecoder::new(100);
    for number in 0..50 {
        let value = number.to_string();
        let mut out = Vec::new();
        let start = encoder.begin(number * 4, &mut out);
        encoder.field_as(b"server", value.as_bytes(), Indexing::Incremental, &mut out);
        encoder.field_as(b"x", value.as_bytes(), Indexing::Never, &mut out);
        encoder.finish(start, &mut out);
        assert_eq!(insert(&mut decoder, &std::mem::take(encoder.instructions())), Ok(()));
        let expected = vec![owned("server", &value), (b"x".to_vec(), value.into_bytes(), true)];
        assert_eq!(decode(&mut decoder, number * 4, &out), Ok(Some(expected)));
        decoder.report();
        assert!(progress(&mut encoder, &std::mem::take(decoder.instructions())).is_ok());
    }
    assert_eq!(encoder.inserted(), 50);
}
