//! gzip (RFC 1952) for small bodies that are there as a whole.
//!
//! What an encoder for large bodies sets up first (tables of a few hundred kilobytes that have to be cleared) costs more
//! than packing a kilobyte. Here tables are as large as the body needs, all of it is one block, and no position of it is
//! further away than a match reaches. Up to a few kilobytes this takes about nine tenths of libdeflate's time or less at the same
//! size, and three quarters up to [`MAX`] where packing is to be fast above all; beyond, libdeflate is better.

mod block;
mod huffman;
mod matches;
#[cfg(test)]
mod tests;

use libdeflater::Crc;

use block::Block;
use matches::Finder;

/// The longest body that is packed here, in bytes; well below the window of the format. Of longer ones [`Effort::Fast`] makes more than
/// zlib's first level does.
pub const MAX: usize = 1 << 14;

/// How hard to look for repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Looks at the one place where the same four bytes may have been last.
    Fast,
    /// Looks at up to `depth` such places, and is content with a match of `good` bytes. A longer match at the next byte is preferred.
    Chains {
        /// The most places.
        depth: u32,
        /// A match that long is taken without looking further.
        good: usize,
    },
}

/// Packs one body after the other.
#[derive(Default)]
pub struct Small {
    finder: Finder,
    block: Block,
}

impl Small {
    /// The body, which has at most [`MAX`] bytes, packed; `None` if it is longer.
    pub fn gzip(&mut self, body: &[u8], effort: Effort) -> Option<Vec<u8>> {
        if body.len() > MAX {
            return None;
        }
        self.block.clear(body.len());
        self.finder.run(body, effort, &mut self.block);
        // No name, no time, "fastest" and "smallest" not told apart, Unix.
        let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        self.block.write(body, &mut out);
        let mut crc = Crc::new();
        crc.update(body);
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        Some(out)
    }
}
