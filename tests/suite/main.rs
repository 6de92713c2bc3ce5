//! End-to-end tests of the built binary: a configuration, exact bytes in, what comes out.
//!
//! The folders go from simple to complex, and their numbers keep the test runner, which sorts by name, to that order: what a
//! folder tests relies on those before it, so the first failure in a list is the one to look at. The numbers are the same
//! in `tests/differential` and in `tests/requests`, where plain requests are that take no process; each has those that it needs.
//!
//! Most of them hold for nginx too: `FREERUN_TEST_AGAINST=nginx` runs them against it, which is how the expectations were checked.

// The program itself: its options, what it prints, its own commands.
mod t01_command_line;
// Configurations: what `-t` takes, what it says to mistakes, and the defaults.
mod t02_configuration;
// Connections of clients: where the server listens.
mod t03_connections;
// HTTP/1.1: requests that could end a worker.
mod t04_http1;
// Which server and location a request gets, and what answers it there.
mod t05_locations;
// Variables and the rewrite module.
mod t06_variables;
// Static files: links, files that change, WebDAV.
mod t07_files;
// What is made of a response on its way: compression, includes.
mod t08_filters;
// Limits of requests and connections.
mod t10_limits;
// HTTP/2 towards clients (RFC 9113), frame by frame: connections, floods, limits, reloads.
mod t11_http2;
// HTTP/3 towards clients (RFC 9114): requests, connections, bad networks, floods.
mod t11_http3;
// TLS of listeners.
mod t12_tls;
// Requests that are passed on, and tunnels.
mod t13_proxy;
// Servers behind: groups and their balancing, kept connections, names, health, HTTP/2.
mod t14_upstreams;
// The cache: what it stores, how long, for whom, and what may never go wrong.
mod t15_cache;
// Real applications behind the server: PHP under php-fpm, Python under uWSGI, Node, a WebSocket server, memcached.
mod t16_applications;
// TCP and UDP: sessions of `stream {}`.
mod t17_stream;
// Access and error logs.
mod t18_logs;
// Master and worker: signals, reloads, loops, a change of the binary.
mod t19_processes;
// What the server tells of itself: the status handler and the two APIs.
mod t20_status;
// The server as people use it: the documentation, the guide, other people's programs.
mod t21_in_use;
