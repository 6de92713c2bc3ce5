//! Variables and the rewrite module.

pub mod captures;
