//! Text with variables ("complex values" in nginx), compiled once; rendering copies only if it has to.

use std::borrow::Cow;
use std::fmt;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word, bytes_of, text_of};

use super::table::VariableTable;
use super::variable::VariableReference;
use crate::values::subject::Subject;

enum TemplatePiece<S> {
    Text(Box<[u8]>),
    Variable(VariableReference<S>),
    /// A capture, `$1` to `$9`.
    Capture(u8),
}

/// A value with variables in it.
pub struct Template<S> {
    pieces: Box<[TemplatePiece<S>]>,
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for TemplatePiece<S> {
    fn clone(&self) -> TemplatePiece<S> {
        match self {
            TemplatePiece::Text(text) => TemplatePiece::Text(text.clone()),
            TemplatePiece::Variable(reference) => TemplatePiece::Variable(reference.clone()),
            TemplatePiece::Capture(number) => TemplatePiece::Capture(*number),
        }
    }
}

impl<S> fmt::Debug for TemplatePiece<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplatePiece::Text(text) => write!(formatter, "{:?}", text_of(text)),
            TemplatePiece::Variable(reference) => reference.fmt(formatter),
            TemplatePiece::Capture(number) => write!(formatter, "${number}"),
        }
    }
}

impl<S> Clone for Template<S> {
    fn clone(&self) -> Template<S> {
        Template { pieces: self.pieces.clone() }
    }
}

impl<S> Default for Template<S> {
    fn default() -> Template<S> {
        Template { pieces: Box::default() }
    }
}

impl<S> fmt::Debug for Template<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(&self.pieces).finish()
    }
}

impl<S: Subject> Template<S> {
    /// A text without variables.
    pub fn literal(text: impl Into<Box<[u8]>>) -> Template<S> {
        let text: Box<[u8]> = text.into();
        Template { pieces: if text.is_empty() { Box::default() } else { Box::new([TemplatePiece::Text(text)]) } }
    }

    /// Reads `$name` and `${name}` in a word.
    ///
    /// # Errors
    /// `invalid variable name` or an unclosed brace, in nginx's words.
    pub fn parse(word: &Word, cx: &mut Cx) -> Result<Template<S>, Problem> {
        let text = word.text.as_str();
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            if dollar > 0 {
                pieces.push(TemplatePiece::Text(bytes_of(&rest[..dollar]).into()));
            }
            rest = &rest[dollar + 1..];
            if let Some(digit @ b'1'..=b'9') = rest.as_bytes().first() {
                pieces.push(TemplatePiece::Capture(digit - b'0'));
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
            let reference = cx.extensions.get_or_default::<VariableTable<S>>().resolve(name, word.place);
            pieces.push(TemplatePiece::Variable(reference));
        }
        if !rest.is_empty() {
            pieces.push(TemplatePiece::Text(bytes_of(rest).into()));
        }
        Ok(Template { pieces: pieces.into() })
    }

    /// The text, if there are no variables in it.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [] => Some(b""),
            [TemplatePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The value for this subject; unset variables count as empty.
    pub fn render<'r>(&'r self, subject: &'r S) -> Cow<'r, [u8]> {
        match &*self.pieces {
            [] => Cow::Borrowed(b""),
            [TemplatePiece::Text(text)] => Cow::Borrowed(text),
            [TemplatePiece::Variable(reference)] => reference.get(subject).unwrap_or_default(),
            [TemplatePiece::Capture(number)] => Cow::Borrowed(capture(subject, *number)),
            _ => {
                let mut out = Vec::new();
                self.render_into(subject, &mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Appends the value for this subject to `out`.
    pub fn render_into(&self, subject: &S, out: &mut Vec<u8>) {
        self.render_with(subject, out, |capture, out| out.extend_from_slice(capture));
    }

    /// Appends the value for this subject to `out`; `add` appends the captures `$1` to `$9`.
    pub fn render_with(&self, subject: &S, out: &mut Vec<u8>, mut add: impl FnMut(&[u8], &mut Vec<u8>)) {
        for piece in &self.pieces {
            match piece {
                TemplatePiece::Text(text) => out.extend_from_slice(text),
                TemplatePiece::Capture(number) => add(capture(subject, *number), out),
                TemplatePiece::Variable(reference) => {
                    if let Some(value) = reference.get(subject) {
                        out.extend_from_slice(&value);
                    }
                }
            }
        }
    }

    /// Whether the text has any of `$1` to `$9`.
    pub fn has_captures(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, TemplatePiece::Capture(_)))
    }
}

fn capture<S: Subject>(subject: &S, number: u8) -> &[u8] {
    subject.captures().numbered(usize::from(number)).unwrap_or_default()
}

impl<S: Subject> Value for Template<S> {
    const SHAPE: Shape = Shape::exactly(1, "text");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Template<S>, Problem> {
        Template::parse(&directive.args[0], cx)
    }
}
