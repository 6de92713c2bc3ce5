//! What the encoder puts into the table.

use super::*;

/// Writes a field several times, each in a block of its own, and says how it is written: `+` with indexing, `-` without,
/// `!` never to be indexed, `=` by its index.
fn ways(encoder: &mut Encoder, decoder: &mut Decoder, name: &str, values: &[&str]) -> String {
    let way = |value: &&str| {
        let block = fields(encoder, &[(name, value)]);
        let decoded = decode(decoder, &block).expect("a block");
        let never = decoded[0].2;
        assert_eq!(decoded, [(name.to_ascii_lowercase().into_bytes(), value.as_bytes().to_vec(), never)]);
        assert_eq!(encoder.table_size(), decoder.table_size());
        match block[0] {
            0x80.. => '=',
            0x40.. => '+',
            0x10..0x20 if never => '!',
            0x00..0x10 => '-',
            other => panic!("{other:x}"),
        }
    };
    values.iter().map(way).collect()
}

fn ways_of(name: &str, values: &[&str]) -> String {
    ways(&mut Encoder::new(), &mut Decoder::new(4096), name, values)
}

#[test]
fn what_comes_with_most_messages_goes_into_the_table_at_once() {
    for name in ["Server", "content-type", "Cache-Control", "VARY", "Accept-Ranges", "X-Frame-Options", "grpc-status"] {
        assert_eq!(ways_of(name, &["a", "a", "b", "b", "a"]), "+=+==", "{name}");
    }
}

#[test]
fn what_may_differ_each_time_goes_into_the_table_when_it_comes_again() {
    for name in ["ETag", "Last-Modified", "Location", "X-Request-ID", "x-unknown"] {
        assert_eq!(ways_of(name, &["a", "b", "c", "a", "a", "c", "d"]), "---+=+-", "{name}");
    }
}

#[test]
fn what_hardly_comes_again_stays_out() {
    for name in ["Content-Length", "content-range", "Age", "if-none-match"] {
        assert_eq!(ways_of(name, &["10", "10", "10"]), "---", "{name}");
    }
}

#[test]
fn secrets_are_not_indexed() {
    for name in ["Set-Cookie", "Authorization", "Proxy-Authorization", "Cookie"] {
        assert_eq!(ways_of(name, &["a=b", "a=b", "a=b"]), "---", "{name}");
    }
}

#[test]
fn large_fields_stay_out() {
    let size = 1024 - "vary".len() - FIELD_OVERHEAD;
    let (fits, large) = ("a".repeat(size), "a".repeat(size + 1));
    assert_eq!(ways_of("vary", &[&fits, &fits, &large, &large]), "+=--");
    // Who asks for it, gets it, as long as the table is large enough.
    let mut encoder = Encoder::new();
    let size = 4096 - 1 - FIELD_OVERHEAD;
    for (len, first) in [(size, 0x40), (size, 0xbe), (size + 1, 0x00), (size, 0xbe)] {
        let value = "a".repeat(len).into_bytes();
        let block = block(&mut encoder, |encoder, out| encoder.field_as(b"x", &value, Indexing::Incremental, out));
        assert_eq!(block[0], first);
    }
}

#[test]
fn who_asks_for_a_way_gets_it() {
    let mut encoder = Encoder::new();
    let mut write = |indexing| {
        block(&mut encoder, |encoder, out| {
            encoder.field_as(b"Server", b"x", indexing, out);
            encoder.field_as(b"X-Y", b"", indexing, out);
        })
    };
    // `x` has seven bits and is not worth coding, `x-y` takes three bytes either way.
    assert_eq!(write(Indexing::Without), b"\x0f\x27\x01x\x00\x03x-y\x00");
    assert_eq!(write(Indexing::Never), b"\x1f\x27\x01x\x10\x03x-y\x00");
    assert_eq!(write(Indexing::Incremental), b"\x76\x01x\x40\x03x-y\x00");
    assert_eq!(write(Indexing::Incremental), b"\xbf\xbe");
    assert_eq!(write(Indexing::Without), b"\x0f\x27\x01x\x00\x03x-y\x00");
}

