//! `log_format`: a line with variables, compiled to pieces. What the usual formats are made of is written straight into
//! the line, without a value of its own in between.

use std::io::Write as _;
use std::net::IpAddr;

use freerun_conf::{Cx, Node, Problem, Word};
use freerun_http::request::{Address, Request};
use freerun_http::variables::{Reference, VariableTable};
use freerun_proto::HeaderId;
use freerun_runtime::log::clock;

use super::escape::Escape;
use super::line::{Line, Short};

/// nginx's predefined format.
pub const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                            \"$http_referer\" \"$http_user_agent\"";

/// A compiled format.
#[derive(Debug)]
pub struct Format {
    escape: Escape,
    missing: Short,
    pieces: Box<[Piece]>,
}

/// Text, and what follows it.
#[derive(Debug)]
struct Piece {
    before: Short,
    what: What,
}

#[derive(Debug)]
enum What {
    Nothing,
    /// More text, that is too long to stand before something else.
    Text(Box<[u8]>),
    RemoteAddr,
    /// The reference is for requests that bring credentials.
    RemoteUser(Reference),
    TimeLocal,
    TimeIso8601,
    Msec,
    RequestTime,
    Status,
    BytesSent,
    BodyBytesSent,
    RequestLength,
    Connection,
    ConnectionRequests,
    RequestLine,
    /// `$http_…` of a field that the parser knows; the reference is for the case that there are several of it.
    Header(HeaderId, Reference),
    Variable(Reference),
}

impl What {
    fn of(name: &str, word: &Word, cx: &mut Cx) -> What {
        let reference = cx.extensions.get_or_default::<VariableTable>().resolve(name, word.place);
        match name {
            "remote_addr" => What::RemoteAddr,
            "remote_user" => What::RemoteUser(reference),
            "time_local" => What::TimeLocal,
            "time_iso8601" => What::TimeIso8601,
            "msec" => What::Msec,
            "request_time" => What::RequestTime,
            "status" => What::Status,
            "bytes_sent" => What::BytesSent,
            "body_bytes_sent" => What::BodyBytesSent,
            "request_length" => What::RequestLength,
            "connection" => What::Connection,
            "connection_requests" => What::ConnectionRequests,
            "request" => What::RequestLine,
            _ => {
                let field = name.strip_prefix("http_").map(|field| HeaderId::of(field.replace('_', "-").as_bytes()));
                match field {
                    None | Some(HeaderId::Other) => What::Variable(reference),
                    Some(id) => What::Header(id, reference),
                }
            }
        }
    }
}

impl Format {
    /// Compiles the strings of a format; they follow each other without anything in between.
    ///
    /// # Errors
    /// A `$` that no variable follows, an unclosed brace, in nginx's words; unknown variables are told when everything
    /// has been read.
    pub fn compile(escape: Escape, strings: &[Word], cx: &mut Cx) -> Result<Format, Problem> {
        let mut pieces = Vec::new();
        let mut before = String::new();
        for word in strings {
            let mut rest = word.text.as_str();
            while let Some(dollar) = rest.find('$') {
                before.push_str(&rest[..dollar]);
                let (name, after) = variable(&rest[dollar..], word)?;
                push_piece(&mut pieces, &std::mem::take(&mut before), What::of(name, word, cx));
                rest = after;
            }
            before.push_str(rest);
        }
        before.push('\n');
        push_piece(&mut pieces, &before, What::Nothing);
        Ok(Format::of(escape, pieces.into()))
    }

    fn of(escape: Escape, pieces: Box<[Piece]>) -> Format {
        Format { escape, missing: Short::of(escape.missing()).unwrap_or_default(), pieces }
    }

    /// The format `combined`.
    pub fn combined(cx: &mut Cx) -> Format {
        // The text is a constant, and a test compiles it.
        Format::compile(Escape::Default, &[Word::synthetic(COMBINED)], cx)
            .unwrap_or_else(|_| Format::of(Escape::Default, Box::default()))
    }

