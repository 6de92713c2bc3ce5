//! Runs a group of cases against both servers and compares what came back.
//!
//! Compared are: the number of responses, status lines, header fields (whatever their order), body bytes, and whether the
//! connection stays open. Not compared: the bytes of a packed body (it is unpacked), `Server`, `Date`, the name at the foot of built-in pages (and so their length), the
//! boundary of multipart bodies, and the port where it shows.

use freerun_proto::date::parse_http_date;
use freerun_testkit::{Client, Kind, Response, Server, Setup, methods};
use std::time::Duration;

/// One exchange on a connection of its own.
pub struct Case {
    bytes: Vec<u8>,
    fields: String,
    body: Vec<u8>,
    responses: usize,
    eof: bool,
    raw: bool,
    differs: Option<(&'static str, &'static str)>,
    stays_open: bool,
    in_order: bool,
}

/// A GET over HTTP/1.1.
pub fn get(target: &str) -> Case {
    request("GET", target)
}

/// A HEAD over HTTP/1.1.
pub fn head(target: &str) -> Case {
    request("HEAD", target)
}

/// A request over HTTP/1.1 with `Host: localhost`.
pub fn request(method: &str, target: &str) -> Case {
    Case { fields: "Host: localhost\r\n".into(), raw: false, ..raw(format!("{method} {target} HTTP/1.1\r\n")) }
}

/// Exactly these bytes.
pub fn raw(bytes: impl AsRef<[u8]>) -> Case {
    Case {
        bytes: bytes.as_ref().to_vec(),
        fields: String::new(),
        body: Vec::new(),
        responses: 1,
        eof: false,
        raw: true,
        differs: None,
        stays_open: false,
        in_order: false,
    }
}

impl Case {
    /// A further header line.
    pub fn field(mut self, line: &str) -> Case {
        self.fields.push_str(line);
        self.fields.push_str("\r\n");
        self
    }

    /// Bytes behind the head.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Case {
        self.body = body.as_ref().to_vec();
        self
    }

    /// How many responses to read before looking whether the connection is still open.
    pub fn responses(mut self, count: usize) -> Case {
        self.responses = count;
        self
    }

    /// The client ends its sending side; everything up to the server's end is compared.
    pub fn eof(mut self) -> Case {
        self.eof = true;
        self
    }

    /// The two are to disagree: freerun answers with this status line (`""`: closes without a word), for this reason.
    pub fn differs(mut self, reason: &'static str, line: &'static str) -> Case {
        assert!(!reason.is_empty());
        self.differs = Some((reason, line));
        self
    }

    /// nginx closes here, freerun goes on, for this reason; everything else has to agree.
    pub fn stays_open(mut self, reason: &'static str) -> Case {
        assert!(!reason.is_empty());
        self.stays_open = true;
        self
    }

    /// The order of the header fields counts too.
    pub fn in_order(mut self) -> Case {
        self.in_order = true;
        self
    }

    /// What is wrong with what freerun has answered.
    pub fn judge(&self, theirs: impl FnOnce() -> Exchange, ours: &Exchange) -> Option<String> {
        match self.differs {
            Some(_) if Kind::under_test() == Kind::Nginx => None,
            Some((reason, line)) => {
                let got = ours.responses.first().map_or("", |response| response.line.as_str());
                (got != line).then(|| format!("  wanted {line:?} ({reason})\n  + {}\n", lines(ours).join("\n  + ")))
            }
            None => {
                let mut theirs = theirs();
                if self.stays_open && Kind::under_test() == Kind::Freerun {
                    theirs.end = "open".to_owned();
                }
                (*ours != theirs).then(|| difference(&theirs, ours))
            }
        }
    }

    /// How it begins, to be shown.
    pub fn shown(&self) -> String {
        let bytes = self.all_bytes();
        bytes[..bytes.len().min(300)].escape_ascii().to_string()
    }

    fn all_bytes(&self) -> Vec<u8> {
        let end: &[u8] = if self.raw { b"" } else { b"\r\n" };
        [&self.bytes, self.fields.as_bytes(), end, &self.body].concat()
    }
}

