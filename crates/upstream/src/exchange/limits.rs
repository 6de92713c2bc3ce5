//! Limits of shared connections that do not depend on their protocol.

use freerun_proto::h2::hpack::BlockLimits;

use super::head::MOST_FIELDS;

/// The most streams that a connection carries at a time, whatever the server allows.
pub(crate) const MOST_STREAMS: usize = 100;

/// The limits of a block of fields. What a response may have is decided for each of them (`proxy_buffer_size`); a server
/// that exceeds these bounds loses the connection with all its streams.
pub(crate) const BLOCK_LIMITS: BlockLimits =
    BlockLimits { most_string: 256 * 1024, most_total: 1024 * 1024, most_fields: 8192 };

const _: () = assert!(BLOCK_LIMITS.most_string < BLOCK_LIMITS.most_total, "the longest field leaves room for others");
const _: () =
    assert!(MOST_FIELDS < BLOCK_LIMITS.most_fields, "a response of too many fields fails before its connection does");
