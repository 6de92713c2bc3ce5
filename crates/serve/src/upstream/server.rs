//! `server` inside `upstream`: the address of a server, and its parameters.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Place as At, Problem, Setting, Shape, Word, parse_number, parse_seconds};
use freerun_upstream::PeerSettings;
use freerun_upstream::place::{self, Place, Written};

use super::Protocol;

/// A server as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// The address or name of the server.
    pub place: Place,
    /// The address as it is written.
    pub text: Arc<str>,
    /// The place where that is written in the configuration.
    pub written: At,
    /// The parameters of the server.
    pub settings: PeerSettings,
    /// Whether its name is looked up again and again while the server runs (`resolve`).
    pub resolve: bool,
    /// The name of the SRV records with its addresses (`service`).
    pub service: Option<Arc<str>>,
}

impl Server {
    /// A server for an address without parameters.
    pub(super) fn plain(place: Place, written: At) -> Server {
        let text = place.to_string().into();
        Server { place, text, written, settings: PeerSettings::default(), resolve: false, service: None }
    }
}

/// The servers of a group, in the order written.
#[derive(Debug, Clone, Default)]
pub struct Servers<P>(pub Vec<Server>, PhantomData<P>);

impl<P: Protocol> Setting for Servers<P> {
    const SHAPE: Shape = Shape::at_least(
        1,
        "address [weight=number] [max_conns=number] [max_fails=number] [fail_timeout=time] [backup] [down] [drain] \
         [slow_start=time] [route=string] [resolve] [service=name]",
    );

    fn set(previous: Option<Servers<P>>, directive: &Node, _cx: &mut Cx) -> Result<Servers<P>, Problem> {
        let mut servers = previous.unwrap_or_default();
        servers.0.push(server(directive, P::DEFAULT_PORT)?);
        Ok(servers)
    }
}

fn server(directive: &Node, default_port: Option<u16>) -> Result<Server, Problem> {
    let mut settings = PeerSettings::default();
    let (mut resolve, mut service) = (false, None);
    for word in &directive.args[1..] {
        let invalid = || Problem::invalid_parameter(directive, word);
        match word.text.split_once('=') {
            Some(("weight", value)) => settings.weight = count(value).filter(|n| *n > 0).ok_or_else(invalid)?,
            Some(("max_conns", value)) => settings.max_conns = count(value).ok_or_else(invalid)?,
            Some(("max_fails", value)) => settings.max_fails = count(value).ok_or_else(invalid)?,
            Some(("fail_timeout", value)) => settings.fail_timeout = time(value).ok_or_else(invalid)?,
            Some(("slow_start", value)) => settings.slow_start = time(value).ok_or_else(invalid)?,
            Some(("route", value)) if !value.is_empty() => settings.route = Some(value.into()),
            Some(("service", value)) if !value.is_empty() => service = Some((value, word)),
            None => match word.text.as_str() {
                "backup" => settings.backup = true,
                "down" => settings.down = true,
                "drain" => settings.drain = true,
                "resolve" => resolve = true,
                _ => return Err(invalid()),
            },
            _ => return Err(invalid()),
        }
    }
    let word = &directive.args[0];
    let text = word.text.as_str();
    // The services of a name have their own ports.
    let default_port = service.as_ref().map_or(default_port, |_| default_port.or(Some(0)));
    let written = place::parse(text, default_port)
        .map_err(|why| Problem::new(format!("{why} in upstream \"{text}\"")).at(word.place))?;
    let service = service.map(|(name, word)| service_name(name, word, &written, resolve)).transpose()?;
    Ok(Server { place: written.place, text: text.into(), written: word.place, settings, resolve, service })
}

/// The name of the SRV records: `http` of `example.com` is `_http._tcp.example.com`; a service with a dot is put before
/// the name as it is.
fn service_name(name: &str, word: &Word, written: &Written, resolve: bool) -> Result<Arc<str>, Problem> {
    let refuse = |why: &str| Err(Problem::new(format!("service upstream \"{}\" {why}", written.host)).at(word.place));
    let Place::Name(host) = &written.place else { return refuse("requires a domain name") };
    if !resolve {
        return refuse("requires \"resolve\" parameter");
    }
    if written.port.is_some() {
        return refuse("may not have port");
    }
    let host = &host.host;
    Ok(if name.contains('.') { format!("{name}.{host}").into() } else { format!("_{name}._tcp.{host}").into() })
}

/// A number in a parameter, up to 63 bits as in nginx. A number that is larger than the counters here is as good as no
/// limit.
fn count(text: &str) -> Option<u32> {
    parse_number(text).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn time(text: &str) -> Option<Duration> {
    parse_seconds(text).map(Duration::from_secs)
}
