//! Changing the fields of a head that was read already.

use super::parser::bit;
use super::types::{Field, RequestHead};
use crate::encode::push_value;
use crate::{HeaderId, HostSpan, Span, host};

impl RequestHead {
    /// Removes the fields whose names `is_gone` is true for.
    pub fn remove_fields(&mut self, buffer: &[u8], mut is_gone: impl FnMut(&[u8]) -> bool) {
        let before = self.fields.len();
        self.fields.retain(|field| !is_gone(field.name().of(buffer)));
        if self.fields.len() != before {
            self.fields_changed(buffer);
        }
    }

    /// Gives the field of this name a value: the first field gets it and the others are removed, or a field is added. Line
    /// ends in the value become spaces. The text is put into the buffer behind the head, before what follows it there, and
    /// belongs to the head from then on; returns its length. `$request_length` stays what it was.
    pub fn set_field(&mut self, buffer: &mut Vec<u8>, name: &[u8], value: &[u8]) -> usize {
        let Ok(name_len) = u16::try_from(name.len()) else { return 0 };
        let start = (self.len as usize).min(buffer.len());
        let mut text = [name, b": "].concat();
        push_value(value, &mut text);
        text.extend_from_slice(b"\r\n");
        let Ok(end) = u32::try_from(start + text.len()) else { return 0 };
        self.set_wire_len(self.told_len());
        self.len = end;
        let added = text.len();
        buffer.splice(start..start, text);
        let name_start = start as u32;
        let value_start = name_start + u32::from(name_len) + 2;
        let field = Field { name_start, value_start, value_end: end - 2, name_len, id: HeaderId::of(name) };
        let mut is_placed = false;
        self.fields.retain(|old| {
            if !old.name().of(buffer).eq_ignore_ascii_case(name) {
                return true;
            }
            let is_first = !std::mem::replace(&mut is_placed, true);
            if is_first {
                *old = field;
            }
            is_first
        });
        if !is_placed {
            self.fields.push(field);
        }
        self.fields_changed(buffer);
        added
    }

    /// Finds out again which fields there are, and the host that they name.
    fn fields_changed(&mut self, buffer: &[u8]) {
        let had_host = self.has(HeaderId::Host);
        self.present = self.fields.iter().fold(0, |present, field| present | bit(field.id));
        let host = self.find(HeaderId::Host).map(Field::value);
        let moved = |value: Span| Some(HostSpan::at(value.start, host::parse(value.of(buffer))?));
        match host {
            Some(value) => self.host = moved(value),
            None if had_host => self.host = None,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HeadRules, parse_request};
    use super::*;

    fn head(text: &str) -> (Vec<u8>, Box<RequestHead>) {
        let buffer = text.as_bytes().to_vec();
        let head = parse_request(&buffer, &HeadRules::default()).unwrap().unwrap();
        (buffer, head)
    }

    fn shown(head: &RequestHead, buffer: &[u8]) -> Vec<String> {
        let text = |span: Span| String::from_utf8_lossy(span.of(buffer)).into_owned();
        head.fields().iter().map(|field| format!("{}={}", text(field.name()), text(field.value()))).collect()
    }

    #[test]
    fn a_field_is_replaced_in_its_place_or_added_and_the_body_stays_behind_the_head() {
        let (mut buffer, mut head) =
            head("POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\nY: 2\r\nx: 3\r\nContent-Length: 4\r\n\r\nbody");
        let told = head.told_len();
        let added = head.set_field(&mut buffer, b"X", b"new\r\nvalue") + head.set_field(&mut buffer, b"Z", b"");
        assert_eq!(shown(&head, &buffer), ["Host=a", "X=new  value", "Y=2", "Content-Length=4", "Z="]);
        assert_eq!(&buffer[head.len as usize..], b"body");
        assert_eq!((added, head.told_len()), ("X: new  value\r\nZ: \r\n".len(), told));
        assert_eq!(head.host.unwrap().name(&buffer), "a");
    }

    #[test]
    fn what_is_removed_is_not_found_any_more() {
        let (mut buffer, mut head) = head("GET / HTTP/1.1\r\nHost: a\r\nCookie: 1\r\nX-A: 1\r\nX-B: 2\r\n\r\n");
        head.remove_fields(&buffer, |name| name.starts_with(b"X-") || name == b"Cookie");
        assert_eq!(shown(&head, &buffer), ["Host=a"]);
        assert!(!head.has(HeaderId::Cookie) && head.has(HeaderId::Host));
        head.set_field(&mut buffer, b"host", b"B.example:8");
        assert_eq!(
            head.host.map(|host| (host.name(&buffer).into_owned(), host.port)),
            Some(("b.example".into(), Some(8)))
        );
        head.set_field(&mut buffer, b"host", b"not/one");
        assert_eq!(head.host, None);
        head.set_field(&mut buffer, b"Host", b"c");
        head.remove_fields(&buffer, |name| name == b"Host");
        assert_eq!((head.host, head.has(HeaderId::Host)), (None, false));
    }
}
