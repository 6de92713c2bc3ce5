//! A session as a subject: the properties that the parts shared with other protocols ask for.

use std::fmt;

use freerun_proto::ProxyHeader;
use freerun_runtime::log::Level;
use freerun_serve::configuration::services::Services;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::values::captures::Captures;
use freerun_serve::values::proxy_header::ProxiedSubject;
use freerun_serve::values::ssl_variables::TlsSubject;
use freerun_serve::{Address, Subject};

use super::Session;

impl Subject for Session {
    fn peer(&self) -> &Address {
        Session::peer(self)
    }

    fn local(&self) -> Address {
        Session::local(self)
    }

    fn captures(&self) -> &Captures {
        &self.captures
    }

    fn services(&self) -> &Services {
        &self.generation.services
    }

    fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        self.write_log(level, message);
    }

    fn context(&self) -> String {
        Session::context(self).to_string()
    }

    fn is_logged(&self) -> bool {
        self.is_logged.get()
    }
}

impl ProxiedSubject for Session {
    fn proxied(&self) -> Option<&ProxyHeader> {
        Session::proxied(self)
    }
}

impl TlsSubject for Session {
    fn tls_facts(&self) -> Option<&TlsFacts> {
        self.tls()
    }
}
