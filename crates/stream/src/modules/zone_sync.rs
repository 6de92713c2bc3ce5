//! `zone_sync` and its kin, as NGINX Plus has them: a mesh of nodes that tell each other of their zones. Here an engine takes
//! its place (`zone_sync_engine`), so the directives are taken and do nothing.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_zone_sync_module.html>

use std::rc::Rc;

use freerun_cluster::directives::declare;
use freerun_conf::{Cx, Many, Node, Problem, Shape, Value, group, settings};
use freerun_serve::configuration::engine_declared::EngineDeclared;

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{ContentFuture, ContentHandler, SessionEnd, status};

settings! {
    /// Zones that several machines share, in the words of NGINX Plus.
    #[module = "stream/zone_sync"]
    pub struct ZoneSyncServerSettings {
        /// Has this server tell other machines of its zones, in NGINX Plus. With `zone_sync_engine` it is not needed: it is taken
        /// with a notice, and connections to the server are closed.
        zone_sync: Option<ReplacedFlag>, in STREAM_SERVER, local,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// Another machine, in NGINX Plus.
        zone_sync_server: Many<ReplacedArguments>, in STREAM_SERVER, fidelity = NoEffect("zone_sync_engine takes its place");
        /// The size of buffers, in NGINX Plus.
        zone_sync_buffers: Option<ReplacedArguments>, in STREAM | STREAM_SERVER, fidelity = NoEffect("zone_sync_engine takes its place");
        /// The pause between attempts to connect, in NGINX Plus.
        zone_sync_connect_retry_interval: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The longest time for a connection, in NGINX Plus.
        zone_sync_connect_timeout: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The interval in which other machines are told, in NGINX Plus.
        zone_sync_interval: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("other machines are told at once");
        /// The size of the buffer for what others tell, in NGINX Plus.
        zone_sync_recv_buffer_size: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The longest time between two reads or writes, in NGINX Plus.
        zone_sync_timeout: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// Whether machines talk to each other by TLS, in NGINX Plus.
        zone_sync_ssl: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("\"rediss://\" in zone_sync_engine is TLS");
        /// The certificate that a machine shows to another, in NGINX Plus.
        zone_sync_ssl_certificate: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The key of that certificate, in NGINX Plus.
        zone_sync_ssl_certificate_key: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The ciphers between machines, in NGINX Plus.
        zone_sync_ssl_ciphers: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// A command for OpenSSL, in NGINX Plus.
        zone_sync_ssl_conf_command: Many<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The revocation list for the certificates of machines, in NGINX Plus.
        zone_sync_ssl_crl: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The name that the certificate of a machine is verified for, in NGINX Plus.
        zone_sync_ssl_name: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// A file with passwords of keys, in NGINX Plus.
        zone_sync_ssl_password_file: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The versions of TLS between machines, in NGINX Plus.
        zone_sync_ssl_protocols: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// Whether the name of a machine is sent to it (SNI), in NGINX Plus.
        zone_sync_ssl_server_name: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The authorities that verify machines, in NGINX Plus.
        zone_sync_ssl_trusted_certificate: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// Whether the certificates of machines are verified, in NGINX Plus.
        zone_sync_ssl_verify: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
        /// The length of chains of certificates, in NGINX Plus.
        zone_sync_ssl_verify_depth: Option<ReplacedArguments>, in STREAM | STREAM_SERVER,
            fidelity = NoEffect("zone_sync_engine takes its place");
    }
}

/// Checks that there is an engine, which takes the place of the mesh.
fn check_engine(directive: &Node, cx: &Cx) -> Result<(), Problem> {
    if cx.extensions.get::<EngineDeclared>().is_some() {
        return Ok(());
    }
    let problem = Problem::directive(directive, "needs an engine here").at_node(directive);
    Err(problem.hint("add \"zone_sync_engine redis://host:6379;\" outside of all blocks; it replaces the mesh"))
}

/// A directive without arguments that an engine replaces.
#[derive(Debug, Clone, Copy)]
pub struct ReplacedFlag;

impl Value for ReplacedFlag {
    const SHAPE: Shape = Shape::exactly(0, "");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ReplacedFlag, Problem> {
        check_engine(directive, cx)?;
        let message = "\"zone_sync\" has no effect: \"zone_sync_engine\" takes its place";
        cx.warn(Problem::warning(message).at_node(directive));
        Ok(ReplacedFlag)
    }
}

/// Arguments of a directive that an engine replaces.
#[derive(Debug, Clone, Copy)]
pub struct ReplacedArguments;

impl Value for ReplacedArguments {
    const SHAPE: Shape = Shape::at_least(1, "value …");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ReplacedArguments, Problem> {
        check_engine(directive, cx)?;
        Ok(ReplacedArguments)
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/zone_sync",
    groups: &[group::<ZoneSyncServerSettings>()],
    content: &[ContentHandler { directive: "zone_sync", start }],
    finish: Some(declare),
    ..Module::EMPTY
};

/// Closes the connection: no machine has anything to tell here.
fn start(_: Rc<Session>) -> ContentFuture {
    Box::pin(async { SessionEnd::Status(status::OK) })
}
