//! The drivers of protocols: each makes requests of the received bytes, and sends the responses.
//!
//! A [`connection_task`] owns the connection. It has it opened, which decides in the order of the wire what follows: the PROXY
//! protocol header, TLS with ALPN, the preface of HTTP/2. Then it runs the driver of [`h1`] or [`h2`], which do not know each
//! other. Between requests it holds nothing but the connection.

pub mod computed_certificates;
mod connection_runner;
pub mod connection_task;
pub mod early_end;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod multiplexed;
mod opening;
pub mod proxy_header;
pub mod rehearsal;
mod request_steps;
mod runner_pool;
pub mod tls;
