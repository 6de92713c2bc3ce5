//! A server's configuration, in a form that freerun and nginx both accept.

use crate::dir::Site;
use crate::{Error, Server, ports, require};
use std::path::PathBuf;
use std::process::Command;

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// freerun, the server under test.
    Freerun,
    /// nginx, for comparison.
    Nginx,
}

/// A configuration that is being put together.
///
/// In all texts `@DIR@` stands for the server's own folder (logs, pid, temporary files), `@ROOT@` for the document
/// root, `@CERTS@` for the folder of [`certificates`](crate::certificates()), `@PORT@` for its port and `@PORT2@` to `@PORT9@` for further free ports.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    main: String,
    events: String,
    http: String,
    stream: String,
    whole: Option<String>,
    root: Option<PathBuf>,
    arguments: Vec<String>,
    program: Option<PathBuf>,
    under: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Setup {
    /// A configuration with only the harness's own lines.
    pub fn new() -> Setup {
        Setup::default()
    }

    /// A configuration with one server on `@PORT@`, with the given document root and these lines in its `server` block.
    pub fn server(site: &Site, lines: &str) -> Setup {
        Setup::new()
            .root(site)
            .http(&format!("server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; {lines} }}\n"))
    }

    /// A configuration without lines of the harness; `daemon off;` and a `pid` in `@DIR@` have to be in it.
    pub fn whole(text: &str) -> Setup {
        Setup { whole: Some(text.to_owned()), ..Setup::default() }
    }

    /// Sets the folder that `@ROOT@` stands for.
    pub fn root(mut self, site: &Site) -> Setup {
        self.root = Some(site.path().to_owned());
        self
    }

    /// Sets the folder that `@ROOT@` stands for, if it is not a [`Site`].
    pub fn root_path(mut self, path: &std::path::Path) -> Setup {
        self.root = Some(path.to_owned());
        self
    }

    /// Adds lines to the main context; `worker_processes` and `error_log` replace the harness's own.
    pub fn main(mut self, lines: &str) -> Setup {
        self.main.push_str(lines);
        self.main.push('\n');
        self
    }

    /// Adds lines to `events`; `worker_connections` replaces the harness's own.
    pub fn events(mut self, lines: &str) -> Setup {
        self.events.push_str(lines);
        self
    }

    /// Adds lines to `http`; `access_log` and `default_type`, wherever they are in them, replace the harness's own.
    pub fn http(mut self, lines: &str) -> Setup {
        self.http.push_str(lines);
        self.http.push('\n');
        self
    }

    /// Adds lines to `stream`, which is there only if it has lines.
    pub fn stream(mut self, lines: &str) -> Setup {
        self.stream.push_str(lines);
        self.stream.push('\n');
        self
    }

    /// Adds a command-line argument.
    pub fn argument(mut self, argument: &str) -> Setup {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Sets the binary to run instead of the usual one of the kind of server.
    pub fn program(mut self, path: &std::path::Path) -> Setup {
        self.program = Some(path.to_owned());
        self
    }

    /// Runs the server under another program, such as valgrind: `words` are that program and its arguments, which come
    /// before the server's. It has to become the server (`execve`), so that signals reach it.
    pub fn under(mut self, words: &[&str]) -> Setup {
        self.under = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Sets an environment variable of the server.
    pub fn environment(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command that starts the server, without its arguments.
    pub(crate) fn command(&self, kind: Kind, dir: &std::path::Path) -> Result<Command, Error> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => kind.program()?,
        };
        let mut words = self.under.iter().map(|word| word.replace("@DIR@", &dir.display().to_string()));
        let mut command = match words.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    pub(crate) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    pub(crate) fn document_root(&self) -> Option<&PathBuf> {
        self.root.as_ref()
    }

    /// The text of the configuration before its `@…@` are replaced.
    pub(crate) fn text(&self, kind: Kind) -> String {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        let own = |lines: &str, name: &str, line: &str| {
            if lines.contains(name) { String::new() } else { format!("{line}\n") }
        };
        let mut text = "daemon off;\npid @DIR@/server.pid;\n".to_owned();
        if kind == Kind::Nginx
            && !self.stream.is_empty()
            && let Some(module) = require::nginx_module("ngx_stream_module")
        {
            text += &format!("load_module {};\n", module.display());
        }
        text += &own(&self.main, "worker_processes", "worker_processes 1;");
        text += &own(&self.main, "error_log", "error_log @DIR@/error.log info;");
        text += &self.main;
        text += &format!("events {{\n{}", own(&self.events, "worker_connections", "worker_connections 512;"));
        text += &format!("{}\n}}\nhttp {{\n", self.events);
        text += &own(&self.http, "access_log", "access_log @DIR@/access.log;");
        text += &own(&self.http, "default_type", "default_type application/octet-stream;");
        text += "client_body_temp_path @DIR@/body;\n";
        if kind == Kind::Nginx {
            // nginx makes all its temporary folders at start; the compiled-in ones need not exist here.
            for module in ["proxy", "fastcgi", "uwsgi", "scgi"] {
                text += &format!("{module}_temp_path @DIR@/{module};\n");
            }
        }
        text += &self.http;
        text += "}\n";
        if !self.stream.is_empty() {
            text += &format!("stream {{\n{}}}\n", self.stream);
        }
        text
    }

    /// Starts a server with this configuration.
    ///
    /// # Panics
    /// The server does not start.
    #[track_caller]
    pub fn start(&self, kind: Kind) -> Server {
        match self.try_start(kind) {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts freerun with this configuration.
    ///
    /// # Panics
    /// The server does not start.
    #[track_caller]
    pub fn freerun(&self) -> Server {
        self.start(Kind::Freerun)
    }

    /// Starts the server that `FREERUN_TEST_AGAINST` names (`nginx`), or freerun if it is not set, so that a test's
    /// expectations can be checked against nginx itself.
    ///
    /// # Panics
    /// The server does not start.
    #[track_caller]
    pub fn run(&self) -> Server {
        self.start(Kind::under_test())
    }

    /// Starts a server with this configuration.
    ///
    /// # Errors
    /// The server ended, or did not listen in time; the error has its output.
    pub fn try_start(&self, kind: Kind) -> Result<Server, Error> {
        Server::start(kind, self.clone())
    }
}

impl Kind {
    /// The kind of server that [`Setup::run`] runs.
    pub fn under_test() -> Kind {
        match std::env::var("FREERUN_TEST_AGAINST").as_deref() {
            Ok("nginx") => Kind::Nginx,
            _ => Kind::Freerun,
        }
    }

    /// The program's path.
    ///
    /// # Errors
    /// The program does not exist.
    pub fn program(self) -> Result<PathBuf, Error> {
        match self {
            Kind::Freerun => crate::binary::freerun(),
            Kind::Nginx => require::nginx_path().ok_or_else(|| Error::Start("no nginx".to_owned())),
        }
    }
}

/// Replaces the `@…@` of a configuration; ports are chosen as they occur.
pub(crate) fn fill_in(text: &str, dir: &std::path::Path, root: Option<&PathBuf>, taken: &mut Vec<u16>) -> String {
    let mut text = text.replace("@DIR@", &dir.display().to_string());
    if let Some(root) = root {
        text = text.replace("@ROOT@", &root.display().to_string());
    }
    if text.contains("@CERTS@") {
        text = text.replace("@CERTS@", &crate::certificates().folder().display().to_string());
    }
    for number in 1..=9 {
        let name = if number == 1 { "@PORT@".to_owned() } else { format!("@PORT{number}@") };
        if text.contains(&name) || number == 1 {
            while taken.len() < number {
                taken.push(ports::free());
            }
            text = text.replace(&name, &taken[number - 1].to_string());
        }
    }
    text
}
