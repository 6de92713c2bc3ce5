//! What applications behind FastCGI, uwsgi, SCGI and memcached are told, and what the client gets of what they say: an
//! application that notes everything, once behind nginx and once behind freerun.

mod checks;
mod fastcgi;
mod memcached;
mod other;
pub mod recorder;

use std::collections::BTreeSet;

use freerun_testkit::{Kind, Setup, methods};
use rustix::process::Signal;

use crate::exchange::{Exchange, difference};
use crate::harness::{SILENCE, Spoken, WAIT};
use crate::runner::{Both, Report, all_differences, both, line_difference, shows};
use crate::t15_cache::caching::{status_for, until_ready};
use recorder::{Protocol, Recorder};

/// One request, what the application answers to it, and what may differ.
pub struct Ask {
    request: Vec<u8>,
    answer: Vec<u8>,
    /// The two are to disagree: freerun's status line (`""`: it closes without a word), and why.
    differs: Option<(&'static str, &'static str)>,
    /// freerun's response is not to be a whole one.
    cut: bool,
    /// The messages in the log are to disagree.
    log_differs: bool,
    /// Each pair: what nginx tells the application, and what freerun does instead; with nothing in the first place, what only
    /// freerun tells it, behind the other parameters.
    told: Vec<(&'static str, &'static str)>,
}

/// Why an application that is told no fields is told the host.
pub const TOLD_HOST: &str = "as in nginx since 1.31, `HTTP_HOST` is a parameter like others, and no field";

/// What an application says that has nothing to say.
const OK: &[u8] = b"Content-Type: text/plain\r\n\r\nok";

/// A request with these field lines (each with its end) and body.
pub fn ask_with(method: &str, target: &str, fields: &str, body: &[u8]) -> Ask {
    let mut request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes();
    request.extend_from_slice(body);
    Ask { request, answer: OK.to_vec(), differs: None, cut: false, log_differs: false, told: Vec::new() }
}

/// A GET.
pub fn ask(target: &str) -> Ask {
    ask_with("GET", target, "", b"")
}

/// A GET that is answered with these bytes.
pub fn answered(answer: impl AsRef<[u8]>) -> Ask {
    ask("/").answered(answer)
}

impl Ask {
    /// What the application says: the output of a script.
    pub fn answered(mut self, answer: impl AsRef<[u8]>) -> Ask {
        self.answer = answer.as_ref().to_vec();
        self
    }

    /// See [`Ask::differs`](struct@Ask).
    fn differs(mut self, reason: &'static str, line: &'static str) -> Ask {
        assert!(!reason.is_empty());
        self.differs = Some((reason, line));
        self
    }

    /// freerun's response is not to be a whole one, for this reason; how much of it comes depends on chance.
    fn cut(mut self, reason: &'static str) -> Ask {
        assert!(!reason.is_empty());
        self.cut = true;
        self.log_differs = true;
        self
    }

    /// The messages in the log are not compared, for this reason.
    fn log_differs(mut self, reason: &'static str) -> Ask {
        assert!(!reason.is_empty());
        self.log_differs = true;
        self
    }

    /// The application is told something else, for this reason.
    fn told(mut self, reason: &'static str, nginx: &'static str, freerun: &'static str) -> Ask {
        assert!(!reason.is_empty());
        self.told.push((nginx, freerun));
        self
    }
}

/// What became of a request.
struct Outcome {
    exchange: Exchange,
    /// What the application was told.
    told: Vec<String>,
    /// What the log says of it.
    logged: Vec<String>,
}

/// What the log says about upstream servers on behalf of this connection, without what differs by nature.
fn messages(log: &str, connection: u64, address: &str) -> Vec<String> {
    let said = |line: &str| {
        let level = line.find('[').filter(|at| {
            ["[error]", "[warn]", "[info]", "[alert]"].iter().any(|level| line[*at..].starts_with(level))
        })?;
        let (number, message) = line[level..].split_once('*')?.1.split_once(' ')?;
        let message = (number.parse() == Ok(connection)).then_some(message)?;
        // freerun knows the upstream server when it reads the body, and says so behind the client.
        let message = message.split(", client: ").next().unwrap_or_default();
        // The application closes a moment after it has answered: whether the next request meets that is chance.
        let by_chance = message.starts_with("an idle upstream connection was closed");
        let about = !by_chance
            && ["upstream", "memcached", "FastCGI", "uwsgi", "request body"].iter().any(|word| message.contains(word));
        about.then(|| without_file_name(&message.replace(address, "ADDRESS")))
    };
    // Messages may have line ends in them; what follows those says nothing more.
    log.lines().filter_map(said).collect()
}

/// A message about a temporary file with only the configured folder of it: those of nginx have names and folders of their own.
fn without_file_name(message: &str) -> String {
    let Some((before, path)) = message.split_once("a temporary file ") else { return message.to_owned() };
    let (path, after) = path.split_once(' ').unwrap_or((path, ""));
    let folder: Vec<&str> = path.split('/').take(5).collect();
    format!("{before}a temporary file {} {after}", folder.join("/"))
}

