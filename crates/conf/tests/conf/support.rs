//! Helpers: files in memory, a small registry, and a builder that walks every block.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use freerun_conf::*;

/// The main file's path in every test.
pub const MAIN: &str = "/etc/nginx/nginx.conf";

/// Files in memory; `*` in a pattern stands for any text.
#[derive(Clone, Default)]
pub struct Memory(pub BTreeMap<String, Vec<u8>>);

impl Memory {
    pub fn with(files: &[(&str, &str)]) -> Self {
        Memory(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect())
    }
}

impl Loader for Memory {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        if path.ends_with('/') {
            return Err(io::Error::from_raw_os_error(21));
        }
        self.0.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<String>> {
        let Some((front, back)) = pattern.split_once('*') else { return Ok(Vec::new()) };
        let fits = |path: &&String| path.starts_with(front) && path.ends_with(back);
        // The paths are not sorted: the parser has to do that.
        Ok(self.0.keys().rev().filter(fits).cloned().collect())
    }
}

pub fn parse_text(text: &[u8]) -> Tree {
    let mut files = Memory::default();
    files.0.insert(MAIN.to_owned(), text.to_vec());
    parse(MAIN, None, "/etc/nginx", &mut files)
}

keyword_enum! {
    /// When `If-Modified-Since` counts.
    #[derive(Default)]
    pub enum Modified {
        /// Never.
        Off = "off",
        /// Equal.
        #[default]
        Exact = "exact",
        /// Not younger.
        Before = "before",
    }
}

keyword_enum! {
    /// Browsers.
    pub enum Browser {
        /// None.
        None = "none",
        /// Old ones.
        Msie6 = "msie6",
        /// Safari.
        Safari = "safari",
    }
}

/// Entries of `types {}`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Types(pub Vec<(String, String)>);

impl Value for Types {
    const SHAPE: Shape = Shape::exactly(0, "").with_raw_block();

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<Self, Problem> {
        let mut types = Types::default();
        for entry in directive.children() {
            for word in &entry.args {
                types.0.push((word.text.clone(), entry.name.text.clone()));
            }
        }
        Ok(types)
    }
}

/// The rewrite steps of one level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script(pub Vec<String>);

impl Setting for Script {
    const SHAPE: Shape = Shape::exactly(2, "$variable value");

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        *cx.extensions.get_or_default::<usize>() += 1;
        let mut script = previous.unwrap_or_default();
        script.0.push(directive.name.text.clone());
        Ok(script)
    }
}

settings! {
    /// The main level.
    pub struct MainSettings {
        /// Number of workers.
        worker_rlimit_nofile: Option<u32>, in MAIN;
        /// Whether to become a daemon.
        daemon: bool = "on", in MAIN;
        /// Time for an orderly end.
        worker_shutdown_timeout: Option<Duration>, in MAIN;
        /// Pid file.
        pid: String = "logs/nginx.pid", in MAIN;
        /// Variables of the environment.
        env: Many<String>, in MAIN;
        /// Accepts many.
        multi_accept: bool = "off", in EVENTS;
    }
}

settings! {
    /// How files are sent.
    ///
    /// With a second paragraph.
    #[module = "http/files"]
    pub struct FileSettings {
        /// Sends files with `sendfile()`.
        ///
        /// More about it.
        sendfile: bool = "off", in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// Most bytes of one call.
        sendfile_max_chunk: Size = "2m", in HTTP | SERVER | LOCATION;
        /// Most bytes of a request body.
        client_max_body_size: Offset = "1m", in HTTP | SERVER | LOCATION;
        /// How times are compared.
        if_modified_since: Modified = "exact", in HTTP | SERVER | LOCATION;
        /// Browsers without keep-alive.
        keepalive_disable: Flags<Browser> = "msie6", in HTTP | SERVER | LOCATION;
        /// Buffers for reading.
        output_buffers: Buffers = "2 32k", in HTTP | SERVER | LOCATION;
        /// Index files.
        index: Many<Vec<String>> = "index.html", in HTTP | SERVER | LOCATION;
        /// Types by extension.
        types: Types, in HTTP | SERVER | LOCATION;
        /// Time between two writes.
        send_timeout: Duration = "60s", in HTTP | SERVER | LOCATION;
        /// How long a file counts as checked.
        open_file_cache_valid: Seconds = "60s", in HTTP | SERVER | LOCATION;
        /// Requests of one connection.
        keepalive_requests: u64 = "1000", in HTTP | SERVER | LOCATION;
        /// The folder.
        root: String = "html", in HTTP | SERVER | LOCATION | LOCATION_IF, fidelity = Differs("no variables");
        /// Bytes to wait for.
        send_lowat: Option<Size>, in HTTP | SERVER | LOCATION, fidelity = NoEffect("FreeBSD has it");
    }
}

