//! Decoded fields on their way into the head of a request.

use std::hash::{BuildHasher, RandomState};

use freerun_proto::HeaderId;
use freerun_proto::h2::hpack::{DecodedField, FieldSink, Pseudo};
use freerun_proto::head::{FieldFault, FieldHeadBuilder, FieldRules};
use freerun_runtime::buffers;

use crate::protocol::h2::Driver;

/// The receiver of fields: it begins a head with the first one.
pub(super) struct HeadSink<'r> {
    rules: &'r FieldRules,
    driver: &'r Driver,
    builder: Option<FieldHeadBuilder>,
}

impl HeadSink<'_> {
    pub(super) fn new<'r>(rules: &'r FieldRules, driver: &'r Driver) -> HeadSink<'r> {
        HeadSink { rules, driver, builder: None }
    }

    /// A builder with memory that a request before has left.
    fn begin(driver: &Driver) -> FieldHeadBuilder {
        FieldHeadBuilder::new(buffers::take(), driver.spare_head())
    }

    /// The head of which all fields have come.
    pub(super) fn take(&mut self) -> FieldHeadBuilder {
        let mut builder = self.builder.take().unwrap_or_else(|| HeadSink::begin(self.driver));
        if builder.is_extended_connect() {
            // A server of HTTP/1 asks for the key of a WebSocket, which HTTP/2 does not have (RFC 8441 section 5).
            let name = b"sec-websocket-key";
            builder.field(HeaderId::of(name), name, websocket_key().as_bytes(), self.rules);
        }
        builder
    }

    /// What is wrong with the fields so far.
    pub(super) fn fault(&self) -> Option<&FieldFault> {
        self.builder.as_ref()?.fault()
    }

    /// Forgets fields that are not those of a head.
    pub(super) fn clear(&mut self) {
        self.builder = None;
    }
}

/// A key as RFC 6455 section 4.1 wants it: 16 random bytes.
fn websocket_key() -> String {
    let random = |salt: u8| RandomState::new().hash_one(salt).to_ne_bytes();
    let bytes = [random(0), random(1)].concat();
    data_encoding::BASE64.encode(&bytes)
}

impl FieldSink for HeadSink<'_> {
    fn field(&mut self, field: DecodedField<'_>) {
        let builder = self.builder.get_or_insert_with(|| HeadSink::begin(self.driver));
        match field.pseudo {
            Some(Pseudo::Unknown) => builder.unknown_pseudo(field.name),
            Some(pseudo) => builder.pseudo(pseudo, field.value, self.rules),
            None => builder.field(field.id, field.name, field.value, self.rules),
        }
    }
}
