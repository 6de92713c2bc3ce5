//! The options of `freerun serve`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use freerun_conf::text_of_os;

use super::usage_error::UsageError;

/// The options of `freerun serve`.
#[derive(Debug, PartialEq, Eq)]
pub struct Serve {
    /// The folder; `.` by default.
    pub dir: OsString,
    /// The listening address; by default [`SERVE_ADDRESS`], or its IP address with [`SERVE_TLS_PORT`]; with a certificate
    /// from a CA port 443 of all IPv4 addresses.
    pub listen: SocketAddr,
    /// Origin of the certificate, if the folder is served over https.
    pub tls: Option<ServeTls>,
    /// Whether `--quiet` was given: requests are not shown.
    pub quiet: bool,
    /// Whether `--hidden` was given: files and folders whose names begin with a dot are served and listed.
    pub hidden: bool,
    /// Whether `--follow-links` was given: symbolic links are followed, wherever they lead to.
    pub follow_links: bool,
    /// Further names of the server that clients may use: `--host`.
    pub hosts: Vec<String>,
    /// Whether `--help` was given.
    pub help: bool,
}

/// Origin of the certificate of `freerun serve --tls`.
#[derive(Debug, PartialEq, Eq)]
pub enum ServeTls {
    /// From an authority of this machine.
    Internal,
    /// From a CA by ACME.
    Acme(ServeAcme),
}

/// A certificate that `freerun serve --tls NAME` orders.
#[derive(Debug, PartialEq, Eq)]
pub struct ServeAcme {
    /// The names in the certificate, at least one.
    pub names: Vec<String>,
    /// The URL of the CA's directory.
    pub directory: String,
    /// A file with the authorities that verify the CA's own server, instead of the system's.
    pub ca: Option<OsString>,
    /// An address of mail where the CA reaches the owner.
    pub email: Option<String>,
    /// The address of plain HTTP: the CA looks there for the answer to its challenge, other clients are sent to https.
    /// With `None` there is no plain HTTP, and the CA looks at the port of https.
    pub http: Option<SocketAddr>,
}

/// The address of `freerun serve` without `--listen`.
pub const SERVE_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// The port of `freerun serve --tls internal` if `--listen` names none.
pub const SERVE_TLS_PORT: u16 = 8443;

/// The CA of `freerun serve --tls NAME` if `--acme-directory` names none: Let's Encrypt.
pub const SERVE_DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Reads the arguments after `serve`.
///
/// # Errors
/// One of them is unknown, lacks its value, or does not go with another one.
pub fn parse(args: &[OsString]) -> Result<Serve, UsageError> {
    use lexopt::Arg::{Long, Short, Value};
    let wrong = |error: lexopt::Error| UsageError::Own("serve", error.to_string());
    let mut serve = Serve {
        dir: ".".into(),
        listen: SERVE_ADDRESS,
        tls: None,
        quiet: false,
        hidden: false,
        follow_links: false,
        hosts: Vec::new(),
        help: false,
    };
    let (mut dir, mut listen, mut port, mut names) = (None, None, None, None);
    let (mut directory, mut ca, mut email, mut http) = (None, None, None, None);
    let mut parser = lexopt::Parser::from_args(args);
    let address = |text: OsString| {
        let told = format!("\"{}\" is not ADDRESS:PORT, ADDRESS or PORT", text_of_os(&text));
        text.to_str().and_then(parse_address).ok_or(UsageError::Own("serve", told))
    };
    while let Some(arg) = parser.next().map_err(wrong)? {
        match arg {
            Short('h') | Long("help") => serve.help = true,
            Short('l') | Long("listen") => listen = Some(address(parser.value().map_err(wrong)?)?),
            Short('p') | Long("port") => {
                let text = parser.value().map_err(wrong)?;
                let told = || UsageError::Own("serve", format!("\"{}\" is not a port", text_of_os(&text)));
                port = Some(text.to_str().and_then(|text| text.parse::<u16>().ok()).ok_or_else(told)?);
            }
            Short('q') | Long("quiet") => serve.quiet = true,
            Long("hidden") => serve.hidden = true,
            Long("follow-links") => serve.follow_links = true,
            Long("host") => {
                let names = text_of_os(&parser.value().map_err(wrong)?).into_owned();
                serve.hosts.extend(names.split(',').filter(|name| !name.is_empty()).map(str::to_lowercase));
            }
            Long("tls") => names = Some(text_of_os(&parser.value().map_err(wrong)?).into_owned()),
            Long("acme-directory") => directory = Some(text_of_os(&parser.value().map_err(wrong)?).into_owned()),
            Long("acme-ca") => ca = Some(parser.value().map_err(wrong)?),
            Long("email") => email = Some(text_of_os(&parser.value().map_err(wrong)?).into_owned()),
            Long("http") => {
                let text = parser.value().map_err(wrong)?;
                http = Some(if text == "off" { None } else { Some(address(text)?) });
            }
            Value(value) if dir.is_none() => dir = Some(value),
            other => return Err(wrong(other.unexpected())),
        }
    }
    if let Some(dir) = dir {
        serve.dir = dir;
    }
    let is_public = names.as_ref().is_some_and(|names| names != "internal");
    let (ip, named) = listen.unwrap_or((None, None));
    if named.is_some() && port.is_some() {
        return Err(UsageError::Own("serve", "--listen and --port both name a port".to_owned()));
    }
    let named = named.or(port);
    let default_ip = if is_public { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { SERVE_ADDRESS.ip() };
    let default_port = match &names {
        None => SERVE_ADDRESS.port(),
        Some(_) if is_public => 443,
        Some(_) => SERVE_TLS_PORT,
    };
    serve.listen = SocketAddr::new(ip.unwrap_or(default_ip), named.unwrap_or(default_port));
    if !is_public && (directory.is_some() || ca.is_some() || email.is_some() || http.is_some()) {
        let told = "--acme-directory, --acme-ca, --email and --http need --tls with the name of a server";
        return Err(UsageError::Own("serve", told.to_owned()));
    }
    serve.tls = names.map(|names| {
        if is_public {
            ServeTls::Acme(ServeAcme {
                names: names.split(',').map(str::to_owned).collect(),
                directory: directory.unwrap_or_else(|| SERVE_DIRECTORY.to_owned()),
                ca,
                email,
                http: http.unwrap_or(Some((None, None))).map(|(ip, port): (Option<IpAddr>, Option<u16>)| {
                    SocketAddr::new(ip.unwrap_or(serve.listen.ip()), port.unwrap_or(80))
                }),
            })
        } else {
            ServeTls::Internal
        }
    });
    Ok(serve)
}

/// Parses `ADDR:PORT`, `ADDR` or `PORT`: an address and a port, as far as they are there.
fn parse_address(text: &str) -> Option<(Option<IpAddr>, Option<u16>)> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let both = |address: SocketAddr| (Some(address.ip()), Some(address.port()));
    text.parse()
        .ok()
        .map(both)
        .or_else(|| bare.parse().ok().map(|ip| (Some(ip), None)))
        .or_else(|| Some((None, Some(text.parse().ok()?))))
        .or_else(|| Some((Some(SERVE_ADDRESS.ip()), Some(text.strip_prefix("localhost:")?.parse().ok()?))))
}
