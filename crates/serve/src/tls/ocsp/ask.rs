//! Requests to a responder: its addresses, which are tried one after the other until one answers.

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
use crate::http_client::{InvalidRequest, OutgoingRequest};

/// At how many addresses a responder is asked at most.
const MAX_TRIES: usize = 8;

/// A question to a responder about a certificate, and the facts that lines of the log about it name.
#[derive(Clone, Copy)]
pub(super) struct OcspQuestion<'a> {
    /// The responder to ask.
    pub(super) responder: &'a Responder,
    /// The resolver for names.
    pub(super) resolving: Option<&'a OcspResolver>,
    /// Lookup of the path of a responder's Unix socket.
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

    /// Sends a request in DER, and returns the response with the address of the responder that sent it. `None` if there
    /// is no answer; the reason is in the log already.
    pub(super) async fn ask(&self, request: &[u8]) -> Option<(Vec<u8>, UpstreamAddress)> {
        let request = match outgoing(self.responder, request) {
            Ok(request) => request,
            Err(error) => {
                self.tell(Level::Error, None, error);
                return None;
            }
        };
        for address in self.addresses().await?.into_iter().take(MAX_TRIES) {
            match exchange(&address, &request, self.paths).await {
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

    /// The addresses of the responder. As in nginx, its name is looked up each time if there is a resolver. Otherwise
    /// they are the addresses that were found when the configuration was read.
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

/// The HTTP request for one in DER. As nginx does, it uses the method GET, so that caches understand it (RFC 6960 appendix
/// A.1).
fn outgoing(responder: &Responder, request: &[u8]) -> Result<OutgoingRequest, InvalidRequest> {
    let Responder { host, path, .. } = responder;
    let encoded = BASE64.encode(request).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    OutgoingRequest::http10("GET", &format!("{path}{encoded}"), host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_nginx() {
        let responder = Responder::of_client_certificate(b"http://127.0.0.1:9701/base").unwrap();
        let expected = OutgoingRequest::http10("GET", "/base/MP%2B%2FAA%3D%3D", "127.0.0.1").unwrap();
        assert_eq!(outgoing(&responder, &[0x30, 0xff, 0xbf, 0]).unwrap(), expected);
    }
}
