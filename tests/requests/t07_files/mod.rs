//! Static files: listings.

pub mod listings;
