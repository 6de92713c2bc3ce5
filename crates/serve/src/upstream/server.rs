//! `server` inside `upstream`: the address of a server, and its parameters.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Place as At, Problem, Setting, Shape, parse_number, parse_seconds};
use freerun_upstream::PeerSettings;
use freerun_upstream::place::{self, PlaceText, ServerPlace};

use super::SubjectProtocol;

/// A server as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSetting {
    /// The address or name of the server.
    pub place: ServerPlace,
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

impl ServerSetting {
    /// The server with this address or name, and for a service of that name (`service`).
    ///
    /// # Errors
    /// What is wrong with them, in nginx's words.
    pub fn new(
        text: &str,
        default_port: Option<u16>,
        service: Option<&str>,
        resolve: bool,
        settings: PeerSettings,
    ) -> Result<ServerSetting, String> {
        // The services of a name have their own ports.
        let default_port = service.map_or(default_port, |_| default_port.or(Some(0)));
        let written = place::parse(text, default_port).map_err(|why| format!("{why} in upstream \"{text}\""))?;
        let service = service.map(|name| service_name(name, &written, resolve)).transpose()?;
        Ok(ServerSetting { place: written.place, text: text.into(), written: At::NONE, settings, resolve, service })
    }

    /// The directive that describes the server, with a line end, as a file of `state` has it.
    pub fn directive(&self) -> String {
        let default = PeerSettings::default();
        let own = &self.settings;
        let mut line = format!("server {}", self.text);
        let mut add = |is_told: bool, parameter: std::fmt::Arguments<'_>| {
            if is_told {
                line.push(' ');
                line.push_str(&parameter.to_string());
            }
        };
        add(own.weight != default.weight, format_args!("weight={}", own.weight));
        add(own.max_conns != default.max_conns, format_args!("max_conns={}", own.max_conns));
        add(own.max_fails != default.max_fails, format_args!("max_fails={}", own.max_fails));
        add(own.fail_timeout != default.fail_timeout, format_args!("fail_timeout={}s", own.fail_timeout.as_secs()));
        add(own.slow_start != default.slow_start, format_args!("slow_start={}s", own.slow_start.as_secs()));
        let route = own.route.as_deref().unwrap_or_default();
        add(!route.is_empty(), format_args!("route={route}"));
        add(own.backup, format_args!("backup"));
        add(own.down, format_args!("down"));
        add(own.drain, format_args!("drain"));
        add(self.resolve, format_args!("resolve"));
        let service = self.asked_service().unwrap_or_default();
        add(!service.is_empty(), format_args!("service={service}"));
        line.push_str(";\n");
        line
    }

    /// The value of `service`, which names its services.
    pub fn asked_service(&self) -> Option<&str> {
        let ServerPlace::Name(name) = &self.place else { return None };
        let whole = self.service.as_deref()?;
        let before = whole.strip_suffix(&*name.host)?.strip_suffix('.')?;
        Some(before.strip_prefix('_').and_then(|name| name.strip_suffix("._tcp")).unwrap_or(before))
    }

    /// A server for an address without parameters.
    pub(super) fn plain(place: ServerPlace, written: At) -> ServerSetting {
        let text = place.to_string().into();
        ServerSetting { place, text, written, settings: PeerSettings::default(), resolve: false, service: None }
    }
}

/// The servers of a group, in the order written.
#[derive(Debug, Clone, Default)]
pub struct Servers<P>(pub Vec<ServerSetting>, PhantomData<P>);

impl<P: SubjectProtocol> Setting for Servers<P> {
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

fn server(directive: &Node, default_port: Option<u16>) -> Result<ServerSetting, Problem> {
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
    let at = service.map_or(word, |(_, word)| word);
    // A problem of the address is reported at its place, a problem of the service at the place of the parameter.
    let made = ServerSetting::new(&word.text, default_port, service.map(|(name, _)| name), resolve, settings);
    let is_no_address = place::parse(&word.text, default_port.or(Some(0))).is_err();
    let made = made.map_err(|why| Problem::new(why).at(if is_no_address { word.place } else { at.place }))?;
    Ok(ServerSetting { written: word.place, ..made })
}

/// The name of the SRV records: `http` of `example.com` is `_http._tcp.example.com`; a service with a dot is put before
/// the name as it is.
fn service_name(name: &str, written: &PlaceText, resolve: bool) -> Result<Arc<str>, String> {
    let refuse = |why: &str| Err(format!("service upstream \"{}\" {why}", written.host));
    let ServerPlace::Name(host) = &written.place else { return refuse("requires a domain name") };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_written_as_it_is_read() {
        let settings = PeerSettings { weight: 3, backup: true, route: Some("r".into()), ..PeerSettings::default() };
        let server = |text: &str, service: Option<&str>, resolve, settings: &PeerSettings| {
            ServerSetting::new(text, Some(80), service, resolve, settings.clone()).unwrap()
        };
        let plain = server("10.0.0.1:81", None, false, &PeerSettings::default());
        assert_eq!(plain.directive(), "server 10.0.0.1:81;\n");
        assert_eq!(
            server("a.test", None, true, &settings).directive(),
            "server a.test weight=3 route=r backup resolve;\n"
        );
        for service in ["http", "_x._udp"] {
            let server = server("a.test", Some(service), true, &settings);
            assert_eq!(server.asked_service(), Some(service));
            assert!(server.directive().ends_with(&format!(" resolve service={service};\n")));
        }
    }
}
