//! Decoded fields on their way into the head of a request.

use freerun_proto::h2::hpack::{DecodedField, FieldSink, Pseudo};
use freerun_proto::head::{FieldHeadBuilder, FieldRules};
use freerun_runtime::buffers;

/// The receiver of fields: it begins a head with the first one.
pub(super) struct HeadSink<'r> {
    rules: &'r FieldRules,
    builder: Option<FieldHeadBuilder>,
}

impl HeadSink<'_> {
    pub(super) fn new(rules: &FieldRules) -> HeadSink<'_> {
        HeadSink { rules, builder: None }
    }

    /// The head of which all fields have come.
    pub(super) fn take(&mut self) -> FieldHeadBuilder {
        self.builder.take().unwrap_or_else(|| FieldHeadBuilder::new(buffers::take(), None))
    }

    /// Forgets fields that are not those of a head.
    pub(super) fn clear(&mut self) {
        self.builder = None;
    }
}

impl FieldSink for HeadSink<'_> {
    fn field(&mut self, field: DecodedField<'_>) {
        let builder = self.builder.get_or_insert_with(|| FieldHeadBuilder::new(buffers::take(), None));
        match field.pseudo {
            Some(Pseudo::Unknown) => builder.unknown_pseudo(field.name),
            Some(pseudo) => builder.pseudo(pseudo, field.value, self.rules),
            None => builder.field(field.id, field.name, field.value, self.rules),
        }
    }
}
