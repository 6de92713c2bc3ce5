//! `syslog:server=…` in `error_log` and `access_log`.
//!
//! <https://nginx.org/en/docs/syslog.html>

use std::sync::Arc;

use freerun_conf::{Cx, Problem, Word};
use freerun_runtime::log::syslog::{FACILITIES, Header};
use freerun_runtime::log::{Level, SYSLOG};

/// The facility if none is named: `local7`.
const LOCAL7: u8 = 23;
/// The port if none is named.
const PORT: u16 = 514;
/// The longest tag.
const MAX_TAG: usize = 32;
/// The longest path of a Unix socket, including the zero at its end.
const MAX_UNIX_PATH: usize = 108;

/// Checks whether a host has an address. A reader of the configuration that may look up names puts it into the context;
/// without it, names are accepted unchecked.
#[derive(Clone, Copy)]
pub struct HostCheck(pub fn(&str) -> bool);

/// A syslog server, and the properties of its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syslog {
    /// The name of the log: the server with its port.
    pub name: String,
    /// The header of messages.
    pub header: Arc<Header>,
    /// The severity of the lines of an access log.
    pub severity: Level,
}

impl Syslog {
    /// Reads a word that begins with `syslog:`.
    ///
    /// # Errors
    /// A parameter is wrong, in nginx's words.
    pub fn parse(word: &Word, cx: &Cx) -> Result<Syslog, Problem> {
        let fail = |message: String| Problem::new(message).at(word.place);
        let duplicate = |name: &str| fail(format!("duplicate syslog \"{name}\""));
        let (mut server, mut facility, mut severity, mut tag, mut hostname) = (None, None, None, None, true);
        for parameter in word.text.strip_prefix(SYSLOG).unwrap_or_default().split(',') {
            match parameter.split_once('=') {
                Some(("server", value)) => {
                    if server.replace(self::server(value, cx).map_err(&fail)?).is_some() {
                        return Err(duplicate("server"));
                    }
                }
                Some(("facility", value)) => {
                    let number = FACILITIES.iter().position(|known| *known == value);
                    let number = number.ok_or_else(|| fail(format!("unknown syslog facility \"{value}\"")))?;
                    if facility.replace(number as u8).is_some() {
                        return Err(duplicate("facility"));
                    }
                }
                Some(("severity", value)) => {
                    let level = value.parse().map_err(|()| fail(format!("unknown syslog severity \"{value}\"")))?;
                    if severity.replace(level).is_some() {
                        return Err(duplicate("severity"));
                    }
                }
                Some(("tag", value)) => {
                    if tag.is_some() {
                        return Err(duplicate("tag"));
                    }
                    if value.len() > MAX_TAG {
                        return Err(fail("syslog tag length exceeds 32".to_owned()));
                    }
                    if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                        let message = "syslog \"tag\" only allows alphanumeric characters and underscore";
                        return Err(fail(message.to_owned()));
                    }
                    tag = Some(value.to_owned());
                }
                None if parameter == "nohostname" => hostname = false,
                _ => return Err(fail(format!("unknown syslog parameter \"{parameter}\""))),
            }
        }
        let name = server.ok_or_else(|| fail("no syslog server specified".to_owned()))?;
        let tag = tag.unwrap_or_else(|| "nginx".to_owned());
        let header = Arc::new(Header { facility: facility.unwrap_or(LOCAL7), tag, hostname });
        Ok(Syslog { name, header, severity: severity.unwrap_or(Level::Info) })
    }
}

/// The log's name for a server.
fn server(text: &str, cx: &Cx) -> Result<String, String> {
    let fail = |what: &str| Err(format!("{what} in syslog server \"{text}\""));
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.len() {
            0 => fail("no path in the unix domain socket"),
            MAX_UNIX_PATH.. => fail("too long path in the unix domain socket"),
            _ => Ok(format!("{SYSLOG}{text}")),
        };
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            None => return fail("invalid host"),
            Some((host, "")) => (host, None),
            Some((host, rest)) => match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None => return fail("invalid port"),
            },
        },
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if text.contains('/') {
        return fail("invalid host");
    }
    let port = match port {
        None => PORT,
        Some(port) => match port.parse::<u16>() {
            Ok(number @ 1..) if port.bytes().all(|byte| byte.is_ascii_digit()) => number,
            _ => return fail("invalid port"),
        },
    };
    if host.is_empty() {
        return fail("no host");
    }
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if !is_address && cx.extensions.get::<HostCheck>().is_some_and(|check| !(check.0)(host)) {
        return fail("host not found");
    }
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Ok(format!("{SYSLOG}{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use freerun_conf::Sources;

    use super::*;

    fn parse(text: &str) -> Result<Syslog, String> {
        let mut cx = Cx::new(Sources::default());
        cx.extensions.insert(HostCheck(|host| host == "known"));
        Syslog::parse(&Word::synthetic(format!("syslog:{text}")), &cx).map_err(|problem| problem.message)
    }

    #[test]
    fn servers_have_a_name_with_a_port() {
        for (text, name) in [
            ("server=127.0.0.1", "syslog:127.0.0.1:514"),
            ("server=127.0.0.1:5140", "syslog:127.0.0.1:5140"),
            ("server=[::1]", "syslog:[::1]:514"),
            ("server=[::1]:7", "syslog:[::1]:7"),
            ("server=known:9", "syslog:known:9"),
            ("server=unix:/dev/log", "syslog:unix:/dev/log"),
        ] {
            assert_eq!(parse(text).unwrap().name, name);
        }
        let all = parse("server=unix:/x,facility=ftp,tag=a_1,severity=crit,nohostname").unwrap();
        assert_eq!(*all.header, Header { facility: 11, tag: "a_1".into(), hostname: false });
        assert_eq!(all.severity, Level::Crit);
        let plain = parse("server=unix:/x").unwrap();
        assert_eq!(*plain.header, Header { facility: 23, tag: "nginx".into(), hostname: true });
        assert_eq!(plain.severity, Level::Info);
    }

    #[test]
    fn a_name_is_only_looked_up_where_that_is_allowed() {
        assert_eq!(parse("server=unknown").unwrap_err(), "host not found in syslog server \"unknown\"");
        let cx = Cx::new(Sources::default());
        assert!(Syslog::parse(&Word::synthetic("syslog:server=unknown"), &cx).is_ok());
    }
}
