//! Asking a responder: at which addresses it is, and at which of them it answers.

use std::fmt;
use std::net::SocketAddr;

use data_encoding::BASE64;
use freerun_runtime::files::SocketPaths;
use freerun_runtime::log::{ErrorLog, Level};
use freerun_upstream::UpstreamAddress;
use freerun_upstream::place::{HostName, ServerPlace};

use super::exchange::exchange;
use super::responder::Responder;
use super::spec::OcspResolver;

/// At how many addresses a responder is asked at most.
const MAX_TRIES: usize = 8;

/// A question to a responder about a certificate, and what is told of it in the log.
#[derive(Clone, Copy)]
pub(super) struct OcspQuestion<'a> {
    /// Who is asked.
    pub(super) responder: &'a Responder,
    /// By whom names are looked up.
    pub(super) resolving: Option<&'a OcspResolver>,
    /// Where the path of a responder's Unix socket is looked up.
    pub(super) paths: SocketPaths<'a>,
    /// The error log.
    pub(super) log: &'a ErrorLog,
    /// The number of the client's connection, if it is about a client's certificate.
    pub(super) connection: Option<u64>,
    /// The file of the certificate, if it is the server's own.
    pub(super) file: Option<&'a str>,
}

/// The end of a line of the log: what was being done.
struct Context<'a> {
    asking: &'a OcspQuestion<'a>,
    address: Option<&'a UpstreamAddress>,
}

impl fmt::Display for Context<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, " while requesting certificate status, responder: {}", self.asking.responder)?;
        if let Some(address) = self.address {
            write!(to, ", peer: {address}")?;
        }
        if let Some(file) = self.asking.file {
            write!(to, ", certificate: \"{file}\"")?;
        }
        Ok(())
    }
}

impl OcspQuestion<'_> {
    /// Logs what went wrong, with what was being done, in nginx's words.
    pub(super) fn tell(&self, level: Level, address: Option<&UpstreamAddress>, what: impl fmt::Display) {
        let context = Context { asking: self, address };
        self.log.write(level, self.connection, format_args!("{what}{context}"));
    }

    /// What the responder answers to a request in DER, and at which address it does. `None` if there is no answer: why has
    /// been logged.
    pub(super) async fn ask(&self, request: &[u8]) -> Option<(Vec<u8>, UpstreamAddress)> {
        let text = text(self.responder, request);
        for address in self.addresses().await?.into_iter().take(MAX_TRIES) {
            match exchange(&address, text.as_bytes(), self.paths).await {
                Ok(response) => return Some((response, address)),
                Err(error) => {
                    self.tell(Level::Error, Some(&address), &error);
                    if !error.is_of_address() {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// The addresses of the responder: as in nginx, those of a name are looked up each time, if there is somebody to look
    /// them up. Otherwise they are those that were found when the configuration was read.
    async fn addresses(&self) -> Option<Vec<UpstreamAddress>> {
        let known = &self.responder.known;
        let ServerPlace::Name(HostName { host, port }) = &self.responder.place else { return Some(known.clone()) };
        let Some(OcspResolver { resolver, timeout }) = self.resolving else {
            let level = if known.is_empty() { Level::Error } else { Level::Warn };
            self.tell(level, None, format_args!("no resolver defined to resolve {host}"));
            return (!known.is_empty()).then(|| known.clone());
        };
        match resolver.addresses(host, *timeout).await {
            Ok(answer) => Some(answer.addresses.iter().map(|ip| SocketAddr::new(*ip, *port).into()).collect()),
            Err(error) => {
                self.tell(Level::Error, None, format_args!("{host} could not be resolved ({error})"));
                None
            }
        }
    }
}

/// The text of a request: as nginx's, it is one that caches understand (RFC 6960 appendix A.1).
fn text(responder: &Responder, request: &[u8]) -> String {
    let Responder { host, path, .. } = responder;
    let encoded = BASE64.encode(request).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("GET {path}{encoded} HTTP/1.0\r\nHost: {host}\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_nginx() {
        let responder = Responder::of_client_certificate(b"http://127.0.0.1:9701/base").unwrap();
        let expected = "GET /base/MP%2B%2FAA%3D%3D HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
        assert_eq!(text(&responder, &[0x30, 0xff, 0xbf, 0]), expected);
    }
}