/// What came back, made comparable.
#[derive(Debug, PartialEq, Eq)]
pub struct Exchange {
    responses: Vec<Comparable>,
    end: String,
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

    /// Replaces another port that shows.
    pub fn forget_port(&mut self, port: u16, by: &str) {
        let forget = |text: &[u8]| replace(&without_port(text, port), b"PORT", by.as_bytes());
        for response in &mut self.responses {
            if response.body.len() < 4000 {
                response.body = forget(&response.body);
            }
            for (_, value) in &mut response.headers {
                *value = String::from_utf8_lossy(&forget(value.as_bytes())).into_owned();
            }
        }
    }

    /// Replaces the port, though it may stand between other digits.
    pub fn forget_digits(&mut self, port: u16) {
        let forget = |text: &[u8]| replace(text, port.to_string().as_bytes(), b"PORT");
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

#[derive(Debug, PartialEq, Eq)]
struct Comparable {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    until_close: bool,
    chunked: bool,
    trailers: Vec<(String, String)>,
}

/// How long a server may take for the next byte of a case.
const WAIT: Duration = Duration::from_secs(8);

/// One exchange with a server.
pub fn exchange(server: &Server, case: &Case) -> Exchange {
    let mut client = server.connect();
    let bytes = case.all_bytes();
    let methods = methods(&bytes);
    let wanted = if case.eof { usize::MAX } else { case.responses };
    let spoken = Spoken { bytes: &bytes, methods: &methods, wanted, in_order: case.in_order };
    spoken.over(&mut client, server.port())
}

/// What is said on a connection, and what is looked at.
pub struct Spoken<'s> {
    pub bytes: &'s [u8],
    /// Of the requests in the bytes; those beyond the list are taken for GET.
    pub methods: &'s [String],
    /// How many responses to read before looking whether the connection is still open; with `usize::MAX` the client ends its sending side, and
    /// reads to the end.
    pub wanted: usize,
    pub in_order: bool,
}

impl Spoken<'_> {
    /// Says it, and hears what comes back.
    pub fn over(&self, client: &mut Client, port: u16) -> Exchange {
        client.set_timeout(WAIT);
        // A server may refuse before it has read all; what it said is read below.
        let _ = client.try_send(self.bytes);
        if self.wanted == usize::MAX {
            client.half_close();
        }
        let mut exchange = Exchange { responses: Vec::new(), end: String::new() };
        // Interim responses are none of these.
        let mut finals = 0;
        while finals < self.wanted {
            let method = self.methods.get(finals).map_or("GET", String::as_str);
            match client.try_response(method) {
                Ok(response) => {
                    let ends = response.until_close;
                    finals += usize::from(response.status != 100);
                    exchange.responses.push(comparable(response, method, port, self.in_order));
                    if ends {
                        exchange.end = "closed".to_owned();
                        return exchange;
                    }
                }
                Err(why) => {
                    exchange.end = ended(&why);
                    return exchange;
                }
            }
        }
        exchange.end = probe(client);
        exchange
    }
}

/// Whether the connection takes another request.
fn probe(client: &mut Client) -> String {
    let _ = client.try_send("GET /probe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    match client.try_response("GET") {
        Ok(_) => "open".to_owned(),
        Err(why) => ended(&why),
    }
}

/// A reset and an orderly close are the same here: which of the two the client sees depends on what was still under way.
fn ended(why: &str) -> String {
    if why == "Closed" || why == "Reset" {
        return "closed".to_owned();
    }
    // Of a response that is cut, what has come of it is shown.
    let Some((what, shown)) = why.split_once(" within ") else { return why.to_owned() };
    let lines = shown.split_once(" bytes ").map_or(shown, |(_, shown)| shown).split("\\r\\n");
    let told: Vec<&str> = lines.filter(|line| !line.starts_with("Server: ") && !line.starts_with("Date: ")).collect();
    format!("{what} within {}", told.join("\\r\\n"))
}

