//! `freerun serve`: serves a folder without a configuration, special permissions or files of its own.

mod acme;
mod authority;
mod internal;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use freerun_conf::{bytes_of, text_of, text_of_os};
use freerun_runtime::host;
use freerun_runtime::log::{Errno, ErrorLog, clock};

use freerun_serve::tls::files::ReadFile;

use crate::cli::{Serve, ServeTls, help};
use crate::console;
use crate::logs::STDERR;
use crate::master::inherited::InheritedSockets;
use crate::master::listeners;
use crate::master::{self, Start};
use crate::quoting::conf_quoted;
use crate::settings::user::privileged;
use crate::source::Input;
use crate::source::loader::RecordedTexts;
use acme::Lines;

/// The configuration. The folder is its prefix, so that no character of the folder's name has a meaning in it.
const CONFIGURATION: &str = include_str!("../../../assets/serve.conf");

/// The types of files, by their names' endings.
const TYPES: &str = include_str!("../../../assets/mime.types");

/// The name of the configuration in messages.
const NAME: &str = "serve.conf";

/// Serves until a signal ends it.
pub fn run(options: &Serve) -> ExitCode {
    if options.help {
        console::output(&help::command("serve"));
        return ExitCode::SUCCESS;
    }
    let told = |message: String| {
        console::print(&format!("freerun: {message}\n"));
        ExitCode::FAILURE
    };
    // Before anything is opened to the world, or asked of a CA.
    if let Some(ServeTls::Acme(order)) = &options.tls
        && let Err(why) = order.check_names()
    {
        return told(why);
    }
    console::append_to_files();
    let shown = text_of_os(&options.dir);
    let dir = match fs::canonicalize(&options.dir).and_then(|dir| fs::read_dir(&dir).map(|_| dir)) {
        Ok(dir) => dir,
        Err(error) => return told(format!("\"{shown}\" is not a folder that can be served ({})", Errno(&error))),
    };
    let prefix = text_of_os(&dir);
    let prefix = if prefix.ends_with('/') { prefix.into_owned() } else { format!("{prefix}/") };

    let log = ErrorLog::none().with_console();
    // The address is bound here, so that `--listen 127.0.0.1:0` can report the port that it got.
    let (adopted, address) = match listeners::bind_plain(options.listen, &log) {
        Ok(bound) => bound,
        Err(error) => {
            let code = told(error.to_string());
            console::tell_help(&error);
            if error.is_about_port() {
                eprintln!("help: \"--port PORT\" chooses another port, 0 any that is free");
            }
            return code;
        }
    };
    let secure = match options.tls.as_ref().map(|tls| Secure::new(tls, address, &options.hosts)).transpose() {
        Ok(secure) => secure,
        Err(why) => return told(why),
    };
    let lines = secure.as_ref().map(|secure| &secure.lines);
    let host = text_of(host::name());
    let embedded = recorded(address, lines, options, &host);
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
        inherited: InheritedSockets { listeners: adopted, ..InheritedSockets::default() },
        log,
        on_ready: Some(Box::new(move || {
            let scheme = if trust.is_some() { "https" } else { "http" };
            let url =
                trust.as_ref().map_or_else(|| format!("http://{}", reachable(address)), |trust| trust.url(address));
            // The process that started this one may not read stdout.
            let mut out = std::io::stdout();
            let serving = format!("freerun: serving {} at {url}/ (status: {url}/status)\n", text_of_os(&dir));
            let _ = out.write_all(&bytes_of(&serving));
            let _ = out.write_all(notes(address, scheme, quiet).as_bytes());
            let _ = out.write_all(trust.map(|trust| trust.notes(&url)).unwrap_or_default().as_bytes());
        })),
    };
    if master::run(start).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The clients that can reach the server, the next lines on the terminal and the way to end it.
fn notes(address: SocketAddr, scheme: &str, quiet: bool) -> String {
    let what = if address.ip().is_loopback() { "reach it" } else { "read its status" };
    let reach = format!("only this machine can {what}; ");
    let shown = if quiet { "" } else { "every request is shown here (--quiet: none); " };
    let others =
        own_address(address).map_or(String::new(), |own| format!("freerun: others reach it at {scheme}://{own}/\n"));
    format!("{others}freerun: {reach}{shown}Ctrl-C ends it\n")
}

