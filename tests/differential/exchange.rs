//! What came back from a server, made comparable with what came back from another one.
//!
//! Compared are: the number of responses, status lines, header fields (whatever their order), body bytes, and whether the
//! connection stays open. Not compared: the bytes of a packed body (it is unpacked), `Server`, `Date`, the name at the foot of built-in pages (and so their length), the
//! boundary of multipart bodies, and ports where they show.
//!
//! A number that happens to be the port of one server is a number all the same: the ports of both are taken out of what either
//! has said, so that what was the same stays the same.

use crate::runner::line_difference;
use freerun_proto::date::parse_http_date;
use freerun_testkit::Response;
use std::hash::{DefaultHasher, Hasher};

/// What came back, made comparable.
#[derive(Debug, PartialEq, Eq)]
pub struct Exchange {
    pub responses: Vec<Comparable>,
    /// `open`, `closed`, or how the last response was cut.
    pub end: String,
}

impl Exchange {
    /// How many responses there were.
    pub fn count(&self) -> usize {
        self.responses.len()
    }

    /// The first response's status line; empty when there is no response.
    pub fn line(&self) -> &str {
        self.responses.first().map_or("", |response| response.line.as_str())
    }

    /// Whether this is a line of what came back, as differences show it.
    pub fn has(&self, line: &str) -> bool {
        lines(self).iter().any(|one| one == line)
    }

    /// Whether the connection was closed after a response that said that it is kept.
    pub fn contradicts_itself(&self) -> bool {
        let keeps = |(name, value): &(String, String)| name == "Connection" && value == "keep-alive";
        self.end == "closed" && self.responses.last().is_some_and(|response| response.headers.iter().any(keeps))
    }

    /// Whether a response was lost by a reset, as nginx resets connections on which it leaves something unread.
    pub fn was_reset(&self) -> bool {
        self.end.starts_with("Reset")
    }

    /// Leaves out of both the first `Connection` on which they disagree, and all that came after its response.
    pub fn forget_keep_alive(&mut self, other: &mut Exchange) {
        let value = |response: &Comparable| {
            response.headers.iter().find(|(name, _)| name == "Connection").map(|(_, value)| value.clone())
        };
        let pairs = self.responses.iter().zip(&other.responses);
        let last = pairs.len().wrapping_sub(1);
        let differs =
            pairs.enumerate().find(|(at, (one, two))| value(one) != value(two) || *at == last && self.end != other.end);
        if let Some((at, _)) = differs {
            for exchange in [self, other] {
                exchange.cut(at + 1);
                exchange.responses[at].headers.retain(|(name, _)| name != "Connection" && name != "Keep-Alive");
            }
        }
    }

    /// Leaves out how the ends of bodies are told, and whether the connection is kept, where `other` does not know a body's length
    /// before its end and this one does.
    pub fn forget_known_lengths(&mut self, other: &mut Exchange) {
        let told = |name: &str| ["Content-Length", "Transfer-Encoding", "Connection"].contains(&name);
        for (own, theirs) in self.responses.iter_mut().zip(&mut other.responses) {
            let length = own.headers.iter().find(|(name, _)| name == "Content-Length").map(|(_, value)| value.clone());
            let unknown = !theirs.headers.iter().any(|(name, _)| name == "Content-Length");
            // The body of a response to HEAD is not there.
            let fits = length.is_some_and(|length| own.body.is_empty() || length == own.body.len().to_string());
            if unknown && fits {
                for response in [own, theirs] {
                    response.headers.retain(|(name, _)| !told(name));
                    (response.chunked, response.until_close) = (false, false);
                }
                (self.end, other.end) = (String::new(), String::new());
            }
        }
    }

    /// Leaves out whether the connection is kept.
    pub fn forget_end(&mut self) {
        self.end = String::new();
        for response in &mut self.responses {
            response.headers.retain(|(name, _)| name != "Connection");
        }
    }

    /// Replaces other ports that show.
    pub fn forget_ports(&mut self, ports: &[u16], by: &str) {
        let forget = |text: &[u8]| named_ports(text, ports, by);
        for response in &mut self.responses {
            if response.body.len() < 4000 {
                response.body = forget(&response.body);
            }
            for (_, value) in &mut response.headers {
                *value = String::from_utf8_lossy(&forget(value.as_bytes())).into_owned();
            }
        }
    }

    /// Replaces the ports, though they may stand between other digits.
    pub fn forget_digits(&mut self, ports: &[u16]) {
        let forget = |text: &[u8]| {
            ports.iter().fold(text.to_vec(), |text, port| replace(&text, port.to_string().as_bytes(), b"PORT"))
        };
        for response in &mut self.responses {
            response.body = forget(&response.body);
            for (_, value) in &mut response.headers {
                *value = String::from_utf8_lossy(&forget(value.as_bytes())).into_owned();
            }
        }
    }

