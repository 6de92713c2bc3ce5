//! Values of the directives of TLS that listeners and upstream servers share.

mod algorithms;
mod caches;
mod file;
mod spot;
mod tickets;

pub use algorithms::{AlgorithmList, ConfCommand, ProtocolSet};
pub use caches::{CertificateCache, CertificateCacheValue, OcspCache, OwnCache, SessionCacheValue, with_arrived};
pub(super) use file::shown;
pub use file::{ComputedFile, ComputedName, FileName, PasswordFile, ServerCertificate};
pub use spot::Spot;
pub use tickets::{SessionTickets, SharedTickets};

use freerun_conf::keyword_enum;

keyword_enum! {
    /// The value of `ssl_verify_client`.
    #[derive(Hash)]
    pub enum VerifyClient {
        /// No certificate is requested.
        Off = "off",
        /// A valid certificate is required.
        On = "on",
        /// A certificate is verified if there is one.
        Optional = "optional",
        /// A certificate is not verified here, but by a service behind this server.
        OptionalNoCa = "optional_no_ca",
    }
}

keyword_enum! {
    /// The value of `ssl_ocsp`.
    #[derive(Hash)]
    pub enum Ocsp {
        /// No certificate is checked.
        Off = "off",
        /// All certificates of the client's chain are checked.
        On = "on",
        /// Only the client's own certificate is checked.
        Leaf = "leaf",
    }
}
