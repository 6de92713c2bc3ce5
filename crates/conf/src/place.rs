//! Places in configuration texts, and the texts themselves.

use std::sync::Arc;

/// The place of a word or sign in one of the [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Index into [`Sources`]; [`Place::NONE`] has `u32::MAX`.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Byte column in that line, from 1.
    pub column: u32,
    /// The bytes that it covers on that line (a quoted word that continues over several lines is cut at the line's
    /// end).
    pub width: u32,
}

impl Place {
    /// The place of text that was not written in a file, such as a default's text.
    pub const NONE: Place = Place { file: u32::MAX, line: 0, column: 0, width: 0 };

    /// Whether this is a place in a file.
    pub fn is_some(&self) -> bool {
        self.file != u32::MAX
    }
}

/// A text that was read: a file, or the `-g` parameter.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path as it was opened, or `command line` for the `-g` text.
    pub path: String,
    /// The bytes as they were read.
    pub text: Arc<Vec<u8>>,
    /// Whether this is the `-g` text: it has no line numbers in messages and is not dumped.
    pub command_line: bool,
}

/// Every text that a configuration was made from, in the order of first use. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<Vec<Source>>);

impl Sources {
    /// Wraps the texts; a place's `file` is the index here.
    pub fn new(sources: Vec<Source>) -> Self {
        Sources(Arc::new(sources))
    }

    /// The text that a place points into.
    pub fn get(&self, file: u32) -> Option<&Source> {
        self.0.get(file as usize)
    }

    /// All texts in the order of first use.
    pub fn iter(&self) -> std::slice::Iter<'_, Source> {
        self.0.iter()
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of one line (from 1), without its line end.
    pub fn line(&self, place: Place) -> Option<&[u8]> {
        let source = self.get(place.file)?;
        let wanted = place.line.checked_sub(1)? as usize;
        let line = source.text.split(|byte| *byte == b'\n').nth(wanted)?;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The end of nginx's messages: `FILE:LINE`, or `command line` for the `-g` text.
    pub fn location(&self, place: Place) -> Option<String> {
        let source = self.get(place.file)?;
        Some(if source.command_line { source.path.clone() } else { format!("{}:{}", source.path, place.line) })
    }
}