    /// Leaves out fields.
    pub fn forget_fields(&mut self, names: &[&str]) {
        for response in &mut self.responses {
            response.headers.retain(|(name, _)| !names.contains(&name.as_str()));
        }
    }

    /// Leaves out of what was cut short how much it was, and what names the server.
    pub fn forget_server_of_cut(&mut self) {
        if let Some((why, bytes)) = self.end.clone().split_once(" within ") {
            let named = |line: &&str| !line.starts_with("Server: ") && !line.starts_with("Date: ");
            let bytes = bytes.split_once(" bytes ").map_or(bytes, |(_, bytes)| bytes);
            let kept: Vec<&str> = bytes.split("\\r\\n").filter(named).collect();
            // Whether the last chunk's end was sent, too, says nothing.
            let kept = kept.join("\\r\\n");
            self.end = format!("{why} within {}", kept.trim_end_matches('"').trim_end_matches("\\r\\n"));
        }
    }

    /// Leaves out what came after so many responses.
    pub fn cut(&mut self, count: usize) {
        self.responses.truncate(count);
        self.end = "left out".to_owned();
    }
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub struct Comparable {
    pub line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    until_close: bool,
    chunked: bool,
    trailers: Vec<(String, String)>,
}

/// `text` with a name in place of ports. Digits inside a longer number are no port.
fn named_ports(text: &[u8], ports: &[u16], name: &str) -> Vec<u8> {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let mut out = Vec::with_capacity(text.len());
    // Runs of digits, and of what is between them.
    for run in text.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()) {
        let is_port = ports.iter().any(|port| port.as_bytes() == run);
        out.extend_from_slice(if is_port { name.as_bytes() } else { run });
    }
    out
}

/// `text` with a name in place of ports. Digits inside a longer number are no port.
pub fn text_with_name(text: &str, ports: &[u16], name: &str) -> String {
    String::from_utf8_lossy(&named_ports(text.as_bytes(), ports, name)).into_owned()
}

/// `text` without the ports of servers that are compared.
pub fn text_without_ports(text: &str, ports: &[u16]) -> String {
    text_with_name(text, ports, "PORT")
}

#[test]
fn only_ports_are_taken_for_them() {
    assert_eq!(
        text_without_ports("a:12345 0123456789 12345, 2345:23456", &[12345, 23456]),
        "a:PORT 0123456789 PORT, 2345:PORT"
    );
}

/// What of a response to a request of this method is compared.
pub fn comparable(response: Response, method: &str, ports: &[u16], in_order: bool) -> Comparable {
    let date = response.header("Date").and_then(|date| parse_http_date(date.as_bytes()));
    let mut headers = Vec::new();
    let mut body = unpacked(&response);
    let built_in = replace_footer(&mut body);
    let boundary =
        response.headers.iter().find_map(|(_, value)| value.split_once("boundary=").map(|(_, b)| b.to_owned()));
    if let Some(boundary) = &boundary {
        body = replace(&body, boundary.as_bytes(), b"BOUNDARY");
    }
    if body.len() < 4000 {
        // Long ones are files: no port shows in them.
        body = named_ports(&body, ports, "PORT");
    }
    for (name, value) in response.headers {
        let skipped = ["Server", "Date"].contains(&name.as_str());
        // The length of a page that ends with the server's name, seen or (for HEAD) unseen.
        let name_in_length = name == "Content-Length" && (built_in || method == "HEAD" && response.status >= 300);
        let boundary_in_length = name == "Content-Length" && boundary.is_some();
        if skipped || name_in_length || boundary_in_length {
            continue;
        }
        let value = if name == "Expires" { from_date(&value, date) } else { value };
        let value = text_without_ports(&value, ports);
        headers.push((name, boundary.as_ref().map_or(value.clone(), |boundary| value.replace(boundary, "BOUNDARY"))));
    }
    if !in_order {
        headers.sort();
    }
    let Response { line, until_close, chunked, trailers, .. } =
        Response { headers: Vec::new(), body: Vec::new(), ..response };
    Comparable { line, headers, body, until_close, chunked, trailers }
}

/// A time that is near enough to the response's own to be made from it, as seconds from it, to ten seconds.
fn from_date(value: &str, date: Option<i64>) -> String {
    match (parse_http_date(value.as_bytes()), date) {
        (Some(time), Some(date)) if (time - date).abs() < 400 * 86_400 => {
            format!("{}0 s", (time - date + 5).div_euclid(10))
        }
        _ => value.to_owned(),
    }
}

