//! The table of commands and options. The help, the completions of shells, the manual page and the advice on mistakes are
//! printed from it.

use super::serve::{SERVE_ADDRESS, SERVE_TLS_PORT};
use crate::paths;

/// The kind of a value: what a shell can offer for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// The path of a file.
    File,
    /// The path of a folder.
    Folder,
    /// A directive of the reference.
    Directive,
    /// A word of this list.
    Words(&'static [&'static str]),
    /// Something that a shell does not know.
    Text,
}

/// An option.
#[derive(Debug)]
pub struct OptionRow {
    /// Its letters, without the dash: `?h`.
    pub letters: &'static str,
    /// Its long name, with the dashes: `--listen`.
    pub long: Option<&'static str>,
    /// The name of its value in the help, and the kind of that value.
    pub value: Option<(&'static str, ValueKind)>,
    /// The meaning: sentences without a capital letter in front and without a full stop at the end.
    pub text: String,
}

/// A command with its options. The program without a command has an empty name.
#[derive(Debug)]
pub struct CommandRow {
    /// The name.
    pub name: &'static str,
    /// The words behind the name in the synopsis, in pieces that no line is broken in.
    pub synopsis: &'static [&'static str],
    /// The purpose, in a few words.
    pub summary: &'static str,
    /// The purpose, in sentences.
    pub about: String,
    /// The kind of what it takes besides options.
    pub operand: Option<ValueKind>,
    /// The options.
    pub options: Vec<OptionRow>,
}

/// The option that makes a warning an error of `-t`.
pub const STRICT: &str = "--strict";

/// The option that has `-t` say what is legal and most likely wrong.
pub const LINT: &str = "--lint";

/// The option that has `--lint` print JSON.
pub const JSON: &str = "--json";

/// The shells that there are completions for.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The orders of `-s`.
pub const ORDERS: [&str; 4] = ["stop", "quit", "reopen", "reload"];

fn letter(letters: &'static str, text: &str) -> OptionRow {
    OptionRow { letters, long: None, value: None, text: text.to_owned() }
}

fn long(long: &'static str, text: &str) -> OptionRow {
    OptionRow { letters: "", long: Some(long), value: None, text: text.to_owned() }
}

impl OptionRow {
    fn value(self, name: &'static str, kind: ValueKind) -> OptionRow {
        OptionRow { value: Some((name, kind)), ..self }
    }

    fn letters(self, letters: &'static str) -> OptionRow {
        OptionRow { letters, ..self }
    }

    /// The names of the option with their dashes, the letters first.
    pub fn names(&self) -> Vec<String> {
        let letters = self.letters.chars().map(|letter| format!("-{letter}"));
        letters.chain(self.long.map(str::to_owned)).collect()
    }

    /// The names and the value, as the help shows them.
    pub fn usage(&self) -> String {
        let names = self.names().join(",");
        self.value.map_or_else(|| names.clone(), |(value, _)| format!("{names} {value}"))
    }

    /// The beginning of the meaning, for a shell that has one line for it.
    pub fn brief(&self) -> &str {
        let end = [". ", "; ", ": ", " (default"].iter().filter_map(|sign| self.text.find(sign)).min();
        &self.text[..end.unwrap_or(self.text.len())]
    }
}

/// The row of the program without a command: nginx's options, and freerun's own.
pub fn program() -> CommandRow {
    let (prefix, log, conf) = (paths::PREFIX, paths::ERROR_LOG_PATH, paths::CONF_PATH);
    CommandRow {
        name: "",
        synopsis: &[
            "[-?hvVtTq]",
            "[--strict]",
            "[--lint [--json]]",
            "[-s signal]",
            "[-p prefix]",
            "[-e filename]",
            "[-c filename]",
            "[-g directives]",
        ],
        summary: "run a server, test its configuration, or send it a signal",
        about:
            "runs a server with a configuration file of nginx's language, tests such a file, or sends a signal to a \
                running server"
                .to_owned(),
        operand: None,
        options: vec![
            letter("?h", "this help"),
            letter("v", "show version and exit"),
            letter("V", "show version and configure options then exit"),
            letter("t", "test configuration and exit"),
            letter("T", "test configuration, dump it and exit"),
            long(
                STRICT,
                "with -t or -T: a warning about the configuration, such as a name without an address, is an error",
            ),
            long(
                LINT,
                "with -t: print what is legal and most likely wrong as file:line:column: level: text [name]; the exit code is 1 if \
                 there is any. \"freerun explain NAME\" has the reason, a comment \"# lint: allow NAME\" silences it",
            ),
            long(JSON, "with -t --lint: print it as JSON"),
            letter("q", "suppress non-error messages during configuration testing"),
            letter("s", "send signal to a master process: stop, quit, reopen, reload")
                .value("signal", ValueKind::Words(&ORDERS)),
            letter("p", &format!("set prefix path (default: {prefix}/)")).value("prefix", ValueKind::Folder),
            letter("e", &format!("set error log file (default: {log})")).value("filename", ValueKind::File),
            letter("c", &format!("set configuration file (default: {conf})")).value("filename", ValueKind::File),
            letter("g", "set global directives out of configuration file").value("directives", ValueKind::Text),
            long("--help", "print the help of all commands on standard output"),
            long("--version", "print the version on standard output"),
        ],
    }
}

