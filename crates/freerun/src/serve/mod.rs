//! `freerun serve`: serves a folder without a configuration, special permissions or files of its own.

mod acme;
mod authority;
mod internal;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use freerun_runtime::log::{Errno, ErrorLog, clock};

use freerun_serve::tls::files::ReadFile;

use crate::bundle::Input;
use crate::cli::{Serve, ServeTls};
use crate::loader::Recorded;
use crate::logs::STDERR;
use crate::master::inherited::Inherited;
use crate::master::listeners;
use crate::master::{self, Start};
use crate::settings::user::privileged;
use crate::version;
use acme::Lines;

/// The configuration. The folder is its prefix, so that no character of the folder's name has a meaning in it.
const CONFIGURATION: &str = include_str!("../../assets/serve.conf");

/// The types of files, by their names' endings.
const TYPES: &str = include_str!("../../assets/mime.types");

/// The name of the configuration in messages.
const NAME: &str = "serve.conf";

/// Serves until a signal ends it.
pub fn run(options: &Serve) -> ExitCode {
    if options.help {
        print!("{}", version::serve_help());
        return ExitCode::SUCCESS;
    }
    let told = |message: String| {
        eprintln!("freerun: {message}");
        ExitCode::FAILURE
    };
    let shown = options.dir.to_string_lossy();
    let dir = match fs::canonicalize(&options.dir).and_then(|dir| fs::read_dir(&dir).map(|_| dir)) {
        Ok(dir) => dir,
        Err(error) => return told(format!("\"{shown}\" is not a folder that can be served ({})", Errno(&error))),
    };
    let Some(prefix) = dir.to_str() else { return told(format!("the name \"{shown}\" is not UTF-8")) };
    let prefix = if prefix.ends_with('/') { prefix.to_owned() } else { format!("{prefix}/") };

    let log = ErrorLog::none().with_console();
    // The address is bound here, so that `--listen 127.0.0.1:0` can report the port that it got.
    let (adopted, address) = match listeners::bind_plain(options.listen, &log) {
        Ok(bound) => bound,
        Err(error) => return told(error.to_string()),
    };
    let secure = match options.tls.as_ref().map(|tls| Secure::new(tls, address)).transpose() {
        Ok(secure) => secure,
        Err(why) => return told(why),
    };
    let lines = secure.as_ref().map(|secure| &secure.lines);
    let embedded = recorded(address, lines, options.quiet);
    let (secrets, trust) = match secure {
        Some(Secure { secrets, trust, .. }) => (secrets, Some(trust)),
        None => (None, None),
    };
    let quiet = options.quiet;
    let start = Start {
        input: Input {
            conf: NAME.to_owned(),
            globals: None,
            prefix,
            conf_prefix: String::new(),
            error_log: STDERR.to_owned(),
            privileged: privileged(),
        },
        embedded: Some(embedded),
        secrets,
        inherited: Inherited { listeners: adopted, ..Inherited::default() },
        log,
        on_ready: Some(Box::new(move || {
            let url = trust.as_ref().map_or_else(|| format!("http://{address}"), |trust| trust.url(address));
            // The process that started this one may not read stdout.
            let mut out = std::io::stdout();
            let _ = writeln!(out, "freerun: serving {} at {url}/ (status: {url}/status)", dir.display());
            let _ = out.write_all(notes(address, quiet).as_bytes());
            let _ = out.write_all(trust.map(|trust| trust.told(&url)).unwrap_or_default().as_bytes());
        })),
    };
    if master::run(start).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Who can reach the server, what follows on the terminal and how it ends.
fn notes(address: SocketAddr, quiet: bool) -> String {
    let what = if address.ip().is_loopback() { "reach it" } else { "read its status" };
    let reach = format!("only this machine can {what}; ");
    let shown = if quiet { "" } else { "every request is shown here (--quiet: none); " };
    format!("freerun: {reach}{shown}Ctrl-C ends it\n")
}

/// What https needs.
struct Secure {
    /// What reads the certificate and its key, if they are no files.
    secrets: Option<ReadFile>,
    /// What the configuration says.
    lines: Lines,
    /// What clients have to trust.
    trust: Trust,
}

impl Secure {
    /// What https needs at this address.
    ///
    /// # Errors
    /// The local authority cannot be used, or a file is missing.
    fn new(tls: &ServeTls, address: SocketAddr) -> Result<Secure, String> {
        let folder = authority::data_folder(|name| std::env::var_os(name));
        match tls {
            ServeTls::Internal => {
                // Finds the local authority and has it sign a certificate.
                let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
                let local = authority::find(folder.as_deref(), &host, clock::now().secs)?;
                let secrets = internal::reader(local.authority, internal::names(&host, address));
                let secrets = Some(secrets.map_err(|error| error.to_string())?);
                Ok(Secure { secrets, lines: internal_lines(), trust: Trust::Local(local.kept) })
            }
            ServeTls::Acme(order) => {
                let folder = acme::folder(folder)?;
                let lines = order.lines(address, folder.as_deref())?;
                let name = order.names.first().cloned().unwrap_or_default();
                let trust = Trust::Ca { name, directory: order.directory.clone(), state: folder };
                Ok(Secure { secrets: None, lines, trust })
            }
        }
    }
}

/// Whom clients have to trust.
enum Trust {
    /// The local authority: where its certificate is, or why it is nowhere.
    Local(Result<PathBuf, String>),
    /// A CA.
    Ca {
        /// The first name of the certificate.
        name: String,
        /// The URL of the CA's directory.
        directory: String,
        /// Where certificates are kept.
        state: Option<PathBuf>,
    },
}

impl Trust {
    /// Where clients find the server that listens at this address.
    fn url(&self, address: SocketAddr) -> String {
        match self {
            Trust::Local(_) => format!("https://{}", reachable(address)),
            Trust::Ca { name, .. } if address.port() == 443 => format!("https://{name}"),
            Trust::Ca { name, .. } => format!("https://{name}:{}", address.port()),
        }
    }

    /// What the user is told; the server is at `url`.
    fn told(&self, url: &str) -> String {
        match self {
            Trust::Local(Ok(path)) => {
                let path = path.display();
                format!(
                    "freerun: its certificate is signed by the authority in {path}\n         \
                     for example: curl --cacert {path} {url}/\n"
                )
            }
            Trust::Local(Err(why)) => {
                format!("freerun: its authority is in memory only, so nobody can trust it: {why}\n")
            }
            Trust::Ca { directory, state, .. } => {
                let kept = match state {
                    Some(path) => format!("it is kept in {}", path.display()),
                    None => "it is kept in memory only: neither XDG_DATA_HOME nor HOME names a folder".to_owned(),
                };
                format!(
                    "freerun: its certificate comes from {directory}\n         \
                     whose terms of service you agree to by using it; {kept}\n"
                )
            }
        }
    }
}

/// An address that clients on this machine can use, and that the certificate is for.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The lines for https with the local authority. A client that speaks plain HTTP is sent to the right place.
fn internal_lines() -> Lines {
    let (certificate, key) = (internal::CERTIFICATE, internal::KEY);
    let server = format!(
        "        ssl_certificate {certificate} watch=1m;\n        ssl_certificate_key {key};\n        \
         error_page 497 =302 https://$http_host$request_uri;\n"
    );
    Lines { http: String::new(), server }
}

/// The texts of the configuration, with the address and the lines of TLS filled in. An address has no character that would
/// need quotes. Clients on this machine that come to one of its addresses have that address themselves.
fn recorded(address: SocketAddr, tls: Option<&Lines>, quiet: bool) -> Recorded {
    let listen = if tls.is_some() { format!("{address} ssl") } else { address.to_string() };
    let (http, server) = tls.map_or(("", ""), |lines| (&lines.http, &lines.server));
    let conf = CONFIGURATION.replace("{{listen}}", &listen).replace("{{tls}}", server).replace("{{http}}", http);
    let ip = address.ip();
    let own = if ip.is_unspecified() { String::new() } else { format!("            allow {ip};\n") };
    let conf = conf.replace("{{own}}", &own);
    let conf = conf.replace("{{access}}", if quiet { "off" } else { "/dev/stdout serve" });
    let files = [(NAME, conf.as_str()), ("mime.types", TYPES)];
    Recorded {
        files: files.into_iter().map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect(),
        globs: BTreeMap::new(),
        hosts: BTreeMap::new(),
        secrets: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{self, Side};
    use crate::error::Error;
    use crate::loader::Replay;

    #[test]
    fn the_embedded_configuration_is_good() -> Result<(), Error> {
        for address in ["127.0.0.1:8080", "[::1]:81", "0.0.0.0:80", "[::]:80", "192.0.2.1:80"] {
            let texts = recorded(address.parse().unwrap(), None, true);
            let input = Input {
                conf: NAME.to_owned(),
                globals: None,
                prefix: "/srv/$HOME;}{/".to_owned(),
                conf_prefix: String::new(),
                error_log: STDERR.to_owned(),
                privileged: false,
            };
            let read = configuration::read(&input, &mut Replay(&texts), Side::Master);
            let configuration = read.map_err(|f| Error::Configuration(f.problems.render(&f.sources, "")))?;
            let names: Vec<_> = configuration.blueprint.listeners.iter().map(|spec| spec.name.clone()).collect();
            assert_eq!(names, [address]);
            // The status is open to nobody else, of which there would be a warning.
            assert!(configuration.warnings.is_empty(), "{address}: {:?}", configuration.warnings);
            assert_eq!(configuration.logs, [STDERR]);
            assert!(!configuration.main().daemon && !configuration.main().master_process);
            assert_eq!(configuration.main().pid_path("/"), None);
        }
        Ok(())
    }

    #[test]
    fn the_embedded_configuration_takes_the_certificate_of_the_authority() -> Result<(), String> {
        let address = "127.0.0.1:8443".parse().unwrap();
        let authority = freerun_tls::issue::Authority::new("a", clock::now().secs).map_err(|e| e.to_string())?;
        let read = internal::reader(authority, internal::names("box", address)).map_err(|error| error.to_string())?;
        let input = Input {
            conf: NAME.to_owned(),
            globals: None,
            prefix: "/srv/".to_owned(),
            conf_prefix: String::new(),
            error_log: STDERR.to_owned(),
            privileged: false,
        };
        let known = configuration::Known { read: Some(read), ..Default::default() };
        let texts = recorded(address, Some(&internal_lines()), false);
        let read = configuration::read_after(&input, &mut Replay(&texts), Side::Master, known, Default::default());
        let configuration = read.map_err(|failure| failure.problems.render(&failure.sources, ""))?;
        assert!(configuration.pairs.len() == 1 && configuration.pairs[0].watch.is_some());
        assert!(configuration.warnings.is_empty());
        Ok(())
    }
}
