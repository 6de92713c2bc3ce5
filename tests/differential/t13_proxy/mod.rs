//! Requests that are passed on, and tunnels.

pub mod proxied;
pub mod proxy_failures;
pub mod proxy_heads;
pub mod proxy_redirects;
pub mod proxy_requests;
pub mod proxy_responses;
pub mod proxy_stored;
pub mod proxy_tries;
pub mod proxy_uris;
