//! The HTTP client of the server itself: requests that no client has sent, to OCSP responders, to CAs and to
//! collectors of telemetry.
//!
//! An exchange runs on a loop and never holds it up. It has a deadline as a whole, and bounds for the head and the body
//! of the response. Its connection is used for nothing else: such requests are rare, and minutes apart. Kept
//! connections would have their place in [`HttpClient::send`], where new ones are made.
//!
//! | file | holds |
//! |---|---|
//! | `request.rs` | the request, as bytes |
//! | `response.rs` | the response: its head, and its body to the end |
//! | `exchange.rs` | a single request over its own connection, with TLS or without |
//! | `remote.rs` | requests of threads that are no loops |
//! | `trust.rs` | whether a server's certificate is trusted |
//! | `error.rs` | reasons for which there is no response |
//!
//! The requests of clients that are passed on, and the checks of servers' health, have the connections, the protocols and
//! the settings of `proxy_pass` and its family, see docs/design/0046-requests-of-the-server-itself.md.

mod error;
mod exchange;
mod remote;
mod request;
mod response;
pub mod trust;

pub use error::HttpClientError;
pub use exchange::{ExchangeTls, HttpClient, TransferLimits};
pub use remote::{RemoteClient, RemoteExchange};
pub use request::{InvalidRequest, OutgoingRequest};
pub use response::{OutgoingResponse, ReceivedHead, WholeResponse};

#[cfg(test)]
mod tests;
