//! A server's configuration, in a form that freerun and nginx both accept.

use crate::dir::Site;
use crate::{HarnessError, Kind, ports, private_tree, require};
use std::path::PathBuf;
use std::process::Command;

/// A configuration that is being put together. It has the lines of the test and no others: the command line has the
/// harness's own settings. A mount namespace makes the compiled-in folders (for the access log and temporary files) the
/// server's own. Without root there is none; then the configuration names folders in `@DIR@`. A worker in the test's own
/// process never has one: its configuration names the folders for temporary files.
///
/// In all texts `@DIR@` stands for the server's own folder (logs, pid, temporary files), `@ROOT@` for the document
/// root, and `@CERTS@` for the folder of [`certificates`](crate::certificates()). `@PORT@` stands for its port and
/// `@PORT2@` to `@PORT9@` for further free ports.
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
    shares_mounts: bool,
}

impl Setup {
    /// A configuration without lines.
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

    /// Adds lines to the main context. `error_log`, `pid` and `daemon` replace what the harness gives by `-g`:
    /// `@DIR@/error.log` with the level `info`, `@DIR@/server.pid`, and `off`.
    pub fn main(mut self, lines: &str) -> Setup {
        self.main.push_str(lines);
        self.main.push('\n');
        self
    }

    /// Adds lines to `events`.
    pub fn events(mut self, lines: &str) -> Setup {
        self.events.push_str(lines);
        self
    }

    /// Adds lines to `http`.
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

    /// Whether it has lines in `stream`, for which nginx needs a module.
    pub fn has_stream(&self) -> bool {
        !self.stream.is_empty()
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

    /// Has the server see mounts that are made after its start, so that it has no mount namespace of its own.
    pub fn shared_mounts(mut self) -> Setup {
        self.shares_mounts = true;
        self
    }

    /// Sets an environment variable of the server.
    pub fn environment(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command that starts the server, without its arguments.
    pub(crate) fn command(&self, kind: Kind, dir: &std::path::Path) -> Result<Command, HarnessError> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => kind.program()?,
        };
        let tree = if self.has_private_tree() { private_tree::words(dir) } else { Vec::new() };
        let under = self.under.iter().map(|word| word.replace("@DIR@", &dir.display().to_string()));
        let mut words = tree.into_iter().chain(under);
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

    /// The directives that the harness needs and that are no part of the configuration: they are given by `-g`.
    pub(crate) fn globals(&self, kind: Kind) -> Option<String> {
        if self.whole.is_some() {
            return None;
        }
        let names = |name: &str| self.main.split([';', '\n', '{']).any(|line| line.trim_start().starts_with(name));
        let mut text = String::new();
        for (name, line) in [
            ("daemon ", "daemon off; "),
            ("pid ", "pid @DIR@/server.pid; "),
            ("error_log ", "error_log @DIR@/error.log info; "),
        ] {
            if !names(name) {
                text += line;
            }
        }
        if kind == Kind::Nginx
            && !self.stream.is_empty()
            && let Some(module) = require::nginx_module("ngx_stream_module")
        {
            text += &format!("load_module {};", module.display());
        }
        Some(text)
    }

    /// The text of the configuration before its `@…@` are replaced: the lines of the test, in their blocks.
    pub(crate) fn text(&self) -> String {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        let mut text = format!("{}events {{\n{}\n}}\nhttp {{\n", self.main, self.events);
        if !self.has_private_tree() {
            text += &private_tree::lines_instead(&self.http);
        }
        text += &self.http;
        text += "}\n";
        if !self.stream.is_empty() {
            text += &format!("stream {{\n{}}}\n", self.stream);
        }
        text
    }

    /// The text of the configuration for a worker in the test's own process, before its `@…@` are replaced. What is
    /// compiled into a process, or given by its command line, stands in it.
    ///
    /// # Panics
    /// The setup has parts that take a process.
    #[track_caller]
    pub(crate) fn worker_text(&self) -> String {
        let Setup { main, events, http, stream, whole, root: _, arguments, program, under, environment, shares_mounts } =
            self;
        let is_plain = main.is_empty() && events.is_empty() && stream.is_empty() && whole.is_none();
        let has_no_process = arguments.is_empty() && program.is_none() && under.is_empty() && environment.is_empty();
        assert!(is_plain && has_no_process && !shares_mounts, "this takes a process of its own: {self:?}");
        let paths = private_tree::temp_paths();
        format!("error_log @DIR@/error.log info;\nhttp {{\n{paths}{http}}}\n")
    }

    /// Whether the server has compiled-in folders of its own.
    pub(crate) fn has_private_tree(&self) -> bool {
        !self.shares_mounts && private_tree::is_possible()
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
