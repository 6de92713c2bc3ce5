//! The tree that is made of a configuration text: words, directives, blocks, each with its place.

use std::borrow::Cow;
use std::io;

use crate::octets::bytes_of;
use crate::place::{Place, Sources};
use crate::problem::Problem;

/// One word of a directive, without quotes and escapes.
#[derive(Clone, Debug)]
pub struct Word {
    /// The word. Where it becomes bytes, such as a path or a part of a response, [`bytes_of`] gives them:
    /// those that are not UTF-8 are code points of their own here.
    pub text: String,
    /// The place of the word, quotes included.
    pub place: Place,
    /// Whether it was written in `"` or `'`.
    pub quoted: bool,
}

impl Word {
    /// A word that was not written in a file.
    pub fn synthetic(text: impl Into<String>) -> Self {
        Word { text: text.into(), place: Place::NONE, quoted: false }
    }

    /// The line on which the word ends.
    pub(crate) fn last_line(&self) -> u32 {
        // Only quoted words continue on another line. A `\n` that was written as an escape is counted too.
        let further = if self.quoted { self.text.matches('\n').count() } else { 0 };
        self.place.line.saturating_add(u32::try_from(further).unwrap_or(u32::MAX))
    }

    /// The bytes of the word.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        bytes_of(&self.text)
    }

    /// The word as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// One directive: `name args… ;` or `name args… { block }`.
#[derive(Clone, Debug)]
pub struct Node {
    /// The directive's name.
    pub name: Word,
    /// The words after the name.
    pub args: Vec<Word>,
    /// The directives inside `{}`, with `include` replaced by the included directives.
    pub block: Option<Vec<Node>>,
    /// The place of `;` or `{`: nginx reports this line.
    pub end: Place,
    /// The place of `}`: nginx reports this line for problems that it finds when a block is complete. It equals `end`
    /// for a directive without block, or when the text ended too early.
    pub close: Place,
    /// The position in reading order over all files (an included file's directives come in the place of the `include`).
    /// Problems are sorted by it, so that the first one in reading order is reported.
    pub order: u32,
}

impl Node {
    /// The argument at `index`, if it was written.
    pub fn arg(&self, index: usize) -> Option<&str> {
        self.args.get(index).map(|word| word.text.as_str())
    }

    /// The block's directives; none for a directive without block.
    pub fn children(&self) -> &[Node] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Shows each of these directives, and each inside of their blocks, in the order of the text.
    pub fn each<'n>(nodes: &'n [Node], see: &mut impl FnMut(&'n Node)) {
        for node in nodes {
            see(node);
            Node::each(node.children(), see);
        }
    }
}

/// Reads files for the parser; the crate itself does no I/O.
pub trait Loader {
    /// The bytes of a file, whose name is given as a text of [`bytes_of`]. The error's OS code gives nginx's wording
    /// (`2: No such file or directory`).
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>>;

    /// The paths that match a pattern with `*`, `?` or `[`; there may be none. The parser sorts them by bytes.
    fn glob(&mut self, pattern: &str) -> io::Result<Vec<String>>;

    /// Told of a file that an `include` names and that cannot be read. Whether reading goes on without it; otherwise the
    /// problem is the configuration's error.
    fn goes_on_without(&mut self, _problem: &Problem) -> bool {
        false
    }
}

/// The same text under every path, and no path for any pattern: for a configuration that is one text and on no disk.
#[derive(Clone, Copy, Debug)]
pub struct OneText<'t>(pub &'t str);

impl Loader for OneText<'_> {
    fn load(&mut self, _: &str) -> io::Result<Vec<u8>> {
        Ok(bytes_of(self.0).into_owned())
    }

    fn glob(&mut self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// The result of [`crate::parse()`].
#[derive(Clone, Debug)]
pub struct Tree {
    /// Every text that was read, in the order of first use.
    pub sources: Sources,
    /// The directives of the main level, up to the first syntax error.
    pub nodes: Vec<Node>,
    /// The first syntax error. nginx checks directives while it reads, so a problem of a directive before the error
    /// comes first: pass this to [`crate::Cx::conclude`].
    pub error: Option<Problem>,
}

/// The longest file that is read, in bytes.
pub const MAX_FILE: usize = 64 << 20;
/// The most bytes that are read in total, a file counting each time it is included.
pub const MAX_TOTAL: usize = 256 << 20;
/// The most directives in total, after includes.
pub const MAX_NODES: u32 = 2_000_000;
/// The deepest chain of files that include each other.
pub const MAX_INCLUDES: u32 = 32;
/// The most files that are included in total, a file counting each time: each of a few files that include each other four
/// times is soon read a million times.
pub const MAX_INCLUDED: u32 = 200_000;
/// The deepest nesting of blocks.
pub const MAX_BLOCKS: u32 = 100;
/// The longest word in bytes as it is written, with the sign that ends it: the size of nginx's read buffer.
pub const MAX_WORD: usize = 4096;
/// The most warnings that are kept.
pub const MAX_WARNINGS: usize = 100;