/// The body without its content coding: encoders differ, what they say does not. One that cannot be unpacked is left as it is.
fn unpacked(response: &Response) -> Vec<u8> {
    use std::io::Read;
    let body = &response.body[..];
    let mut out = Vec::new();
    let unpacked = match response.header("Content-Encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut out),
        Some("br") => brotli_decompressor::Decompressor::new(body, 4096).read_to_end(&mut out),
        _ => return body.to_vec(),
    };
    if unpacked.is_ok() { out } else { body.to_vec() }
}

/// Takes the server's name out of the foot of built-in pages; says whether there was one.
fn replace_footer(body: &mut Vec<u8>) -> bool {
    const BEFORE: &[u8] = b"<hr><center>";
    let find = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).position(|window| window == text);
    let mut at = 0;
    while let Some(start) = find(&body[at..], BEFORE).map(|found| at + found + BEFORE.len()) {
        let Some(len) = find(&body[start..], b"</center>") else { break };
        body.splice(start..start + len, *b"SERVER");
        at = start;
    }
    at > 0
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// The number of bytes of a body that its line shows.
const SHOWN: usize = 400;

/// What a response looks like, a line a thing, so that two can be compared by lines. The line of a long body ends with a hash of
/// what it does not show.
pub fn lines(exchange: &Exchange) -> Vec<String> {
    let mut out = Vec::new();
    for response in &exchange.responses {
        out.push(format!("{:?}{}", response.line, if response.chunked { " (chunked)" } else { "" }));
        out.extend(response.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        let shown = &response.body[..response.body.len().min(SHOWN)];
        out.extend(response.trailers.iter().map(|(name, value)| format!("(trailer) {name}: {value}")));
        let rest = &response.body[shown.len()..];
        let hash = if rest.is_empty() { String::new() } else { format!(" and more, hash {:x}", hash(rest)) };
        out.push(format!("{} bytes \"{}\"{hash}", response.body.len(), shown.escape_ascii()));
    }
    out.push(format!("then {}", exchange.end));
    out
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The lines of one and of the other, `-` before what only nginx has, `+` before what only freerun has, and what the lines do not
/// show. `None` if the two are the same.
pub fn difference(nginx: &Exchange, freerun: &Exchange) -> Option<String> {
    if nginx == freerun {
        return None;
    }
    let mut out = line_difference(&lines(nginx), &lines(freerun)).unwrap_or_default();
    for (number, (theirs, ours)) in (1..).zip(nginx.responses.iter().zip(&freerun.responses)) {
        let shorter = theirs.body.len().min(ours.body.len());
        let at = theirs.body.iter().zip(&ours.body).position(|(one, other)| one != other).unwrap_or(shorter);
        if theirs.body != ours.body && at >= SHOWN {
            let from = |body: &[u8]| body[at..body.len().min(at + 80)].escape_ascii().to_string();
            out += &format!("  response {number}: the bodies differ at byte {at}:\n");
            out += &format!("  - {}\n  + {}\n", from(&theirs.body), from(&ours.body));
        }
        if theirs.until_close != ours.until_close {
            out += &format!("  response {number}: whether the end of the connection ends the body:\n");
            out += &format!("  - {}\n  + {}\n", theirs.until_close, ours.until_close);
        }
    }
    Some(out)
}

#[test]
fn each_difference_of_two_exchanges_is_told() {
    let exchange = |body: Vec<u8>, until_close| {
        let line = "HTTP/1.1 200 OK".to_owned();
        let (headers, trailers) = (Vec::new(), Vec::new());
        let responses = vec![Comparable { line, headers, body, until_close, chunked: false, trailers }];
        Exchange { responses, end: "closed".to_owned() }
    };
    let body = vec![b'a'; 500];
    let mut other = body.clone();
    other[450] = b'b';
    let (one, other) = (exchange(body.clone(), false), exchange(other, false));
    assert_eq!(difference(&one, &one), None);
    let told = difference(&one, &other).expect("a difference");
    assert!(told.contains("the bodies differ at byte 450:\n  - aaa") && told.contains("\n  + baaa"), "{told}");
    assert!(line_difference(&lines(&one), &lines(&other)).is_some());
    let told = difference(&one, &exchange(body.clone(), true)).expect("a difference");
    assert!(told.contains("ends the body:\n  - false\n  + true\n"), "{told}");
    let told = difference(&one, &exchange(body[..450].to_vec(), false)).expect("a difference");
    assert!(told.contains("the bodies differ at byte 450:\n  - aaa"), "{told}");
}
