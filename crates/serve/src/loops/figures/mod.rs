//! Figures of requests and sessions that the status page, the API and Prometheus show.

pub mod http2;
pub mod limits;
pub mod quic;
pub mod sessions;
pub mod zones;
