//! Encoding of header blocks.
//!
//! Fields in the peer's table are named by an index, which is a byte or two. The name decides whether a field goes into
//! the table. A field with few values (`server`, `content-type`, `vary`) goes in at once. A field whose value may be
//! the same in all messages or in none goes in when it comes for the second time (`etag`, `last-modified`, names that
//! are not known). A field that hardly comes again (`content-length`) or is secret (`set-cookie`, `authorization`)
//! never goes in. A field that takes more than a quarter of the table stays out of it.

use super::{INITIAL_TABLE_SIZE, statics};
use crate::compression::encoder_table::{EncoderTable, FieldQuery, LARGEST};
use crate::compression::names::{self, Id, Policy};
use crate::compression::{Indexing, Pseudo, integer, string};

/// The sending half of HPACK on a connection.
pub struct Encoder {
    /// The table, once a field was to go into it.
    table: Option<Box<EncoderTable>>,
    /// The most that the table's entries may count.
    most: u32,
    /// The limit of the table that the peer was told.
    told: u32,
    /// The least that they could count since the last block.
    lowest: u32,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder with a table of [`INITIAL_TABLE_SIZE`], which is what a peer takes that has said nothing.
    pub const fn new() -> Encoder {
        Encoder { table: None, most: INITIAL_TABLE_SIZE, told: INITIAL_TABLE_SIZE, lowest: u32::MAX }
    }

    /// Takes over the peer's SETTINGS_HEADER_TABLE_SIZE, and how large the table may be by our own choice; the lesser is
    /// used, and never more than 16,384. The next block begins with the size updates that this takes (RFC 7541 section
    /// 4.2).
    pub fn set_most(&mut self, peer: u32, own_bound: u32) {
        self.most = peer.min(own_bound).min(LARGEST);
        self.lowest = self.lowest.min(self.most);
        if let Some(table) = &mut self.table {
            table.evict(self.most as usize);
        }
    }

    /// Drops the table and its memory, for a connection that is idle. The next block empties the peer's table, too.
    pub fn forget(&mut self) {
        if self.table.take().is_some_and(|table| !table.is_empty()) {
            self.lowest = 0;
        }
    }

    /// Bytes of memory that are kept beside the encoder itself.
    pub fn heap_bytes(&self) -> usize {
        self.table.as_ref().map_or(0, |table| size_of::<EncoderTable>() + table.heap_bytes())
    }

