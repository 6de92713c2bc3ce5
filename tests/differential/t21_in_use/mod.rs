//! Generated configurations and requests, and what they found.

pub mod generated;
pub mod reduced_cases;
pub mod reduced_checks;