settings! {
    /// Rewriting.
    pub struct RewriteSettings {
        /// Sets a variable.
        #[name = "set"]
        script: Script, in SERVER | SERVER_IF | LOCATION | LOCATION_IF, local;
        /// Logs rewriting.
        rewrite_log: bool = "off", in HTTP | SERVER | SERVER_IF | LOCATION | LOCATION_IF;
    }
    also {
        /// Stops.
        "break" => script: Shape::exactly(0, ""), in SERVER | SERVER_IF | LOCATION | LOCATION_IF;
        /// Answers.
        "return" => script: Shape::between(1, 2, "code [text]"), in SERVER | SERVER_IF | LOCATION | LOCATION_IF;
    }
}

pub static STRUCTURE: &[Directive] = &[
    Directive::structural("events", Contexts::MAIN, Shape::exactly(0, "").with_block(Contexts::EVENTS), "Events."),
    Directive::structural("http", Contexts::MAIN, Shape::exactly(0, "").with_block(Contexts::HTTP), "HTTP."),
    Directive::structural("server", Contexts::HTTP, Shape::exactly(0, "").with_block(Contexts::SERVER), "A server."),
    Directive::structural(
        "location",
        Contexts::SERVER.union(Contexts::LOCATION),
        Shape::between(1, 2, "[ = | ~ | ~* | ^~ ] uri").with_block(Contexts::LOCATION),
        "A location.",
    ),
    Directive::structural(
        "if",
        Contexts::SERVER,
        Shape::at_least(1, "(condition)").with_block(Contexts::SERVER_IF),
        "In a server.",
    ),
    Directive::structural(
        "if",
        Contexts::LOCATION,
        Shape::at_least(1, "(condition)").with_block(Contexts::LOCATION_IF),
        "In a location.",
    ),
    Directive::structural("listen", Contexts::SERVER, Shape::at_least(1, "address"), "Where to listen."),
    Directive::structural("server_name", Contexts::SERVER, Shape::at_least(1, "name ..."), "Names."),
];

pub fn registry() -> Registry {
    let groups = [group::<MainSettings>(), group::<FileSettings>(), group::<RewriteSettings>()];
    Registry::new(&groups, STRUCTURE).expect("the tables fit together")
}

/// The settings of every block, with its name and arguments, in reading order.
pub type Built = Vec<(String, SettingsSet)>;

fn walk(
    registry: &Registry,
    context: Contexts,
    nodes: &[Node],
    parent: &SettingsSet,
    cx: &mut Cx,
    built: &mut Built,
    path: &str,
) -> Result<(), Problem> {
    let (settings, blocks) = apply_block(registry, context, nodes, parent, cx)?;
    built.push((path.to_owned(), settings.clone()));
    for node in blocks {
        let directive = registry.lookup(&node.name.text, context).expect("it was found before");
        if let Block::Inside(inside) = directive.shape.block {
            let words: Vec<&str> =
                std::iter::once(&node.name).chain(&node.args).map(|word| word.text.as_str()).collect();
            let path = format!("{path}/{}", words.join(" "));
            walk(registry, inside, node.children(), &settings, cx, built, &path)?;
        }
    }
    Ok(())
}

/// Applies a tree; returns the settings by path (`/http/server`), or the problems.
pub fn apply(tree: &Tree) -> (Result<Built, Diagnostics>, Cx) {
    let registry = registry();
    let mut cx = Cx::new(tree.sources.clone());
    let mut built = Vec::new();
    let result = registry
        .defaults(&mut cx)
        .and_then(|parent| walk(&registry, Contexts::MAIN, &tree.nodes, &parent, &mut cx, &mut built, ""));
    let result = cx.conclude(result, tree.error.clone());
    (result.map(|()| built), cx)
}

pub fn built(text: &str) -> Built {
    let tree = parse_text(text.as_bytes());
    match apply(&tree).0 {
        Ok(built) => built,
        Err(problems) => panic!("{}", problems.render(&tree.sources, "")),
    }
}

/// nginx's line for an invalid text, without the level and with the bare file name.
pub fn fault(text: &[u8]) -> String {
    let tree = parse_text(text);
    match apply(&tree).0 {
        Ok(_) => "ok".to_owned(),
        Err(problems) => problems[0].first_line(&tree.sources).replace(MAIN, "conf"),
    }
}
