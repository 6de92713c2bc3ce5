//! The client's part of the table of fields (RFC 9204): which entries a server has inserted, and what the client tells it.

/// The types of the streams of an encoder and of a decoder.
pub const ENCODER: u8 = 0x02;
pub const DECODER: u8 = 0x03;

/// The longest instruction that is waited for, in bytes.
const LONGEST: usize = 64 << 10;

/// The table of a server, as far as its client has to know it: how many entries there are.
#[derive(Debug, Default)]
pub struct ServerTable {
    /// The beginning of an instruction.
    bytes: Vec<u8>,
    /// The instructions for the server that were not sent yet.
    pub out: Vec<u8>,
}

impl ServerTable {
    /// Takes bytes of the server's encoder. False if they are no instructions.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        let (mut rest, mut inserted) = (&self.bytes[..], 0);
        while let Some(is_entry) = instruction(&mut rest) {
            inserted += u64::from(is_entry);
        }
        let taken = self.bytes.len() - rest.len();
        self.bytes.drain(..taken);
        if inserted > 0 {
            // Insert Count Increment
            integer(0x00, 0x3f, inserted, &mut self.out);
        }
        self.bytes.len() < LONGEST
    }

    /// Acknowledges the section of a stream, which has referred to the table.
    pub fn acknowledge(&mut self, stream: u64) {
        integer(0x80, 0x7f, stream, &mut self.out);
    }
}

/// Takes an instruction off the front of `bytes`, unless it is cut. Returns whether it inserts an entry.
fn instruction(bytes: &mut &[u8]) -> Option<bool> {
    let mut rest = *bytes;
    let is_entry = match *rest.first()? {
        // With the name of another entry.
        0x80.. => {
            read(0x3f, &mut rest)?;
            string(0x7f, &mut rest)?;
            true
        }
        0x40.. => {
            string(0x1f, &mut rest)?;
            string(0x7f, &mut rest)?;
            true
        }
        // The size of the table.
        0x20.. => {
            read(0x1f, &mut rest)?;
            false
        }
        // A copy of an entry.
        _ => {
            read(0x1f, &mut rest)?;
            true
        }
    };
    *bytes = rest;
    Some(is_entry)
}

fn string(mask: u8, bytes: &mut &[u8]) -> Option<()> {
    let length = usize::try_from(read(mask, bytes)?).ok()?;
    *bytes = bytes.get(length..)?;
    Some(())
}

/// Reads an integer with a prefix of these bits (RFC 7541 section 5.1).
fn read(mask: u8, bytes: &mut &[u8]) -> Option<u64> {
    let (first, mut rest) = bytes.split_first()?;
    let mut value = u64::from(first & mask);
    if value == u64::from(mask) {
        let mut shift = 0;
        loop {
            let (byte, following) = rest.split_first()?;
            rest = following;
            value = value.checked_add(u64::from(byte & 0x7f).checked_shl(shift)?)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *bytes = rest;
    Some(value)
}

/// Writes an integer with a prefix of these bits behind `first`.
fn integer(first: u8, mask: u8, value: u64, out: &mut Vec<u8>) {
    let Some(mut rest) = value.checked_sub(u64::from(mask)) else {
        // It is below the mask.
        return out.push(first | value as u8);
    };
    out.push(first | mask);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_in_any_pieces() {
        // A size of 220, an entry with a name of the static table, one with a name of its own, and a copy (RFC 9204, appendix B).
        let bytes = b"\x3f\xbd\x01\xc0\x03abc\x44name\x02ab\x01";
        for size in 1..=bytes.len() {
            let mut table = ServerTable::default();
            bytes.chunks(size).for_each(|piece| assert!(table.take(piece)));
            let inserted: u64 = table.out.iter().map(|count| u64::from(*count)).sum();
            assert_eq!(inserted, 3, "in pieces of {size}");
        }
    }

    #[test]
    fn sections_are_acknowledged_by_their_streams() {
        let mut table = ServerTable::default();
        table.acknowledge(4);
        table.acknowledge(127 + 128);
        assert_eq!(table.out, [0x84, 0xff, 0x80, 0x01]);
        assert_eq!(read(0x7f, &mut &table.out[1..]), Some(255));
    }
}
