//! gzip (RFC 1952) for small complete bodies.
//!
//! The setup of an encoder for large bodies (tables of a few hundred kilobytes that have to be cleared) costs more than
//! compressing a kilobyte. Here the tables are as large as the body needs, the whole body is one block, and no position
//! is out of a match's reach. Up to a few kilobytes this takes about nine tenths of libdeflate's time or less at the
//! same size. At the fastest level it takes three quarters up to [`MAX`]. For longer bodies libdeflate is better.

mod block;
mod huffman;
mod matches;
#[cfg(test)]
mod tests;

use libdeflater::Crc;

use block::Block;
use matches::Finder;

/// The longest body that is compressed here, in bytes; well below the window of the format. For longer bodies
/// [`Effort::Fast`] gives a larger output than zlib's first level.
pub const MAX: usize = 1 << 14;

/// The effort of the search for repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Looks at the one last position with the same hash of four bytes.
    Fast,
    /// Looks at up to `depth` such positions, and accepts a match of `good` bytes at once. A longer match at the next
    /// byte is preferred.
    Chains {
        /// The most positions.
        depth: u32,
        /// The length of a match that ends the search.
        good: usize,
    },
}

/// An encoder that compresses one body after the other.
#[derive(Default)]
pub struct Small {
    finder: Finder,
    block: Block,
}

impl Small {
    /// Compresses a body, which has at most [`MAX`] bytes; `None` if it is longer.
    pub fn gzip(&mut self, body: &[u8], effort: Effort) -> Option<Vec<u8>> {
        if body.len() > MAX {
            return None;
        }
        self.block.clear(body.len());
        self.finder.run(body, effort, &mut self.block);
        // The header: no name, no time, no compression level, Unix.
        let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        self.block.write(body, &mut out);
        let mut crc = Crc::new();
        crc.update(body);
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        Some(out)
    }
}
