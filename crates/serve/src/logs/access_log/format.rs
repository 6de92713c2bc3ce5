//! `log_format`: a line with variables, compiled to pieces. The variables of the usual formats are written straight
//! into the line, without a value in between.

use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Place, Problem, Word, bytes_of};
use freerun_runtime::log::clock;

use super::escape::Escape;
use super::line::{LogLine, Short};
use crate::listen::address::Address;
use crate::values::subject::Subject;
use crate::values::{VariableReference, VariableTable};

/// The pieces that a protocol writes into a line without a value in between, besides those that every subject has.
pub trait ProtocolPieces<S>: Sized + fmt::Debug + Send + Sync + 'static {
    /// The predefined formats: their names and texts. A log that names no format uses the first one.
    const PREDEFINED: &'static [(&'static str, &'static str)];

    /// Further formats with `escape=json`, which a configuration may define anew: their names and texts.
    const PRESETS: &'static [(&'static str, &'static str)];

    /// The piece that writes the variable `name`.
    ///
    /// # Errors
    /// There is no such piece: the variable is evaluated as usual.
    fn of(name: &str, reference: VariableReference<S>) -> Result<Self, VariableReference<S>>;

    /// Appends the piece.
    fn push(&self, subject: &S, style: &Style, line: &mut LogLine<'_>);
}

/// The manner in which values are written.
#[derive(Debug)]
pub struct Style {
    escape: Escape,
    missing: Short,
}

impl Style {
    /// Appends a value that a client may have chosen.
    #[inline(always)]
    pub fn push_value(&self, value: &[u8], line: &mut LogLine<'_>) {
        line.push_value(self.escape, value);
    }

    /// Appends the value of a variable.
    pub fn push_variable<S: Subject>(&self, reference: &VariableReference<S>, subject: &S, line: &mut LogLine<'_>) {
        match reference.get(subject) {
            Some(value) => line.push_value(self.escape, &value),
            None => self.push_missing(line),
        }
    }

    /// Appends the text for a missing value.
    #[inline(always)]
    pub fn push_missing(&self, line: &mut LogLine<'_>) {
        self.missing.push(line);
    }
}

/// A compiled format.
pub struct Format<S, P> {
    style: Style,
    pieces: Box<[FormatPiece<S, P>]>,
}

impl<S, P> fmt::Debug for Format<S, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Format").field("style", &self.style).field("pieces", &self.pieces.len()).finish()
    }
}

/// A text, and the piece that follows it.
struct FormatPiece<S, P> {
    before: Short,
    what: PieceSource<S, P>,
}

enum PieceSource<S, P> {
    Nothing,
    /// More text, which is too long to stand before a piece.
    Text(Box<[u8]>),
    RemoteAddr,
    TimeLocal,
    TimeIso8601,
    Msec,
    /// A piece of the protocol.
    Own(P),
    Variable(VariableReference<S>),
}

impl<S: Subject, P: ProtocolPieces<S>> PieceSource<S, P> {
    fn of(name: &str, word: &Word, cx: &mut Cx) -> PieceSource<S, P> {
        let reference = cx.extensions.get_or_default::<VariableTable<S>>().resolve(name, word.place);
        match name {
            "remote_addr" => PieceSource::RemoteAddr,
            "time_local" => PieceSource::TimeLocal,
            "time_iso8601" => PieceSource::TimeIso8601,
            "msec" => PieceSource::Msec,
            _ => P::of(name, reference).map_or_else(PieceSource::Variable, PieceSource::Own),
        }
    }
}

impl<S: Subject, P: ProtocolPieces<S>> Format<S, P> {
    /// Compiles the strings of a format, which are joined without a separator.
    ///
    /// # Errors
    /// A `$` that no variable follows, or an unclosed brace, in nginx's words; unknown variables are reported when the
    /// whole configuration has been read.
    pub fn compile(escape: Escape, strings: &[Word], cx: &mut Cx) -> Result<Format<S, P>, Problem> {
        let mut pieces = Vec::new();
        let mut before = String::new();
        for word in strings {
            let mut rest = word.text.as_str();
            while let Some(dollar) = rest.find('$') {
                before.push_str(&rest[..dollar]);
                let (name, after) = variable(&rest[dollar..], word)?;
                push_piece(&mut pieces, &std::mem::take(&mut before), PieceSource::of(name, word, cx));
                rest = after;
            }
            before.push_str(rest);
        }
        before.push('\n');
        push_piece(&mut pieces, &before, PieceSource::Nothing);
        Ok(Format::of(escape, pieces.into()))
    }

    fn of(escape: Escape, pieces: Box<[FormatPiece<S, P>]>) -> Format<S, P> {
        let style = Style { escape, missing: Short::of(escape.missing()).unwrap_or_default() };
        Format { style, pieces }
    }

    /// A predefined format.
    fn predefined(escape: Escape, text: &str, cx: &mut Cx) -> Format<S, P> {
        // The text is a constant, and a test compiles it.
        Format::compile(escape, &[Word::synthetic(text)], cx).unwrap_or_else(|_| Format::of(escape, Box::default()))
    }

    /// Appends the line of a subject, with its line end.
    pub fn render(&self, subject: &S, out: &mut Vec<u8>) {
        let mut line = LogLine::new(out);
        for piece in &self.pieces {
            self.push(piece, subject, &mut line);
        }
        line.flush();
    }

