//! Finds the commands in a page that comes in pieces, split at any place.

use bytes::Bytes;
use freerun_conf::text_of;
use memchr::memmem;

/// The beginning of a command.
const OPENING: &[u8] = b"<!--#";
/// The longest name of a command, and of a parameter.
const MAX_NAME: usize = 32;
/// The most parameters that one command may have.
const MAX_PARAMS: usize = 16;

/// A command of a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SsiCommand {
    /// The name of the command.
    pub name: Vec<u8>,
    /// The names and values of the parameters; in values, a backslash before the quote is still there.
    pub params: Vec<(Vec<u8>, Vec<u8>)>,
}

impl SsiCommand {
    /// The value of a parameter.
    pub fn param(&self, name: &str) -> Option<&[u8]> {
        self.params.iter().find(|(known, _)| known == name.as_bytes()).map(|(_, value)| value.as_slice())
    }

    /// Writes the command as text that parses as the same command.
    pub fn source(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(OPENING);
        out.extend_from_slice(&self.name);
        for (name, value) in &self.params {
            let bare = value.iter().enumerate().any(|(at, byte)| *byte == b'"' && (at == 0 || value[at - 1] != b'\\'));
            let quote = if bare { b'\'' } else { b'"' };
            out.push(b' ');
            out.extend_from_slice(name);
            out.extend_from_slice(&[b'=', quote]);
            out.extend_from_slice(value);
            out.push(quote);
        }
        out.extend_from_slice(b" -->");
    }
}

