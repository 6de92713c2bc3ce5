//! The same configuration and bytes to nginx and to freerun: what comes back must agree, but for the differences listed with the
//! cases, each with its reason.
//!
//! The folders have the numbers of `tests/suite`, in the same order; each tree has those that it needs.

mod exchange;
mod harness;
mod runner;
mod site;

// Configurations: what `-t` takes, what it says to mistakes, and the defaults.
mod t02_configuration;
// Connections of clients: where the server listens, who is there, how long it waits.
mod t03_connections;
// HTTP/1.1: heads and bodies of requests, fields of responses.
mod t04_http1;
// Which server and location a request gets, and what answers it there.
mod t05_locations;
// Variables and the rewrite module.
mod t06_variables;
// Static files: listings, links, files that change, WebDAV.
mod t07_files;
// What is made of a response on its way: compression, includes, substitutions.
mod t08_filters;
// Who may have something: addresses, passwords, tokens, subrequests.
mod t09_access;
// Limits of requests and connections.
mod t10_limits;
// TLS of listeners and towards upstream servers.
mod t12_tls;
// Requests that are passed on, and tunnels.
mod t13_proxy;
// Servers behind: groups and their balancing, kept connections, names, health, HTTP/2.
mod t14_upstreams;
// The cache: what it stores, how long, for whom, and what may never go wrong.
mod t15_cache;
// Applications behind FastCGI, uwsgi, SCGI and memcached: what they are told, and what the client gets.
mod t16_applications;
// Sessions of `stream {}` beside nginx's, with servers behind and with datagrams.
mod t17_stream;
// Access and error logs.
mod t18_logs;
// Generated configurations and requests, and what they found.
mod t21_in_use;
