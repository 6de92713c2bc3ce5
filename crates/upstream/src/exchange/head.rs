//! The fields of responses on their way from the decoder into records, and what is wrong with them (RFC 9113 sections 8.2 and
//! 8.3).

use freerun_conf::text_of;
use freerun_proto::ascii::{self, TOKEN, class};
use freerun_proto::h2::hpack::{DecodedField, FieldSink, Pseudo};

use super::record;

/// The most fields of a head or of trailers.
pub(crate) const MOST_FIELDS: usize = 1000;

/// The longest name of a field that a record can have, in bytes.
const LONGEST_NAME: usize = u16::MAX as usize;

/// The most bytes of a field that a message for the log shows.
const SHOWN: usize = 128;

/// The receiver of the fields of a block.
#[derive(Default)]
pub(crate) struct HeadSink {
    fields: Vec<u8>,
    count: usize,
    status: Option<u16>,
    /// The fault, as the text for the log.
    fault: Option<String>,
    /// A fault if this is a head: its status did not come first.
    is_late: bool,
}

/// A field as the log shows it.
fn shown(name: &[u8], value: &[u8]) -> String {
    let text = |bytes: &[u8]| -> String {
        let text = text_of(&bytes[..bytes.len().min(SHOWN)]).into_owned();
        text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
    };
    format!("{}: {}", text(name), text(value))
}

impl HeadSink {
    /// Forgets the fields.
    pub(crate) fn clear(&mut self) {
        self.fields.clear();
        (self.count, self.status, self.fault, self.is_late) = (0, None, None, false);
    }

    /// The status and the fields of a head.
    ///
    /// # Errors
    /// It is malformed; the text for the log says how.
    pub(crate) fn head(&mut self) -> Result<(u16, &[u8]), String> {
        match (self.fault.take(), self.status) {
            (Some(fault), _) => Err(fault),
            (None, Some(status)) if !self.is_late => Ok((status, &self.fields)),
            _ => Err("upstream sent no :status header".to_owned()),
        }
    }

    /// The fields of trailers.
    ///
    /// # Errors
    /// They are malformed; the text for the log says how.
    pub(crate) fn trailers(&mut self) -> Result<&[u8], String> {
        match self.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(&self.fields),
        }
    }

    #[cold]
    fn wrong(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    fn pseudo(&mut self, pseudo: Pseudo, name: &[u8], value: &[u8]) {
        if pseudo != Pseudo::Status {
            return self.wrong(format!("upstream sent invalid header \"{}\"", shown(name, value)));
        }
        if self.status.is_some() {
            return self.wrong("upstream sent duplicate :status header".to_owned());
        }
        let digit = |byte: u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
        let status = match value {
            [a, b, c] => digit(*a).zip(digit(*b)).zip(digit(*c)).map(|((a, b), c)| a * 100 + b * 10 + c),
            _ => None,
        };
        match status.filter(|status| *status >= 100) {
            Some(status) => self.status = Some(status),
            None => self
                .wrong(format!("upstream sent invalid :status \"{}\"", shown(value, b"").trim_end_matches([':', ' ']))),
        }
    }
}

impl FieldSink for HeadSink {
    fn field(&mut self, field: DecodedField<'_>) {
        let DecodedField { name, value, id, pseudo, .. } = field;
        self.count += 1;
        if self.fault.is_some() {
            return;
        }
        if let Some(pseudo) = pseudo {
            return self.pseudo(pseudo, name, value);
        }
        self.is_late |= self.status.is_none();
        if name.is_empty() {
            return self.wrong("upstream sent zero http2 header name length".to_owned());
        }
        let is_right = |byte: &u8| class(*byte) & TOKEN != 0 && !byte.is_ascii_uppercase();
        let is_name = ascii::same(id.lower_name(), name) || name.iter().all(is_right);
        if !is_name || ascii::has_null_or_line_end(value) || id.is_of_connection() {
            return self.wrong(format!("upstream sent invalid header: \"{}\"", shown(name, value)));
        }
        if name.len() > LONGEST_NAME {
            return self.wrong("upstream sent too long header name".to_owned());
        }
        if self.count > MOST_FIELDS {
            return self.wrong("upstream sent too many header lines".to_owned());
        }
        record::push_field(&mut self.fields, name, value);
    }
}

