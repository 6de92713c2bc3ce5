//! SCGI, the side of the web server: <https://python.ca/scgi/protocol.txt>.
//!
//! A request is a netstring of variables, each ended by a NUL, with `CONTENT_LENGTH` first, and then the body as it is.
//! A response is one of CGI; as in nginx a status line of HTTP is accepted, too
//! ([`crate::response::HeadKind::HttpOrCgi`]).

/// The most digits of the netstring's length.
const DIGITS: usize = 20;

/// Writes the variables of a request.
#[derive(Debug)]
pub struct Variables {
    /// The place in the output where they begin, with the room for the length before them.
    start: usize,
}

impl Variables {
    /// Begins a request at the end of the output, with the length of the body, which every request has to have.
    pub fn begin(content_length: u64, out: &mut Vec<u8>) -> Variables {
        let start = out.len();
        out.resize(start + DIGITS + 1, b'0');
        let mut variables = Variables { start };
        variables.pair(b"CONTENT_LENGTH", content_length.to_string().as_bytes(), out);
        variables
    }

    /// Appends a variable. A NUL in it would end it, so it is cut off there.
    pub fn pair(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        for text in [name, value] {
            let len = memchr::memchr(0, text).unwrap_or(text.len());
            out.extend_from_slice(&text[..len]);
            out.push(0);
        }
    }

    /// Completes the netstring.
    pub fn end(self, out: &mut Vec<u8>) {
        let first = self.start + DIGITS + 1;
        let length = format!("{}:", out.len() - first);
        out.push(b',');
        // The room was enough for the longest possible length.
        out.splice(self.start..first, length.into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification() {
        let mut out = b"before".to_vec();
        let mut variables = Variables::begin(27, &mut out);
        variables.pair(b"SCGI", b"1", &mut out);
        variables.pair(b"REQUEST_METHOD", b"POST", &mut out);
        variables.pair(b"REQUEST_URI", b"/deepthought", &mut out);
        variables.end(&mut out);
        let expected: &[u8] =
            b"before70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,";
        assert_eq!(out, expected);
    }

    #[test]
    fn a_nul_does_not_begin_another_variable() {
        let mut out = Vec::new();
        let mut variables = Variables::begin(0, &mut out);
        variables.pair(b"A", b"x\0B\0y", &mut out);
        variables.end(&mut out);
        assert_eq!(out, b"21:CONTENT_LENGTH\x000\0A\0x\0,");
    }
}
