//! The name of a server, and its settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Debian's nginx.
    Nginx,
    /// The server of this project.
    Freerun,
    /// H2O.
    H2o,
    /// lighttpd.
    Lighttpd,
    /// HAProxy, which only passes requests on.
    Haproxy,
    /// Varnish, which passes requests on and keeps the answers in memory.
    Varnish,
    /// A program of the benchmark's own that knows no HTTP ([`crate::floor`]).
    Floor,
}

impl Kind {
    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Freerun => "freerun",
            Kind::H2o => "h2o",
            Kind::Lighttpd => "lighttpd",
            Kind::Haproxy => "haproxy",
            Kind::Varnish => "varnishd",
            Kind::Floor => "floor",
        }
    }
}

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// A server with its settings.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The name in tables and for `--only`; its first word is the program.
    pub name: String,
    /// The program.
    pub kind: Kind,
    /// Worker processes, event loops or threads.
    pub workers: usize,
    /// Connections each worker may hold.
    pub connections: usize,
    /// `/` is served from here.
    pub root: PathBuf,
    /// The value of `aio`; `None` leaves it out.
    pub aio: Option<&'static str>,
    /// The value of `accept_mutex`; `None` leaves it out.
    pub accept_mutex: Option<bool>,
    /// `listen … reuseport`.
    pub reuseport: bool,
    /// `listen … sndbuf=`; empty leaves it out.
    pub sndbuf: &'static str,
    /// The value of `sendfile_max_chunk`; `None` leaves it out.
    pub max_chunk: Option<&'static str>,
    /// The value of `access_log`.
    pub access_log: String,
    /// The answer of `location = /generation`.
    pub generation: usize,
    /// `/` is passed on to this server, over kept connections, instead of being served from `root`.
    pub upstream: Option<SocketAddr>,
    /// Further lines of the location that passes requests on (nginx and freerun).
    pub passing: String,
    /// Further lines of the main context (nginx and freerun); `@DIR@` is the server's own folder.
    pub main: String,
    /// Further lines of `http` (nginx and freerun); `@DIR@` is the server's own folder.
    pub http: String,
    /// The same server once more for each of these certificates, over TLS, at an address of its own (nginx, freerun and H2O).
    pub secure: Vec<Certificate>,
    /// Whether it speaks HTTP/2 (nginx and freerun; H2O does in any case).
    pub http2: bool,
    /// The whole configuration instead (nginx, freerun and HAProxy; of the floor its arguments, one a line); `@ADDRESS@` is
    /// where to listen, `@PORT@` its port, `@DIR@` the server's own folder.
    pub whole: Option<String>,
    /// Further lines of the server (nginx and freerun); `@ADDRESS@` is its address.
    pub lines: String,
}

impl Spec {
    /// `kind` with one worker, called by its name and `variant`, everything else at its default.
    pub fn new(kind: Kind, variant: &str, root: &Path) -> Spec {
        Spec {
            name: format!("{} {variant}", kind.name()).trim().to_owned(),
            kind,
            workers: 1,
            connections: 4_096,
            root: root.to_owned(),
            aio: None,
            accept_mutex: None,
            reuseport: false,
            sndbuf: "",
            max_chunk: None,
            access_log: "off".to_owned(),
            generation: 0,
            upstream: None,
            passing: "proxy_set_header Connection \"\";\n".to_owned(),
            main: String::new(),
            http: String::new(),
            secure: Vec::new(),
            http2: false,
            whole: None,
            lines: String::new(),
        }
    }

    /// A copy of the server, with `aio`.
    pub fn aio(self, value: &'static str) -> Spec {
        Spec { aio: Some(value), ..self }
    }

    /// A copy of the server, with further lines of the main context and of the server.
    pub fn lines(self, main: impl Into<String>, lines: impl Into<String>) -> Spec {
        Spec { main: main.into(), lines: lines.into(), ..self }
    }

    /// A copy of the server, as a proxy of `upstream`.
    pub fn proxy(self, upstream: SocketAddr) -> Spec {
        Spec { upstream: Some(upstream), ..self }
    }

    /// A copy of the server, with this number of workers.
    pub fn workers(self, workers: usize) -> Spec {
        Spec { workers, ..self }
    }
}
