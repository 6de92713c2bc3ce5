//! Who may come, and who is believed.

mod rules;
mod trust;

pub use rules::Rules;
pub use trust::Trusted;
