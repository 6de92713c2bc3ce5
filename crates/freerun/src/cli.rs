//! The command line: nginx's options, and `freerun serve`.
//!
//! nginx reads its options in its own way (`-tc FILE`, `-cFILE`, no `--long` ones, help that goes on reading), and
//! scripts rely on it, so they are parsed by hand; `serve` is freerun's own and uses lexopt.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use freerun_conf::text_of_os;
use thiserror::Error;

use crate::explain;
use crate::migrate::{self, Migrate};

/// The command that the command line gives.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Run, test or signal a server with a configuration file.
    Server(Options),
    /// Serve a folder without a configuration file.
    Serve(Serve),
    /// Print the reference of the directives.
    Reference(Reference),
    /// Report what a configuration of nginx would be here.
    Migrate(Migrate),
    /// Print what the reference says of a name.
    Explain(String),
    /// Print the help to stdout: `--help`, where nginx has `-h` alone, which prints it to stderr.
    Help,
    /// Print the version to stdout: `--version`.
    Version,
}

/// The options that nginx has, too.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether `-?` or `-h` was given.
    pub help: bool,
    /// Whether `-v`, `-V` or `-h` was given.
    pub version: bool,
    /// Whether `-V` was given: print how the binary was built.
    pub build: bool,
    /// Whether `-t` or `-T` was given.
    pub test: bool,
    /// Whether `-T` was given: print the configuration.
    pub dump: bool,
    /// Whether `-q` was given: print errors only.
    pub quiet: bool,
    /// Whether `--strict` was given: a warning makes the test fail.
    pub strict: bool,
    /// The signal to send: `-s`.
    pub signal: Option<Order>,
    /// The prefix of relative paths: `-p`.
    pub prefix: Option<String>,
    /// The error log at the start: `-e`.
    pub error_log: Option<String>,
    /// The configuration file: `-c`.
    pub conf: Option<String>,
    /// Directives of the main context: `-g`.
    pub globals: Option<String>,
}

/// The order that `-s` gives to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End immediately.
    Stop,
    /// End when the requests under way are done.
    Quit,
    /// Open the logs again.
    Reopen,
    /// Read the configuration again.
    Reload,
}

impl Order {
    fn from_name(name: &str) -> Option<Order> {
        Some(match name {
            "stop" => Order::Stop,
            "quit" => Order::Quit,
            "reopen" => Order::Reopen,
            "reload" => Order::Reload,
            _ => return None,
        })
    }
}

/// The options of `freerun serve`.
#[derive(Debug, PartialEq, Eq)]
pub struct Serve {
    /// The folder; `.` by default.
    pub dir: OsString,
    /// The listening address; by default [`SERVE_ADDRESS`], or its IP address with [`SERVE_TLS_PORT`]; with a certificate
    /// from a CA port 443 of all IPv4 addresses.
    pub listen: SocketAddr,
    /// Where the certificate comes from, if the folder is served over https.
    pub tls: Option<ServeTls>,
    /// Whether `--quiet` was given: requests are not shown.
    pub quiet: bool,
    /// Whether `--hidden` was given: files and folders whose names begin with a dot are served and listed.
    pub hidden: bool,
    /// Whether `--follow-links` was given: symbolic links are followed, wherever they lead to.
    pub follow_links: bool,
    /// Further names by which clients may ask: `--host`.
    pub hosts: Vec<String>,
    /// Whether `--help` was given.
    pub help: bool,
}

/// Where the certificate of `freerun serve --tls` comes from.
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
    /// What it is for, at least one name.
    pub names: Vec<String>,
    /// The URL of the CA's directory.
    pub directory: String,
    /// A file with the authorities by which the CA's own server is verified, instead of the system's.
    pub ca: Option<OsString>,
    /// An address of mail where the CA reaches the owner.
    pub email: Option<String>,
    /// Where plain HTTP is listened for: the CA looks there for what it asked for, others are sent to https. `None`: nowhere,
    /// and the CA looks for it at the port of https.
    pub http: Option<SocketAddr>,
}

