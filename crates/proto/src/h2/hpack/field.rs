//! Fields as a decoder hands them over.

use crate::HeaderId;
pub use crate::head::Pseudo;

/// A field as it was decoded. Nothing has been checked yet of what HTTP says about names and values: they are any bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodedField<'a> {
    /// The name, as sent; possibly empty, or with upper-case letters, which no message may have.
    pub name: &'a [u8],
    /// The value, as sent.
    pub value: &'a [u8],
    /// The id of the name, as [`HeaderId::of`] finds it (which ignores case).
    pub id: HeaderId,
    /// Which pseudo-header field it is, if its name begins with a colon.
    pub pseudo: Option<Pseudo>,
    /// The sender does not want the field to be in any table, and who passes it on has to say the same
    /// (RFC 7541 section 7.1.3).
    pub never_indexed: bool,
}

/// The receiver of the fields of a block.
pub trait FieldSink {
    /// Takes the next field. This cannot fail, since a block is always decoded to its end, so that the decoder's table
    /// stays as the sender has it. The sink keeps in mind what is wrong.
    fn field(&mut self, field: DecodedField<'_>);
}
