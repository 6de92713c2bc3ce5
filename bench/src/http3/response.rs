//! Requests and responses of HTTP/3 as bytes: as little as a client needs that wants to know the status and the length.

use std::io::{self, ErrorKind};

/// Types of frames (RFC 9114 section 7.2).
const DATA: u64 = 0x00;
const HEADERS: u64 = 0x01;

/// `:status: 200` in the static table (RFC 9204 appendix A), as an indexed field line.
const STATUS_200: u8 = 0xc0 | 25;

/// The control stream of a client: its type, and SETTINGS that give the server a table of 4,096 bytes.
pub const CONTROL: [u8; 6] = [0x00, 0x04, 0x03, 0x01, 0x50, 0x00];

/// The largest integers of one byte in the prefix of a section (RFC 9204 section 4.5.1).
const MOST_REQUIRED: u8 = 0xfe;
const MOST_BASE: u8 = 0x7e;

/// The methods in the static table.
const GET: u8 = 17;
const POST: u8 = 20;

/// The head of a request for a path as one frame.
pub fn request(path: &str) -> Vec<u8> {
    head(GET, &[(0, "bench"), (1, path), (95, "freerun-bench")])
}

/// The head of a request with a body of `length` bytes, and the head of the body's only frame.
pub fn upload(path: &str, length: u64) -> Vec<u8> {
    let mut bytes = head(POST, &[(0, "bench"), (1, path), (4, &length.to_string()), (95, "freerun-bench")]);
    bytes.push(0x00);
    bytes.extend_from_slice(&(0xc0 << 56 | length).to_be_bytes());
    bytes
}

/// A head with a method and fields, whose names are in the static table, as one frame.
fn head(method: u8, fields: &[(u8, &str)]) -> Vec<u8> {
    // No entry of the dynamic table; https.
    let mut section = vec![0, 0, 0xc0 | method, 0xc0 | 23];
    fields.iter().for_each(|(index, value)| literal(*index, value, &mut section));
    let mut frame = vec![0x01];
    // A length of two bytes holds every path here.
    frame.extend_from_slice(&(0x4000 | u16::try_from(section.len()).unwrap_or(0) & 0x3fff).to_be_bytes());
    frame.extend_from_slice(&section);
    frame
}

/// A field whose name is in the static table.
fn literal(index: u8, value: &str, out: &mut Vec<u8>) {
    if index < 15 {
        out.push(0x50 | index);
    } else {
        out.extend([0x5f, index - 15]);
    }
    debug_assert!(value.len() < 127, "a length of one byte");
    out.push(u8::try_from(value.len()).unwrap_or(0));
    out.extend_from_slice(value.as_bytes());
}

/// A response, as far as it has come.
#[derive(Debug, Default)]
pub struct Response {
    /// The bytes of a frame's head, or of the first field of the response.
    head: Vec<u8>,
    /// The rest of the frame.
    rest: u64,
    kind: Option<u64>,
    has_status: bool,
    /// Whether its head refers to the table of fields.
    pub refers: bool,
    /// The length of the body that has come.
    pub body: u64,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

impl Response {
    /// Takes what has come. Every status but 200 is an error.
    pub fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some(kind) = self.kind else {
                self.head.push(bytes[0]);
                bytes = &bytes[1..];
                if let Some((kind, length)) = frame_head(&self.head) {
                    self.head.clear();
                    (self.kind, self.rest) = ((length > 0).then_some(kind), length);
                }
                continue;
            };
            let count = usize::try_from(self.rest).unwrap_or(usize::MAX).min(bytes.len());
            let (piece, following) = bytes.split_at(count);
            match kind {
                DATA => self.body += count as u64,
                HEADERS if !self.has_status => {
                    let wanted = 3_usize.saturating_sub(self.head.len()).min(piece.len());
                    self.head.extend_from_slice(&piece[..wanted]);
                    if self.head.len() == 3 {
                        let [required, base, status] = [self.head[0], self.head[1], self.head[2]];
                        if required > MOST_REQUIRED || base & 0x7f > MOST_BASE || status != STATUS_200 {
                            return Err(bad("a response without status 200"));
                        }
                        (self.has_status, self.refers) = (true, required > 0);
                        self.head.clear();
                    }
                }
                _ => {}
            }
            self.rest -= count as u64;
            if self.rest == 0 {
                self.kind = None;
            }
            bytes = following;
        }
        Ok(())
    }

    /// Looks whether the response is whole when its stream has ended.
    pub fn end(&self, size: u64) -> io::Result<()> {
        if self.has_status && self.kind.is_none() && self.head.is_empty() && self.body == size {
            Ok(())
        } else {
            Err(bad("a response of another length"))
        }
    }
}

/// The type and the length of a frame, once both are there.
fn frame_head(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut rest = bytes;
    Some((varint(&mut rest)?, varint(&mut rest)?))
}

/// An integer of variable length (RFC 9000 section 16).
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (read, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    Some(read[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_in_any_pieces() {
        let whole = [1, 4, 0, 0, STATUS_200, 0x99, 0x21, 0, 0, 0x40, 2, 7, 7, 0, 1, 7];
        for size in 1..=whole.len() {
            let mut response = Response::default();
            whole.chunks(size).for_each(|piece| response.take(piece).unwrap());
            assert_eq!(response.body, 3, "in pieces of {size}");
            assert!(response.end(3).is_ok() && response.end(4).is_err());
        }
    }

    #[test]
    fn what_is_no_whole_response_with_status_200_is_an_error() {
        let not_found = [1, 3, 0, 0, 0xc0 | 27];
        assert!(Response::default().take(&not_found).is_err());
        let mut cut = Response::default();
        cut.take(&[1, 3, 0, 0, STATUS_200, 0, 3, 7]).unwrap();
        assert!(cut.end(1).is_err() && Response::default().end(0).is_err());
    }

    #[test]
    fn an_upload_says_its_length_twice() {
        let request = upload("/u", 8_000_000);
        assert!(request.windows(9).any(|part| part == b"\x54\x078000000"));
        assert_eq!(frame_head(&request[request.len() - 9..]), Some((DATA, 8_000_000)));
    }

    #[test]
    fn a_request_names_its_path() {
        let request = request("/1k.bin");
        assert_eq!(request.len(), 3 + 4 + 7 + 9 + 16);
        assert_eq!(&request[..7], &[1, 0x40, 36, 0, 0, 0xd1, 0xd7]);
        assert!(request.windows(9).any(|part| part == b"\x51\x07/1k.bin"));
    }
}
