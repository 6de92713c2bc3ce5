//! `resolver` and `resolver_timeout`: the name servers that are asked for the addresses of names at run time.

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value, Word, near, parse_seconds};
use freerun_upstream::place::{self, ServerPlace as Where};
use freerun_upstream::resolve::{NameServer, Resolver, ResolverSpec};

use crate::configuration::parts::Parts;
use crate::configuration::zones::ZoneTable;

/// The port of name servers.
const DNS_PORT: u16 = 53;

/// The parameters, without their values.
const PARAMETERS: [&str; 4] = ["valid", "ipv4", "ipv6", "status_zone"];

/// A resolver, shared by all places where it is written the same.
#[derive(Debug, Clone)]
pub struct ResolverSetting(pub Arc<Resolver>);

/// The resolvers with a `status_zone`, of all protocols, in the order written. It lives in the configuration's context, and
/// [`finish`] makes it a part of the generation.
#[derive(Debug, Clone, Default)]
pub struct ZonedResolvers(pub Vec<Arc<Resolver>>);

/// A name server that is given by its name.
#[derive(Debug, Clone)]
pub struct NamedServer {
    /// The text in the configuration.
    pub text: Arc<str>,
    /// The name.
    pub host: Box<str>,
    /// The place in the configuration.
    pub written: Place,
}

/// The name servers that are given by their names, of all protocols. It lives in the configuration's context, and
/// [`finish`] makes it a part of the generation.
#[derive(Debug, Clone, Default)]
pub struct NamedServers(pub Vec<NamedServer>);

/// Gives the generation the resolvers that have been read so far. Each protocol calls this when all of its configuration
/// has been read; after the last one the generation has the resolvers of all.
pub fn finish(cx: &mut Cx) {
    let zoned = cx.extensions.get_or_default::<ZonedResolvers>().clone();
    let named = cx.extensions.get_or_default::<NamedServers>().clone();
    let parts = cx.extensions.get_or_default::<Parts>();
    parts.insert(Arc::new(zoned));
    parts.insert(Arc::new(named));
}

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
                // No host name contains a `=`, so the word cannot be a name server.
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
