//! OCSP (RFC 6960): what responders say about clients' certificates (`ssl_ocsp`), and about the server's own, which is
//! told to clients with the certificate (`ssl_stapling`).

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
