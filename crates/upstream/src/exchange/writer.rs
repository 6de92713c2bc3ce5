//! Records of a request on their way into a stream.

use std::io;

use bytes::Bytes;

use super::record::{self, RECORD_HEAD, RecordFields};

/// A stream that a request is written into.
pub(crate) trait RequestSink {
    /// Begins the stream with the head of a request, whose fields have their places in the payload. `ends`: nothing follows.
    ///
    /// # Errors
    /// The stream cannot begin; `WouldBlock`: it cannot yet.
    fn begin(&self, payload: &[u8], ends: bool, fields: RecordFields<'_>) -> io::Result<()>;

    /// Whether nothing more can be sent on the stream, which has begun.
    fn is_over(&self) -> bool;

    /// Number of bytes of a body that the stream takes now.
    fn room(&self) -> usize;

    /// Sends bytes of the body. `ends`: they are the last ones.
    fn send(&self, part: Bytes, ends: bool);
}

/// State of the records that are written.
#[derive(Default)]
pub(crate) struct RecordWriter {
    /// The head was written.
    has_begun: bool,
    /// Number of bytes of a body that are still to be written.
    left: usize,
    /// The bytes are the last ones.
    is_last: bool,
}

impl RecordWriter {
    /// Writes as much of `out`, and then of `piece`, as the stream takes now. All but the bytes of a body have to be in `out`,
    /// record by record.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room for any byte; or the stream has ended.
    pub(crate) fn write(&mut self, sink: &impl RequestSink, out: &[u8], piece: &Bytes) -> io::Result<usize> {
        let all = out.len() + piece.len();
        let mut at = 0;
        while at < all {
            if self.has_begun && sink.is_over() {
                return if at > 0 { Ok(at) } else { Err(io::ErrorKind::BrokenPipe.into()) };
            }
            let step = match self.left {
                0 => self.write_record(sink, out, at)?,
                left => {
                    if !self.has_begun {
                        return Err(io::ErrorKind::InvalidInput.into());
                    }
                    let room = sink.room().min(left);
                    let part = match out.get(at..).filter(|rest| !rest.is_empty()) {
                        Some(rest) => Bytes::copy_from_slice(&rest[..rest.len().min(room)]),
                        None => {
                            let from = at - out.len();
                            piece.slice(from..piece.len().min(from + room))
                        }
                    };
                    let len = part.len();
                    if len > 0 {
                        self.left -= len;
                        sink.send(part, self.is_last && self.left == 0);
                    }
                    len
                }
            };
            if step == 0 {
                break;
            }
            at += step;
        }
        if at == 0 && all > 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(at) }
    }

    /// Writes the record that begins at `at`; of a body only what precedes its bytes. Returns how many bytes it has.
    fn write_record(&mut self, sink: &impl RequestSink, out: &[u8], at: usize) -> io::Result<usize> {
        let no_record = || io::Error::from(io::ErrorKind::InvalidInput);
        let record = out.get(at..).ok_or_else(no_record)?;
        let (kind, len) = record::parse(record).ok_or_else(no_record)?;
        match (kind, self.has_begun) {
            (record::HEAD, false) => {
                let payload = record.get(RECORD_HEAD..RECORD_HEAD + len).ok_or_else(no_record)?;
                let (ends, fields) = record::split_request(payload).ok_or_else(no_record)?;
                sink.begin(payload, ends, fields)?;
                self.has_begun = true;
                Ok(RECORD_HEAD + len)
            }
            (record::DATA | record::LAST, true) if len > 0 => {
                (self.left, self.is_last) = (len, kind == record::LAST);
                Ok(RECORD_HEAD)
            }
            (record::END | record::LAST, true) => {
                sink.send(Bytes::new(), true);
                Ok(RECORD_HEAD)
            }
            _ => Err(no_record()),
        }
    }
}
