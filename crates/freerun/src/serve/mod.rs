//! `freerun serve`: serves a folder without a configuration, special permissions or files of its own.

mod authority;
mod internal;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use freerun_runtime::log::{Errno, ErrorLog};

use freerun_serve::tls::files::ReadFile;

use crate::bundle::Input;
use crate::cli::{Serve, ServeTls};
use crate::loader::Recorded;
use crate::logs::STDERR;
use crate::master::listeners;
use crate::master::{self, Start};
use crate::settings::user::privileged;
use crate::version;

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
    let secure = match options.tls.as_ref().map(|ServeTls::Internal| secure(address)).transpose() {
        Ok(secure) => secure,
        Err(why) => return told(why),
    };
    let (secrets, trust) = secure.map(|Secure { secrets, trust }| (secrets, trust)).unzip();
    let start = Start {
        input: Input {
            conf: NAME.to_owned(),
            globals: None,
            prefix,
            conf_prefix: String::new(),
            error_log: STDERR.to_owned(),
            privileged: privileged(),
        },
        embedded: Some(recorded(address, secrets.is_some())),
        secrets,
        adopted: Some(adopted),
        log,
        on_ready: Some(Box::new(move || {
            let scheme = if trust.is_some() { "https" } else { "http" };
            let url = format!("{scheme}://{}", if trust.is_some() { reachable(address) } else { address });
            // The process that started this one may not read stdout.
            let mut out = std::io::stdout();
            let _ = writeln!(out, "freerun: serving {} at {url}/ (status: {url}/status)", dir.display());
            let _ = out.write_all(trust.map(|trust| trust.told(&url)).unwrap_or_default().as_bytes());
        })),
    };
    if master::run(start).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What https needs.
struct Secure {
    /// What reads the certificate and its key.
    secrets: ReadFile,
    /// What clients have to trust.
    trust: Trust,
}

/// Where the certificate is that clients have to trust, or why it is nowhere.
struct Trust(Result<PathBuf, String>);

impl Trust {
    /// What the user is told; the server is at `url`.
    fn told(&self, url: &str) -> String {
        match &self.0 {
            Ok(path) => {
                let path = path.display();
                format!(
                    "freerun: its certificate is signed by the authority in {path}\n         \
                     for example: curl --cacert {path} {url}/\n"
                )
            }
            Err(why) => format!("freerun: its authority is in memory only, so nobody can trust it: {why}\n"),
        }
    }
}

/// Finds the local authority and has it sign a certificate.
fn secure(address: SocketAddr) -> Result<Secure, String> {
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let folder = authority::data_folder(|name| std::env::var_os(name));
    let local = authority::find(folder.as_deref(), &host, internal::unix_time())?;
    let secrets = internal::reader(local.authority, internal::names(&host, address));
    Ok(Secure { secrets: secrets.map_err(|error| error.to_string())?, trust: Trust(local.kept) })
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

/// The lines for https. A client that speaks plain HTTP is sent to the right place.
fn tls_lines() -> String {
    let (certificate, key) = (internal::CERTIFICATE, internal::KEY);
    format!(
        "        ssl_certificate {certificate} watch=1m;\n        ssl_certificate_key {key};\n        \
         error_page 497 =302 https://$http_host$request_uri;\n"
    )
}

/// The texts of the configuration, with the address filled in. An address has no character that would need quotes.
fn recorded(address: SocketAddr, has_tls: bool) -> Recorded {
    let (listen, lines) = match has_tls {
        true => (format!("{address} ssl"), tls_lines()),
        false => (address.to_string(), String::new()),
    };
    let conf = CONFIGURATION.replace("{{listen}}", &listen).replace("{{tls}}", &lines);
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
        for address in ["127.0.0.1:8080", "[::1]:81"] {
            let texts = recorded(address.parse().unwrap(), false);
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
            let names: Vec<_> = configuration.blueprint.listeners().map(|spec| spec.name.clone()).collect();
            assert_eq!(names, [address]);
            assert_eq!(configuration.logs, [STDERR]);
            assert!(!configuration.main().daemon && !configuration.main().master_process);
            assert_eq!(configuration.main().pid_path("/"), None);
        }
        Ok(())
    }

    #[test]
    fn the_embedded_configuration_takes_the_certificate_of_the_authority() -> Result<(), String> {
        let address = "127.0.0.1:8443".parse().unwrap();
        let authority = freerun_tls::issue::Authority::new("a", internal::unix_time()).map_err(|e| e.to_string())?;
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
        let texts = recorded(address, true);
        let read = configuration::read_after(&input, &mut Replay(&texts), Side::Master, known, Default::default());
        let configuration = read.map_err(|failure| failure.problems.render(&failure.sources, ""))?;
        assert!(configuration.pairs.len() == 1 && configuration.pairs[0].watch.is_some());
        assert!(configuration.warnings.is_empty());
        Ok(())
    }
}
