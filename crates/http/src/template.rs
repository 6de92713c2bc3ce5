//! Text with variables ("complex values" in nginx), compiled once; rendering copies only where it must.

use std::borrow::Cow;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word};

use crate::request::Request;
use crate::variables::{Reference, VariableTable};

#[derive(Debug, Clone)]
enum Piece {
    Text(Box<[u8]>),
    Variable(Reference),
    /// `$1` to `$9`.
    Capture(u8),
}

/// A value with variables in it.
#[derive(Debug, Clone, Default)]
pub struct Template {
    pieces: Box<[Piece]>,
}

impl Template {
    /// A text without variables.
    pub fn literal(text: impl Into<Box<[u8]>>) -> Template {
        let text: Box<[u8]> = text.into();
        Template { pieces: if text.is_empty() { Box::default() } else { Box::new([Piece::Text(text)]) } }
    }

    /// Reads `$name` and `${name}` in a word.
    ///
    /// # Errors
    /// `invalid variable name` and the unclosed brace, in nginx's words.
    pub fn parse(word: &Word, cx: &mut Cx) -> Result<Template, Problem> {
        let text = word.text.as_str();
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            if dollar > 0 {
                pieces.push(Piece::Text(rest.as_bytes()[..dollar].into()));
            }
            rest = &rest[dollar + 1..];
            if let Some(digit @ b'1'..=b'9') = rest.as_bytes().first() {
                pieces.push(Piece::Capture(digit - b'0'));
                rest = &rest[1..];
                continue;
            }
            let braced = rest.starts_with('{');
            if braced {
                rest = &rest[1..];
            }
            let end = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_').unwrap_or(rest.len());
            let name = &rest[..end];
            rest = &rest[end..];
            if braced {
                rest = rest.strip_prefix('}').ok_or_else(|| {
                    Problem::new(format!("the closing bracket in \"{name}\" variable is missing")).at(word.place)
                })?;
            }
            if name.is_empty() {
                return Err(Problem::new("invalid variable name").at(word.place));
            }
            let reference = cx.extensions.get_or_default::<VariableTable>().resolve(name, word.place);
            pieces.push(Piece::Variable(reference));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.as_bytes().into()));
        }
        Ok(Template { pieces: pieces.into() })
    }

    /// The text, if there are no variables in it.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [] => Some(b""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The value for this request; unset variables count as empty.
    pub fn render<'r>(&'r self, request: &'r Request) -> Cow<'r, [u8]> {
        match &*self.pieces {
            [] => Cow::Borrowed(b""),
            [Piece::Text(text)] => Cow::Borrowed(text),
            [Piece::Variable(reference)] => reference.get(request).unwrap_or_default(),
            [Piece::Capture(number)] => Cow::Borrowed(capture(request, *number)),
            _ => {
                let mut out = Vec::new();
                self.render_into(request, &mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Appends the value for this request to `out`.
    pub fn render_into(&self, request: &Request, out: &mut Vec<u8>) {
        self.render_with(request, out, |capture, out| out.extend_from_slice(capture));
    }

    /// The same, with `add` adding what `$1` to `$9` have captured.
    pub fn render_with(&self, request: &Request, out: &mut Vec<u8>, mut add: impl FnMut(&[u8], &mut Vec<u8>)) {
        self.evaluate_maps(request);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Capture(number) => add(capture(request, *number), out),
                Piece::Variable(reference) => {
                    if let Some(value) = reference.get(request) {
                        out.extend_from_slice(&value);
                    }
                }
            }
        }
    }

    /// The expressions of a map change `$1` for the whole of a text that has both, wherever in it the map stands: as in
    /// nginx, which asks for the lengths of all values before it copies the first one.
    fn evaluate_maps(&self, request: &Request) {
        if !self.has_captures() {
            return;
        }
        for piece in &self.pieces {
            if let Piece::Variable(reference) = piece
                && reference.is_computed()
            {
                let _ = reference.get(request);
            }
        }
    }

    /// Whether `$1` to `$9` are in it.
    pub fn has_captures(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Capture(_)))
    }
}

fn capture(request: &Request, number: u8) -> &[u8] {
    request.captures.numbered(usize::from(number)).unwrap_or_default()
}

impl Value for Template {
    const SHAPE: Shape = Shape::exactly(1, "text");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Template, Problem> {
        Template::parse(&directive.args[0], cx)
    }
}
