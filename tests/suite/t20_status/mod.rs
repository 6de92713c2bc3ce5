//! What the server tells of itself: the status handler and the two APIs.

pub mod api;
pub mod cache_status;
pub mod contrib;
pub mod freerun_api;
pub mod history;
pub mod incidents;
pub mod kernel_features;
pub mod open_metrics;
pub mod otel;
pub mod problems;
pub mod routes;
pub mod status;
pub mod status_servers;
pub mod status_zones;
