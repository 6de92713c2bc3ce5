//! The command line, as values: nginx's options, and freerun's own commands, which are read with lexopt.

pub mod command_table;
mod completions;
mod explain;
pub mod help;
mod migrate;
mod options;
mod reference;
mod serve;
mod usage_error;

use std::ffi::OsString;

use freerun_conf::text_of_os;

pub use completions::Shell;
pub use explain::{Explain, ExplainRequest};
pub use migrate::{Migrate, MigrateRun};
pub use options::{Options, Order};
pub use reference::Reference;
pub use serve::{SERVE_DIRECTORY, Serve, ServeAcme, ServeTls};
pub use usage_error::UsageError;

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
    /// Print what the reference says of a name, or what a configuration does with a request.
    Explain(Explain),
    /// Print the completions of a shell.
    Completions(Shell),
    /// Print the manual page.
    Manual,
    /// Print the help of a command: `explain --help`.
    HelpOf(&'static str),
    /// Print the help to stdout: `--help`, where nginx has `-h` alone, which prints it to stderr.
    Help,
    /// Print the version to stdout: `--version`.
    Version,
}

/// Reads the arguments after the program's name.
pub fn parse(args: Vec<OsString>) -> Result<Command, UsageError> {
    let rest = args.get(1..).unwrap_or_default();
    match args.first().and_then(|first| first.to_str()) {
        Some("serve") => serve::parse(rest).map(Command::Serve),
        Some("reference") => reference::parse(rest).map(Command::Reference),
        Some("migrate") => migrate::parse(rest).map(Command::Migrate),
        Some("explain") => explain::parse(rest).map(|asked| asked.map_or(Command::HelpOf("explain"), Command::Explain)),
        Some("completions") => parse_operand("completions", rest, "of bash, zsh and fish", |name| {
            name.to_str().and_then(Shell::from_name).map(Command::Completions)
        }),
        Some("manual") => match rest {
            [] => Ok(Command::Manual),
            [help] if is_help(help) => Ok(Command::HelpOf("manual")),
            [other, ..] => Err(UsageError::Own("manual", format!("unexpected argument \"{}\"", text_of_os(other)))),
        },
        Some("--help" | "help") => Ok(Command::Help),
        Some("--version") => Ok(Command::Version),
        _ => options::parse(args).map(Command::Server),
    }
}

fn is_help(argument: &OsString) -> bool {
    argument == "-h" || argument == "--help"
}

/// Reads the arguments after a command that takes one word and no options but `--help`.
///
/// # Errors
/// There is not exactly one, or it is none of those that the command takes.
fn parse_operand(
    command: &'static str,
    args: &[OsString],
    choice: &str,
    read: impl Fn(&OsString) -> Option<Command>,
) -> Result<Command, UsageError> {
    match args {
        [help] if is_help(help) => Some(Command::HelpOf(command)),
        [word] => read(word),
        _ => None,
    }
    .ok_or_else(|| UsageError::Own(command, format!("write one {choice}")))
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
            (&["--jsn"], "did you mean \"--json\"? \"freerun --help\" shows what there is"),
            (&["--quite"], "\"--quiet\" is an option of \"freerun serve\""),
            (&["--lint"], "\"--lint\" goes with \"-t\""),
            (&["-t", "--json"], "\"--json\" goes with \"-t --lint\" and with \"freerun migrate\""),
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
    fn explain_takes_exactly_one_name() {
        let explain = |line: &[&str]| parse(["explain"].iter().chain(line).map(OsString::from).collect());
        assert_eq!(explain(&["root"]), Ok(Command::Explain(Explain::Word("root".to_owned()))));
        assert_eq!(explain(&["--help"]), Ok(Command::HelpOf("explain")));
        assert!(explain(&[]).is_err() && explain(&["a", "b"]).is_err());
        let asked = explain(&["--request", "GET http://a/", "-H", "A: b", "--from=::1", "-cx.conf"]);
        let Ok(Command::Explain(Explain::Request(asked))) = asked else { panic!("{asked:?}") };
        assert_eq!((asked.request.as_str(), asked.fields.len()), ("GET http://a/", 1));
        assert_eq!(asked.options.conf.as_deref(), Some("x.conf"));
        assert!(explain(&["root", "--json"]).is_err() && explain(&["root", "--request", "x"]).is_err());
        assert!(explain(&["--request", "x", "--from", "y"]).is_err());
        let other = |line: &[&str]| parse(line.iter().map(OsString::from).collect());
        assert_eq!(other(&["completions", "fish"]), Ok(Command::Completions(Shell::Fish)));
        assert_eq!(
            other(&["completions", "tcsh"]).unwrap_err().to_string(),
            "completions: write one of bash, zsh and fish"
        );
        assert_eq!(other(&["manual"]), Ok(Command::Manual));
        assert!(other(&["manual", "x"]).is_err());
    }

    #[test]
    fn migrate_takes_its_own_options_and_three_of_nginx() {
        let migrate = |line: &[&str]| match parse(["migrate"].iter().chain(line).map(OsString::from).collect()) {
            Ok(Command::Migrate(migrate)) => Ok(migrate),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        };
        let options = migrate(&["-c", "/a b/it's.conf", "-p", "/srv"]).unwrap().options;
        assert_eq!((options.conf.as_deref(), options.prefix.as_deref()), (Some("/a b/it's.conf"), Some("/srv")));
        assert!(migrate(&["--jsn"]).is_err());
        assert!(migrate(&["-c"]).is_err());
        assert!(migrate(&["--json"]).unwrap().json);
        assert!(migrate(&["--quiet"]).unwrap().quiet);
        assert_eq!(migrate(&["--run"]).unwrap().run, Some(MigrateRun::default()));
        let run = migrate(&["--run", "--log", "a", "--log=-", "--count", "5", "--all-methods"]).unwrap().run.unwrap();
        assert_eq!((run.logs, run.count, run.all_methods), (vec!["a".to_owned(), "-".to_owned()], 5, true));
        let line = ["--run", "--count=1", "--rate=2", "--concurrency=3", "--timeout=4", "--time=5"];
        let MigrateRun { count, rate, concurrency, timeout, time, .. } = migrate(&line).unwrap().run.unwrap();
        assert_eq!((count, rate, concurrency, timeout, time), (1, 2, 3, 4, 5));
        assert!(migrate(&["--run", "--log=a", "--requests=b"]).is_err());
        for (option, most) in
            [("count", 100_000), ("rate", 10_000), ("concurrency", 64), ("timeout", 600), ("time", 86_400)]
        {
            let with = |value: u64| migrate(&["--run", &format!("--{option}={value}")]).map(|_| ());
            assert_eq!((with(1), with(most)), (Ok(()), Ok(())), "{option}");
            for value in [0, most + 1] {
                let told = with(value).unwrap_err();
                assert!(told.contains(&format!("--{option} takes a number from 1 to {most}")), "{told}");
            }
        }
        // Also a value that is the usual one says something of a trial.
        for line in [&["--count", "1000"][..], &["--log", "a", "--count=1"], &["--all-methods"], &["-q", "--against=x"]]
        {
            let told = migrate(line).unwrap_err();
            let option = line.iter().find_map(|word| word.strip_prefix("--")).unwrap().split('=').next().unwrap();
            assert!(told.contains(&format!("--{option} says something of a trial: write --run")), "{told}");
        }
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