/// The rows of the commands.
pub fn commands() -> Vec<CommandRow> {
    vec![serve(), migrate(), explain(), reference(), completions(), manual()]
}

/// The last option of each command.
fn help() -> OptionRow {
    long("--help", "this help").letters("h")
}

fn serve() -> CommandRow {
    CommandRow {
        name: "serve",
        synopsis: &[
            "[DIR]",
            "[--listen ADDR]",
            "[--port PORT]",
            "[--tls internal | NAME]",
            "[--quiet]",
            "[--hidden]",
            "[--follow-links]",
            "[--host NAME]",
        ],
        summary: "serve a folder without a configuration file",
        about: "serves the files of DIR (default: the current folder) without a configuration file, and lists folders that \
                have no index.html; every request is shown"
            .to_owned(),
        operand: Some(ValueKind::Folder),
        options: vec![
            long(
                "--listen",
                &format!(
                    "ADDRESS:PORT, ADDRESS or PORT (default: {SERVE_ADDRESS}, with --tls internal port {SERVE_TLS_PORT}, \
                     with --tls NAME port 443 of all IPv4 addresses)"
                ),
            )
            .letters("l")
            .value("ADDR", ValueKind::Text),
            long("--port", "the port alone").letters("p").value("PORT", ValueKind::Text),
            long("--quiet", "do not show requests").letters("q"),
            long(
                "--hidden",
                "serve and list files and folders whose names begin with a dot, too; without it there are none but \
                 .well-known",
            ),
            long(
                "--follow-links",
                "follow symbolic links, out of DIR as well; without it they are refused (403)",
            ),
            long(
                "--host",
                "a further name by which clients may ask, or several with commas. Without it only IP addresses, localhost, \
                 the machine's name and the names of --tls are answered, so that no web page can read the files by letting \
                 its own name stand for this machine",
            )
            .value("NAME", ValueKind::Text),
            long(
                "--tls",
                "serve over https. internal: with a certificate of a local authority, which is kept in \
                 $XDG_DATA_HOME/freerun or ~/.local/share/freerun. A name, or several with commas: with a certificate from \
                 Let's Encrypt or another CA that speaks ACME; it is kept in the same folder and renewed in time. By using \
                 this you agree to the terms of service of the CA",
            )
            .value("internal|NAME", ValueKind::Words(&["internal"])),
            long(
                "--http",
                "with --tls NAME: where the CA looks at challenges, and plain HTTP is sent to https (default: port 80); \
                 off: the CA looks at port 443",
            )
            .value("ADDR|off", ValueKind::Words(&["off"])),
            long("--email", "with --tls NAME: where the CA can reach you").value("ADDRESS", ValueKind::Text),
            long("--acme-directory", "with --tls NAME: the directory of the CA (default: Let's Encrypt's)")
                .value("URL", ValueKind::Text),
            long("--acme-ca", "with --tls NAME: the authorities by which the CA's server is verified")
                .value("FILE", ValueKind::File),
            help(),
        ],
    }
}

