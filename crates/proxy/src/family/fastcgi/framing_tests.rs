//! The cost of a read full of framing (`gather.rs`): chunks of HTTP, and records of FastCGI.

use std::future::poll_fn;
use std::task::Poll;

use bytes::BytesMut;
use freerun_proto::response::{HeadKind, RequestKind};
use freerun_runtime::loops;

use super::reply::FastCgiReply;
use crate::exchange::reply::Reply;
use crate::exchange::{BodyStep, Fault};

/// The most bytes of one read.
const READ: usize = 256 * 1024;

/// How many further reads fit in the same turn after the whole body was processed, up to the point where more has to
/// come.
fn reads_after<S>(
    reader: &mut S,
    body: &[u8],
    step: impl Fn(&mut S, &mut BytesMut) -> Result<BodyStep, Fault>,
) -> usize {
    loops::block_on(async {
        loops::yield_now().await;
        let mut input = BytesMut::from(body);
        while let BodyStep::Data(piece) = step(reader, &mut input).unwrap() {
            assert!(!piece.is_empty());
        }
        let mut reads = 0;
        poll_fn(|context| {
            while loops::poll_budget(context).is_ready() {
                reads += 1;
            }
            Poll::Ready(reads)
        })
        .await
    })
    .unwrap()
}

fn after_chunks(chunk: &str) -> usize {
    let mut reply = Reply::new(HeadKind::Http, RequestKind::Other, 4096);
    reply.head(&mut BytesMut::from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")).unwrap();
    reads_after(&mut reply, chunk.repeat((READ / chunk.len().max(1)).max(1)).as_bytes(), Reply::body)
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[1, kind, 0, 1, (content.len() >> 8) as u8, content.len() as u8, 0, 0], content].concat()
}

fn after_records(kind: u8, content: &[u8]) -> usize {
    let mut reply = FastCgiReply::new(RequestKind::Other, 4096, Vec::new());
    reply.head(&mut BytesMut::from(&record(6, b"Status: 200\r\n\r\n")[..])).unwrap();
    let record = record(kind, content);
    reads_after(&mut reply, &record.repeat(READ / record.len()), FastCgiReply::body)
}

#[test]
fn a_read_full_of_framing_counts_for_many_and_others_for_one() {
    let all = after_chunks("");
    assert_eq!(after_chunks(&format!("40000\r\n{}", "x".repeat(READ))), all);
    assert_eq!(after_chunks(&format!("400\r\n{}\r\n", "x".repeat(1024))), all);
    assert_eq!(after_records(6, &[b'x'; 8192]), all);
    // Five or eight bytes of framing for each byte of the body.
    assert!(after_chunks("1\r\na\r\n") < all * 2 / 3);
    assert!(after_records(6, b"a") < all * 2 / 3);
    // A read may have no byte of a body.
    assert!(after_chunks(&format!("1;{}\r\na\r\n", "e".repeat(4000))) < all * 2 / 3);
    assert!(after_records(7, b"e") < all * 2 / 3);
}
