//! Access by address: the clients that are allowed, and the proxies that are trusted.

mod rules;
mod trust;

pub use rules::Rules;
pub use trust::TrustedSource;
