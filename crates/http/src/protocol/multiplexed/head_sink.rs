//! Decoded fields on their way into the head of a request.

use std::hash::{BuildHasher, RandomState};

use freerun_proto::HeaderId;
use freerun_proto::h2::hpack::{DecodedField, FieldSink, Pseudo};
use freerun_proto::head::{FieldFault, FieldHeadBuilder, FieldRules};
use freerun_runtime::buffers;

use crate::protocol::multiplexed::request_runner::RequestRunners;

/// The receiver of fields: it begins a head with the first one.
pub(in crate::protocol) struct RequestHeadSink<'r> {
    rules: &'r FieldRules,
    runners: &'r RequestRunners,
    builder: Option<FieldHeadBuilder>,
}

impl RequestHeadSink<'_> {
    pub(in crate::protocol) fn new<'r>(rules: &'r FieldRules, runners: &'r RequestRunners) -> RequestHeadSink<'r> {
        RequestHeadSink { rules, runners, builder: None }
    }

    /// A builder with memory that a request before has left.
    fn begin(runners: &RequestRunners) -> FieldHeadBuilder {
        FieldHeadBuilder::new(buffers::take(), runners.spare_head())
    }

    /// The head, when all of its fields have come.
    pub(in crate::protocol) fn take(&mut self) -> FieldHeadBuilder {
        let mut builder = self.builder.take().unwrap_or_else(|| RequestHeadSink::begin(self.runners));
        if builder.is_extended_connect() {
            // A server of HTTP/1 asks for the key of a WebSocket, which streams do not have (RFC 8441 section 5).
            let name = b"sec-websocket-key";
            builder.field(HeaderId::of(name), name, websocket_key().as_bytes(), self.rules);
        }
        builder
    }

    /// Notes that the head is larger than it may be.
    #[cold]
    pub(in crate::protocol) fn too_large(&mut self) {
        self.builder.get_or_insert_with(|| RequestHeadSink::begin(self.runners)).too_large();
    }

    /// The fault of the fields so far.
    pub(in crate::protocol) fn fault(&self) -> Option<&FieldFault> {
        self.builder.as_ref()?.fault()
    }

    /// Forgets fields that belong to no head.
    pub(in crate::protocol) fn clear(&mut self) {
        self.builder = None;
    }
}

/// A key as RFC 6455 section 4.1 wants it: 16 random bytes.
fn websocket_key() -> String {
    let random = |salt: u8| RandomState::new().hash_one(salt).to_ne_bytes();
    let bytes = [random(0), random(1)].concat();
    data_encoding::BASE64.encode(&bytes)
}

impl FieldSink for RequestHeadSink<'_> {
    fn field(&mut self, field: DecodedField<'_>) {
        let builder = self.builder.get_or_insert_with(|| RequestHeadSink::begin(self.runners));
        match field.pseudo {
            Some(Pseudo::Unknown) => builder.unknown_pseudo(field.name),
            Some(pseudo) => builder.pseudo(pseudo, field.value, self.rules),
            None => builder.field(field.id, field.name, field.value, self.rules),
        }
    }
}
