//! The tree that is made of a configuration text, the files that it is read from, and how large they may be.

use std::io;

use crate::node::Node;
use crate::octets::bytes_of;
use crate::place::Sources;
use crate::problem::Problem;

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
/// The most warnings that are kept.
pub const MAX_WARNINGS: usize = 100;
