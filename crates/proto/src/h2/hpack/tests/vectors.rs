//! The examples of RFC 7541, appendix C.

use super::*;

/// A block, its fields, and what the table's entries count behind it.
type Example = (&'static str, &'static [&'static str], usize);

const REQUEST_1: &[&str] = &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
const REQUEST_2: &[&str] =
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"];
const REQUEST_3: &[&str] = &[
    ":method: GET",
    ":scheme: https",
    ":path: /index.html",
    ":authority: www.example.com",
    "custom-key: custom-value",
];

const RESPONSE_1: &[&str] = &[
    ":status: 302",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:21 GMT",
    "location: https://www.example.com",
];
const RESPONSE_2: &[&str] = &[
    ":status: 307",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:21 GMT",
    "location: https://www.example.com",
];
const RESPONSE_3: &[&str] = &[
    ":status: 200",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:22 GMT",
    "location: https://www.example.com",
    "content-encoding: gzip",
    "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
];

/// C.2: each is a connection of its own.
const SINGLE: [Example; 4] = [
    ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", &["custom-key: custom-header"], 55),
    ("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], 0),
    ("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password; secret"], 0),
    ("82", &[":method: GET"], 0),
];

/// C.3
const REQUESTS: [Example; 3] = [
    ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUEST_1, 57),
    ("8286 84be 5808 6e6f 2d63 6163 6865", REQUEST_2, 110),
    ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", REQUEST_3, 164),
];

/// C.4
const HUFFMAN_REQUESTS: [Example; 3] = [
    ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUEST_1, 57),
    ("8286 84be 5886 a8eb 1064 9cbf", REQUEST_2, 110),
    ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUEST_3, 164),
];

/// C.5, with a table of 256 bytes.
const RESPONSES: [Example; 3] = [
    (
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d
         546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        RESPONSE_1,
        222,
    ),
    ("4803 3330 37c1 c0bf", RESPONSE_2, 222),
    (
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f
         6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b
         2076 6572 7369 6f6e 3d31",
        RESPONSE_3,
        215,
    ),
];

/// C.6, with a table of 256 bytes.
const HUFFMAN_RESPONSES: [Example; 3] = [
    (
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7
         8f0b 97c8 e9ae 82ae 43d3",
        RESPONSE_1,
        222,
    ),
    ("4883 640e ffc1 c0bf", RESPONSE_2, 222),
    (
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335
         dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        RESPONSE_3,
        215,
    ),
];

fn check(table_size: u32, examples: &[Example]) {
    let mut decoder = Decoder::new(table_size);
    for (block, fields, size) in examples {
        let decoded = decode(&mut decoder, &hex(block)).expect("a block");
        assert_eq!(lines(&decoded), *fields);
        assert_eq!(decoder.table_size(), *size);
    }
}

#[test]
fn fields_of_all_kinds() {
    for example in SINGLE {
        check(4096, &[example]);
    }
}

#[test]
fn requests() {
    check(4096, &REQUESTS);
    check(4096, &HUFFMAN_REQUESTS);
}

#[test]
fn responses_with_eviction() {
    check(256, &RESPONSES);
    check(256, &HUFFMAN_RESPONSES);
}

/// Writes a field as the examples do.
fn write(encoder: &mut Encoder, line: &str, out: &mut Vec<u8>) {
    let (name, value) = line.split_once(": ").expect("a field");
    match name {
        ":method" => encoder.pseudo(Pseudo::Method, value.as_bytes(), out),
        ":scheme" => encoder.pseudo(Pseudo::Scheme, value.as_bytes(), out),
        ":path" => encoder.pseudo(Pseudo::Path, value.as_bytes(), out),
        ":status" if value == "200" => encoder.status(200, out),
        _ => encoder.field_as(name.as_bytes(), value.as_bytes(), Indexing::Incremental, out),
    }
}

#[test]
fn the_encoder_writes_the_examples() {
    let mut encoder = Encoder::new();
    for (expected, fields, size) in HUFFMAN_REQUESTS {
        let block = block(&mut encoder, |encoder, out| fields.iter().for_each(|line| write(encoder, line, out)));
        assert_eq!(block, hex(expected));
        assert_eq!(encoder.table_size(), size);
    }
    let mut encoder = Encoder::new();
    encoder.set_most(4096, 256);
    encoder.begin(&mut Vec::new());
    for (expected, fields, size) in HUFFMAN_RESPONSES {
        let block = block(&mut encoder, |encoder, out| fields.iter().for_each(|line| write(encoder, line, out)));
        // The code of 307 is no shorter than the text, which we write then.
        let expected = expected.replace("4883 640e ff", "4803 3330 37");
        assert_eq!(block, hex(&expected));
        assert_eq!(encoder.table_size(), size);
    }
}
