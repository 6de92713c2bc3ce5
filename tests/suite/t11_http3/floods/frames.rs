//! Frames, streams and instructions that have no effect.

use super::Attacked;
use freerun_proto::h3::OwnStream;
use freerun_proto::h3::frame::{kind, write, write_varint};
use freerun_testkit::http3::{Http3, Http3Options};
use freerun_testkit::{Site, TestUpstream, require};

/// A frame.
fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write(kind, payload, &mut out);
    out
}

/// CVE-2023-44487.
#[test]
fn streams_that_are_opened_and_reset() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!("location /up {{ proxy_pass http://{}; }}", upstream.address());
    for path in ["/", "/up"] {
        let attacked = Attacked::new(Site::new(), &lines);
        attacked.ends("rapid reset", |http3, _| {
            if let Some(stream) = http3.try_open() {
                let head = http3.head_of(stream, "POST", path, &[]);
                http3.write_some(stream, &head);
                http3.reset(stream, 0x10c);
            }
        });
    }
}

#[test]
fn requests_that_are_never_complete() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    attacked.ends("heads that end in the middle", |http3, _| {
        if let Some(stream) = http3.try_open() {
            http3.write_some(stream, &[1, 0x40, 0x80, 0, 0]);
            http3.reset(stream, 0x10c);
        }
    });
}

#[test]
fn unidirectional_streams_that_mean_nothing() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    attacked.ends("streams of unknown types", |http3, _| {
        if let Some(stream) = http3.open_unidirectional() {
            http3.write_some(stream, &[0x40, 0x54, 1, 2, 3]);
            http3.end_raw(stream);
        } else {
            http3.run_for(std::time::Duration::from_millis(1));
        }
    });
}

/// Writes the same bytes on a stream, many at a time.
fn pour(http3: &mut Http3, stream: u64, bytes: &[u8]) {
    http3.write_some(stream, &bytes.repeat(64));
    http3.step();
}

#[test]
fn instructions_of_header_compression() {
    if !require::freerun() {
        return;
    }
    // RFC 9204 section 4.3: the same capacity again and again, and copies of an entry.
    let insertion = [b"\x3f\xe1\x1f\x41a\x3f\x57".as_slice(), &[b'x'; 118]].concat();
    for (what, first, again) in [
        ("capacities", b"\x3f\xe1\x1f".as_slice(), b"\x3f\xe1\x1f".as_slice()),
        ("duplicates", &insertion, b"\x00"),
        ("insertions", &insertion, b"\x41a\x01b"),
    ] {
        let attacked = Attacked::new(Site::new(), "");
        // The client's machine does not know of these instructions, so it has no streams of its own.
        let http3 = &mut Http3::with(attacked.server.address_number(2), &Http3Options::new().bare());
        for bytes in [b"\0\x04\0".as_slice(), b"\x02"] {
            let stream = http3.open_unidirectional().expect("a stream");
            http3.write_all(stream, bytes);
        }
        // Of the client's unidirectional streams, the second one.
        let stream = 6;
        http3.write_all(stream, first);
        attacked.ends_on(what, http3, |http3, _| pour(http3, stream, again));
    }
}

#[test]
fn frames_without_content() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!(
        "location /up {{ proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://{}; }}",
        upstream.address()
    );
    let attacked = Attacked::new(Site::new(), &lines);
    for (what, bytes) in [("empty DATA", frame(kind::DATA, &[])), ("unknown frames", frame(0x21, b"x"))] {
        let http3 = &mut super::connect(&attacked.server);
        let stream = http3.start("POST", "/up", &[]);
        let _peer = upstream.accept();
        attacked.ends_on(what, http3, |http3, _| pour(http3, stream, &bytes));
    }
}

#[test]
fn priorities_without_end() {
    if !require::freerun() {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    let mut payload = Vec::new();
    write_varint(0, &mut payload);
    payload.extend_from_slice(b"u=1");
    let bytes = frame(kind::PRIORITY_UPDATE, &payload);
    let http3 = &mut super::connect(&attacked.server);
    assert_eq!(http3.get("/").text(), "ok");
    let control = http3.own(OwnStream::Control).expect("a control stream");
    attacked.ends_on("priorities", http3, |http3, _| pour(http3, control, &bytes));
}
