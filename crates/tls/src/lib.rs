//! TLS: bytes in, bytes out; no sockets, and no clock of its own.
//!
//! | module | holds |
//! |---|---|
//! | [`digest`] | the digest that names things |
//! | [`issue`] | certificates that are made here: temporary ones, and those of a local authority |
//! | [`load`] | certificates and private keys, as a configuration names them |
//! | [`openssl`] | the language of OpenSSL's configuration, which nginx's directives are written in, as values |
//! | [`random`] | bytes that nobody can guess |
//! | [`session`] | sessions: rustls, behind functions over the caller's buffers |
//! | [`verify`] | the certificates of peers: whether they are trusted, and what they say |

pub mod digest;
pub mod issue;
pub mod load;
pub mod openssl;
pub mod random;
pub mod session;
pub mod verify;

#[cfg(test)]
mod fixtures;