fn outcomes(kind: Kind, protocol: Protocol, (http, lines): (&str, &str), asks: &[Ask]) -> Vec<Outcome> {
    let recorder = Recorder::start(protocol);
    let lines = lines.replace("@ADDRESS@", recorder.address());
    let cached = !http.is_empty();
    let status = if cached { status_for(kind) } else { "" };
    let mut server = Setup::new()
        .http(&format!(
            "log_format connections '$connection'; access_log @DIR@/access.log connections; {http}
             server {{ listen 127.0.0.1:@PORT@; server_name localhost; location = /probe {{ return 204; }} {status} {lines} }}"
        ))
        .start(kind);
    if cached {
        until_ready(&server);
    }
    let mut outcomes = Vec::new();
    for ask in asks {
        recorder.answer_with(&ask.answer);
        let methods = methods(&ask.request);
        // What nginx says where the two are to disagree is not looked at, and may be nothing.
        let wait = if kind == Kind::Nginx && ask.differs.is_some() { SILENCE } else { WAIT };
        let spoken = Spoken { bytes: &ask.request, methods: &methods, wanted: 1, in_order: false, wait };
        let exchange = spoken.over(&mut server.connect(), &[server.port()]);
        outcomes.push(Outcome { exchange, told: recorder.take(), logged: Vec::new() });
    }
    // Lines may be written after the response: when the server has ended, all are there. Each ask had a connection of its own.
    server.signal(Signal::QUIT);
    server.wait();
    let (access, errors) = (server.access_log(), server.error_log_of_traffic());
    let connections: BTreeSet<u64> = access.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(connections.len(), asks.len(), "{kind:?}: connections in the log");
    for (outcome, connection) in outcomes.iter_mut().zip(connections) {
        outcome.logged = messages(&errors, connection, recorder.address());
    }
    outcomes
}

/// Has the same asked of both servers. `lines` are those of the server, with `@ADDRESS@` for the application's address.
#[track_caller]
fn alike(protocol: Protocol, lines: &str, asks: &[Ask]) {
    alike_in(protocol, "", lines, asks);
}

/// Has the same asked of both servers, with `http` as lines of the `http` block.
#[track_caller]
pub fn alike_in(protocol: Protocol, http: &str, lines: &str, asks: &[Ask]) {
    let Some(Both { mut nginx, mut freerun }) = both(|kind| outcomes(kind, protocol, (http, lines), asks)) else {
        return;
    };
    if !http.is_empty() {
        // What is cached has a length, which freerun tells though the application did not.
        for (theirs, ours) in nginx.iter_mut().zip(&mut freerun) {
            ours.exchange.forget_known_lengths(&mut theirs.exchange);
        }
    }
    let strict = Kind::under_test() == Kind::Freerun;
    let mut report = Report::default();
    for (ask, (nginx, freerun)) in asks.iter().zip(nginx.iter().zip(&freerun)) {
        let mut problems = Vec::new();
        match ask.differs.filter(|_| strict) {
            Some((reason, line)) => {
                let got = freerun.exchange.line();
                if got != line {
                    problems.push(format!("  wanted {line:?} ({reason}), got {got:?}\n"));
                }
            }
            None if ask.cut && strict => {
                if freerun.exchange.count() > 0 {
                    problems.push("  freerun's is not cut\n".to_owned());
                }
            }
            None => problems.extend(difference(&nginx.exchange, &freerun.exchange)),
        }
        let mut told = nginx.told.clone();
        for (theirs, ours) in ask.told.iter().filter(|_| strict) {
            match told.iter().position(|line| line == theirs) {
                Some(at) if ours.is_empty() => drop(told.remove(at)),
                Some(at) => (*ours).clone_into(&mut told[at]),
                None if theirs.is_empty() => {
                    let is_behind = |line: &String| line.starts_with("text: ") || line.starts_with("body: ");
                    let at = told.iter().position(is_behind).unwrap_or(told.len());
                    told.insert(at, (*ours).to_owned());
                }
                None => problems.push(format!("  nginx does not tell {theirs:?}\n")),
            }
        }
        problems.extend(line_difference(&told, &freerun.told).map(|lines| format!("  told:\n{lines}")));
        if !ask.log_differs && ask.differs.is_none() {
            let logged = line_difference(&nginx.logged, &freerun.logged);
            problems.extend(logged.map(|lines| format!("  logged:\n{lines}")));
        }
        if shows() {
            println!(
                "{}\n  => {:?}\n  {:?}\n  {:?}",
                ask.request.escape_ascii(),
                freerun.exchange.line(),
                freerun.told,
                freerun.logged
            );
        }
        let (request, answer) = (ask.request.escape_ascii(), ask.answer.escape_ascii());
        report.add(format_args!("\"{request}\" answered with \"{answer}\""), all_differences(&problems));
    }
    report.finish();
}
