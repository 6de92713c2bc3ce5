//! Accounts and orders: the conversation with a CA.
//!
//! | module | holds |
//! |---|---|
//! | `failure` | why something did not work, as the log and the pauses need it |
//! | `keys` | private keys of certificates, requests for certificates, certificates that answer challenges |
//! | `issuer` | a CA and the account there |
//! | `challenges` | answers to challenges, while the CA looks at them |
//! | `conversation` | an order from its beginning to the certificate, and the window of its renewal |

mod challenges;
mod conversation;
mod failure;
mod issuer;
mod keys;

pub(crate) use conversation::{ask_window, order};
pub(crate) use failure::Failure;
pub(crate) use issuer::Issuer;
