//! OCSP (RFC 6960): verification of clients' certificates by responders (`ssl_ocsp`), and responses about the server's
//! own certificate, which clients get with it (`ssl_stapling`).

mod ask;
mod clients;
mod exchange;
mod responder;
mod spec;
mod stapling;

pub(super) use clients::ClientOcsp;
pub use clients::Visit;
pub use spec::{OcspResolver, OcspSpec, Url};
pub use stapling::Stapling;
pub(super) use stapling::{Recipe, Staples};
