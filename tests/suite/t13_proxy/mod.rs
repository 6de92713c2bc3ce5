//! Requests that are passed on, and tunnels.

pub mod body_files;
pub mod proxy_settings;
pub mod proxy_tunnels;
pub mod resets;
pub mod stores;
pub mod tunnel_pass;
