//! State kept on disk: a file for the account at a CA, and one for each certificate with its key.
//!
//! | module | holds |
//! |---|---|
//! | `names` | what the files are called |
//! | `certificate` | the text of a certificate's file |
//! | `account` | the text of an account's file |
//! | `files` | reading and replacing files, so that one is always whole |

mod account;
mod certificate;
mod files;
mod names;

pub(crate) use account::{AccountFile, MAX_FILE as MAX_ACCOUNT};
pub use certificate::{CertificateFile, Damage};
pub(crate) use certificate::{MAX_FILE as MAX_CERTIFICATE, checked_pair};
pub(crate) use files::{read, replace, set_aside};
pub(crate) use names::{account_name, certificate_name};
