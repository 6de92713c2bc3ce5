//! Certificates from a CA by ACME (RFC 8555): accounts, orders, renewal, and their state on disk.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | what a configuration says: CAs and certificates |
//! | `identifier` | what a certificate is for: names and addresses |
//! | `host` | what the client needs of the server it runs in |
//! | `resolve` | addresses of the CA's server, where nobody else looks them up |
//! | `schedule` | when a certificate is ordered next |
//! | `facts` | what a certificate says of itself |
//! | `state` | what is kept on disk |
//! | `client` | HTTP requests to a CA |
//! | `account_key` | the private key of an account |
//! | `order` | accounts and orders: the conversation with a CA |
//! | `upkeep` | one certificate over time: ordered, kept, renewed |
//! | `thread` | all certificates, on the client's own thread |
//! | `status_board` | how all certificates are doing |
//! | `turns` | who orders now, and who waits |
//! | `acme` | the client as the server sees it |

mod account_key;
mod acme;
mod client;
mod facts;
mod host;
mod identifier;
mod order;
mod resolve;
mod schedule;
mod settings;
mod state;
mod status_board;
mod thread;
mod turns;
mod upkeep;

pub use acme::Acme;
pub use host::{Challenge, Host, Level, Pair};
pub use identifier::{Identifier, IdentifierError};
pub use resolve::Addresses;
pub use settings::{AccountKey, CertificateSettings, ChallengeKind, ExternalAccount, IssuerSettings, KeyKind, Profile};
pub use state::{CertificateFile, Damage};
pub use status_board::{CertificateState, CertificateStatus};
pub use upkeep::log_words;