/// The options of `freerun reference [--check] DIR`.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    /// The folder for the pages.
    pub dir: OsString,
    /// Only check whether the pages are current.
    pub check: bool,
    /// Whether `--help` was given.
    pub help: bool,
}

/// The address of `freerun serve` without `--listen`.
pub const SERVE_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// The port of `freerun serve --tls internal` if `--listen` names none.
pub const SERVE_TLS_PORT: u16 = 8443;

/// The CA of `freerun serve --tls NAME` if `--acme-directory` names none: Let's Encrypt.
pub const SERVE_DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// An invalid command line; the messages are nginx's for nginx's options.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum UsageError {
    /// An unknown option, or an argument that is not an option.
    #[error("invalid option: \"{0}\"")]
    InvalidOption(String),
    /// An option at the end of the line that needs an argument.
    #[error("option \"-{0}\" requires {1}")]
    Requires(char, &'static str),
    /// An error in the arguments of one of freerun's own commands.
    #[error("{0}: {1}")]
    Own(&'static str, String),
}

/// The commands that freerun has besides nginx's options.
const COMMANDS: [&str; 4] = ["serve", "reference", "migrate", "explain"];

/// The option that makes a warning an error of `-t`.
const STRICT: &str = "--strict";

/// Long options of the program itself.
const PROGRAM_OPTIONS: &[&str] = &["--help", "--version", STRICT];

/// Long options of each command.
const COMMAND_OPTIONS: &[(&str, &[&str])] = &[
    (
        "serve",
        &[
            "--listen",
            "--port",
            "--tls",
            "--quiet",
            "--hidden",
            "--follow-links",
            "--host",
            "--http",
            "--email",
            "--acme-directory",
            "--acme-ca",
            "--help",
        ],
    ),
    ("migrate", &["--json", "--quiet", "--help"]),
    ("reference", &["--check", "--help"]),
    ("explain", &["--help"]),
];

impl UsageError {
    /// What to do instead, for a line below the message; `given` are the arguments.
    pub fn help(&self, given: &[OsString]) -> Option<String> {
        let see = "\"freerun --help\" shows what there is";
        match self {
            UsageError::InvalidOption(wrong) if wrong == "-" => {
                let long = given.iter().filter_map(|arg| arg.to_str()).find(|arg| arg.starts_with("--"))?;
                let name = long.split_once('=').map_or(long, |(name, _)| name);
                if let Some(near) = freerun_conf::near(name, PROGRAM_OPTIONS.iter().copied()) {
                    return Some(format!("did you mean \"{near}\"? {see}"));
                }
                let near = COMMAND_OPTIONS
                    .iter()
                    .find_map(|(command, options)| Some((command, freerun_conf::near(name, options.iter().copied())?)));
                Some(match near {
                    Some((command, near)) => format!("\"{near}\" is an option of \"freerun {command}\""),
                    None => format!("there is no option \"{name}\"; {see}"),
                })
            }
            UsageError::InvalidOption(wrong) if wrong == STRICT => Some(format!("\"{STRICT}\" goes with \"-t\"")),
            UsageError::InvalidOption(wrong) => Some(match wrong.strip_prefix("-s ") {
                Some(order) => match freerun_conf::near(order, ["stop", "quit", "reopen", "reload"].into_iter()) {
                    Some(near) => format!("did you mean \"-s {near}\"?"),
                    None => "signals are stop, quit, reopen and reload".to_owned(),
                },
                None => match freerun_conf::near(wrong, COMMANDS.into_iter()) {
                    Some(near) => format!("did you mean \"{near}\"? {see}"),
                    None => see.to_owned(),
                },
            }),
            UsageError::Requires(..) => None,
            UsageError::Own(command, told) => {
                let shows = format!("\"freerun {command} --help\" shows its options");
                // lexopt puts the option in such quotes.
                let wrong = told.split('\'').nth(1).filter(|wrong| wrong.starts_with("--"));
                let options = COMMAND_OPTIONS.iter().find(|(name, _)| name == command).map(|(_, options)| *options);
                let near =
                    wrong.and_then(|wrong| freerun_conf::near(wrong, options.unwrap_or_default().iter().copied()));
                Some(match near.filter(|near| Some(*near) != wrong) {
                    Some(near) => format!("did you mean \"{near}\"? {shows}"),
                    None => shows,
                })
            }
        }
    }

    /// The name in front of the message. Tools look for nginx's.
    pub fn speaker(&self) -> &'static str {
        match self {
            UsageError::InvalidOption(_) | UsageError::Requires(..) => "nginx",
            UsageError::Own(..) => "freerun",
        }
    }
}

