//! Blocks of fields (RFC 7541) and the frames that carry them.

use super::{connect, plain};
use crate::worker::InProcess;
use freerun_testkit::http2::{FieldBlock, Frame, FrameHeader, Http2, StreamEnd, code, flag, kind, setting};
use freerun_testkit::{ConnectionEnd, Kind, Site, TestServer};

const TELL: &str = "location / { return 200 '$request_method $request_uri $http_x_a $http_x_b'; }";

fn server() -> TestServer {
    plain(&Site::new(), TELL).run_in_process()
}

#[test]
fn every_representation_of_a_field() {
    let server = server();
    let mut http2 = connect(&server);
    // 2: GET, 6: http, 4: "/", 1: the name of the authority.
    let block = FieldBlock::new()
        .indexed(2)
        .indexed(6)
        .indexed(4)
        .named_kept(1, "localhost")
        .kept("x-a", "one")
        .field("x-b", "two");
    assert_eq!(http2.exchange(block).text(), "GET / one two");
    // 62 is x-a, 63 the authority.
    let block =
        FieldBlock::new().indexed(2).indexed(6).named(4, "/path").indexed(63).indexed(62).secret("x-b", "three");
    assert_eq!(http2.exchange(block).text(), "GET /path one three");
    let block =
        FieldBlock::new().table_size(4096).indexed(3).indexed(7).named_kept(4, "/p").indexed(64).named(63, "four");
    assert_eq!(http2.exchange(block).text(), "POST /p four ");
}

#[test]
fn strings_in_huffman_s_code() {
    let server = server();
    // "www.example.com", "custom-value" and "no-cache" of RFC 7541 appendix C.
    let block = FieldBlock::new().indexed(2).indexed(6).indexed(4);
    let block = block.raw(b"\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff");
    let block = block.raw(b"\x00\x03x-a\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf");
    let block = block.raw(b"\x00\x03x-b\x86\xa8\xeb\x10\x64\x9c\xbf");
    assert_eq!(connect(&server).exchange(block).text(), "GET / custom-value no-cache");
}

#[test]
fn entries_leave_the_table_when_it_is_full() {
    let server = server();
    let mut http2 = connect(&server);
    // 32 + 3 + 1000 bytes each: three of them fit.
    for number in 0..5 {
        let value = format!("{number}").repeat(1000);
        assert_eq!(http2.exchange(FieldBlock::get("/").kept("x-a", &value)).text(), format!("GET / {value} "));
    }
    let oldest = format!("GET / {} ", "2".repeat(1000));
    assert_eq!(http2.exchange(FieldBlock::get("/").indexed(64)).text(), oldest);
    let answer = http2.exchange(FieldBlock::get("/").indexed(65));
    assert_eq!(answer.end, StreamEnd::Gone(ConnectionEnd::Closed, Some(code::COMPRESSION_ERROR)));
}

#[test]
fn a_smaller_table_forgets() {
    let server = server();
    let mut http2 = connect(&server);
    assert_eq!(http2.exchange(FieldBlock::get("/").kept("x-a", "one").kept("x-b", "two")).text(), "GET / one two");
    // One entry of 32 + 3 + 3 bytes.
    assert_eq!(
        http2.exchange(FieldBlock::new().table_size(40).raw(FieldBlock::get("/")).indexed(62)).text(),
        "GET /  two"
    );
    let answer = http2.exchange(FieldBlock::get("/").indexed(63));
    assert_eq!(answer.end, StreamEnd::Gone(ConnectionEnd::Closed, Some(code::COMPRESSION_ERROR)));
}

/// Whether the connection ends with COMPRESSION_ERROR for a block that begins like a request.
fn compression_error(what: &str, server: &TestServer, block: FieldBlock) {
    let answer = connect(server).exchange(block);
    let StreamEnd::Gone(ConnectionEnd::Closed, Some(told)) = answer.end else { panic!("{what}: {answer:?}") };
    // Where a block is too short, nginx says so of its frame.
    let short = server.kind() == Kind::Nginx && told == code::FRAME_SIZE_ERROR;
    assert!(told == code::COMPRESSION_ERROR || short, "{what}: {}", code::name(told));
}

