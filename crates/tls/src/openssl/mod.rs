//! The language of OpenSSL's configuration, which the values of nginx's TLS directives are written in, read without
//! OpenSSL.
//!
//! | module | directive | `ssl_conf_command` |
//! |---|---|---|
//! | [`ciphers`] | `ssl_ciphers` | `CipherString` |
//! | [`ciphersuites`] | | `Ciphersuites` |
//! | [`groups`] | `ssl_ecdh_curve` | `Groups`, `Curves`, `ECDHParameters` |
//! | [`protocols`] | `ssl_protocols` | `SslProtocol`, `MinProtocol`, `MaxProtocol` |
//! | [`signature_algorithms`] | | `SignatureAlgorithms`, `ClientSignatureAlgorithms` |
//! | [`conf_command`] | `ssl_conf_command` | all of them, and what they say |
//!
//! The directives of upstreams (`proxy_ssl_ciphers` and so on) take the same values. Each module reads a value as
//! OpenSSL 3 does and refuses what OpenSSL refuses, with the words that nginx logs. After that it says what of it
//! freerun can do, and gives a [`Remark`] where that is less. Everything here is a pure function of texts.

pub mod ciphers;
pub mod ciphersuites;
pub mod conf_command;
pub mod groups;
pub mod protocols;
mod remark;
pub mod signature_algorithms;

pub use remark::{Remark, RemarkLevel, ValueError};
