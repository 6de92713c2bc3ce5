//! The tokens of nginx.conf: words, `;`, `{`, `}`.
//!
//! The rules are the nginx binary's, found by running it. A word ends at white space, `;` or `{`, but `}` and quotes
//! inside a word are ordinary. `#` begins a comment only where a word could begin. `${` does not open a block. A
//! backslash keeps the next byte from ending the word. `\"`, `\'` and `\\` lose their backslash and `\t`, `\r`, `\n`
//! become the control character, quoted or not, while other escapes stay as they are.
//!
//! nginx refuses a comment of more than 4096 bytes on one line as a parameter that is too long; here it is a comment.

use memchr::{memchr, memchr_iter, memmem};

use crate::node::{MAX_WORD, Word};
use crate::octets::{byte_of, text_of};
use crate::place::Place;
use crate::problem::Problem;

/// A token.
#[derive(Debug)]
pub(crate) enum Token {
    Word(Word),
    /// A `;`, which ends a directive.
    End(Place),
    /// A `{`, which opens a block.
    Open(Place),
    /// A `}`, which closes a block.
    Close(Place),
    /// The end of the text.
    Eof(Place),
}

pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    file: u32,
    at: usize,
    line: u32,
    line_start: usize,
    /// A quoted word has just ended: white space, `;`, `{` or `)` must follow.
    after_quote: bool,
    /// The place of a word that the end of the text cuts off.
    cut_off: Option<Place>,
    /// Whether the word that was read last began with a quote.
    in_quotes: bool,
    /// The comments that were passed over, each from its `#` to the end of its line.
    pub(crate) comments: Vec<(Place, &'a [u8])>,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8], file: u32) -> Self {
        Lexer {
            text,
            file,
            at: 0,
            line: 1,
            line_start: 0,
            after_quote: false,
            cut_off: None,
            in_quotes: false,
            comments: Vec::new(),
        }
    }

    fn place(&self, start: usize, width: usize) -> Place {
        let column = u32::try_from(start - self.line_start).unwrap_or(u32::MAX - 1) + 1;
        Place { file: self.file, line: self.line, column, width: u32::try_from(width).unwrap_or(u32::MAX) }
    }

    /// Whether the end of the text is reached.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Whether the text ended inside a word.
    pub(crate) fn cut_off(&self) -> bool {
        self.cut_off.is_some()
    }

    /// The place of the word that the end of the text cuts off.
    pub(crate) fn cut_off_at(&self) -> Option<Place> {
        self.cut_off
    }

    /// Whether that word begins with a quote.
    pub(crate) fn cut_off_in_quotes(&self) -> bool {
        self.cut_off.is_some_and(|_| self.in_quotes)
    }

    /// Whether the place is on the line that was read last, with only white space in front of it.
    pub(crate) fn begins_line(&self, place: Place) -> bool {
        let before = self.line_start..self.line_start + place.column.saturating_sub(1) as usize;
        place.line == self.line && self.text.get(before).is_some_and(|text| text.iter().all(u8::is_ascii_whitespace))
    }

    /// Passes over a block of Lua, behind its `{`, and returns the place of its `}`: braces in strings and comments of Lua do
    /// not count. A block without an end is left unread.
    pub(crate) fn lua_block(&mut self) -> Option<Place> {
        let (at, line, line_start) = (self.at, self.line, self.line_start);
        let mut depth = 0_usize;
        while let Some(&byte) = self.text.get(self.at) {
            let rest = &self.text[self.at..];
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 0 => {
                    let place = self.place(self.at, 1);
                    self.at += 1;
                    return Some(place);
                }
                b'}' => depth -= 1,
                b'\n' => self.newline(self.at),
                b'"' | b'\'' | b'[' | b'-' => {
                    let length = lua_literal(rest);
                    for offset in memchr_iter(b'\n', &rest[..length]) {
                        self.newline(self.at + offset);
                    }
                    self.at += length;
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        (self.at, self.line, self.line_start) = (at, line, line_start);
        None
    }

    fn end_in_word(&mut self, start: Place) -> Token {
        self.cut_off = Some(start);
        Token::Eof(self.place(self.at, 0))
    }

    fn newline(&mut self, at: usize) {
        self.line += 1;
        self.line_start = at + 1;
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Result<Token, Problem> {
        loop {
            let Some(&byte) = self.text.get(self.at) else { return Ok(Token::Eof(self.place(self.at, 0))) };
            let after_quote = std::mem::take(&mut self.after_quote);
            match byte {
                b'\n' => self.newline(self.at),
                b' ' | b'\t' | b'\r' => {}
                b';' | b'{' => {
                    let place = self.place(self.at, 1);
                    self.at += 1;
                    return Ok(if byte == b';' { Token::End(place) } else { Token::Open(place) });
                }
                _ if after_quote && byte != b')' => return Err(self.unexpected_byte()),
                b'}' => {
                    let place = self.place(self.at, 1);
                    self.at += 1;
                    return Ok(Token::Close(place));
                }
                b'#' => {
                    // The line end is left for the next round, which counts it.
                    let end = memchr(b'\n', &self.text[self.at..]).map_or(self.text.len(), |skip| self.at + skip);
                    self.comments.push((self.place(self.at, end - self.at), &self.text[self.at..end]));
                    self.at = end;
                    continue;
                }
                b'"' | b'\'' => return self.quoted(byte),
                _ => return self.bare(),
            }
            self.at += 1;
        }
    }

    /// `unexpected "x"` for the character behind a quoted word: the whole character if it is UTF-8, else one byte.
    fn unexpected_byte(&self) -> Problem {
        let rest = &self.text[self.at..self.text.len().min(self.at + 4)];
        let shown = text_of(rest).chars().next().unwrap_or('\u{fffd}');
        let width = if byte_of(shown).is_some() { 1 } else { shown.len_utf8() };
        let help = "white space or \";\" must follow the closing quote; a quote inside a quoted word is written \\\"";
        Problem::new(format!("unexpected \"{shown}\"")).at(self.place(self.at, width)).hint(help)
    }

    fn too_long(&self, start: usize, place: Place, quote: Option<u8>) -> Problem {
        match quote {
            Some(quote) => Problem::new(format!(
                "too long parameter, probably missing terminating \"{}\" character",
                char::from(quote)
            )),
            None => {
                let shown = text_of(&self.text[start..start + 10]);
                Problem::new(format!("too long parameter \"{shown}...\" started"))
            }
        }
        .at(place)
    }

    fn quoted(&mut self, quote: u8) -> Result<Token, Problem> {
        self.in_quotes = true;
        let start = self.at;
        let mut place = self.place(start, 1);
        let mut first_line = None;
        self.at += 1;
        let body = self.at;
        loop {
            let Some(&byte) = self.text.get(self.at) else { return Ok(self.end_in_word(place)) };
            if self.at - body >= MAX_WORD {
                return Err(self.too_long(body, place, Some(quote)));
            }
            if byte == quote {
                break;
            }
            if byte == b'\\' {
                self.at += 1;
                if self.text.get(self.at).is_none() {
                    continue;
                }
            }
            if self.text[self.at] == b'\n' {
                first_line.get_or_insert(self.at);
                self.newline(self.at);
            }
            self.at += 1;
        }
        let end = self.at;
        self.at += 1;
        if self.at - body >= MAX_WORD && self.at < self.text.len() {
            return Err(self.too_long(body, place, None));
        }
        place.width = u32::try_from(first_line.unwrap_or(self.at) - start).unwrap_or(u32::MAX);
        self.after_quote = true;
        Ok(Token::Word(self.word(&self.text[body..end], place, true)))
    }

    fn bare(&mut self) -> Result<Token, Problem> {
        self.in_quotes = false;
        let start = self.at;
        let mut place = self.place(start, 1);
        let mut dollar = false;
        let mut first_line = None;
        loop {
            // A word that the end of the text cuts off is not a word: a separator has to end it.
            let Some(&byte) = self.text.get(self.at) else { return Ok(self.end_in_word(place)) };
            if self.at - start >= MAX_WORD {
                return Err(self.too_long(start, place, None));
            }
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' => break,
                b'{' if !dollar => break,
                b'\\' => {
                    self.at += 1;
                    if self.text.get(self.at) == Some(&b'\n') {
                        first_line.get_or_insert(self.at);
                        self.newline(self.at);
                    }
                    if self.at == self.text.len() {
                        continue;
                    }
                }
                _ => {}
            }
            dollar = byte == b'$';
            self.at += 1;
        }
        place.width = u32::try_from(first_line.unwrap_or(self.at) - start).unwrap_or(u32::MAX);
        Ok(Token::Word(self.word(&self.text[start..self.at], place, false)))
    }

    fn word(&self, raw: &[u8], place: Place, quoted: bool) -> Word {
        let unescaped = if memchr(b'\\', raw).is_some() { Some(unescape(raw)) } else { None };
        let text = text_of(unescaped.as_deref().unwrap_or(raw)).into_owned();
        Word { text, place, quoted }
    }
}

fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.iter();
    while let Some(&byte) = rest.next() {
        let ahead = rest.as_slice().first().copied();
        let replaced = match (byte, ahead) {
            (b'\\', Some(next @ (b'"' | b'\'' | b'\\'))) => Some(next),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            _ => None,
        };
        if replaced.is_some() {
            rest.next();
        }
        bytes.push(replaced.unwrap_or(byte));
    }
    bytes
}

