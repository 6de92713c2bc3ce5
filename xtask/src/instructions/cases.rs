//! The cases that are counted, their configuration, and the load of each.
//!
//! One client sends one request after the other, so that each request is one event of one loop, whatever the speed of the
//! machine. That leaves little to chance in what the server executes.

use std::net::SocketAddr;

use freerun_testkit::{AnsweringUpstream, ConnectionEnd, Setup, Site, TestClient, TestUpstream, ok};

use super::CountError;

/// The unit of a case's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Instructions of user mode for each request.
    Instructions,
    /// Bytes that malloc has given out for each connection.
    Bytes,
}

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// `return 200` on a connection that is kept.
    Return,
    /// A file of 1 KB on a connection that is kept.
    File,
    /// A response of 1 KB from an upstream server, both connections kept.
    Proxied,
    /// A response of 1 KB that `proxy_cache` has (freerun in memory, nginx in a file), on a connection that is kept.
    Hit,
    /// `return 200` on a connection of its own.
    OneRequest,
    /// A connection that is kept after one request.
    Idle,
}

/// The size of files and responses.
const SIZE: usize = 1_000;

impl Case {
    /// All of them, in the order they are shown.
    pub const ALL: [Case; 6] = [Case::Return, Case::File, Case::Proxied, Case::Hit, Case::OneRequest, Case::Idle];

    /// The name in the table and in the budget.
    pub fn name(self) -> &'static str {
        match self {
            Case::Return => "return-200",
            Case::File => "file-1k",
            Case::Proxied => "proxied-1k",
            Case::Hit => "hit-in-memory-1k",
            Case::OneRequest => "one-request-connection",
            Case::Idle => "idle-connection-bytes",
        }
    }

    /// The unit that is counted.
    pub fn unit(self) -> Unit {
        match self {
            Case::Idle => Unit::Bytes,
            _ => Unit::Instructions,
        }
    }

    /// The percentage that a count may be higher by chance. A hot file is looked at once a second. The file of an
    /// object in memory is also looked at for each use until its folder is watched. A run on a busy machine has more
    /// seconds in it. A connection of its own is accepted now in one turn, now in two.
    pub fn chance(self) -> f64 {
        match self {
            Case::File => 7.0,
            Case::Hit => 2.0,
            Case::OneRequest => 3.0,
            _ => 0.0,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Case::Return | Case::OneRequest | Case::Idle => "/ok",
            Case::File => "/1k.bin",
            Case::Proxied => "/proxied",
            Case::Hit => "/cached",
        }
    }

    /// Something else than the right answer.
    fn wrong(self, what: impl Into<String>) -> CountError {
        CountError::Answer { case: self.name().to_owned(), what: what.into() }
    }

    /// Sends one request, and reads its response to the end.
    fn ask(self, client: &mut TestClient, fields: &str) -> Result<(), CountError> {
        let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n", self.path());
        client.try_send(request).map_err(|error| self.wrong(error.to_string()))?;
        let response = client.try_response("GET").map_err(|what| self.wrong(what))?;
        let right = if self.path() == "/ok" { 3 } else { SIZE };
        if response.status != 200 || response.body.len() != right {
            return Err(self.wrong(format!("{}, {} bytes", response.line, response.body.len())));
        }
        Ok(())
    }

    fn connect(self, address: SocketAddr) -> Result<TestClient, CountError> {
        TestClient::try_connect(address).map_err(|error| self.wrong(error.to_string()))
    }

    /// Sends `count` requests, or leaves `count` connections idle, which are answered.
    pub fn load(self, address: SocketAddr, count: usize) -> Result<Vec<TestClient>, CountError> {
        match self {
            Case::Return | Case::File | Case::Proxied | Case::Hit => {
                let mut client = self.connect(address)?;
                for _ in 0..count {
                    self.ask(&mut client, "")?;
                }
                Ok(vec![client])
            }
            Case::OneRequest => {
                for _ in 0..count {
                    let mut client = self.connect(address)?;
                    self.ask(&mut client, "Connection: close\r\n")?;
                    if client.ending() != ConnectionEnd::Closed {
                        return Err(self.wrong("the connection was not closed"));
                    }
                }
                Ok(Vec::new())
            }
            Case::Idle => (0..count)
                .map(|_| {
                    let mut client = self.connect(address)?;
                    self.ask(&mut client, "").map(|()| client)
                })
                .collect(),
        }
    }
}

/// The content that a server under valgrind serves: a file, and an upstream server in this process.
pub struct ServedContent {
    site: Site,
    upstream: AnsweringUpstream,
}

impl ServedContent {
    /// Makes both.
    pub fn new() -> ServedContent {
        let site = Site::new();
        // Old enough for its date to be a validator, and the same in each run: its text is in the response.
        site.dated("1k.bin", vec![b'x'; SIZE], 1_700_000_000);
        ServedContent { site, upstream: TestUpstream::answering(|_| ok(vec![b'y'; SIZE])) }
    }

    /// The configuration for a case. With `master_process off` there is one process, whose instructions are all counted.
    pub fn setup(&self, case: Case) -> Setup {
        // A connection is given out with its request: otherwise it is chance whether the server looks for it in vain.
        let deferred = if case == Case::OneRequest { " deferred" } else { "" };
        // An object is in memory once it was asked for; nginx has no such tier.
        let upstream = self.upstream.address();
        let lines = format!(
            "keepalive_requests 1000000; keepalive_timeout 1h;
            proxy_cache_path @DIR@/cache keys_zone=zone:1m inactive=1h;
            upstream behind {{ server {upstream}; keepalive 8; keepalive_requests 1000000; keepalive_timeout 1h; }}
            server {{ listen 127.0.0.1:@PORT@{deferred}; server_name localhost; root @ROOT@;
                proxy_http_version 1.1; proxy_set_header Connection \"\";
                location = /ok {{ return 200 \"ok\\n\"; }}
                location = /proxied {{ proxy_pass http://behind; }}
                location = /cached {{ proxy_pass http://behind; proxy_cache zone; proxy_cache_valid 200 1h; }}
            }}"
        );
        Setup::new()
            .root(&self.site)
            .main("master_process off; error_log @DIR@/error.log error;")
            .events("worker_connections 8192;")
            .http("access_log off;")
            .http(&lines)
    }
}
