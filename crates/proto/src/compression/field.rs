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

/// Representation of a field: RFC 7541 section 6.2, RFC 9204 section 4.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Indexing {
    /// The field goes into the table; if it is there, it is named by its index.
    Incremental,
    /// The field does not go into the table.
    Without,
    /// The field does not go into the table, and whoever passes it on may not put it into one.
    Never,
}

/// Fields that nobody wants; they are decoded for the sake of the table.
pub(crate) struct DiscardSink;

impl FieldSink for DiscardSink {
    fn field(&mut self, _: DecodedField<'_>) {}
}

/// A sink that sees the fields on their way to another one.
pub(crate) struct FieldObserver<'s, S> {
    sink: &'s mut S,
    /// There is a pseudo-header field, which trailers may not have.
    pub(crate) has_pseudo: bool,
    /// The status is of an interim response.
    pub(crate) is_interim: bool,
}

impl<'s, S> FieldObserver<'s, S> {
    pub(crate) fn new(sink: &'s mut S) -> FieldObserver<'s, S> {
        FieldObserver { sink, has_pseudo: false, is_interim: false }
    }
}

impl<S: FieldSink> FieldSink for FieldObserver<'_, S> {
    #[inline]
    fn field(&mut self, field: DecodedField<'_>) {
        if let Some(pseudo) = field.pseudo {
            self.has_pseudo = true;
            self.is_interim |= pseudo == Pseudo::Status && field.value.len() == 3 && field.value[0] == b'1';
        }
        self.sink.field(field);
    }
}