#[test]
fn dates_that_have_passed_take_no_memory() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    assert_eq!(ways(&mut encoder, &mut decoder, "server", &["freerun"]), "+");
    let (mut memory, mut again) = (0, 0);
    for second in 0..5000 {
        let date = format!("Sun, 06 Nov 1994 {:02}:{:02}:{:02} GMT", second / 3600, second / 60 % 60, second % 60);
        assert_eq!(ways(&mut encoder, &mut decoder, "date", &[&date, &date]), "+=");
        again += usize::from(ways(&mut encoder, &mut decoder, "server", &["freerun"]) == "+");
        memory = memory.max(encoder.heap_bytes());
    }
    assert!(memory < 1500, "{memory}");
    // 62 dates fill the table, and what is older has to come again.
    assert_eq!(again, 5000 / 63);
    // Even the same date is a new one once another one has come.
    assert_eq!(ways(&mut encoder, &mut decoder, "date", &["a", "b", "b", "a", "a", "b"]), "++=+=+");
}

#[test]
fn statuses_of_the_static_table_are_a_byte() {
    let mut encoder = Encoder::new();
    let mut write = |status| block(&mut encoder, |encoder, out| encoder.status(status, out));
    for (index, status) in (8..).zip([200, 204, 206, 304, 400, 404, 500]) {
        assert_eq!(write(status), [0x80 | index]);
    }
    assert_eq!(write(302), b"\x08\x82\x64\x02");
    assert_eq!(write(302), b"\x48\x82\x64\x02");
    assert_eq!(write(302), b"\xbe");
    assert_eq!(write(503), b"\x08\x03503");
}

#[test]
fn pseudo_fields_use_the_static_table() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new(4096);
    let mut write = |pseudo, value: &str| {
        let block = block(&mut encoder, |encoder, out| encoder.pseudo(pseudo, value.as_bytes(), out));
        (lines(&decode(&mut decoder, &block).expect("a block")), block)
    };
    let mut check = |pseudo, value, line: &str, starts: [u8; 2]| {
        for start in starts {
            let (lines, block) = write(pseudo, value);
            assert_eq!(lines, [line]);
            assert_eq!(block[0], start, "{line}");
        }
    };
    check(Pseudo::Method, "GET", ":method: GET", [0x82, 0x82]);
    check(Pseudo::Method, "POST", ":method: POST", [0x83, 0x83]);
    check(Pseudo::Path, "/", ":path: /", [0x84, 0x84]);
    check(Pseudo::Path, "/index.html", ":path: /index.html", [0x85, 0x85]);
    check(Pseudo::Scheme, "http", ":scheme: http", [0x86, 0x86]);
    check(Pseudo::Scheme, "https", ":scheme: https", [0x87, 0x87]);
    check(Pseudo::Status, "404", ":status: 404", [0x8d, 0x8d]);
    check(Pseudo::Status, "4o4", ":status: 4o4", [0x08, 0x48]);
    check(Pseudo::Method, "PUT", ":method: PUT", [0x42, 0xbe]);
    check(Pseudo::Authority, "a.example", ":authority: a.example", [0x41, 0xbe]);
    check(Pseudo::Protocol, "websocket", ":protocol: websocket", [0x40, 0xbe]);
    check(Pseudo::Path, "/service/Method", ":path: /service/Method", [0x04, 0x44]);
    assert_eq!(write(Pseudo::Unknown, "x"), (Vec::new(), Vec::new()));
}

#[test]
fn what_the_static_table_has_with_its_value_is_a_byte() {
    assert_eq!(ways_of("Accept-Encoding", &["gzip, deflate", "gzip", "gzip"]), "=+=");
}
