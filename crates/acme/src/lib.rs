//! Certificates from a CA by ACME (RFC 8555): accounts, orders, renewal, and their state on disk.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | what a configuration says: CAs and certificates |
//! | `identifier` | what a certificate is for: names and addresses |
//! | `host` | what the client needs of the server it runs in |
//! | `client` | HTTP requests to a CA |
//! | `acme` | the client as the server sees it, and its thread |

mod acme;
mod client;
mod host;
mod identifier;
mod settings;

pub use acme::{Acme, CertificateState, CertificateStatus};
pub use host::{Addresses, Challenge, Host, Level, Pair};
pub use identifier::{Identifier, IdentifierError};
pub use settings::{AccountKey, CertificateSettings, ChallengeKind, ExternalAccount, IssuerSettings, KeyKind, Profile};