/// Reads the arguments after the program's name.
pub fn parse(args: Vec<OsString>) -> Result<Command, UsageError> {
    if args.first().is_some_and(|first| first == "serve") {
        return parse_serve(&args[1..]).map(Command::Serve);
    }
    if args.first().is_some_and(|first| first == "reference") {
        return parse_reference(&args[1..]).map(Command::Reference);
    }
    if args.first().is_some_and(|first| first == "migrate") {
        return migrate::parse(&args[1..]).map(Command::Migrate);
    }
    if args.first().is_some_and(|first| first == "explain") {
        return explain::parse(&args[1..]).map(Command::Explain);
    }
    match args.first().and_then(|first| first.to_str()) {
        Some("--help" | "help") => Ok(Command::Help),
        Some("--version") => Ok(Command::Version),
        _ => parse_options(args).map(Command::Server),
    }
}

fn parse_options(args: Vec<OsString>) -> Result<Options, UsageError> {
    let mut options = Options::default();
    let mut args = args.into_iter().map(|arg| text_of_os(&arg).into_owned());
    while let Some(arg) = args.next() {
        if arg == STRICT {
            options.strict = true;
            continue;
        }
        let Some(letters) = arg.strip_prefix('-') else {
            return Err(UsageError::InvalidOption(arg));
        };
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let mut value = |what| {
                let attached = std::mem::replace(&mut rest, "".chars());
                match attached.as_str() {
                    "" => args.next().filter(|next| !next.is_empty()).ok_or(UsageError::Requires(letter, what)),
                    attached => Ok(attached.to_owned()),
                }
            };
            match letter {
                '?' | 'h' => {
                    options.help = true;
                    options.version = true;
                }
                'v' => options.version = true,
                'V' => {
                    options.version = true;
                    options.build = true;
                }
                't' => options.test = true,
                'T' => {
                    options.test = true;
                    options.dump = true;
                }
                'q' => options.quiet = true,
                's' => {
                    let name = value("parameter")?;
                    let order = Order::from_name(&name);
                    options.signal = Some(order.ok_or(UsageError::InvalidOption(format!("-s {name}")))?);
                }
                'p' => options.prefix = Some(value("directory name")?),
                'e' => options.error_log = Some(value("file name")?),
                'c' => options.conf = Some(value("file name")?),
                'g' => options.globals = Some(value("parameter")?),
                other => return Err(UsageError::InvalidOption(other.to_string())),
            }
        }
    }
    match options.strict && !options.test {
        true => Err(UsageError::InvalidOption(STRICT.to_owned())),
        false => Ok(options),
    }
}

fn parse_serve(args: &[OsString]) -> Result<Serve, UsageError> {
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
    serve.tls = names.map(|names| match is_public {
        false => ServeTls::Internal,
        true => ServeTls::Acme(ServeAcme {
            names: names.split(',').map(str::to_owned).collect(),
            directory: directory.unwrap_or_else(|| SERVE_DIRECTORY.to_owned()),
            ca,
            email,
            http: http.unwrap_or(Some((None, None))).map(|(ip, port): (Option<IpAddr>, Option<u16>)| {
                SocketAddr::new(ip.unwrap_or(serve.listen.ip()), port.unwrap_or(80))
            }),
        }),
    });
    Ok(serve)
}