    /// The size of the dynamic table's entries, in bytes, as RFC 7541 section 4.1 counts it.
    pub fn table_size(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.size())
    }

    /// Begins a block, which is appended to `out` by this and the calls that follow: writes the size updates that have to
    /// come first.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.lowest != u32::MAX {
            self.size_updates(out);
        }
    }

    #[inline(never)]
    fn size_updates(&mut self, out: &mut Vec<u8>) {
        let lowest = std::mem::replace(&mut self.lowest, u32::MAX);
        for size in [lowest.min(self.told), self.most] {
            if size != self.told {
                integer::write(0x20, 0x1f, size as usize, out);
                self.told = size;
            }
        }
    }

    /// Writes `:status`.
    #[inline]
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => return self.known(names::STATUS, &names::status_value(status), out),
        };
        out.push(0x80 | index);
    }

    /// Writes a field, whose name may be in any case. Whether it goes into the table is decided by its name and length.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match names::look_up(name) {
            0 => self.choose(0, name, Policy::Repeated, value, out),
            id => self.known(id, value, out),
        }
    }

    /// Writes a field in the way that is asked for. What has no room in the table does not go into it either.
    pub fn field_as(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let id = names::look_up(name);
        match indexing {
            Indexing::Incremental => {
                let sought = FieldQuery::new(id, name, value);
                self.indexed(&sought, Policy::Common, self.most as usize, out);
            }
            Indexing::Without | Indexing::Never => literal(indexing, id, name, value, out),
        }
    }

    /// Writes a pseudo-header field; a request has several. For [`Pseudo::Unknown`], which has no name, nothing is
    /// written.
    pub fn pseudo(&mut self, pseudo: Pseudo, value: &[u8], out: &mut Vec<u8>) {
        let id = match (pseudo, value) {
            (Pseudo::Method, b"GET") => return out.push(0x82),
            (Pseudo::Method, b"POST") => return out.push(0x83),
            (Pseudo::Path, b"/") => return out.push(0x84),
            (Pseudo::Path, b"/index.html") => return out.push(0x85),
            (Pseudo::Scheme, b"http") => return out.push(0x86),
            (Pseudo::Scheme, b"https") => return out.push(0x87),
            (Pseudo::Authority, _) => names::AUTHORITY,
            (Pseudo::Method, _) => names::METHOD,
            (Pseudo::Path, _) => names::PATH,
            (Pseudo::Scheme, _) => names::SCHEME,
            (Pseudo::Protocol, _) => names::PROTOCOL,
            (Pseudo::Status, &[hundreds, tens, ones]) if [hundreds, tens, ones].iter().all(u8::is_ascii_digit) => {
                let digits = [hundreds, tens, ones].map(|digit| u16::from(digit - b'0'));
                return self.status(digits[0] * 100 + digits[1] * 10 + digits[2], out);
            }
            (Pseudo::Status, _) => names::STATUS,
            (Pseudo::Unknown, _) => return,
        };
        self.known(id, value, out);
    }

    /// Writes a field with a known name.
    #[inline(always)]
    fn known(&mut self, id: Id, value: &[u8], out: &mut Vec<u8>) {
        let known = names::known(id);
        if id == names::ACCEPT_ENCODING
            && let Some(entry) = statics::entry(known.hpack_index.into())
            && entry.value == value
        {
            return out.push(0x80 | known.hpack_index);
        }
        self.choose(id, known.name.as_bytes(), known.policy, value, out);
    }

    #[inline(never)]
    fn choose(&mut self, id: Id, name: &[u8], policy: Policy, value: &[u8], out: &mut Vec<u8>) {
        let indexing = match policy {
            Policy::Secret | Policy::Passing => Indexing::Without,
            Policy::Common | Policy::Latest | Policy::Repeated => {
                let sought = FieldQuery::new(id, name, value);
                return self.indexed(&sought, policy, self.most as usize / 4, out);
            }
        };
        literal(indexing, id, name, value, out);
    }

    /// Writes a field by its index, or in full; then it also goes into the table, if it counts no more than `most` and the
    /// policy says so.
    #[inline(always)]
    fn indexed(&mut self, sought: &FieldQuery<'_>, policy: Policy, most: usize, out: &mut Vec<u8>) {
        if let Some(table) = &self.table
            && sought.size() <= most
            && let Some(number) = table.find(sought)
        {
            return integer::write(0x80, 0x7f, statics::ENTRIES + 1 + number, out);
        }
        self.inserted(sought, policy, most, out);
    }

    /// Writes a field that is not in the table.
    #[inline(never)]
    fn inserted(&mut self, sought: &FieldQuery<'_>, policy: Policy, most: usize, out: &mut Vec<u8>) {
        let mut indexing = Indexing::Without;
        if sought.size() <= most {
            let table = self.table.get_or_insert_with(|| Box::new(EncoderTable::new()));
            if policy != Policy::Repeated || table.has_seen(sought) {
                table.insert(sought, policy == Policy::Latest, self.most as usize);
                indexing = Indexing::Incremental;
            }
        }
        literal(indexing, sought.id, sought.name, sought.value, out);
    }
}

/// Writes a field in full.
#[inline(never)]
fn literal(indexing: Indexing, id: Id, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let (pattern, mask) = match indexing {
        Indexing::Incremental => (0x40, 0x3f),
        Indexing::Without => (0x00, 0x0f),
        Indexing::Never => (0x10, 0x0f),
    };
    match names::known(id).hpack_index {
        0 => {
            out.push(pattern);
            string::write::<true>(0, 0x7f, name, out);
        }
        index => integer::write(pattern, mask, index.into(), out),
    }
    string::write::<false>(0, 0x7f, value, out);
}