fn migrate() -> CommandRow {
    CommandRow {
        name: "migrate",
        synopsis: &[
            "[-c filename]",
            "[-p prefix]",
            "[-g directives]",
            "[--quiet]",
            "[--json]",
            "[--run]",
            "[--log FILE | --requests FILE]",
            "[--log-format FORMAT]",
            "[--against URL]",
            "[--host NAME]",
            "[--all-methods]",
            "[--count N]",
            "[--rate N]",
            "[--concurrency N]",
            "[--timeout SECONDS]",
            "[--time SECONDS]",
        ],
        summary: "say what a configuration of nginx would be here; with --run, try it beside nginx",
        about: "reads a configuration of nginx with everything that it includes, and says of each directive whether it works, \
                differs, has no effect or is missing here. Nothing is started or changed. The exit code is 0 if what is \
                written works as in nginx, 1 if something that is written does another thing than in nginx, 2 if a server \
                would not start here: something is missing or refused, or a file or a user is not on this machine. It is 3 \
                if there is no report. With --run, freerun is started beside the running nginx for as long as it takes: on \
                free ports of the loopback interface, with logs, caches, temporary and state files in a folder of its own. \
                Requests of an access log are sent to both, and what differs in their answers is shown. Upstream servers get \
                the requests of both. The exit code is then 0 if all answers are the same, 1 if some differ or a directive \
                does another thing with its value, and 2 if freerun would not start, nginx does not answer, or there was \
                nothing to replay"
            .to_owned(),
        operand: None,
        options: vec![
            letter("c", "the configuration (default: as without \"migrate\")").value("filename", ValueKind::File),
            letter("p", "the folder that relative paths start from").value("prefix", ValueKind::Folder),
            letter("g", "directives of the main level besides those of the file").value("directives", ValueKind::Text),
            long("--quiet", "show only what differs, is not found, is missing or is refused").letters("q"),
            long("--json", "print the report as JSON"),
            long("--run", "start freerun beside the running nginx, send both the same requests, and show what differs"),
            long(
                "--log",
                "with --run: the access log to replay, - for standard input; it may be given several times (default: the \
                 access logs of the configuration)",
            )
            .value("FILE", ValueKind::File),
            long(
                "--log-format",
                "with --run: the name of the log_format that the log has, or such a format itself (default: what the \
                 configuration says of the log, or else combined). Lines that are objects of JSON with the names of \
                 variables are read, too",
            )
            .value("FORMAT", ValueKind::Text),
            long(
                "--requests",
                "with --run: a list of requests to send instead, each on a line as 'GET https://www.example.com/a?b' or /a; \
                 - for standard input",
            )
            .value("FILE", ValueKind::File),
            long(
                "--against",
                "with --run: where nginx is, if not at the addresses that it listens at, as http://192.0.2.1:8080; it may be \
                 given for http and for https",
            )
            .value("URL", ValueKind::Text),
            long("--host", "with --run: the host of requests if the log does not have it (default: the names of the servers \
                 that write to the log)")
            .value("NAME", ValueKind::Text),
            long("--all-methods", "with --run: send requests of other methods than GET, HEAD and OPTIONS, too, without bodies"),
            long("--count", "with --run: the most requests, of which each log has its share (default: 1000)").value("N", ValueKind::Text),
            long("--rate", "with --run: the most requests to each server in a second (default: 100)")
                .value("N", ValueKind::Text),
            long("--concurrency", "with --run: the most requests at the same time (default: 4)")
                .value("N", ValueKind::Text),
            long("--timeout", "with --run: the longest time for a response (default: 10)")
                .value("SECONDS", ValueKind::Text),
            long("--time", "with --run: the longest time for all requests (default: 300)")
                .value("SECONDS", ValueKind::Text),
            help(),
        ],
    }
}

fn explain() -> CommandRow {
    CommandRow {
        name: "explain",
        synopsis: &[
            "DIRECTIVE | '$variable' | WORD",
            "| --request 'METHOD URL'",
            "[-c filename]",
            "[-p prefix]",
            "[-g directives]",
            "[-H field]",
            "[--from ADDRESS]",
            "[--to ADDRESS]",
            "[--json]",
        ],
        summary: "print what the reference says of a name, or what a configuration does with a request",
        about: "prints what the reference says of a directive, a variable, a recipe or a rule of the lint; of another word, the \
                names of those that speak of it. With --request it says what a configuration does with a request: the \
                server, the location and those that were tried, rewrites, access rules, limits, files, the upstream server \
                with what it would be sent, and the answer. No server is started, and nothing is sent. The exit code is 1 if \
                there is nothing to say"
            .to_owned(),
        operand: Some(ValueKind::Directive),
        options: vec![
            long(
                "--request",
                "a request as 'GET https://www.example.com/a?b', or a session of stream as 'tcp ADDRESS:PORT', 'udp \
                 ADDRESS:PORT' or 'tls NAME:PORT'",
            )
            .value("REQUEST", ValueKind::Text),
            letter("c", "the configuration (default: as without \"explain\")").value("filename", ValueKind::File),
            letter("p", "the folder that relative paths start from").value("prefix", ValueKind::Folder),
            letter("g", "directives of the main level besides those of the file").value("directives", ValueKind::Text),
            long("--header", "a field of the request, as 'Cookie: a=b'; it may be given several times")
                .letters("H")
                .value("field", ValueKind::Text),
            long("--from", "the address of the client (default: 127.0.0.1)").value("ADDRESS", ValueKind::Text),
            long("--to", "the address that the client connects to, if the URL does not say it").value("ADDRESS", ValueKind::Text),
            long("--json", "print the explanation as JSON"),
            help(),
        ],
    }
}

