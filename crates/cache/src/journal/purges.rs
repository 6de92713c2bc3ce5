//! The purges that are under way, on the disk: one file, which is written anew when the list changes.
//!
//! | at | bytes | what (numbers are little-endian) |
//! |---|---|---|
//! | 0 | 8 | `frpurge` and the version of the format, a digit |
//! | 8 | 4 | CRC-32 of all bytes behind it |
//! | 12 | 4 | number of purges |
//! | 16 | | for each purge: kind (1 prefix, 2 tag, 3 key), sequence number (8 bytes), length of the text (4 bytes), text |

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;

use crate::purge::{Active, MAX_PURGES, MAX_TEXT, Purge};

pub(crate) const FILE: &str = ".freerun-purges";
pub(crate) const NEW_FILE: &str = ".freerun-purges.new";

const MAGIC: &[u8; 8] = b"frpurge1";

/// Writes the list; it is on the disk when this returns.
///
/// # Errors
/// The system's error; the old list is still there then.
pub(crate) fn save(folder: &Path, list: &[Active]) -> io::Result<()> {
    if list.is_empty() {
        return match fs::remove_file(folder.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let new = folder.join(NEW_FILE);
    let mut file = super::create_private(&new)?;
    file.write_all(&encode(list))?;
    file.sync_data()?;
    fs::rename(new, folder.join(FILE))
}

/// Reads the list. `None`: the file exists and cannot be read.
pub(crate) fn read(folder: &Path) -> Option<Vec<Active>> {
    match fs::read(folder.join(FILE)) {
        Ok(bytes) => decode(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    }
}

fn encode(list: &[Active]) -> Vec<u8> {
    let mut out = Vec::from(*MAGIC);
    out.extend_from_slice(&[0; 4]);
    // Both are bounded when a purge is taken in.
    out.extend_from_slice(&(list.len() as u32).to_le_bytes());
    for purge in list {
        let kind = match purge.what {
            Purge::Prefix(_) => 1,
            Purge::Tag(_) => 2,
            Purge::Key(_) => 3,
        };
        let text = purge.what.text();
        out.push(kind);
        out.extend_from_slice(&purge.sequence.to_le_bytes());
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    }
    let sum = crc32fast::hash(&out[12..]);
    out[8..12].copy_from_slice(&sum.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<Vec<Active>> {
    let (head, mut rest) = bytes.split_at_checked(12)?;
    if head[..8] != *MAGIC || crc32fast::hash(rest).to_le_bytes() != head[8..] {
        return None;
    }
    let count = u32::from_le_bytes(take(&mut rest)?) as usize;
    if count > MAX_PURGES {
        return None;
    }
    let mut list = Vec::with_capacity(count.min(rest.len()));
    for _ in 0..count {
        let [kind] = take(&mut rest)?;
        let sequence = u64::from_le_bytes(take(&mut rest)?);
        let length = u32::from_le_bytes(take(&mut rest)?) as usize;
        let (text, left) = rest.split_at_checked(length)?;
        rest = left;
        if length > MAX_TEXT {
            return None;
        }
        let text = Bytes::copy_from_slice(text);
        let what = match kind {
            1 => Purge::Prefix(text),
            2 => Purge::Tag(text),
            3 => Purge::Key(text),
            _ => return None,
        };
        list.push(Active { what, sequence });
    }
    rest.is_empty().then_some(list)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (part, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<Active> {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let whats = [Purge::Prefix(text("/a")), Purge::Tag(text("shoes")), Purge::Key(text(""))];
        whats.into_iter().zip(7..).map(|(what, sequence)| Active { what, sequence }).collect()
    }

    #[test]
    fn the_list_comes_back_as_it_was() {
        assert_eq!(decode(&encode(&list())), Some(list()));
        assert_eq!(decode(&encode(&[])), Some(Vec::new()));
    }

    #[test]
    fn a_damaged_list_is_noticed() {
        let bytes = encode(&list());
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "{bit}");
        }
    }
}