#[test]
fn blocks_that_cannot_be_decoded_end_the_connection() {
    let server = server();
    compression_error("index 0", &server, FieldBlock::get("/").indexed(0));
    compression_error("an entry that is not there", &server, FieldBlock::get("/").indexed(62));
    compression_error("a name that is not there", &server, FieldBlock::get("/").named(70, "x"));
    compression_error(
        "a table larger than allowed",
        &server,
        FieldBlock::new().table_size(4097).raw(FieldBlock::get("/")),
    );
    compression_error("an integer without end", &server, FieldBlock::get("/").raw([0xff; 12]));
    compression_error("a string that ends too early", &server, FieldBlock::get("/").raw(b"\x00\x7fx"));
    compression_error("an integer that ends too early", &server, FieldBlock::get("/").raw([0xff, 0x80]));
    compression_error("the end of Huffman's code", &server, FieldBlock::get("/").raw(b"\x00\x01a\x84\xff\xff\xff\xff"));
    if server.kind() == Kind::Freerun {
        // nginx lets these pass.
        compression_error("a late size", &server, FieldBlock::get("/").table_size(100));
        compression_error(
            "padding of more than 7 bits",
            &server,
            FieldBlock::get("/").raw(b"\x00\x01a\x82\x1c\xff\xff"),
        );
        compression_error("padding that is not all ones", &server, FieldBlock::get("/").raw(b"\x00\x01a\x81\x18"));
    }
    server.logs("client: 127.0.0.1");
}

#[test]
fn a_block_in_pieces_of_any_size() {
    let server = server();
    let block = FieldBlock::get("/path").kept("x-a", "one").field("x-b", "two");
    // nginx does not take HEADERS without any bytes.
    let least = usize::from(server.kind() == Kind::Nginx);
    for size in least..block.len() {
        let mut http2 = connect(&server);
        let stream = http2.next_stream();
        let (first, rest) = block.as_ref().split_at(size);
        let more = Frame::continuation(stream, rest).with(flag::END_HEADERS);
        http2.send_all(&[Frame::headers_begun(stream, first).end(), more]);
        assert_eq!(http2.answer(stream).text(), "GET /path one two", "{size}");
    }
    // Each byte in a frame of its own.
    let mut http2 = connect(&server);
    let stream = http2.next_stream();
    let (first, rest) = block.as_ref().split_at(1);
    http2.send(Frame::headers_begun(stream, first).end());
    for byte in rest {
        http2.send(Frame::continuation(stream, [*byte]));
    }
    http2.send(Frame::continuation(stream, []).with(flag::END_HEADERS));
    assert_eq!(http2.answer(stream).text(), "GET /path one two");
}

#[test]
fn padding_of_heads() {
    let server = server();
    let mut http2 = connect(&server);
    for length in [0, 1, 255] {
        let stream = http2.next_stream();
        let frame = Frame::headers(stream, http2.block("GET", "/")).padded(length).end();
        http2.send(frame);
        assert_eq!(http2.answer(stream).text(), "GET /  ", "{length}");
    }
}

#[test]
fn bytes_may_come_one_by_one() {
    let server = server();
    let mut http2 = Http2::bare(server.connect());
    let frames = [Frame::settings(&[]), Frame::headers(1, FieldBlock::get("/path")).end()];
    let bytes = [freerun_testkit::http2::PREFACE.to_vec(), frames[0].bytes(), frames[1].bytes()].concat();
    http2.expect(1).expect_settings_taken();
    for byte in bytes {
        http2.send_bytes([byte]);
    }
    assert_eq!(http2.answer(1).text(), "GET /path  ");
}

/// What the client's table allows is not exceeded, and a change of it is answered as RFC 7541 section 4.2 wants it: the
/// client's decoder is strict about both.
#[test]
fn the_server_keeps_to_the_client_s_table() {
    let lines = "location / { add_header X-Long $request_uri; return 200 ok; }";
    let server = plain(&Site::new(), lines).run_in_process();
    for size in [0, 64, 4096, 65_536] {
        let mut http2 = Http2::with(server.connect(), &[(setting::HEADER_TABLE_SIZE, size)]);
        http2.greeted();
        for number in 0..20 {
            let path = format!("/{number}/{}", "x".repeat(100));
            for _ in 0..3 {
                assert_eq!(http2.get(&path).header("x-long"), Some(path.as_str()), "{size}");
            }
        }
        // It may change at any time.
        http2.send(Frame::settings(&[(setting::HEADER_TABLE_SIZE, 0)]));
        for _ in 0..3 {
            assert_eq!(http2.get("/other").header("x-long"), Some("/other"), "{size} then 0");
        }
    }
}

#[test]
fn a_long_head_comes_in_continuations() {
    let upstream = freerun_testkit::TestUpstream::answering(|_| {
        let long = "x".repeat(60_000);
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Long: {long}\r\n\r\nok").into_bytes()
    });
    let lines = format!(
        "location / {{ proxy_buffer_size 128k; proxy_buffers 4 128k; proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = plain(&Site::new(), &lines).run_in_process();
    let mut http2 = connect(&server);
    let answer = http2.get("/");
    assert_eq!((answer.header("x-long").map(str::len), answer.text().as_str()), (Some(60_000), "ok"));
    let continued: Vec<&FrameHeader> = http2.seen().iter().filter(|seen| seen.kind == kind::CONTINUATION).collect();
    assert!(continued.len() >= 2, "{continued:?}");
}