#[cfg(test)]
mod tests {
    use freerun_proto::HeaderId;

    use super::*;

    fn head(fields: &[(&str, &str)]) -> Result<u16, String> {
        let mut sink = HeadSink::default();
        put(&mut sink, fields);
        sink.head().map(|(status, _)| status)
    }

    fn put(sink: &mut HeadSink, fields: &[(&str, &str)]) {
        for (name, value) in fields {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let (id, pseudo) = (HeaderId::of(name), Pseudo::of(name));
            sink.field(DecodedField { name, value, id, pseudo, never_indexed: false });
        }
    }

    #[test]
    fn a_head_has_one_status_and_it_comes_first() {
        let ok = (":status", "200");
        for (fields, expected) in [
            (&[ok, ("server", "x"), ("a_b.c", "")][..], Ok(200)),
            (&[(":status", "103")], Ok(103)),
            (&[("a", "b")], Err("upstream sent no :status header")),
            (&[], Err("upstream sent no :status header")),
            (&[("a", "b"), ok], Err("upstream sent no :status header")),
            (&[ok, ok], Err("upstream sent duplicate :status header")),
            (&[(":status", "20")], Err("upstream sent invalid :status \"20\"")),
            (&[(":status", "2x0")], Err("upstream sent invalid :status \"2x0\"")),
            (&[(":status", "099")], Err("upstream sent invalid :status \"099\"")),
            (&[ok, (":path", "/")], Err("upstream sent invalid header \":path: /\"")),
            (&[ok, (":foo", "/")], Err("upstream sent invalid header \":foo: /\"")),
            (&[ok, ("Abc", "b")], Err("upstream sent invalid header: \"Abc: b\"")),
            (&[ok, ("a b", "x")], Err("upstream sent invalid header: \"a b: x\"")),
            (&[ok, ("a", "x\r\ny")], Err("upstream sent invalid header: \"a: x  y\"")),
            (&[ok, ("a", "x\0y")], Err("upstream sent invalid header: \"a: x y\"")),
            (&[ok, ("", "x")], Err("upstream sent zero http2 header name length")),
            (&[ok, ("connection", "close")], Err("upstream sent invalid header: \"connection: close\"")),
            (
                &[ok, ("transfer-encoding", "chunked")],
                Err("upstream sent invalid header: \"transfer-encoding: chunked\""),
            ),
            (&[ok, ("proxy-connection", "x")], Err("upstream sent invalid header: \"proxy-connection: x\"")),
        ] {
            assert_eq!(head(fields), expected.map_err(str::to_owned), "{fields:?}");
        }
        let longest = "x".repeat(LONGEST_NAME);
        assert_eq!(head(&[ok, (&longest, "b")]), Ok(200));
        let too_long = format!("{longest}x");
        assert_eq!(head(&[ok, (&too_long, "b")]), Err("upstream sent too long header name".to_owned()));
        let many: Vec<_> = std::iter::once(ok).chain((0..MOST_FIELDS).map(|_| ("a", "b"))).collect();
        assert_eq!(head(&many), Err("upstream sent too many header lines".to_owned()));
    }

    #[test]
    fn trailers_have_no_status_and_a_cleared_sink_is_as_new() {
        let mut sink = HeadSink::default();
        put(&mut sink, &[("grpc-status", "0")]);
        assert!(!sink.trailers().unwrap().is_empty());
        put(&mut sink, &[("Bad", "0")]);
        assert!(sink.trailers().is_err());
        sink.clear();
        assert_eq!(sink.trailers(), Ok(&b""[..]));
        assert!(sink.head().is_err());
    }
}