/// The next item found in the page.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedPiece {
    /// Text to pass on.
    Text(Bytes),
    /// A command.
    Command(SsiCommand),
    /// A text that begins like a command but is not one, with the message for the log.
    Fault(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SsiParserState {
    Text,
    /// The number of bytes of [`OPENING`] that were seen.
    Opening(usize),
    BeforeName,
    Name,
    BeforeParam,
    Param,
    BeforeEqual,
    BeforeValue,
    /// In a value, up to this quote.
    Value(u8),
    /// In a value, up to this quote, after a backslash.
    Escaped(u8),
    AfterValue,
    /// A `-` was seen.
    End1,
    /// `--` was seen.
    End2,
    /// Everything up to `-->` is skipped. The number says how many of its bytes were seen.
    Skip(u8),
}

/// A parser for commands. Its memory is bounded by the longest command.
#[derive(Debug)]
pub struct Parser {
    state: SsiParserState,
    command: SsiCommand,
    fault: Option<String>,
    max_value: usize,
}

impl Parser {
    /// A parser that accepts values of up to this many bytes.
    pub fn new(max_value: usize) -> Parser {
        Parser { state: SsiParserState::Text, command: SsiCommand::default(), fault: None, max_value }
    }

    /// The next item in `piece`, from whose beginning it is removed. `None`: the piece is used up.
    pub fn next(&mut self, piece: &mut Bytes) -> Option<ParsedPiece> {
        loop {
            match self.state {
                _ if piece.is_empty() => return None,
                SsiParserState::Text => {
                    if let Some(text) = self.text(piece) {
                        return Some(ParsedPiece::Text(text));
                    }
                }
                SsiParserState::Opening(seen) if piece[0] == OPENING[seen] => {
                    let _ = piece.split_to(1);
                    self.state = if seen + 1 == OPENING.len() {
                        SsiParserState::BeforeName
                    } else {
                        SsiParserState::Opening(seen + 1)
                    };
                }
                SsiParserState::Opening(seen) => {
                    self.state = SsiParserState::Text;
                    return Some(ParsedPiece::Text(Bytes::from_static(&OPENING[..seen])));
                }
                _ => {
                    let mut used = 0;
                    let mut found = None;
                    for byte in piece.iter() {
                        used += 1;
                        found = self.byte(*byte);
                        if found.is_some() {
                            break;
                        }
                    }
                    let _ = piece.split_to(used);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
    }

    /// Ends the page: returns the text that was held back because a command might have begun there. An unclosed command
    /// is lost.
    pub fn end(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.state, SsiParserState::Text) {
            SsiParserState::Opening(seen) => Some(Bytes::from_static(&OPENING[..seen])),
            _ => None,
        }
    }

    /// The text up to the next command, or to a possible beginning of one.
    fn text(&mut self, piece: &mut Bytes) -> Option<Bytes> {
        let text = match memmem::find(piece, OPENING) {
            Some(at) => {
                let text = piece.split_to(at);
                let _ = piece.split_to(OPENING.len());
                self.state = SsiParserState::BeforeName;
                text
            }
            None => {
                let held = (1..OPENING.len()).rev().find(|held| piece.ends_with(&OPENING[..*held]));
                if let Some(held) = held {
                    self.state = SsiParserState::Opening(held);
                    let text = piece.split_to(piece.len() - held);
                    piece.clear();
                    text
                } else {
                    piece.split_to(piece.len())
                }
            }
        };
        (!text.is_empty()).then_some(text)
    }

    fn byte(&mut self, byte: u8) -> Option<ParsedPiece> {
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match self.state {
            SsiParserState::BeforeName
            | SsiParserState::BeforeParam
            | SsiParserState::BeforeEqual
            | SsiParserState::BeforeValue
                if space =>
            {
                self.state
            }
            SsiParserState::BeforeName => {
                self.command.name.push(byte);
                SsiParserState::Name
            }
            SsiParserState::Name | SsiParserState::AfterValue if space => SsiParserState::BeforeParam,
            SsiParserState::Name | SsiParserState::BeforeParam | SsiParserState::AfterValue if byte == b'-' => {
                SsiParserState::End1
            }
            SsiParserState::Name if self.command.name.len() == MAX_NAME => {
                let name = as_text(&self.command.name);
                self.fail(format!("the \"{name}{}...\" SSI command is too long", char::from(byte)))
            }
            SsiParserState::Name => {
                self.command.name.push(byte);
                SsiParserState::Name
            }
            SsiParserState::BeforeParam if self.command.params.len() == MAX_PARAMS => {
                let name = as_text(&self.command.name);
                self.fail(format!("too many SSI command parameters: \"{name}\""))
            }
            SsiParserState::BeforeParam => {
                self.command.params.push((vec![byte], Vec::new()));
                SsiParserState::Param
            }
            SsiParserState::Param | SsiParserState::BeforeEqual if byte == b'=' => SsiParserState::BeforeValue,
            SsiParserState::Param if space => SsiParserState::BeforeEqual,
            SsiParserState::Param if byte != b'-' => self.param(byte),
            SsiParserState::Param | SsiParserState::BeforeEqual => {
                let (command, param) = self.names();
                let shown = char::from(byte);
                self.fail(format!(
                    "unexpected \"{shown}\" symbol after \"{param}\" parameter in \"{command}\" SSI command"
                ));
                SsiParserState::Skip(u8::from(byte == b'-'))
            }
            SsiParserState::BeforeValue if matches!(byte, b'"' | b'\'') => SsiParserState::Value(byte),
            SsiParserState::BeforeValue => {
                let (command, param) = self.names();
                let shown = char::from(byte);
                self.fail(format!(
                    "unexpected \"{shown}\" symbol before value of \"{param}\" parameter in \"{command}\" SSI command"
                ));
                SsiParserState::Skip(u8::from(byte == b'-'))
            }
            SsiParserState::Value(quote) if byte == quote => SsiParserState::AfterValue,
            SsiParserState::Value(quote) if byte == b'\\' => self.value(byte, SsiParserState::Escaped(quote)),
            SsiParserState::Value(quote) | SsiParserState::Escaped(quote) => {
                self.value(byte, SsiParserState::Value(quote))
            }
            SsiParserState::AfterValue => {
                let (command, param) = self.names();
                let value = self.command.params.last().map(|(_, value)| as_text(value)).unwrap_or_default();
                let byte = char::from(byte);
                self.fail(format!(
                    "unexpected \"{byte}\" symbol after \"{value}\" value of \"{param}\" parameter in \"{command}\" SSI \
                     command"
                ))
            }
            SsiParserState::End1 if byte == b'-' => SsiParserState::End2,
            SsiParserState::End2 if byte == b'>' => {
                self.state = SsiParserState::Text;
                return Some(ParsedPiece::Command(std::mem::take(&mut self.command)));
            }
            SsiParserState::End1 | SsiParserState::End2 => {
                let name = as_text(&self.command.name);
                self.fail(format!("unexpected \"{}\" symbol in \"{name}\" SSI command", char::from(byte)))
            }
            SsiParserState::Skip(2) if byte == b'>' => {
                self.state = SsiParserState::Text;
                return Some(ParsedPiece::Fault(self.fault.take().unwrap_or_default()));
            }
            SsiParserState::Skip(seen) if byte == b'-' => SsiParserState::Skip((seen + 1).min(2)),
            SsiParserState::Skip(_) => SsiParserState::Skip(0),
            SsiParserState::Text | SsiParserState::Opening(_) => self.state,
        };
        None
    }

    fn param(&mut self, byte: u8) -> SsiParserState {
        let command = as_text(&self.command.name);
        let Some((name, _)) = self.command.params.last_mut() else { return SsiParserState::BeforeParam };
        if name.len() < MAX_NAME {
            name.push(byte);
            return SsiParserState::Param;
        }
        let name = as_text(name);
        self.fail(format!("too long \"{name}{}...\" parameter in \"{command}\" SSI command", char::from(byte)))
    }

    fn value(&mut self, byte: u8, next: SsiParserState) -> SsiParserState {
        let max = self.max_value;
        let command = as_text(&self.command.name);
        let Some((name, value)) = self.command.params.last_mut() else { return SsiParserState::BeforeParam };
        if value.len() < max {
            value.push(byte);
            return next;
        }
        let (name, value) = (as_text(name), as_text(value));
        self.fail(format!(
            "too long \"{value}{}...\" value of \"{name}\" parameter in \"{command}\" SSI command",
            char::from(byte)
        ))
    }

    /// The names of the command and of its last parameter, for a message.
    fn names(&self) -> (String, String) {
        (as_text(&self.command.name), self.command.params.last().map(|(name, _)| as_text(name)).unwrap_or_default())
    }

    fn fail(&mut self, message: String) -> SsiParserState {
        self.fault = Some(message);
        self.command = SsiCommand::default();
        SsiParserState::Skip(0)
    }
}

fn as_text(bytes: &[u8]) -> String {
    text_of(bytes).into_owned()
}
