//! `resolver` and `resolver_timeout`.

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::settings;
use freerun_upstream::resolve::Resolver;

use crate::tls::ocsp::OcspResolver;
use crate::upstream::resolver::ResolverSetting;

settings! {
    /// The name servers that are asked for addresses while the server runs.
    #[module = "resolver"]
    pub struct ResolverSettings {
        /// The name servers that the addresses of names are asked for: addresses or names, with a port if it is not 53,
        /// asked in turn.
        ///
        /// Names that come up with requests and sessions (`proxy_pass` with variables) and the servers of an `upstream`
        /// with `resolve` are looked up here. An answer is kept for as long as it says itself, or for the time of `valid`.
        /// `ipv4=off` and `ipv6=off` leave out addresses of one kind; `status_zone` names the resolver in `status`.
        /// Resolvers that are written alike share what they know, and keep it over a reload.
        resolver: Option<ResolverSetting>, in HTTP | SERVER | LOCATION | UPSTREAM | STREAM | STREAM_SERVER | STREAM_UPSTREAM,
            fidelity = Differs("names of more than 253 octets, which RFC 1035 does not allow, are not asked for; after an error of a \
                name server the next one is asked; addresses of IPv4 and IPv6 are asked for apart: each question follows its own aliases, \
                and where one finds addresses, an error for the other one is none");
        /// The longest time that resolving a name takes.
        resolver_timeout: Duration = "30s", in HTTP | SERVER | LOCATION | UPSTREAM | STREAM | STREAM_SERVER | STREAM_UPSTREAM;
    }
}

impl ResolverSettings {
    /// The resolver, if there is one, with the longest time that a name may take.
    pub fn resolver_and_timeout(&self) -> Option<(&Arc<Resolver>, Duration)> {
        self.resolver.as_ref().map(|resolver| (&resolver.0, self.resolver_timeout))
    }

    /// The lookup of names of OCSP responders, if there is a resolver.
    pub fn resolving(&self) -> Option<OcspResolver> {
        let (resolver, timeout) = self.resolver_and_timeout()?;
        Some(OcspResolver { resolver: resolver.clone(), timeout })
    }
}

#[cfg(test)]
mod tests {
    use freerun_conf::testing::read_level;
    use freerun_conf::{Contexts, group};

    use super::*;

    fn read(text: &str) -> Result<ResolverSettings, String> {
        let read = read_level(&[group::<ResolverSettings>()], Contexts::HTTP, text)?;
        Ok(read.set.get::<ResolverSettings>().clone())
    }

    #[test]
    fn values_are_read() {
        let set =
            read("resolver 127.0.0.1 [::1]:5353 dns.example valid=1m ipv6=off status_zone=z; resolver_timeout 5s;");
        let set = set.unwrap();
        let resolver = set.resolver.unwrap().0;
        let spec = resolver.spec();
        let servers: Vec<_> = spec.servers.iter().map(|server| server.place.to_string()).collect();
        assert_eq!(servers, ["127.0.0.1:53", "[::1]:5353", "dns.example:53"]);
        assert_eq!((spec.valid, spec.ipv4, spec.ipv6), (Some(Duration::from_secs(60)), true, false));
        assert_eq!(spec.status_zone.as_deref(), Some("z"));
        assert_eq!(set.resolver_timeout, Duration::from_secs(5));
    }

    #[test]
    fn what_nginx_refuses_is_refused_in_its_words() {
        for (text, message) in [
            ("resolver;", "invalid number of arguments in \"resolver\" directive"),
            ("resolver 127.0.0.1 valid=x;", "invalid parameter: valid=x"),
            ("resolver 127.0.0.1 ipv6=x;", "invalid parameter: ipv6=x"),
            ("resolver 127.0.0.1 status_zone=;", "invalid parameter: status_zone="),
            ("resolver valid=1s;", "no name servers defined"),
            ("resolver 127.0.0.1 ipv4=off ipv6=off;", "\"ipv4\" and \"ipv6\" cannot both be \"off\""),
            ("resolver 127.0.0.1:99999;", "invalid port in resolver \"127.0.0.1:99999\""),
            ("resolver 127.0.0.1:x;", "invalid port in resolver \"127.0.0.1:x\""),
            ("resolver \"\";", "no host in resolver \"\""),
            ("resolver 127.0.0.1; resolver 127.0.0.2;", "\"resolver\" directive is duplicate"),
            ("resolver 127.0.0.1 valdi=30s;", "host not found in resolver \"valdi=30s\""),
            ("resolver foo=1;", "host not found in resolver \"foo=1\""),
            ("resolver_timeout 1x;", "\"resolver_timeout\" directive invalid value"),
        ] {
            assert_eq!(read(text).err().as_deref(), Some(message), "{text}");
        }
    }
}
