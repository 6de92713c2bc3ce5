//! The question of `health_check type=grpc` and its answer. In this protocol servers of gRPC say whether they, or one
//! of their services, are well.
//!
//! <https://github.com/grpc/grpc/blob/master/doc/health-checking.md>

use freerun_http::request::response::Field;

/// The path of the call.
pub const PATH: &str = "/grpc.health.v1.Health/Check";

/// The answer of a service that takes requests: `SERVING`.
const SERVING: u64 = 1;

/// The bytes before each message (Length-Prefixed-Message of gRPC's description of its protocol over HTTP/2): whether it is
/// compressed, and its length.
const PREFIX: usize = 5;

/// The field `service` of the question and the field `status` of the answer, in Protocol Buffers: number and kind.
const SERVICE: u8 = 1 << 3 | LENGTH;
const STATUS: u64 = 1 << 3;

/// The kind of fields in Protocol Buffers that have a length, and the kinds with fixed lengths and these lengths.
const LENGTH: u8 = 2;
const FIXED: [(u64, usize); 2] = [(1, 8), (5, 4)];

/// The check's parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrpcCheck {
    /// The service that is asked about; an empty name stands for the whole server.
    pub service: String,
    /// The result of the call that a healthy server gives. With 0, the default, its answer has to be that it takes requests.
    pub status: u32,
}

impl GrpcCheck {
    /// The body of the question.
    pub fn question(&self) -> Vec<u8> {
        let mut message = Vec::new();
        if !self.service.is_empty() {
            message.push(SERVICE);
            push_number(self.service.len(), &mut message);
            message.extend_from_slice(self.service.as_bytes());
        }
        let mut body = vec![0];
        // A word of a configuration is shorter than 4 GiB.
        body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
        body.append(&mut message);
        body
    }

    /// Fault of an answer, as the text for the log; `None` if it has none. `fields` are the fields of the head and the
    /// trailers: the result is in the trailers, or in a head that is all of the response.
    pub fn refuses(&self, status: u16, fields: &[Field], body: &[u8]) -> Option<&'static str> {
        if status != 200 {
            return Some("checking status code");
        }
        let result = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"grpc-status"));
        let result = result.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse::<u32>().ok());
        match result {
            Some(result) if result != self.status => Some("checking grpc-status"),
            None => Some("checking grpc-status"),
            Some(0) if serving(body) != Some(SERVING) => Some("checking that the service is serving"),
            Some(_) => None,
        }
    }
}

/// Appends a number as Protocol Buffers have it: seven bits in each byte, the lowest first.
fn push_number(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The field `status` in the answer's body; 0 if it is left out. `None`: the body is not an answer.
fn serving(body: &[u8]) -> Option<u64> {
    let (prefix, message) = body.split_at_checked(PREFIX)?;
    let length = u32::from_be_bytes(*prefix.last_chunk()?);
    // Nobody has asked for a compressed message.
    let mut message = message.get(..usize::try_from(length).ok()?).filter(|_| prefix[0] == 0)?;
    let mut status = 0;
    while !message.is_empty() {
        match take_number(&mut message)? {
            STATUS => status = take_number(&mut message)?,
            tag => {
                let skipped = match tag & 7 {
                    0 => take_number(&mut message).map(|_| 0)?,
                    kind if kind == u64::from(LENGTH) => usize::try_from(take_number(&mut message)?).ok()?,
                    kind => FIXED.iter().find(|(of, _)| *of == kind)?.1,
                };
                message = message.get(skipped..)?;
            }
        }
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_the_service() {
        assert_eq!(GrpcCheck::default().question(), [0, 0, 0, 0, 0]);
        let check = GrpcCheck { service: "ab".to_owned(), status: 0 };
        assert_eq!(check.question(), b"\0\0\0\0\x04\x0a\x02ab");
        let check = GrpcCheck { service: "x".repeat(300), status: 0 };
        let question = check.question();
        assert_eq!((question.len(), &question[..8]), (308, &b"\0\0\0\x01\x2f\x0a\xac\x02"[..]));
    }

    fn refuses(expected: u32, status: u16, result: Option<&'static str>, body: &[u8]) -> Option<&'static str> {
        let fields: Vec<Field> = result.map(|result| ("grpc-status".into(), result.into())).into_iter().collect();
        GrpcCheck { service: String::new(), status: expected }.refuses(status, &fields, body)
    }

    #[test]
    fn a_healthy_server_says_that_it_serves() {
        let serving = b"\0\0\0\0\x02\x08\x01";
        assert_eq!(refuses(0, 200, Some("0"), serving), None);
        // Other fields are passed over, and so is what follows the first message.
        for body in [
            &b"\0\0\0\0\x0e\x12\x02ab\x18\x85\x01\x25abcd\x08\x01"[..],
            b"\0\0\0\0\x0b\x29abcdefgh\x08\x01",
            b"\0\0\0\0\x02\x08\x01more",
        ] {
            assert_eq!(refuses(0, 200, Some("0"), body), None, "{}", body.escape_ascii());
        }
        for body in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\0",
            b"\0\0\0\0\x02\x08\x02",
            b"\0\0\0\0\x02\x08",
            b"\0\0\0\0\x01\x08\x01",
            b"\x01\0\0\0\x02\x08\x01",
            b"\0\xff\xff\xff\xff\x08\x01",
            b"\0\0\0\0\x02\x0b\x01",
            b"\0\0\0\0\x0c\x08\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        ] {
            let why = refuses(0, 200, Some("0"), body);
            assert_eq!(why, Some("checking that the service is serving"), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn a_server_may_be_known_by_another_result() {
        assert_eq!(refuses(12, 200, Some("12"), b""), None);
        assert_eq!(refuses(12, 200, Some("0"), b"\0\0\0\0\x02\x08\x01"), Some("checking grpc-status"));
        assert_eq!(refuses(0, 200, Some("5"), b""), Some("checking grpc-status"));
        for result in [None, Some(""), Some("x"), Some("-1")] {
            assert_eq!(refuses(0, 200, result, b""), Some("checking grpc-status"), "{result:?}");
        }
        assert_eq!(refuses(12, 502, Some("12"), b""), Some("checking status code"));
    }
}
