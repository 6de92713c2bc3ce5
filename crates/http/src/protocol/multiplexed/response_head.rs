//! The head of a response as fields.

use std::cell::Cell;
use std::num::NonZeroU16;

use crate::connection::stream::{ResponseHead, Stream};
use crate::message::field_block::FieldBlock;
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::response::Response;
use crate::write::decide::ResponseDecision;
use crate::write::fields::{self, HeadSink};

/// A head as a list of fields.
#[derive(Default)]
struct FieldList(FieldBlock);

thread_local! {
    /// The memory for the fields of the next response.
    static SPARE: Cell<FieldBlock> = Cell::default();
}

impl HeadSink for FieldList {
    fn start(&mut self, request: &Request, response: &Response, core: &CoreSettings) {
        fields::own_start(request, response, core, self);
    }

    fn lines(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(colon) = memchr::memchr(b':', line) {
                self.field(&line[..colon], line[colon + 1..].trim_ascii_start());
            }
        }
    }

    fn begin(&mut self, name: &[u8]) {
        self.0.begin(name);
    }

    fn push(&mut self, value: &[u8]) {
        self.0.value(|text| freerun_proto::encode::push_value(value, text));
    }

    fn push_clean(&mut self, value: &[u8]) {
        self.0.value(|text| text.extend_from_slice(value));
    }

    fn end(&mut self) {
        self.0.end();
    }
}

/// Sends the head of a response; `ends` says that nothing follows. The request notes how long it is, and what a log may ask
/// of it.
pub(super) fn send(
    request: &mut Request,
    stream: &dyn Stream,
    response: &Response,
    decided: &ResponseDecision,
    ends: bool,
) {
    let mut list = FieldList(SPARE.take());
    list.0.clear();
    fields::print(request, response, decided, &mut list);
    let fields = list.0;
    if request.generation.http.keeps_sent_head {
        let sent_head = &mut request.answered.head;
        sent_head.clear();
        fields.iter().for_each(|(name, value)| freerun_proto::encode::field(sent_head, name, value));
        request.answered.location = None;
    }
    request.sent.bytes += fields.text_len() as u64;
    let status = response.told_as.map_or(request.sent.code(), NonZeroU16::get);
    let head = ResponseHead { status, fields };
    stream.send_head(&head, ends);
    SPARE.set(head.fields);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_made_lines_become_fields() {
        let mut list = FieldList::default();
        list.lines(b"Content-Type: text/plain\r\nETag: \"a:b\"\r\n");
        list.begin(b"Location");
        list.push(b"http://");
        list.push(b"host/\r\nSet-Cookie: x");
        list.end();
        let fields: Vec<_> = list.0.iter().collect();
        let expected: [(&[u8], &[u8]); 3] =
            [(b"Content-Type", b"text/plain"), (b"ETag", b"\"a:b\""), (b"Location", b"http://host/  Set-Cookie: x")];
        assert_eq!(fields, expected);
    }
}
