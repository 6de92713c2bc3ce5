//! Sessions of TCP and UDP (`stream {}`).
//!
//! A *session* is one connection of a client, or the datagrams that one client sends to one listening socket. It passes
//! through the phases of its virtual server ([`Phase`](session::handler::Phase)). These are `post-accept` (the client's
//! address as a proxy tells it), `preaccess` (limits), `access`, `ssl` (the handshake), `preread` (what the first bytes
//! say). Then a *content handler* has it to its end, and it is logged.
//!
//! # How to write a content handler
//!
//! A directive of a server (`return`, `pass`, `proxy_pass`) chooses it. The module of the directive names it in
//! [`Module::content`](module::Module::content):
//!
//! ```
//! use std::rc::Rc;
//!
//! use freerun_stream::session::handler::{ContentFuture, ContentHandler, SessionEnd, status};
//! use freerun_stream::module::Module;
//! use freerun_stream::session::Session;
//!
//! fn start(session: Rc<Session>) -> ContentFuture {
//!     Box::pin(async move {
//!         let settings = session.settings();
//!         // … settings.get::<OwnSettings>() …
//!         session.set_step("proxying connection");
//!         SessionEnd::Status(status::OK)
//!     })
//! }
//!
//! pub static MODULE: Module =
//!     Module { name: "x", content: &[ContentHandler { directive: "x_pass", start }], ..Module::EMPTY };
//! ```
//!
//! * The handler is a future of its own, in a box: what it holds while it waits is all that an idle session costs besides
//!   the [`Session`](session::Session). A future for thousands of idle sessions is better written by hand, as polls; the type
//!   of [`ContentHandler::start`](session::handler::ContentHandler) allows both.
//! * The client's side is [`Session::client`](session::Session::client): a byte stream (a
//!   [`Transport`](freerun_transport::Transport), with TLS or without), or the datagrams of a client
//!   ([`DatagramSession`](client::datagrams::DatagramSession)). A handler that only knows one of them refuses the other when
//!   the configuration is read, in its module's `settle`.
//! * Bytes that have been read in the phase `preread` come first: [`Session::take_preread`](session::Session::take_preread).
//! * It counts what it receives from the client and sends to it ([`Session::received`](session::Session::received),
//!   [`Session::sent`](session::Session::sent)), the bytes that have been preread included.
//! * It logs by [`Subject::log`](freerun_serve::Subject::log); the line gets nginx's context (`while …, client: …, server:
//!   …`), and behind it what [`Session::set_log_context`](session::Session::set_log_context) was given (`, upstream: …,
//!   bytes from/to client:…`).
//! * Its result is the status of the session ([`status`](session::handler::status) has those that there are), or another listening socket of
//!   this process that the connection is handed to.
//! * A handler is dropped when `worker_shutdown_timeout` is over, or the process ends.
//!
//! What a module keeps with a session is in [`Session::states`](session::Session::states); its variables are functions of
//! the session ([`Module::variables`](module::Module::variables)).
//!
//! # What is where
//!
//! From the bottom to the top, each imports only those before it:
//!
//! 1. [`client`]: the client's side of a session;
//! 2. [`session`]: the session, its server, the configuration that has both, the handlers there. They refer to each other,
//!    so they share one folder;
//! 3. [`variables`]: the values of the core's variables;
//! 4. [`settings`]: the directives that the path itself reads;
//! 5. [`module`] and [`path`]: what modules bring, and the way of a session;
//! 6. [`upstream`], [`proxy`] and [`health`]: groups of servers, sessions that are passed on to them, and checks of them;
//!    [`service`]: how connections become sessions;
//! 7. [`modules`]: the modules, and the one list of them;
//! 8. [`build`]: how a configuration is made.

pub mod build;
pub mod client;
pub mod health;
pub mod module;
pub mod modules;
pub mod path;
pub mod proxy;
pub mod service;
pub mod session;
pub mod settings;
pub mod upstream;
pub mod variables;
