//! A small HTTP/1 response parser for tests: it is strict about what freerun may send, and keeps every byte.

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status line without its CR LF; empty for HTTP/0.9.
    pub line: String,
    /// The status; 0 for HTTP/0.9.
    pub status: u16,
    /// The header fields in their order.
    pub headers: Vec<(String, String)>,
    /// The body, decoded if it was chunked.
    pub body: Vec<u8>,
    /// Whether the body came in chunks.
    pub chunked: bool,
    /// The fields behind the last chunk, in their order.
    pub trailers: Vec<(String, String)>,
    /// Whether the body ended with the connection.
    pub until_close: bool,
}

/// The result of parsing.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedResponse {
    /// A whole response and the number of its bytes.
    Whole(Response, usize),
    /// More bytes are needed.
    Partial,
    /// The end of the connection would end the response; so far it is this.
    UntilClose(Response),
    /// The bytes are no response.
    Bad(String),
}

impl Response {
    /// The first field of this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All fields of this name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the server announces that it will close.
    pub fn says_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Parses the response at the start of `bytes` to a request of this method.
    pub fn parse(bytes: &[u8], method: &str) -> ParsedResponse {
        if !bytes.is_empty() && !bytes.starts_with(&b"HTTP/"[..bytes.len().min(5)]) {
            return ParsedResponse::UntilClose(Response {
                line: String::new(),
                status: 0,
                headers: Vec::new(),
                body: bytes.to_vec(),
                chunked: false,
                trailers: Vec::new(),
                until_close: true,
            });
        }
        let Some(end) = find(bytes, b"\r\n\r\n") else {
            return ParsedResponse::Partial;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let status = match line.split(' ').collect::<Vec<_>>()[..] {
            ["HTTP/1.1" | "HTTP/1.0", status, ..] if status.len() == 3 => status.parse().unwrap_or(0),
            _ => 0,
        };
        if status == 0 {
            return ParsedResponse::Bad(format!("status line {line:?}"));
        }
        let headers = match fields(lines) {
            Ok(headers) => headers,
            Err(why) => return ParsedResponse::Bad(why),
        };
        let (body, trailers) = (Vec::new(), Vec::new());
        let response = Response { line, status, headers, body, chunked: false, trailers, until_close: false };
        response.body(&bytes[end + 4..], end + 4, method)
    }

    fn body(mut self, rest: &[u8], head: usize, method: &str) -> ParsedResponse {
        if method == "HEAD" || matches!(self.status, 100..=199 | 204 | 304) {
            return ParsedResponse::Whole(self, head);
        }
        if self.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            if self.header("content-length").is_some() {
                return ParsedResponse::Bad("both Content-Length and Transfer-Encoding".into());
            }
            self.chunked = true;
            return match chunks(rest) {
                Ok(Some((body, trailers, used))) => {
                    self.body = body;
                    self.trailers = trailers;
                    ParsedResponse::Whole(self, head + used)
                }
                Ok(None) => ParsedResponse::Partial,
                Err(why) => ParsedResponse::Bad(why),
            };
        }
        match self.all("content-length")[..] {
            [] => {
                self.body = rest.to_vec();
                self.until_close = true;
                ParsedResponse::UntilClose(self)
            }
            [length] => match length.parse::<usize>() {
                Ok(length) if rest.len() >= length => {
                    self.body = rest[..length].to_vec();
                    ParsedResponse::Whole(self, head + length)
                }
                Ok(_) => ParsedResponse::Partial,
                Err(_) => ParsedResponse::Bad(format!("Content-Length {length:?}")),
            },
            _ => ParsedResponse::Bad("several Content-Length".into()),
        }
    }
}

/// Fields with their names, in their order.
type HeaderLines = Vec<(String, String)>;

fn fields<'l>(lines: impl Iterator<Item = &'l str>) -> Result<HeaderLines, String> {
    lines
        .map(|field| match field.split_once(':') {
            Some((name, value)) if !name.is_empty() && !name.contains([' ', '\t', '\n']) => {
                Ok((name.to_owned(), value.trim().to_owned()))
            }
            _ => Err(format!("header line {field:?}")),
        })
        .collect()
}

/// The body and the trailers of chunks, and how many bytes they took; `None` if they are not complete.
fn chunks(bytes: &[u8]) -> Result<Option<(Vec<u8>, HeaderLines, usize)>, String> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(end) = find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        let size = String::from_utf8_lossy(&bytes[at..at + end]).into_owned();
        let size = usize::from_str_radix(&size, 16).map_err(|_| format!("chunk size {size:?}"))?;
        at += end + 2;
        if size == 0 {
            let mut lines = Vec::new();
            loop {
                let Some(end) = find(&bytes[at..], b"\r\n") else { return Ok(None) };
                let line = String::from_utf8_lossy(&bytes[at..at + end]).into_owned();
                at += end + 2;
                if line.is_empty() {
                    return Ok(Some((body, fields(lines.iter().map(String::as_str))?, at)));
                }
                lines.push(line);
            }
        }
        let Some(chunk) = bytes.get(at..at + size + 2) else {
            return Ok(None);
        };
        if !chunk.ends_with(b"\r\n") {
            return Err("no CR LF behind a chunk".into());
        }
        body.extend_from_slice(&chunk[..size]);
        at += size + 2;
    }
}

/// The place of `needle` in `bytes`.
pub(crate) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// The methods of the requests in some bytes, by the request lines in them.
pub fn methods(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .filter(|line| line.contains(" HTTP/1."))
        .filter_map(|line| line.split(' ').next())
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase()))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &str, method: &str) -> (Response, usize) {
        match Response::parse(bytes.as_bytes(), method) {
            ParsedResponse::Whole(response, used) => (response, used),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn framings() {
        let (response, used) = whole("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP", "GET");
        assert_eq!((response.text().as_str(), used), ("ok", 40));
        let (response, _) = whole(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\na\r\n0123456789\r\n0\r\n\r\n",
            "GET",
        );
        assert_eq!(response.text(), "ok0123456789");
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD").0.body, b"");
        assert_eq!(whole("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", "GET").0.header("etag"), Some("\"x\""));
        assert_eq!(Response::parse(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", "GET"), ParsedResponse::Partial);
        assert_eq!(Response::parse(b"HT", "GET"), ParsedResponse::Partial);
        assert!(matches!(Response::parse(b"<html>", "GET"), ParsedResponse::UntilClose(_)));
        assert!(matches!(Response::parse(b"HTTP/1.1 200 OK\r\n\r\nabc", "GET"), ParsedResponse::UntilClose(_)));
        for bad in [
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(matches!(Response::parse(bad.as_bytes(), "GET"), ParsedResponse::Bad(_)), "{bad:?}");
        }
    }

    #[test]
    fn methods_of_a_pipeline() {
        assert_eq!(methods(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /x HTTP/1.0\r\n\r\n"), ["GET", "HEAD"]);
    }
}
