//! End-to-end tests of the built binary: a configuration, exact bytes in, what comes out. From simple to complex.
//!
//! Most of them hold for nginx too: `FREERUN_TEST_AGAINST=nginx` runs them against it, which is how the expectations were checked.

mod access;
mod applications;
mod cache_flow;
mod cache_status;
mod caching;
mod command_line;
mod compress;
mod config_errors;
mod connections;
mod corpus;
mod files;
mod geoip2;
mod headers;
mod health;
mod limit_errors;
mod limits;
mod links;
mod listens;
mod log_errors;
mod logs;
mod processes;
mod proxied;
mod proxy_bodies;
mod proxy_engine;
mod proxy_heads;
mod proxy_parts;
mod proxy_settings;
mod proxy_tries;
mod proxy_tunnels;
mod reloads;
mod requests;
mod resets;
mod resolver;
mod script_errors;
mod scripts;
mod serve;
mod status;
mod subrequests;
mod timeouts;
mod tls;
mod upstream_connections;
mod upstream_errors;
mod upstream_ntlm;
mod upstreams;
