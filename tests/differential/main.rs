//! The same configuration and bytes to nginx and to freerun: what comes back must agree, but for the differences listed with the
//! cases, each with its reason.

mod access;
mod additions;
mod auth_requests;
mod charsets;
mod checks;
mod conditions;
mod dav;
mod error_pages;
mod errors;
mod file_cache;
mod files;
mod folders;
mod framing;
mod geoip2;
mod gzip;
mod harness;
mod headers;
mod keepalive;
mod knobs;
mod limits;
mod locations;
mod malformed_text;
mod maps;
mod realip;
mod request_limits;
mod returns;
mod rewrite;
mod scripts;
mod servers;
mod site;
mod ssi;
mod substitutions;
mod symlinks;
mod uris;
mod variables;