    /// Appends the line of a request, with its end.
    pub fn render(&self, request: &Request, out: &mut Vec<u8>) {
        let mut line = Line::new(out);
        for piece in &self.pieces {
            self.push(piece, request, &mut line);
        }
        line.flush();
    }

    #[inline(always)]
    fn push(&self, piece: &Piece, request: &Request, line: &mut Line<'_>) {
        piece.before.push(line);
        match &piece.what {
            What::Nothing => {}
            What::Text(text) => line.push(text),
            What::RemoteAddr => push_address(request.peer(), line),
            What::RemoteUser(reference) => match request.head.has(HeaderId::Authorization) {
                true => self.push_variable(reference, request, line),
                false => self.push_missing(line),
            },
            What::TimeLocal => line.push_all(&clock::time_local(clock::second())),
            What::TimeIso8601 => line.push_all(&clock::time_iso8601(clock::second())),
            What::Msec => {
                let now = clock::now();
                push_millis(u64::try_from(now.secs).unwrap_or(0), u32::from(now.millis), line);
            }
            What::RequestTime => {
                let took = request.started.elapsed();
                push_millis(took.as_secs(), took.subsec_millis(), line);
            }
            What::Status => line.push_three(u32::from(request.sent.status)),
            What::BytesSent => line.push_number(request.sent.bytes),
            What::BodyBytesSent => line.push_number(request.sent.body_bytes),
            What::RequestLength => {
                line.push_number(u64::from(request.head.told_len()) + request.body.length());
            }
            What::Connection => line.push_number(request.client.number),
            What::ConnectionRequests => line.push_number(request.serial),
            What::RequestLine => line.push_value(self.escape, request.head.request_line()),
            What::Header(id, _) if !request.head.has(*id) => self.push_missing(line),
            What::Header(id, reference) => {
                let mut values = request.head.values(*id);
                match (values.next(), values.next()) {
                    (Some(value), None) => line.push_value(self.escape, value),
                    _ => self.push_variable(reference, request, line),
                }
            }
            What::Variable(reference) => self.push_variable(reference, request, line),
        }
    }

    fn push_variable(&self, reference: &Reference, request: &Request, line: &mut Line<'_>) {
        match reference.get(request) {
            Some(value) => line.push_value(self.escape, &value),
            None => self.push_missing(line),
        }
    }

    /// What stands for a value that is not there.
    #[inline(always)]
    fn push_missing(&self, line: &mut Line<'_>) {
        self.missing.push(line);
    }
}

fn push_piece(pieces: &mut Vec<Piece>, before: &str, what: What) {
    match Short::of(before.as_bytes()) {
        Some(before) => pieces.push(Piece { before, what }),
        None => {
            pieces.push(Piece { before: Short::default(), what: What::Text(before.as_bytes().into()) });
            pieces.push(Piece { before: Short::default(), what });
        }
    }
}

/// The name at the beginning of `text`, which begins with `$`, and what follows.
fn variable<'t>(text: &'t str, word: &Word) -> Result<(&'t str, &'t str), Problem> {
    let invalid = || Problem::new(format!("invalid parameter \"{text}\"")).at(word.place);
    let (braced, name) = match text[1..].strip_prefix('{') {
        Some(name) => (true, name),
        None => (false, &text[1..]),
    };
    let end = name.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_').unwrap_or(name.len());
    let (name, mut rest) = name.split_at(end);
    if braced {
        match rest.strip_prefix('}') {
            Some(after) => rest = after,
            None if name.is_empty() && rest.is_empty() => return Err(invalid()),
            None => {
                let message = format!("the closing bracket in \"{name}\" variable is missing");
                return Err(Problem::new(message).at(word.place));
            }
        }
    }
    if name.is_empty() {
        return Err(invalid());
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::new(format!("unknown \"{name}\" variable"))
            .at(word.place)
            .hint("captures by number mean nothing in a log format; give the group a name: (?<name>...)"));
    }
    Ok((name, rest))
}