    #[inline(always)]
    fn push(&self, piece: &FormatPiece<S, P>, subject: &S, line: &mut LogLine<'_>) {
        piece.before.push(line);
        match &piece.what {
            PieceSource::Own(piece) => piece.push(subject, &self.style, line),
            PieceSource::Nothing => {}
            PieceSource::Text(text) => line.push(text),
            PieceSource::RemoteAddr => push_address(subject.peer(), line),
            PieceSource::TimeLocal => line.push_all(&clock::time_local(clock::second())),
            PieceSource::TimeIso8601 => line.push_all(&clock::time_iso8601(clock::second())),
            PieceSource::Msec => {
                let now = clock::now();
                push_millis(u64::try_from(now.secs).unwrap_or(0), u32::from(now.millis), line);
            }
            PieceSource::Variable(reference) => self.style.push_variable(reference, subject, line),
        }
    }
}

fn push_piece<S, P>(pieces: &mut Vec<FormatPiece<S, P>>, before: &str, what: PieceSource<S, P>) {
    let before = bytes_of(before);
    match Short::of(&before) {
        Some(before) => pieces.push(FormatPiece { before, what }),
        None => {
            pieces.push(FormatPiece { before: Short::default(), what: PieceSource::Text(before.into()) });
            pieces.push(FormatPiece { before: Short::default(), what });
        }
    }
}

/// The name at the beginning of `text`, which begins with `$`, and the text after it.
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

fn push_address(address: &Address, line: &mut LogLine<'_>) {
    match address {
        Address::Ip(address) => match address.ip() {
            IpAddr::V4(ip) => line.push_ipv4(ip.octets()),
            // Writing to a vector does not fail.
            IpAddr::V6(ip) => drop(write!(line.flush(), "{ip}")),
        },
        Address::Unix(_) => line.push_all(b"unix:"),
    }
}

/// Appends seconds with three decimals.
pub fn push_millis(seconds: u64, millis: u32, line: &mut LogLine<'_>) {
    line.push_number(seconds);
    line.push_byte(b'.');
    line.push_three(millis);
}

/// The formats that a configuration defines, and their places; lives in its context while it is read.
struct Formats<S, P>(Vec<NamedFormat<S, P>>);

impl<S, P> Default for Formats<S, P> {
    fn default() -> Formats<S, P> {
        Formats(Vec::new())
    }
}

struct NamedFormat<S, P> {
    name: String,
    format: Arc<Format<S, P>>,
    /// [`Node::order`] of the definition: a format must be defined before its use.
    order: u32,
    place: Place,
}

/// The formats of a configuration. The predefined ones are there from the start.
fn formats<S: Subject, P: ProtocolPieces<S>>(cx: &mut Cx) -> &mut Formats<S, P> {
    if cx.extensions.get::<Formats<S, P>>().is_none() {
        let mut formats = Formats::<S, P>(Vec::new());
        for (name, text) in P::PREDEFINED {
            let format = Arc::new(Format::predefined(Escape::Default, text, cx));
            formats.0.push(NamedFormat { name: (*name).to_owned(), format, order: 0, place: Place::NONE });
        }
        cx.extensions.insert(formats);
    }
    cx.extensions.get_or_default()
}

/// The format called `word`, for a use in `directive`.
///
/// # Errors
/// nginx's `unknown log format "x"`.
pub(super) fn find<S: Subject, P: ProtocolPieces<S>>(
    word: &Word,
    directive: &Node,
    cx: &mut Cx,
) -> Result<Arc<Format<S, P>>, Problem> {
    let known = formats::<S, P>(cx);
    let found = known.0.iter().find(|known| known.name == word.text);
    if let Some(found) = found.filter(|found| found.order <= directive.order) {
        return Ok(found.format.clone());
    }
    if found.is_none()
        && let Some((_, text)) = P::PRESETS.iter().find(|(name, _)| *name == word.text)
    {
        return Ok(Arc::new(Format::predefined(Escape::Json, text, cx)));
    }
    let known = formats::<S, P>(cx);
    let found = known.0.iter().find(|known| known.name == word.text);
    let unknown = Problem::new(format!("unknown log format \"{}\"", word.text)).at(word.place);
    let hint = match found.map(|found| found.place) {
        Some(place) => {
            let location = cx.sources.location(place).unwrap_or_default();
            Some(format!("it is defined in {location}, and must be defined before it is used"))
        }
        None if word.text.contains('=') => Some("the format comes first: access_log path format parameters".to_owned()),
        None => {
            let presets = P::PRESETS.iter().map(|(name, _)| *name);
            freerun_conf::near(&word.text, known.0.iter().map(|known| known.name.as_str()).chain(presets))
                .map(|near| format!("did you mean \"{near}\"?"))
        }
    };
    Err(match hint {
        Some(hint) => unknown.hint(hint),
        None => unknown,
    })
}

/// Reads a `log_format` directive.
///
/// # Errors
/// The name is taken, the escaping is unknown, or the strings are wrong.
pub(super) fn define<S: Subject, P: ProtocolPieces<S>>(directive: &Node, cx: &mut Cx) -> Result<(), Problem> {
    let name = &directive.args[0];
    if let Some(first) = formats::<S, P>(cx).0.iter().find(|known| known.name == name.text) {
        let problem = Problem::new(format!("duplicate \"log_format\" name \"{}\"", name.text)).at(name.place);
        // One of the server itself has no place.
        return Err(problem.first_at(first.place));
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
    let format = Arc::new(Format::<S, P>::compile(escape, strings, cx)?);
    let (order, place) = (directive.order, directive.name.place);
    formats::<S, P>(cx).0.push(NamedFormat { name: name.text.clone(), format, order, place });
    Ok(())
}
