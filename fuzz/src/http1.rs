//! The server's side of an HTTP/1 connection, whatever a client sends and however its bytes are cut. There are the same requests
//! with the same bodies, the same framing of the responses, and the same end.

use freerun_proto as proto;
use freerun_proto::HeadRules;

use crate::target::Target;
use driver::{Driver, Plan};

/// The driver of the machine's own tests, so that both act on it in the same way.
#[path = "../../crates/proto/src/h1/tests/driver.rs"]
mod driver;

/// The number of bytes in front of the text: two plans, and the places of cuts.
const OPTIONS: usize = 12;
/// The longest text. An empty line in front of a request is part of its head if both come together: as many as the first buffer
/// has room for make a difference.
const TEXT_MAX: usize = 1000;

/// Compares a connection whose bytes come whole with the same bytes cut at some places, and with single bytes.
fn connection(data: &[u8]) {
    let Some((options, text)) = data.split_first_chunk::<OPTIONS>() else { return };
    let text = &text[..text.len().min(TEXT_MAX)];
    let [a, b, c, d, e, f, g, h, cuts @ ..] = *options;
    let plans = [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])].map(Plan);
    let run = |ends: Vec<usize>| Driver::new(text, ends, HeadRules::default()).run(&plans);
    let whole = run(Vec::new());
    assert_eq!(run(cuts.map(|cut| usize::from(cut) * (text.len() + 1) / 256).to_vec()), whole, "cut at some places");
    assert_eq!(run((0..text.len()).collect()), whole, "byte for byte");
}

/// Runs the connection of a client with all that a server may answer.
pub static HTTP1: Target = Target {
    name: "http1",
    body: connection,
    seeds: || {
        let texts: [&[u8]; 5] = [
            b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nT: v\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
            b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /old\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            // Looked at twice, this would be a chunk and an end.
            b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n4;a\x7f\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
            b"\r\nPOST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\nbody",
        ];
        let options: [&[u8; OPTIONS]; 4] = [
            b"\x42\x00\x00\x00\x42\x00\x00\x00\x20\x40\x80\xc0",
            b"\x4e\x07\x00\x00\x40\x00\x00\x00\x01\x02\x7f\xff",
            b"\x69\x5a\xff\x3f\x13\xa1\x20\x08\x90\xa0\xb0\xf0",
            b"\x31\xff\x0f\x80\x5d\x00\xf0\x01\x00\x10\x60\xe0",
        ];
        texts.iter().flat_map(|text| options.map(|options| [options, *text].concat())).collect()
    },
    words: &[
        b"\r\n",
        b"\n",
        b"0\r\n\r\n",
        b"1\r\na\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"\r\n\r\n",
        b";",
        b"\x7f",
    ],
};
