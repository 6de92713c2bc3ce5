//! Rules for the other side's frames (RFC 9113): the harness is strict, so that every test that speaks HTTP/2 sees a
//! server that breaks a rule.

use super::block::Fields;
use super::frame::Frame;
use super::message::{Message, find};
use super::names::{kind, setting};

/// Whether a frame's length and stream are allowed for its type.
pub(super) fn frame(frame: &Frame, most: u32) -> Result<(), String> {
    let length = frame.payload.len();
    if length > most as usize {
        return Err(format!("{frame:?}, although MAX_FRAME_SIZE is {most}"));
    }
    let right = match frame.kind {
        kind::DATA | kind::HEADERS | kind::CONTINUATION => frame.stream != 0,
        kind::PRIORITY => frame.stream != 0 && length == 5,
        kind::RST_STREAM => frame.stream != 0 && length == 4,
        kind::SETTINGS => frame.stream == 0 && length.is_multiple_of(6),
        kind::PING => frame.stream == 0 && length == 8,
        kind::GOAWAY => frame.stream == 0 && length >= 8,
        kind::WINDOW_UPDATE => length == 4 && frame.number(0).is_some_and(|more| (1..1 << 31).contains(&more)),
        kind::PUSH_PROMISE => false,
        _ => true,
    };
    if right { Ok(()) } else { Err(format!("{frame:?} is wrong in itself")) }
}

/// Whether these parameters may be set.
pub(super) fn settings(parameters: &[(u16, u32)], server: bool) -> Result<(), String> {
    let wrong = parameters.iter().find(|(name, value)| match *name {
        setting::ENABLE_PUSH => *value > u32::from(!server),
        setting::INITIAL_WINDOW_SIZE => *value >= 1 << 31,
        setting::MAX_FRAME_SIZE => !(1 << 14..1 << 24).contains(value),
        setting::ENABLE_CONNECT_PROTOCOL | setting::NO_RFC7540_PRIORITIES => *value > 1,
        _ => false,
    });
    wrong.map_or(Ok(()), |wrong| Err(format!("the setting {wrong:?}")))
}

/// Whether these fields may form a head (sections 8.2 and 8.3).
pub(super) fn head(fields: &Fields, response: bool) -> Result<(), String> {
    let pseudo: Vec<&str> =
        fields.iter().map(|(name, _)| name.as_str()).take_while(|name| name.starts_with(':')).collect();
    let right = if response {
        let status = find(fields, ":status").unwrap_or_default();
        pseudo == [":status"] && status.len() == 3 && status.bytes().all(|digit| digit.is_ascii_digit())
    } else {
        let known = [":method", ":scheme", ":path", ":authority", ":protocol"];
        let mut once = pseudo.clone();
        once.sort_unstable();
        once.dedup();
        once.len() == pseudo.len() && pseudo.contains(&":method") && pseudo.iter().all(|name| known.contains(name))
    };
    if !right {
        return Err(format!("the pseudo-fields of {fields:?}"));
    }
    rest(&fields[pseudo.len()..])
}

/// Whether these fields may be trailers.
pub(super) fn trailers(fields: &Fields) -> Result<(), String> {
    rest(fields)
}

fn rest(fields: &[(String, String)]) -> Result<(), String> {
    let token =
        |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte);
    let wrong = fields.iter().find(|(name, value)| {
        let of_connection = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
        name.is_empty()
            || !name.bytes().all(token)
            || of_connection.contains(&name.as_str())
            || name == "te" && value != "trailers"
            || value.bytes().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
            || value.starts_with([' ', '\t'])
            || value.ends_with([' ', '\t'])
    });
    wrong.map_or(Ok(()), |wrong| Err(format!("the field {wrong:?}")))
}

/// Whether a body that has ended has the length that its head says. A response without a body may say the length that
/// it would have otherwise.
pub(super) fn length(message: &Message) -> Result<(), String> {
    let said = message.field("content-length").map(str::parse::<usize>);
    match said {
        Some(Ok(length)) if message.body.is_empty() || message.body.len() == length => Ok(()),
        None => Ok(()),
        Some(said) => Err(format!("a body of {} bytes, and a length of {said:?}", message.body.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::{code, flag};

    fn fields(list: &[(&str, &str)]) -> Fields {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn heads() {
        assert_eq!(head(&fields(&[(":status", "200"), ("server", "x")]), true), Ok(()));
        for wrong in [
            &[(":status", "200"), (":status", "200")][..],
            &[("server", "x"), (":status", "200")],
            &[(":status", "20")],
            &[(":status", "200"), ("Server", "x")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("x", "a\nb")],
            &[(":status", "200"), ("x", " a")],
            &[(":status", "200"), ("", "a")],
            &[(":status", "200"), (":path", "/")],
        ] {
            assert!(head(&fields(wrong), true).is_err(), "{wrong:?}");
        }
        let request = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("te", "trailers")];
        assert_eq!(head(&fields(&request), false), Ok(()));
        assert!(head(&fields(&[(":path", "/"), (":path", "/"), (":method", "GET")]), false).is_err());
        assert!(trailers(&fields(&[(":status", "200")])).is_err());
    }

    #[test]
    fn frames() {
        assert_eq!(frame(&Frame::reset(1, code::CANCEL), 16_384), Ok(()));
        for wrong in [
            Frame::reset(0, code::CANCEL),
            Frame::window(1, 0),
            Frame::window(0, 1 << 31),
            Frame::data(0, "x"),
            Frame::data(1, vec![0; 16_385]),
            Frame::new(kind::PING, flag::ACK, 0, [0; 7]),
            Frame::new(kind::PUSH_PROMISE, 0, 1, [0; 4]),
        ] {
            assert!(frame(&wrong, 16_384).is_err(), "{wrong:?}");
        }
        assert!(settings(&[(setting::MAX_FRAME_SIZE, 1 << 24)], true).is_err());
        assert!(settings(&[(setting::ENABLE_PUSH, 1)], true).is_err());
        assert_eq!(settings(&[(setting::ENABLE_PUSH, 1), (4, 0)], false), Ok(()));
    }
}
