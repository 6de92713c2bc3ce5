//! TLS towards upstream servers.

#[path = "../../suite/t12_tls/servers.rs"]
mod servers;
mod upstreams;

use servers::secure;