fn reference() -> CommandRow {
    CommandRow {
        name: "reference",
        synopsis: &["[--check]", "DIR"],
        summary: "write the reference of all directives",
        about: "writes the reference of all directives to DIR, one page for each module".to_owned(),
        operand: Some(ValueKind::Folder),
        options: vec![long("--check", "only tell which pages there are not current"), help()],
    }
}

fn completions() -> CommandRow {
    CommandRow {
        name: "completions",
        synopsis: &["bash | zsh | fish"],
        summary: "print what a shell needs to complete freerun's command line",
        about: "prints the completions of freerun's command line for a shell: for bash as \
                /usr/share/bash-completion/completions/freerun, for zsh as _freerun in a folder of $fpath, for fish as \
                ~/.config/fish/completions/freerun.fish"
            .to_owned(),
        operand: Some(ValueKind::Words(&SHELLS)),
        options: vec![help()],
    }
}

fn manual() -> CommandRow {
    CommandRow {
        name: "manual",
        synopsis: &[],
        summary: "print the manual page freerun(8)",
        about: "prints the manual page freerun(8) in the language of man(7); \"freerun manual | man -l -\" shows it. Its date is \
                $SOURCE_DATE_EPOCH, or today"
            .to_owned(),
        operand: None,
        options: vec![help()],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli::parse;

    /// The options that a source file of a command matches: `Short('c')`, `Long("json")`.
    fn matched(source: &str) -> BTreeSet<String> {
        let names = |begin: &str, end: &str, dashes: &str| -> Vec<String> {
            source
                .split(begin)
                .skip(1)
                .filter_map(|rest| Some(format!("{dashes}{}", rest.split_once(end)?.0)))
                .collect()
        };
        names("Long(\"", "\")", "--").into_iter().chain(names("Short('", "')", "-")).collect()
    }

    #[test]
    fn the_table_has_the_options_that_the_commands_read() {
        for (name, source) in [
            ("serve", include_str!("serve.rs")),
            ("migrate", include_str!("migrate.rs")),
            ("explain", include_str!("explain.rs")),
            ("reference", include_str!("reference.rs")),
        ] {
            let row = commands().into_iter().find(|row| row.name == name).expect(name);
            let listed: BTreeSet<String> = row.options.iter().flat_map(OptionRow::names).collect();
            assert_eq!(matched(source), listed, "{name}");
        }
    }

    #[test]
    fn the_table_has_the_letters_that_the_program_reads() {
        let listed: BTreeSet<char> = program().options.iter().flat_map(|row| row.letters.chars()).collect();
        let read: BTreeSet<char> = ('!'..='~')
            .filter(|letter| *letter != '-')
            .filter(|letter| {
                let unknown = format!("invalid option: \"{letter}\"");
                !matches!(parse(vec![format!("-{letter}").into()]), Err(error) if error.to_string() == unknown)
            })
            .collect();
        assert_eq!(read, listed);
        for name in ["--help", "--version"] {
            assert!(parse(vec![name.into()]).is_ok(), "{name}");
        }
        assert!(parse(vec!["-t".into(), STRICT.into()]).is_ok());
        assert!(parse(vec!["-t".into(), LINT.into(), JSON.into()]).is_ok());
    }

    #[test]
    fn each_command_is_one() {
        for row in commands() {
            assert!(parse(vec![row.name.into(), "--help".into()]).is_ok(), "{}", row.name);
            assert!(parse(vec![row.name.into(), "-h".into()]).is_ok(), "{}", row.name);
        }
        for shell in SHELLS {
            assert!(parse(vec!["completions".into(), shell.into()]).is_ok(), "{shell}");
        }
        for order in ORDERS {
            assert!(parse(vec!["-s".into(), order.into()]).is_ok(), "{order}");
        }
    }
}