fn parse_reference(args: &[OsString]) -> Result<Reference, UsageError> {
    use lexopt::Arg::{Long, Short, Value};
    let wrong = |error: lexopt::Error| UsageError::Own("reference", error.to_string());
    let (mut dir, mut check, mut help) = (None, false, false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(wrong)? {
        match arg {
            Long("check") => check = true,
            Short('h') | Long("help") => help = true,
            Value(value) if dir.is_none() => dir = Some(value),
            other => return Err(wrong(other.unexpected())),
        }
    }
    let missing = || UsageError::Own("reference", "the folder of the pages is missing".into());
    let dir = if help { dir.unwrap_or_default() } else { dir.ok_or_else(missing)? };
    Ok(Reference { dir, check, help })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &[&str]) -> Result<Options, String> {
        match parse(line.iter().map(OsString::from).collect()) {
            Ok(Command::Server(options)) => Ok(options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    fn serve(line: &[&str]) -> Result<Serve, String> {
        match parse(["serve"].iter().chain(line).map(OsString::from).collect()) {
            Ok(Command::Serve(serve)) => Ok(serve),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn letters_cluster_and_values_attach() {
        let a = options(&["-tqc", "x.conf", "-p/srv", "-g", "daemon off;", "-eerr"]).unwrap();
        let wanted = Options {
            test: true,
            quiet: true,
            conf: Some("x.conf".into()),
            prefix: Some("/srv".into()),
            globals: Some("daemon off;".into()),
            error_log: Some("err".into()),
            ..Options::default()
        };
        assert_eq!(a, wanted);
        let a = options(&["-T", "-"]).unwrap();
        assert!(a.test && a.dump, "a lone dash is nothing");
        assert!(options(&["-V"]).unwrap().build);
        assert_eq!(options(&["-s", "reload"]).unwrap().signal, Some(Order::Reload));
        assert_eq!(options(&["-squit"]).unwrap().signal, Some(Order::Quit));
    }

    #[test]
    fn mistakes_are_told_as_nginx_tells_them() {
        for (line, message) in [
            (&["-x"][..], r#"invalid option: "x""#),
            (&["--hlep"], r#"invalid option: "-""#),
            (&["-t", "--help"], r#"invalid option: "-""#),
            (&["foo"], r#"invalid option: "foo""#),
            (&["-s", "foo"], r#"invalid option: "-s foo""#),
            (&["-c"], r#"option "-c" requires file name"#),
            (&["-e"], r#"option "-e" requires file name"#),
            (&["-p"], r#"option "-p" requires directory name"#),
            (&["-g"], r#"option "-g" requires parameter"#),
            (&["-ts"], r#"option "-s" requires parameter"#),
        ] {
            assert_eq!(options(line).unwrap_err(), message);
        }
    }

    #[test]
    fn what_is_wrong_comes_with_what_would_be_right() {
        for (line, help) in [
            (&["sreve", "."][..], "did you mean \"serve\"? \"freerun --help\" shows what there is"),
            (&["refrence"], "did you mean \"reference\"? \"freerun --help\" shows what there is"),
            (&["x"], "\"freerun --help\" shows what there is"),
            (&["--hlep"], "did you mean \"--help\"? \"freerun --help\" shows what there is"),
            (&["--port", "80"], "\"--port\" is an option of \"freerun serve\""),
            (&["-s", "relaod"], "did you mean \"-s reload\"?"),
            (&["-s", "x"], "signals are stop, quit, reopen and reload"),
            (&["--foo"], "there is no option \"--foo\"; \"freerun --help\" shows what there is"),
            (&["--jsn"], "\"--json\" is an option of \"freerun migrate\""),
            (&["serve", "--prot", "80"], "did you mean \"--port\"? \"freerun serve --help\" shows its options"),
            (&["serve", "--nothing"], "\"freerun serve --help\" shows its options"),
            (&["serve", "--listen"], "\"freerun serve --help\" shows its options"),
            (&["migrate", "--quite"], "did you mean \"--quiet\"? \"freerun migrate --help\" shows its options"),
        ] {
            let given: Vec<OsString> = line.iter().map(OsString::from).collect();
            assert_eq!(parse(given.clone()).unwrap_err().help(&given).as_deref(), Some(help), "{line:?}");
        }
        assert_eq!(parse(vec!["--help".into()]), Ok(Command::Help));
        assert_eq!(parse(vec!["--version".into()]), Ok(Command::Version));
    }

    #[test]
    fn the_reference_needs_a_folder() {
        let reference = |line: &[&str]| parse(["reference"].iter().chain(line).map(OsString::from).collect());
        let wanted = Reference { dir: "d".into(), check: true, help: false };
        assert_eq!(reference(&["--check", "d"]), Ok(Command::Reference(wanted)));
        assert!(matches!(reference(&["--help"]), Ok(Command::Reference(Reference { help: true, .. }))));
        assert!(reference(&[]).unwrap_err().to_string().contains("folder"));
        assert!(reference(&["a", "b"]).is_err());
    }

    #[test]
    fn serve_has_defaults_and_takes_addresses() {
        let plain = serve(&[]).unwrap();
        assert_eq!(
            plain,
            Serve {
                dir: ".".into(),
                listen: "127.0.0.1:8080".parse().unwrap(),
                tls: None,
                quiet: false,
                hidden: false,
                follow_links: false,
                hosts: vec![],
                help: false
            }
        );
        let more = serve(&["--hidden", "--follow-links", "--host", "Box.example,b", "--host=c"]).unwrap();
        assert!(more.hidden && more.follow_links && more.hosts == ["box.example", "b", "c"]);
        for (text, wanted) in [
            ("0.0.0.0:81", "0.0.0.0:81"),
            ("9000", "127.0.0.1:9000"),
            ("[::1]:82", "[::1]:82"),
            ("::1", "[::1]:8080"),
            ("[::]", "[::]:8080"),
            ("10.0.0.1", "10.0.0.1:8080"),
            ("localhost:0", "127.0.0.1:0"),
        ] {
            let got = serve(&["/srv", "--listen", text]).unwrap();
            assert_eq!((got.dir, got.listen), ("/srv".into(), wanted.parse().unwrap()));
        }
        for (text, wanted) in [("::1", "[::1]:8443"), ("9000", "127.0.0.1:9000"), ("[::1]:82", "[::1]:82")] {
            let got = serve(&["--tls", "internal", "--listen", text]).unwrap();
            assert_eq!((got.tls, got.listen), (Some(ServeTls::Internal), wanted.parse().unwrap()));
        }
        assert_eq!(serve(&["--tls=internal"]).unwrap().listen, "127.0.0.1:8443".parse().unwrap());
        let public = |line: &[&str]| match serve(line).unwrap() {
            Serve { listen, tls: Some(ServeTls::Acme(acme)), .. } => (listen.to_string(), acme),
            other => panic!("{other:?}"),
        };
        let (listen, acme) = public(&["--tls", "a.example,b.example"]);
        assert_eq!((listen.as_str(), acme.http), ("0.0.0.0:443", Some("0.0.0.0:80".parse().unwrap())));
        assert_eq!((acme.directory.as_str(), acme.names.len()), (SERVE_DIRECTORY, 2));
        let (listen, acme) = public(&["--tls", "a.example", "--listen", "[::1]", "--http", "81", "--email", "a@b"]);
        assert_eq!((listen.as_str(), acme.http), ("[::1]:443", Some("[::1]:81".parse().unwrap())));
        assert_eq!(public(&["--tls", "a.example", "--http", "off"]).1.http, None);
        assert!(serve(&["--tls", "internal", "--email", "a@b"]).unwrap_err().contains("need --tls"));
        assert!(serve(&["a", "b"]).unwrap_err().starts_with("serve: "));
        assert!(serve(&["--listen", "host:x"]).unwrap_err().contains("ADDRESS:PORT"));
        assert!(serve(&["--nope"]).unwrap_err().contains("--nope"));
    }
}