/// The length of the string or comment of Lua that a text begins with; 1 if it begins with neither.
fn lua_literal(text: &[u8]) -> usize {
    match text {
        [b'-', b'-', rest @ ..] => {
            let line = || memchr(b'\n', rest).unwrap_or(rest.len());
            2 + lua_long_bracket(rest).unwrap_or_else(line)
        }
        [b'[', ..] => lua_long_bracket(text).unwrap_or(1),
        [quote @ (b'"' | b'\''), ..] => {
            let mut at = 1;
            while let Some(&byte) = text.get(at) {
                match byte {
                    b'\\' => at += 1,
                    // A string that is not closed ends with its line.
                    b'\n' => return at,
                    byte if byte == *quote => return at + 1,
                    _ => {}
                }
                at += 1;
            }
            text.len()
        }
        _ => 1,
    }
}

/// The length of a string in long brackets (`[[…]]`, `[=[…]=]`), with which a text begins.
fn lua_long_bracket(text: &[u8]) -> Option<usize> {
    let level = text.get(1..)?.iter().take_while(|byte| **byte == b'=').count();
    if text[0] != b'[' || text.get(1 + level) != Some(&b'[') {
        return None;
    }
    let end = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
    let body = 2 + level;
    Some(memmem::find(&text[body..], &end).map_or(text.len(), |found| body + found + end.len()))
}