/// The address where others reach a server that listens at all addresses: this machine would send from it. Connecting a
/// datagram socket sends nothing.
fn own_address(address: SocketAddr) -> Option<SocketAddr> {
    if !address.ip().is_unspecified() {
        return None;
    }
    // Addresses of documentation (RFC 5737, RFC 3849): the route to them is that to everybody.
    let (any, far): (SocketAddr, SocketAddr) = match address.ip() {
        IpAddr::V4(_) => ((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into()),
        IpAddr::V6(_) => {
            let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
            ((Ipv6Addr::UNSPECIFIED, 0).into(), (far, 9).into())
        }
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(far).ok()?;
    let own = socket.local_addr().ok()?.ip();
    Some(SocketAddr::new(own, address.port())).filter(|own| !own.ip().is_loopback())
}

/// The parts of a configuration for https.
struct Secure {
    /// The reader of the certificate and its key, if they are no files.
    secrets: Option<ReadFile>,
    /// The configuration's lines.
    lines: Lines,
    /// The authority that clients have to trust.
    trust: Trust,
}

impl Secure {
    /// The parts for https at this address, for this machine's names and for `hosts`.
    ///
    /// # Errors
    /// The local authority cannot be used, or a file is missing.
    fn new(tls: &ServeTls, address: SocketAddr, hosts: &[String]) -> Result<Secure, String> {
        let folder = authority::data_folder(|name| std::env::var_os(name));
        match tls {
            ServeTls::Internal => {
                // Finds the local authority and has it sign a certificate.
                let host = text_of(host::name());
                let (names, now) = (internal::names(&host, address, hosts), clock::now().secs);
                let local = authority::find(folder.as_deref(), &host, &names, now)?;
                // An authority of an earlier time may not sign for a name that is new.
                let (names, refused) = names.into_iter().partition(|name| local.authority.may_sign_for(name, now));
                let secrets = internal::reader(local.authority, names);
                let secrets = Some(secrets.map_err(|error| error.to_string())?);
                Ok(Secure { secrets, lines: internal_lines(), trust: Trust::Local { kept: local.kept, refused } })
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

/// The authority that clients have to trust.
enum Trust {
    /// The local authority.
    Local {
        /// The path of its certificate, or the reason why it has none.
        kept: Result<PathBuf, String>,
        /// The names for which it may not sign.
        refused: Vec<String>,
    },
    /// A CA.
    Ca {
        /// The first name of the certificate.
        name: String,
        /// The URL of the CA's directory.
        directory: String,
        /// The folder of the certificates.
        state: Option<PathBuf>,
    },
}

impl Trust {
    /// The URL of the server that listens at this address.
    fn url(&self, address: SocketAddr) -> String {
        match self {
            Trust::Local { .. } => format!("https://{}", reachable(address)),
            Trust::Ca { name, .. } if address.port() == 443 => format!("https://{name}"),
            Trust::Ca { name, .. } => format!("https://{name}:{}", address.port()),
        }
    }

    /// The lines for the user; the server is at `url`.
    fn notes(&self, url: &str) -> String {
        match self {
            Trust::Local { kept: Ok(path), refused } => {
                let shown = text_of_os(&path);
                let told = format!(
                    "freerun: its certificate is signed by the authority in {shown}\n         \
                     for example: curl --cacert {shown} {url}/\n{}",
                    trusting(&shown)
                );
                if refused.is_empty() {
                    told
                } else {
                    format!(
                        "{told}freerun: its certificate is not for {}, for which this authority may not sign;\n         \
                     without {} there will be a new one, which has to be trusted anew\n",
                        refused.join(", "),
                        path.parent().map(text_of_os).unwrap_or_default()
                    )
                }
            }
            Trust::Local { kept: Err(why), .. } => {
                format!("freerun: its authority is in memory only, so nobody can trust it: {why}\n")
            }
            Trust::Ca { directory, state, .. } => {
                let kept = match state {
                    Some(path) => format!("it is kept in {}", text_of_os(&path)),
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

/// The ways to make a machine trust the authority of this file. Programs use the distribution's folder of certificates,
/// Chromium has a database of its own. Nothing is said where there is no such folder.
fn trusting(certificate: &str) -> String {
    const STORES: [(&str, &str); 2] = [
        ("/usr/local/share/ca-certificates", "update-ca-certificates"),
        ("/etc/pki/ca-trust/source/anchors", "update-ca-trust"),
    ];
    let known = STORES.iter().find(|(folder, _)| Path::new(folder).is_dir());
    known.map_or(String::new(), |(folder, update)| {
        format!(
            "         trusted by this machine: sudo cp {certificate} {folder}/freerun.crt && sudo {update}\n         \
             no more: sudo rm {folder}/freerun.crt && sudo {update}\n         \
             by Chromium: certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n freerun -i {certificate}\n"
        )
    })
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
        "        http2 on;\n        ssl_certificate {certificate} watch=1m;\n        ssl_certificate_key {key};\n        \
         error_page 497 =302 https://$http_host$request_uri;\n"
    );
    Lines { http: String::new(), server }
}

/// The texts of the configuration, with the address and the lines of TLS filled in. An address has no character that would
/// need quotes. Clients on this machine that come to one of its addresses have that address themselves.
fn recorded(address: SocketAddr, tls: Option<&Lines>, options: &Serve, host: &str) -> RecordedTexts {
    let listen = if tls.is_some() { format!("{address} ssl") } else { address.to_string() };
    let (http, server) = tls.map_or(("", ""), |lines| (&lines.http, &lines.server));
    let conf = CONFIGURATION.replace("{{listen}}", &listen).replace("{{tls}}", server).replace("{{http}}", http);
    let ip = address.ip();
    let own = if ip.is_unspecified() { String::new() } else { format!("            allow {ip};\n") };
    let conf = conf.replace("{{own}}", &own);
    let conf = conf.replace("{{access}}", if options.quiet { "off" } else { "/dev/stdout serve" });
    let conf = conf.replace("{{names}}", &names(options, host)).replace("{{files}}", &file_lines(options));
    let files = [(NAME, conf.as_str()), ("mime.types", TYPES)];
    RecordedTexts {
        files: files.into_iter().map(|(name, text)| (name.to_owned(), bytes_of(text).into_owned())).collect(),
        globs: BTreeMap::new(),
        hosts: BTreeMap::new(),
        secrets: BTreeMap::new(),
    }
}

/// The lines of the map of names: names of this machine, which is called `host`, of the certificate and of `--host`.
fn names(options: &Serve, host: &str) -> String {
    let of_tls = match &options.tls {
        Some(ServeTls::Acme(order)) => order.names.as_slice(),
        _ => &[],
    };
    let own = [host.to_owned(), format!("{host}.local")].into_iter().filter(|_| !host.is_empty());
    let mut names: Vec<String> =
        own.chain(options.hosts.iter().chain(of_tls).map(|name| name.trim_end_matches('.').to_lowercase())).collect();
    names.sort_unstable();
    names.dedup();
    // These are in the map already.
    let is_new = |name: &String| !name.is_empty() && name != "localhost" && !name.ends_with(".localhost");
    // A backslash keeps a name from being read as one of the map's parameters.
    names
        .iter()
        .filter(|name| is_new(name))
        .map(|name| format!("        {} 1;\n", conf_quoted(&format!("\\{name}"))))
        .collect()
}

/// The lines about files that are not for everybody.
fn file_lines(options: &Serve) -> String {
    let mut lines = String::new();
    if options.hidden {
        lines += "        fancyindex_show_dotfiles on;\n";
    } else {
        // `.well-known` is for clients (RFC 8615).
        lines += "        location ~ \"/\\.(?!well-known(/|$))\" { return 404; }\n";
    }
    if !options.follow_links {
        lines += "        disable_symlinks on from=$document_root;\n        fancyindex_hide_symlinks on;\n";
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{self, Side};
    use crate::error::Error;
    use crate::source::loader::Replay;

    fn options(address: &str) -> Serve {
        Serve {
            dir: ".".into(),
            listen: address.parse().unwrap(),
            tls: None,
            quiet: true,
            hidden: false,
            follow_links: false,
            hosts: vec![],
            help: false,
        }
    }

    #[test]
    fn the_embedded_configuration_is_good() -> Result<(), Error> {
        for address in ["127.0.0.1:8080", "[::1]:81", "0.0.0.0:80", "[::]:80", "192.0.2.1:80"] {
            let mut options = options(address);
            options.hosts = vec!["a\"; b".to_owned(), "default".to_owned(), "~x".to_owned(), "localhost".to_owned()];
            options.hidden = address.starts_with("0.");
            options.follow_links = options.hidden;
            let texts = recorded(options.listen, None, &options, "the-box");
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
        let authority = freerun_tls::issue::Authority::new("a", &[], clock::now().secs).map_err(|e| e.to_string())?;
        let read =
            internal::reader(authority, internal::names("box", address, &[])).map_err(|error| error.to_string())?;
        let input = Input {
            conf: NAME.to_owned(),
            globals: None,
            prefix: "/srv/".to_owned(),
            conf_prefix: String::new(),
            error_log: STDERR.to_owned(),
            privileged: false,
        };
        let known = configuration::KnownFacts { read: Some(read), ..Default::default() };
        let texts = recorded(address, Some(&internal_lines()), &options("127.0.0.1:8443"), "the-box");
        let read = configuration::read_after(&input, &mut Replay(&texts), Side::Master, known, Default::default());
        let configuration = read.map_err(|failure| failure.problems.render(&failure.sources, ""))?;
        assert!(configuration.pairs.len() == 1 && configuration.pairs[0].watch.is_some());
        assert!(configuration.warnings.is_empty());
        Ok(())
    }
}
