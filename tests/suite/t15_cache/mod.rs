//! The cache: what it stores, how long, for whom, and what may never go wrong.

pub mod cache_flow;
pub mod caching;
