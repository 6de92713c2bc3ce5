//! Plain requests: a configuration of `http`, exact bytes in, what comes out. The server is a worker in the test's own
//! process, so a test starts it in a few milliseconds, and a debugger or a coverage tool sees the server's code.
//!
//! What takes a process stays in `tests/suite`: signals, reloads, `-t`, users, limits, standard error, the environment,
//! panics on purpose, and what all workers of a process share (the log of the resolver, the last lines of the error logs).
//! The folders have the numbers of `tests/suite`; each tree has those that it needs.
//!
//! About half of them hold for nginx too: `FREERUN_TEST_AGAINST=nginx` runs these against it, which is how the expectations were
//! checked.

mod worker;

// Connections of clients: who is there, how long the server waits.
mod t03_connections;
// HTTP/1.1: heads and bodies of requests, fields of responses.
mod t04_http1;
// Variables and the rewrite module.
mod t06_variables;
// Static files: listings.
mod t07_files;
// What is made of a response on its way: includes, substitutions.
mod t08_filters;
// Who may have something: addresses, passwords, tokens, subrequests.
mod t09_access;
// HTTP/2 towards clients (RFC 9113), frame by frame.
mod t11_http2;
// TLS towards upstream servers.
mod t12_tls;
// Requests that are passed on, and tunnels.
mod t13_proxy;
// Servers behind: those that no group names.
mod t14_upstreams;
