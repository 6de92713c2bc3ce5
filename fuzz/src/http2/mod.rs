//! A whole connection of HTTP/2, as a server and as a client: whatever the peer sends, in whatever parts it comes.

mod output;
mod run;

use freerun_proto::h2::Role;

use self::run::{Options, Pump, run};
use crate::target::Target;

/// A connection, whose owner answers or asks in ways that the first bytes choose, and its peer's bytes. There is no
/// panic, the events are the same however the bytes are split, and nothing is written that the protocol forbids.
fn connection(data: &[u8]) {
    let Some((&[first, second], bytes)) = data.split_first_chunk() else { return };
    let options = Options {
        role: if first & 1 == 0 { Role::Server } else { Role::Client },
        window: [0, 100, 65_535, 1 << 20][usize::from(first >> 1 & 3)],
        chunk: if first & 8 == 0 { 16_384 } else { 50 },
        plan: first >> 4,
    };
    let whole = run(&options, bytes, bytes.len(), Pump::Events);
    let parts = [1, 2, 3, 7, 9, 20, 100, 300][usize::from(second & 7)];
    let split = run(&options, bytes, parts, Pump::Events);
    assert_eq!(whole, split, "in parts of {parts} bytes");
    // When it is written in between decides what late frames mean, so the events are others; all else holds.
    run(&options, bytes, parts, Pump::Parts);
}

/// A frame.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A `HEADERS` frame with a request.
fn request(stream: u8, flags: u8) -> Vec<u8> {
    frame(1, flags, stream, b"\x82\x86\x84\x41\x01a")
}

/// A `HEADERS` frame with a response.
fn response(stream: u8, flags: u8) -> Vec<u8> {
    frame(1, flags, stream, b"\x88\x40\x01n\x01v")
}

/// The bytes of peers that keep to the rules, each behind the two bytes of options.
fn seeds() -> Vec<Vec<u8>> {
    let settings = frame(4, 0, 0, b"");
    let windows = frame(4, 0, 0, &[0, 4, 0, 0, 0, 10, 0, 5, 0, 0, 0x40, 0]);
    let body = |stream, flags| frame(0, flags, stream, b"hello");
    let update = |stream, more| frame(8, 0, stream, &[0, 0, 0, more]);
    let goaway = frame(7, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
    let mut seeds = Vec::new();
    let mut add = |first: u8, second: u8, parts: &[Vec<u8>]| {
        seeds.push([&[first, second][..], &parts.concat()].concat());
    };
    for plan in 0..16_u8 {
        let server = (plan << 4) | 4;
        let requests =
            [settings.clone(), request(1, 5), request(3, 4), body(3, 0), body(3, 1), request(5, 4), update(0, 200)];
        add(server, plan, &requests);
        let answered = [settings.clone(), response(1, 4), body(1, 1), response(3, 5), body(5, 0), goaway.clone()];
        add(server | 1, plan, &answered);
    }
    let first = frame(1, 1, 1, b"\x82\x86");
    let rest = frame(9, 4, 1, b"\x84\x41\x01a");
    add(4, 0, &[settings.clone(), first, rest, frame(6, 0, 0, b"12345678"), frame(6, 1, 0, b"the last")]);
    let trailers = frame(1, 5, 1, b"\x40\x01t\x01x");
    add(0x14, 1, &[windows.clone(), request(1, 4), frame(0, 8, 1, b"\x02hi\x00\x00"), trailers.clone(), update(1, 9)]);
    let resets = [request(1, 4), frame(3, 0, 1, &[0, 0, 0, 8]), request(3, 5), frame(3, 0, 3, &[0; 4])];
    add(0x2c, 2, &[windows.clone(), resets.concat(), frame(2, 0, 3, &[0, 0, 0, 1, 16])]);
    add(
        0x34,
        3,
        &[settings.clone(), frame(0x10, 0, 0, b"\0\0\0\x01u=0, i"), request(1, 0x25), frame(0x77, 0, 1, b"?")],
    );
    add(0x45, 4, &[windows, frame(1, 4, 1, b"\x08\x03100"), response(1, 4), body(1, 0), trailers]);
    seeds
}

/// Runs [`connection`].
pub static HTTP2: Target = Target {
    name: "http2",
    body: connection,
    seeds,
    words: &[
        b"\0\0\x05\0\0\0\0\0\x01hello",
        b"\0\0\x05\0\x01\0\0\0\x03hello",
        b"\0\0\0\0\x01\0\0\0\x01",
        b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a",
        b"\0\0\x06\x01\x04\0\0\0\x07\x82\x86\x84\x41\x01a",
        b"\0\0\x01\x01\x04\0\0\0\x01\x88",
        b"\0\0\x01\x01\x05\0\0\0\x03\x88",
        b"\0\0\x01\x09\x04\0\0\0\x01\x82",
        b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
        b"\0\0\x04\x08\0\0\0\0\x01\0\0\0\0",
        b"\0\0\x04\x08\0\0\0\0\x01\x7f\xff\xff\xff",
        b"\0\0\x04\x08\0\0\0\0\0\0\0\x40\0",
        b"\0\0\0\x04\0\0\0\0\0",
        b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0",
        b"\0\0\x06\x04\0\0\0\0\0\0\x01\0\0\0\0",
        b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x01",
        b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0",
        b"\0\0\x08\x06\0\0\0\0\x0012345678",
        b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\x01\0",
    ],
};
