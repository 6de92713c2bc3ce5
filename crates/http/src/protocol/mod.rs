//! The drivers of protocols: each owns its connections, makes requests of the received bytes, and sends the responses.

pub mod computed_certificates;
pub mod h1;
pub mod h2;
pub mod multiplexed;
pub mod proxy_header;
pub mod tls;
pub mod unanswered;