/// `text` without the port: the two servers have different ones. Digits inside a longer number are not the port.
pub fn without_port(text: &[u8], port: u16) -> Vec<u8> {
    let port = port.to_string().into_bytes();
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let before = at > 0 && is_digit(at - 1);
        if text[at..].starts_with(&port) && !before && !is_digit(at + port.len()) {
            out.extend_from_slice(b"PORT");
            at += port.len();
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

/// [`without_port`] of text.
pub fn text_without_port(text: &str, port: u16) -> String {
    String::from_utf8_lossy(&without_port(text.as_bytes(), port)).into_owned()
}

#[test]
fn only_the_port_is_taken_for_it() {
    assert_eq!(text_without_port("a:12345 0123456789 12345", 12345), "a:PORT 0123456789 PORT");
}

fn comparable(response: Response, method: &str, port: u16, in_order: bool) -> Comparable {
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
        // Long ones are files, whose digits may happen to be the port's.
        body = without_port(&body, port);
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
        let value = text_without_port(&value, port);
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

/// What a response looks like, a line a thing, so that two can be compared by lines.
fn lines(exchange: &Exchange) -> Vec<String> {
    let mut out = Vec::new();
    for response in &exchange.responses {
        out.push(format!("{:?}{}", response.line, if response.chunked { " (chunked)" } else { "" }));
        out.extend(response.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        let shown = &response.body[..response.body.len().min(400)];
        out.extend(response.trailers.iter().map(|(name, value)| format!("(trailer) {name}: {value}")));
        out.push(format!("{} bytes \"{}\"", response.body.len(), shown.escape_ascii()));
    }
    out.push(format!("then {}", exchange.end));
    out
}

/// The lines of one and of the other, `-` before what only nginx has, `+` before what only freerun has.
pub fn difference(nginx: &Exchange, freerun: &Exchange) -> String {
    let (nginx, freerun) = (lines(nginx), lines(freerun));
    let mut out = String::new();
    for line in nginx.iter().filter(|line| !freerun.contains(line)) {
        out += &format!("  - {line}\n");
    }
    for line in freerun.iter().filter(|line| !nginx.contains(line)) {
        out += &format!("  + {line}\n");
    }
    if out.is_empty() {
        // The same lines, in another order or number.
        let at =
            nginx.iter().zip(&freerun).position(|(one, other)| one != other).unwrap_or(nginx.len().min(freerun.len()));
        let shown = |lines: &[String]| lines.iter().skip(at.saturating_sub(1)).take(6).cloned().collect::<Vec<_>>();
        out = format!("  in another order: - {:?}\n  + {:?}\n", shown(&nginx), shown(&freerun));
    }
    out
}

/// Runs the cases against both servers, one after the other on connections of their own.
///
/// With `FREERUN_TEST_AGAINST=nginx` both are nginx, which shows that the cases themselves are stable. `FREERUN_TEST_SHOW` prints what
/// came back.
#[track_caller]
pub fn compare(setup: &Setup, cases: Vec<Case>) {
    if !freerun_testkit::require::nginx() {
        return;
    }
    let nginx = setup.start(Kind::Nginx);
    let freerun = setup.run();
    let mut wrong = String::new();
    let total = cases.len();
    let show = std::env::var_os("FREERUN_TEST_SHOW").is_some();
    let mut failed = 0;
    for case in &cases {
        let name = case.shown();
        let ours = exchange(&freerun, case);
        if show {
            let lines: Vec<&str> = ours.responses.iter().map(|response| response.line.as_str()).collect();
            println!("{name}\n  => {lines:?}, {}{}", ours.end, if case.differs.is_some() { " (differs)" } else { "" });
        }
        if let Some(problem) = case.judge(|| exchange(&nginx, case), &ours) {
            failed += 1;
            wrong += &format!("\"{name}\"\n{problem}");
        }
    }
    println!("{total} cases, {failed} differ");
    // Before the assertion: on a panic they would print their logs.
    drop((nginx, freerun));
    assert!(wrong.is_empty(), "{failed} of {total} cases differ\n{wrong}");
}
