//! `freerun manual`: the manual page freerun(8), from the table of commands.

use freerun_conf::fold;
use freerun_proto::date::civil;
use roff::{Inline, Roff, bold, italic, roman};

use crate::cli::command_table::{CommandRow, OptionRow, commands, program};
use crate::paths;
use crate::version::VERSION;

/// The signals of the master, and what each does.
const SIGNALS: [(&str, &str); 6] = [
    (
        "HUP",
        "reads the configuration again (-s reload); requests that run end with the old one. If the new one is refused, \
         the old one stays in use.",
    ),
    ("USR1", "opens the logs again (-s reopen)."),
    (
        "QUIT",
        "accepts no more connections, finishes the requests and ends (-s quit). The directive worker_shutdown_timeout \
         limits the time for that.",
    ),
    ("TERM, INT", "ends at once (-s stop)."),
    ("USR2", "starts the binary anew, with the listening sockets of the running one, which goes on serving."),
    ("WINCH", "the worker finishes its requests and ends; the master stays. Only for a daemon."),
];

/// The files, and what each is for.
const FILES: [(&str, &str); 4] = [
    (paths::CONF_PATH, "the configuration, see freerun.conf(5)."),
    (paths::PID_PATH, "the process that takes signals, unless the configuration has another file."),
    (paths::HTTP_LOG_PATH, "the access log, unless the configuration has another one."),
    ("/var/lib/nginx", "folders of temporary files, unless the configuration has others."),
];

/// The environment variables, and what each does.
const VARIABLES: [(&str, &str); 3] = [
    ("NGINX, LISTEN_FDS", "sockets that a server before this one, or systemd, hands over."),
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "where systemd is told that the server serves, reloads and lives."),
    ("SOURCE_DATE_EPOCH", "the date of the page that \"freerun manual\" prints, in seconds since 1970."),
];

/// The page in the language of man(7).
pub fn page() -> String {
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    page_of(given.unwrap_or_else(now))
}

fn page_of(unix: u64) -> String {
    let date = civil(i64::try_from(unix).unwrap_or(0));
    let date = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
    let (program, commands) = (program(), commands());
    let mut page = Roff::new();
    page.control("TH", ["FREERUN", "8", date.as_str(), &format!("freerun {VERSION}"), "freerun"]);
    page.control("SH", ["NAME"]).text([roman("freerun - event-driven web server and proxy that reads nginx.conf")]);
    page.control("SH", ["SYNOPSIS"]);
    for (index, row) in std::iter::once(&program).chain(&commands).enumerate() {
        if index > 0 {
            page.control("br", []);
        }
        page.text(synopsis(row));
    }
    page.control("SH", ["DESCRIPTION"]);
    page.text(lines(
        "freerun is a web server, reverse proxy and load balancer. It takes nginx's command line, signals, paths, log formats \
         and configuration; an event loop of it never waits for a disk. Without a command it runs a server with a \
         configuration file, tests such a file (-t), or sends a signal to a running server (-s).",
    ));
    page.control("SH", ["OPTIONS"]);
    options(&mut page, &program.options);
    page.control("SH", ["COMMANDS"]);
    for row in &commands {
        page.control("SS", [row.name]).text(sentences(&row.about));
        options(&mut page, &row.options);
    }
    for (title, rows) in [("SIGNALS", &SIGNALS[..]), ("FILES", &FILES), ("ENVIRONMENT", &VARIABLES)] {
        page.control("SH", [title]);
        for (name, text) in rows {
            page.control("TP", []).text([bold(*name)]).text(lines(text));
        }
    }
    page.control("SH", ["EXIT STATUS"]);
    page.text(lines(
        "0 if everything is well, 1 if not: the configuration is refused, the lint finds something in it, a signal cannot be sent, or the server has \
         refused the configuration of a reload. \"freerun migrate\" has codes of its own, see there.",
    ));
    page.control("SH", ["SEE ALSO"]).text([bold("freerun.conf"), roman("(5)")]);
    page.render()
}

/// The program, the command and what it takes.
fn synopsis(row: &CommandRow) -> Vec<Inline> {
    let name = if row.name.is_empty() { "freerun".to_owned() } else { format!("freerun {}", row.name) };
    let rest: String = row.synopsis.iter().map(|piece| format!(" {piece}")).collect();
    vec![bold(name), roman(rest)]
}

/// The text with a capital letter in front and a full stop at the end.
fn sentences(text: &str) -> [Inline; 1] {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    lines(&format!("{}{rest}.", first.to_uppercase()))
}

/// The text in lines of at most 64 characters: mandoc(1) wants short ones, and dashes get a sign in front of them.
fn lines(text: &str) -> [Inline; 1] {
    let folded = fold(text, 15);
    [roman(folded.lines().map(str::trim_start).collect::<Vec<_>>().join("\n"))]
}

fn options(page: &mut Roff, rows: &[OptionRow]) {
    for row in rows {
        let mut usage = vec![bold(row.names().join(", "))];
        if let Some((value, _)) = row.value {
            usage.extend([roman(" "), italic(value)]);
        }
        page.control("TP", []).text(usage).text(sentences(&row.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_all_commands_and_options_and_its_date() {
        let page = page_of(1_700_000_000);
        assert!(page.contains("\n.TH FREERUN 8 2023-11-14 \"freerun "), "{page}");
        let (program, commands) = (program(), commands());
        for row in std::iter::once(&program).chain(&commands) {
            assert!(row.name.is_empty() || page.contains(&format!("\n.SS {}\n", row.name)), "{}", row.name);
            for option in &row.options {
                let names = option.names().join(", ").replace('-', "\\-");
                assert!(page.contains(&format!("\n\\fB{names}\\fR")), "{names}: {page}");
            }
        }
    }
}
