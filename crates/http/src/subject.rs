//! A request as a subject: the properties that the parts shared with other protocols ask for.

use std::fmt;
use std::net::IpAddr;

use freerun_conf::parse_address;
use freerun_proto::{HeaderId, ProxyHeader};
use freerun_runtime::log::Level;
use freerun_serve::configuration::services::Services;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::values::captures::Captures;
use freerun_serve::values::proxy_header::ProxiedSubject;
use freerun_serve::values::ssl_variables::TlsSubject;
use freerun_serve::{Address, Subject};

use crate::request::Request;
use crate::rewrite::RewriteSettings;

impl Subject for Request {
    #[inline]
    fn peer(&self) -> &Address {
        Request::peer(self)
    }

    fn local(&self) -> Address {
        self.client.local()
    }

    #[inline]
    fn captures(&self) -> &Captures {
        &self.captures
    }

    #[inline]
    fn services(&self) -> &Services {
        &self.generation.services
    }

    fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        crate::log::write(&self, level, message);
    }

    fn context(&self) -> String {
        crate::log::context(self)
    }

    #[inline]
    fn is_logged(&self) -> bool {
        self.answered.is_logged
    }

    fn warns_of_uninitialized(&self) -> bool {
        self.settings().get::<RewriteSettings>().uninitialized_variable_warn
    }

    /// The client's address that trusted proxies name in `X-Forwarded-For`.
    fn forwarded(&self, mut address: IpAddr, is_proxy: impl Fn(IpAddr) -> bool, recursive: bool) -> IpAddr {
        let texts = self
            .head
            .values(HeaderId::XForwardedFor)
            .rev()
            .flat_map(|text| text.rsplit(|byte| matches!(byte, b',' | b' ')).filter(|text| !text.is_empty()));
        for text in texts {
            if !is_proxy(address) {
                break;
            }
            // Here, unlike in realip, an address in brackets must have a port.
            let before = std::str::from_utf8(text).ok().filter(|_| !text.ends_with(b"]")).and_then(parse_address);
            let Some(before) = before else { break };
            address = before.ip();
            if !recursive {
                break;
            }
        }
        address
    }
}

impl ProxiedSubject for Request {
    fn proxied(&self) -> Option<&ProxyHeader> {
        self.client.proxied()
    }
}

impl TlsSubject for Request {
    fn tls_facts(&self) -> Option<&TlsFacts> {
        self.client.tls_facts()
    }
}
