//! The Huffman code for strings: RFC 7541 section 5.2 and appendix B, which RFC 9204 section 4.1.2 takes over.

mod code;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(crate) use decode::{HuffmanError, SPARE, decode, longest};
pub(crate) use encode::{encode, encoded_len};
