//! OTLP/gRPC: one call of the collector's service over a stream of HTTP/2.
//!
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use freerun_upstream::exchange::record::{self, ExchangeFault, ResponseFields, ResponseRecord};
use freerun_upstream::http2::{Http2Connection, Http2Stream};

use super::{AGENT, ExportError, LIMITS, Signal};
use crate::otlp::{PartialSuccess, printable};
use crate::settings::ExporterSettings;

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The most bytes of a body that are read at a time.
const PIECE: usize = 16 << 10;

/// The code of success.
const OK: u32 = 0;

/// The codes that OTLP/gRPC counts as retryable: cancelled, deadline exceeded, resource exhausted, aborted, out of range,
/// unavailable, data loss.
const RETRYABLE: [u32; 7] = [1, 4, 8, 10, 11, 14, 15];

/// A stream of a connection. `None`: the connection has ended.
pub(super) fn stream(connection: Arc<Http2Connection>) -> Option<Http2Stream> {
    Http2Stream::alone(connection)
}

/// Sends a message, and waits for the end of the answer. The caller limits the time.
pub(super) async fn export(
    stream: &Http2Stream,
    settings: &ExporterSettings,
    signal: Signal,
    message: &[u8],
) -> Result<PartialSuccess, ExportError> {
    let mut head = Vec::with_capacity(512);
    record::request_head(&mut head, false, |fields| {
        fields.field(b":method", b"POST");
        fields.field(b":scheme", if settings.endpoint.is_secure { b"https" } else { b"http" });
        fields.field(b":authority", settings.endpoint.authority().as_bytes());
        fields.field(b":path", signal.grpc_path().as_bytes());
        fields.field(b"te", b"trailers");
        fields.field(b"content-type", b"application/grpc");
        fields.field(b"user-agent", AGENT.as_bytes());
        for (name, value) in &settings.fields {
            fields.field(name.as_bytes(), value.as_bytes());
        }
    });
    let length = u32::try_from(message.len()).map_err(|_| ExportError::Refused("too long".to_owned()))?;
    let body = Bytes::from([&[0][..], &length.to_be_bytes(), message].concat());
    record::body_head(&mut head, body.len(), true);
    let mut answer = CallAnswer::default();
    let sent = send(stream, &head, body).await;
    match receive(stream, &mut answer).await {
        Ok(()) => answer.result(),
        // A collector may answer before it has read everything; without an answer the failed write tells more.
        Err(error) => Err(sent.err().map_or(error, |error| broken(&error))),
    }
}

fn broken(error: &io::Error) -> ExportError {
    ExportError::Unreachable(format!("the connection broke: {error}"))
}

async fn send(stream: &Http2Stream, mut head: &[u8], mut body: Bytes) -> io::Result<()> {
    while !head.is_empty() || !body.is_empty() {
        match stream.try_write(head, &body) {
            Ok(written) => {
                let of_head = written.min(head.len());
                head = &head[of_head..];
                body.advance(written - of_head);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|context| stream.poll_writable(context)).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The answer of a call, as far as it has come.
#[derive(Default)]
struct CallAnswer {
    status: u16,
    body: Vec<u8>,
    /// Whether the answer is complete.
    is_done: bool,
    code: Option<u32>,
    message: String,
}

impl CallAnswer {
    fn take_fields(&mut self, fields: &ResponseFields) {
        for (name, value) in fields.iter() {
            let (name, value) = (&fields.text[name], &fields.text[value]);
            if name == b"grpc-status" {
                self.code = std::str::from_utf8(value).ok().and_then(|code| code.trim().parse().ok());
            } else if name == b"grpc-message" {
                self.message = printable(value);
            }
        }
    }

    fn result(self) -> Result<PartialSuccess, ExportError> {
        let code = match (self.status, self.code) {
            (_, Some(code)) => code,
            (200, None) => return Err(ExportError::Refused("the answer has no grpc-status".to_owned())),
            (429 | 502..=504, None) => return Err(ExportError::Unavailable(format!("status {}", self.status))),
            (status, None) => return Err(ExportError::Refused(format!("status {status}"))),
        };
        if code == OK {
            return Ok(PartialSuccess::parse(self.body.get(PREFIX..).unwrap_or_default()));
        }
        let text = format!("grpc-status {code}{}{}", if self.message.is_empty() { "" } else { ": " }, self.message);
        Err(if RETRYABLE.contains(&code) { ExportError::Unavailable(text) } else { ExportError::Refused(text) })
    }
}

async fn receive(stream: &Http2Stream, answer: &mut CallAnswer) -> Result<(), ExportError> {
    let mut input = BytesMut::new();
    let mut in_data = 0;
    while !answer.is_done {
        let read = poll_fn(|context| stream.poll_read(context, &mut input, PIECE)).await;
        if read.map_err(|error| broken(&error))? == 0 {
            return Err(ExportError::Unreachable(
                "the connection was closed before the answer was complete".to_owned(),
            ));
        }
        loop {
            if in_data > 0 {
                let piece = input.split_to(in_data.min(input.len()));
                in_data -= piece.len();
                if answer.body.len() + piece.len() > LIMITS.body {
                    return Err(ExportError::Refused("the answer is too long".to_owned()));
                }
                answer.body.extend_from_slice(&piece);
                if in_data > 0 {
                    break;
                }
            }
            let next = record::next_response(&mut input);
            match next.map_err(|error| ExportError::Unreachable(error.to_string()))? {
                None => break,
                Some(ResponseRecord::Head { ends, status, fields }) => {
                    answer.status = status;
                    answer.take_fields(&fields);
                    answer.is_done = ends;
                }
                Some(ResponseRecord::Data(len)) => in_data = len,
                Some(ResponseRecord::Trailers(fields)) => {
                    answer.take_fields(&fields);
                    answer.is_done = true;
                }
                Some(ResponseRecord::End) => answer.is_done = true,
                Some(ResponseRecord::Broken(fault)) => return Err(ExportError::Unreachable(words(&fault))),
            }
        }
    }
    Ok(())
}

fn words(fault: &ExchangeFault) -> String {
    match fault {
        ExchangeFault::Reset(code) => format!("the collector reset the stream with code {code}"),
        ExchangeFault::Refused(code) => format!("the collector refused the stream with code {code}"),
        ExchangeFault::GoneAway(code) => format!("the collector closes the connection with code {code}"),
        ExchangeFault::Invalid(text) => format!("the collector's answer is malformed: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_decide_whether_an_export_is_repeated() {
        let answer = |status, code| CallAnswer { status, code, ..CallAnswer::default() }.result();
        assert!(answer(200, Some(0)).is_ok());
        for (status, code, is_repeated) in [
            (200, Some(14), true),
            (200, Some(3), false),
            (200, Some(12), false),
            (200, None, false),
            (503, None, true),
            (404, None, false),
        ] {
            let error = answer(status, code).expect_err("a failure");
            assert_eq!(error.may_be_repeated(), is_repeated, "{error}");
        }
        let body = [&[0, 0, 0, 0, 4][..], b"\x0a\x02\x08\x03"].concat();
        let taken = CallAnswer { status: 200, code: Some(0), body, ..CallAnswer::default() }.result().expect("taken");
        assert_eq!(taken.rejected, 3);
    }
}
