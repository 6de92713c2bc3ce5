//! The parts of the tree: words and directives with their blocks, each with its place.

use std::borrow::Cow;

use crate::octets::bytes_of;
use crate::place::Place;

/// A word of a directive, without quotes and escapes.
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

/// A directive: `name args… ;` or `name args… { block }`.
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

/// The longest word in bytes as it is written, with the sign that ends it: the size of nginx's read buffer.
pub const MAX_WORD: usize = 4096;
