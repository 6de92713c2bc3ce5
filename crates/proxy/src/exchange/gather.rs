//! Small pieces of a body put together: an application that writes line by line sends a chunk, or a record, for each line,
//! and each would cost as much on its way to the client as a large piece does.

use bytes::{Bytes, BytesMut};
use freerun_runtime::loops;

use crate::exchange::{BodyStep, Fault};

/// Pieces from this length on are handed on as they are, without copying.
pub const LARGE: usize = 2048;
/// Pieces are put together until they have this length.
pub const GATHERED: usize = 16 * 1024;

/// What was found behind the pieces that were put together, and comes next.
#[derive(Debug, Default)]
pub struct Held(Option<Result<Bytes, Fault>>);

impl Held {
    /// Whether something comes next.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The next step of a body: what is held, or else what `step` finds, with the small pieces behind it that `input` has.
    /// `step` takes the next piece out of `input`, or says that there is none.
    ///
    /// # Errors
    /// Those of `step`, after the pieces that came before.
    pub fn step<S>(
        &mut self,
        reader: &mut S,
        input: &mut BytesMut,
        step: impl FnMut(&mut S, &mut BytesMut) -> Result<BodyStep, Fault>,
    ) -> Result<BodyStep, Fault> {
        if let Some(held) = self.0.take() {
            return held.map(BodyStep::Data);
        }
        let had = input.len();
        let found = self.gather(reader, input, step);
        let given = match &found {
            Ok(BodyStep::Data(piece)) => piece.len(),
            _ => 0,
        };
        let held = self.0.as_ref().and_then(|held| held.as_ref().ok()).map_or(0, Bytes::len);
        // A read may bring more chunks, or records, than could be looked at while others wait.
        loops::spend((had - input.len()).saturating_sub(given + held));
        found
    }

    fn gather<S>(
        &mut self,
        reader: &mut S,
        input: &mut BytesMut,
        mut step: impl FnMut(&mut S, &mut BytesMut) -> Result<BodyStep, Fault>,
    ) -> Result<BodyStep, Fault> {
        let first = match step(reader, input)? {
            BodyStep::Data(first) if first.len() < LARGE && !input.is_empty() => first,
            other => return Ok(other),
        };
        let mut gathered = BytesMut::new();
        while gathered.len() < GATHERED && !input.is_empty() {
            match step(reader, input) {
                Ok(BodyStep::Data(piece)) if piece.len() < LARGE => {
                    if gathered.is_empty() {
                        gathered.reserve(GATHERED + LARGE);
                        gathered.extend_from_slice(&first);
                    }
                    gathered.extend_from_slice(&piece);
                }
                Ok(BodyStep::Data(piece)) => {
                    self.0 = Some(Ok(piece));
                    break;
                }
                // Asked again, it says the same.
                Ok(BodyStep::More | BodyStep::End) => break,
                Err(fault) => {
                    self.0 = Some(Err(fault));
                    break;
                }
            }
        }
        Ok(BodyStep::Data(if gathered.is_empty() { first } else { gathered.freeze() }))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use freerun_proto::response::{Asked, HeadKind};

    use super::*;
    use crate::exchange::reply::Reply;
    use crate::family::fastcgi::reply::FastCgiReply;

    /// What one read brings at most.
    const READ: usize = 256 * 1024;

    /// How many reads may still follow in the same turn when all of this was looked at, up to where more has to come.
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
        let mut reply = Reply::new(HeadKind::Http, Asked::Other, 4096);
        reply.head(&mut BytesMut::from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")).unwrap();
        reads_after(&mut reply, chunk.repeat((READ / chunk.len().max(1)).max(1)).as_bytes(), Reply::body)
    }

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        [&[1, kind, 0, 1, (content.len() >> 8) as u8, content.len() as u8, 0, 0], content].concat()
    }

    fn after_records(kind: u8, content: &[u8]) -> usize {
        let mut reply = FastCgiReply::new(Asked::Other, 4096, Vec::new());
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
        // Of each byte of the body, five bytes are framing, or eight.
        assert!(after_chunks("1\r\na\r\n") < all * 2 / 3);
        assert!(after_records(6, b"a") < all * 2 / 3);
        // There need not be anything of a body.
        assert!(after_chunks(&format!("1;{}\r\na\r\n", "e".repeat(4000))) < all * 2 / 3);
        assert!(after_records(7, b"e") < all * 2 / 3);
    }
}
