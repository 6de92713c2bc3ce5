//! `resolver` and `resolver_timeout`: who is asked for the addresses of names at run time.

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value, Word, near, parse_seconds, settings};
use freerun_upstream::place::{self, Place as Where};
use freerun_upstream::resolve::{NameServer, Resolver, ResolverSpec};

use crate::zones::ZoneTable;

/// The port of name servers.
const DNS_PORT: u16 = 53;

/// The parameters, without their values.
const PARAMETERS: [&str; 4] = ["valid", "ipv4", "ipv6", "status_zone"];

settings! {
    /// The name servers that are asked for addresses while the server runs.
    #[module = "resolver"]
    pub struct ResolverSettings {
        /// The name servers that the addresses of names are asked for: addresses or names, with a port if it is not 53,
        /// asked in turn.
        ///
        /// Names that come up with requests (`proxy_pass` with variables) and the servers of an `upstream` with `resolve`
        /// are looked up here. What was answered is kept for as long as the answer says, or for the time of `valid`.
        /// `ipv4=off` and `ipv6=off` leave out addresses of one kind; `status_zone` names the resolver in `status`.
        /// Resolvers that are written alike share what they know, and keep it over a reload.
        resolver: Option<ResolverSetting>, in HTTP | SERVER | LOCATION | UPSTREAM;
        /// How long a name may take to be resolved.
        resolver_timeout: Duration = "30s", in HTTP | SERVER | LOCATION | UPSTREAM;
    }
}

/// A resolver, shared by all places that write it alike.
#[derive(Debug, Clone)]
pub struct ResolverSetting(pub Arc<Resolver>);

/// The resolvers with a `status_zone`, in the order written; lives in the configuration's context.
#[derive(Debug, Default)]
pub struct ZonedResolvers(pub Vec<Arc<Resolver>>);

/// A name server that is written as a name.
#[derive(Debug, Clone)]
pub struct NamedServer {
    /// As it is written.
    pub text: Arc<str>,
    /// The name.
    pub host: Box<str>,
    /// Where it is written.
    pub written: Place,
}

/// The name servers that are written as names; lives in the configuration's context.
#[derive(Debug, Default)]
pub struct NamedServers(pub Vec<NamedServer>);

impl Value for ResolverSetting {
    const SHAPE: Shape = Shape::at_least(1, "address … [valid=time] [ipv4=on|off] [ipv6=on|off] [status_zone=zone]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ResolverSetting, Problem> {
        let mut spec = ResolverSpec { servers: Vec::new(), valid: None, ipv4: true, ipv6: true, status_zone: None };
        for word in &directive.args {
            let invalid = || Problem::new(format!("invalid parameter: {}", word.text)).at(word.place);
            match word.text.split_once('=') {
                Some(("valid", time)) => {
                    spec.valid = Some(Duration::from_secs(parse_seconds(time).ok_or_else(invalid)?));
                }
                Some(("ipv4", switch)) => spec.ipv4 = on(switch).ok_or_else(invalid)?,
                Some(("ipv6", switch)) => spec.ipv6 = on(switch).ok_or_else(invalid)?,
                Some(("status_zone", "")) => return Err(invalid()),
                Some(("status_zone", name)) => spec.status_zone = Some(name.into()),
                // No name has it, so no name server can be meant.
                Some((parameter, _)) => {
                    let problem = Problem::new(format!("host not found in resolver \"{}\"", word.text)).at(word.place);
                    return Err(match near(parameter, PARAMETERS.into_iter()) {
                        Some(near) => problem.hint(format!("did you mean \"{near}=\"?")),
                        None => problem,
                    });
                }
                None => {
                    let server = name_server(word)?;
                    if let Where::Name(name) = &server.place {
                        let (text, host) = (word.text.as_str().into(), name.host.clone());
                        let named = NamedServer { text, host, written: word.place };
                        cx.extensions.get_or_default::<NamedServers>().0.push(named);
                    }
                    spec.servers.push(server);
                }
            }
        }
        if !spec.ipv4 && !spec.ipv6 {
            return Err(Problem::new("\"ipv4\" and \"ipv6\" cannot both be \"off\""));
        }
        if spec.servers.is_empty() {
            return Err(Problem::new("no name servers defined"));
        }
        let key = spec.to_string();
        let zoned = spec.status_zone.is_some();
        let resolver = cx.extensions.get_or_default::<ZoneTable>().keep(&key, || Resolver::new(spec));
        if zoned {
            let known = &mut cx.extensions.get_or_default::<ZonedResolvers>().0;
            if !known.iter().any(|other| Arc::ptr_eq(other, &resolver)) {
                known.push(resolver.clone());
            }
        }
        Ok(ResolverSetting(resolver))
    }
}

fn on(switch: &str) -> Option<bool> {
    match switch {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn name_server(word: &Word) -> Result<NameServer, Problem> {
    let written = place::parse(&word.text, Some(DNS_PORT));
    let written = match written {
        Ok(written) if !written.host.starts_with("unix:") => written,
        Ok(_) => return Err(Problem::new(format!("invalid host in resolver \"{}\"", word.text)).at(word.place)),
        Err(why) => return Err(Problem::new(format!("{why} in resolver \"{}\"", word.text)).at(word.place)),
    };
    Ok(NameServer { place: written.place })
}

#[cfg(test)]
mod tests {
    use freerun_conf::{Contexts, Registry, Sources, apply_block, group, parse};

    use super::*;

    struct Text<'t>(&'t str);

    impl freerun_conf::Loader for Text<'_> {
        fn load(&mut self, _: &str) -> std::io::Result<Vec<u8>> {
            Ok(self.0.as_bytes().to_vec())
        }

        fn glob(&mut self, _: &str) -> std::io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    fn read(text: &str) -> Result<ResolverSettings, String> {
        let registry = Registry::new(&[group::<ResolverSettings>()], &[]).unwrap();
        let tree = parse("x.conf", None, "", &mut Text(text));
        let mut cx = Cx::new(Sources::default());
        let built = (|| {
            let defaults = registry.defaults(&mut cx)?;
            Ok(apply_block(&registry, Contexts::HTTP, &tree.nodes, &defaults, &mut cx)?.0)
        })();
        let set = cx.conclude(built, tree.error).map_err(|problems| problems[0].message.clone())?;
        Ok(set.get::<ResolverSettings>().clone())
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
