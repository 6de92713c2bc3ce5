//! Parts of exchanges on shared connections that do not depend on the protocol: HTTP/2 and HTTP/3 have them in common.
//!
//! | file | has |
//! |---|---|
//! | `record.rs` | the bytes between an exchange and the stream that carries it |
//! | `state.rs` | records of a response that were received and not taken yet |
//! | `writer.rs` | records of a request on their way into a stream |
//! | `head.rs` | fields of a response on their way from the decoder into records |
//! | `loss.rs` | reasons why a connection ends |
//! | `status.rs` | the state of a connection that all threads see |
//! | `limits.rs` | numbers |

pub(crate) mod head;
pub(crate) mod limits;
pub mod loss;
pub mod record;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod writer;

pub use loss::LossReason;