fn push_address(address: &Address, line: &mut Line<'_>) {
    match address {
        Address::Ip(address) => match address.ip() {
            IpAddr::V4(ip) => line.push_ipv4(ip.octets()),
            // Writing to a vector does not fail.
            IpAddr::V6(ip) => drop(write!(line.flush(), "{ip}")),
        },
        Address::Unix(_) => line.push_all(b"unix:"),
    }
}

fn push_millis(seconds: u64, millis: u32, line: &mut Line<'_>) {
    line.push_number(seconds);
    line.push_byte(b'.');
    line.push_three(millis);
}

/// The formats that a configuration defines, and where; lives in its context while it is read.
#[derive(Default)]
pub struct Formats(Vec<Named>);

struct Named {
    name: String,
    format: std::sync::Arc<Format>,
    /// [`Node::order`] of the definition: a format must stand before what uses it.
    order: u32,
    place: freerun_conf::Place,
}

/// The formats of a configuration. The predefined one is there from the start.
pub fn formats(cx: &mut Cx) -> &mut Formats {
    if cx.extensions.get::<Formats>().is_none() {
        let combined = std::sync::Arc::new(Format::combined(cx));
        let place = freerun_conf::Place::NONE;
        let formats = Formats(vec![Named { name: "combined".to_owned(), format: combined, order: 0, place }]);
        cx.extensions.insert(formats);
    }
    cx.extensions.get_or_default()
}

/// The format called `word`, for a use in `directive`.
///
/// # Errors
/// nginx's `unknown log format "x"`.
pub fn find(word: &Word, directive: &Node, cx: &mut Cx) -> Result<std::sync::Arc<Format>, Problem> {
    let known = formats(cx);
    let found = known.0.iter().find(|known| known.name == word.text);
    if let Some(found) = found.filter(|found| found.order <= directive.order) {
        return Ok(found.format.clone());
    }
    let unknown = Problem::new(format!("unknown log format \"{}\"", word.text)).at(word.place);
    let hint = match found.map(|found| found.place) {
        Some(place) => {
            let location = cx.sources.location(place).unwrap_or_default();
            Some(format!("it is defined in {location}, and must be defined before it is used"))
        }
        None if word.text.contains('=') => Some("the format comes first: access_log path format parameters".to_owned()),
        None => freerun_conf::near(&word.text, known.0.iter().map(|known| known.name.as_str()))
            .map(|near| format!("did you mean \"{near}\"?")),
    };
    Err(match hint {
        Some(hint) => unknown.hint(hint),
        None => unknown,
    })
}

/// Reads a `log_format` directive.
///
/// # Errors
/// A name that is taken, an unknown escaping, faults of the strings.
pub fn define(directive: &Node, cx: &mut Cx) -> Result<(), Problem> {
    let name = &directive.args[0];
    if formats(cx).0.iter().any(|known| known.name == name.text) {
        return Err(Problem::new(format!("duplicate \"log_format\" name \"{}\"", name.text)).at(name.place));
    }
    let mut strings = &directive.args[1..];
    let mut escape = Escape::Default;
    if let Some(word) = strings[0].text.strip_prefix("escape=") {
        escape = Escape::from_word(word).ok_or_else(|| {
            Problem::new(format!("unknown log format escaping \"{word}\""))
                .at(strings[0].place)
                .hint(format!("it must be one of: {}", Escape::WORDS.join(", ")))
        })?;
        strings = &strings[1..];
    }
    let format = std::sync::Arc::new(Format::compile(escape, strings, cx)?);
    let (order, place) = (directive.order, directive.name.place);
    formats(cx).0.push(Named { name: name.text.clone(), format, order, place });
    Ok(())
}
