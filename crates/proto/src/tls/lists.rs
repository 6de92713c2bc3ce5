//! The lists that a ClientHello consists of, read in place.

/// Whether a value is one of those that clients send at random, and servers have to pass over (RFC 8701).
pub const fn is_grease(value: u16) -> bool {
    let [high, low] = value.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

/// Takes what has to be there off the front of a text of TLS's presentation language (RFC 8446 section 3).
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'m> {
    pub(super) rest: &'m [u8],
}

impl<'m> Cursor<'m> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u16::from_be_bytes(*first))
    }

    /// A vector whose length stands before it in one byte.
    pub(super) fn vector8(&mut self) -> Option<&'m [u8]> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// A vector whose length stands before it in two bytes.
    pub(super) fn vector16(&mut self) -> Option<&'m [u8]> {
        let len = self.u16()?;
        self.take(len.into())
    }
}

/// Numbers of two bytes each: cipher suites, groups, signature schemes, versions.
#[derive(Debug, Clone)]
pub struct U16s<'m>(Cursor<'m>);

impl<'m> U16s<'m> {
    /// The numbers in `bytes`; an odd byte at the end is left out.
    pub fn new(bytes: &'m [u8]) -> U16s<'m> {
        U16s(Cursor { rest: bytes })
    }
}

impl Iterator for U16s<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        self.0.u16()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.0.rest.len() / 2;
        (len, Some(len))
    }
}

impl ExactSizeIterator for U16s<'_> {}

/// The names in a list of protocols (RFC 7301 section 3.1), in the order in which the client prefers them.
#[derive(Debug, Clone)]
pub struct AlpnProtocols<'m>(Cursor<'m>);

impl<'m> AlpnProtocols<'m> {
    /// The names in `list`: each has its length before it, in one byte.
    pub fn new(list: &'m [u8]) -> AlpnProtocols<'m> {
        AlpnProtocols(Cursor { rest: list })
    }
}

impl<'m> Iterator for AlpnProtocols<'m> {
    type Item = &'m [u8];

    fn next(&mut self) -> Option<&'m [u8]> {
        self.0.vector8()
    }
}

/// The groups that a client sends keys for (RFC 8446 section 4.2.8).
#[derive(Debug, Clone)]
pub struct KeyShareGroups<'m>(Cursor<'m>);

impl<'m> KeyShareGroups<'m> {
    /// The groups of `shares`: group, then the key with its length.
    pub fn new(shares: &'m [u8]) -> KeyShareGroups<'m> {
        KeyShareGroups(Cursor { rest: shares })
    }
}

impl Iterator for KeyShareGroups<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let group = self.0.u16()?;
        self.0.vector16()?;
        Some(group)
    }
}

/// Extensions in their order: type and content (RFC 8446 section 4.2).
#[derive(Debug, Clone)]
pub struct Extensions<'m>(Cursor<'m>);

impl<'m> Extensions<'m> {
    /// The extensions in `bytes`.
    pub fn new(bytes: &'m [u8]) -> Extensions<'m> {
        Extensions(Cursor { rest: bytes })
    }

    /// The bytes that have not been read.
    pub(super) fn rest(&self) -> &'m [u8] {
        self.0.rest
    }
}

impl<'m> Iterator for Extensions<'m> {
    type Item = (u16, &'m [u8]);

    fn next(&mut self) -> Option<(u16, &'m [u8])> {
        let mut ahead = self.0;
        let extension = (ahead.u16()?, ahead.vector16()?);
        self.0 = ahead;
        Some(extension)
    }
}
