//! What is stored, for how long, for whom, and what comes of it: the same story told to both servers, each with an origin of its
//! own that answers what the story says, step by step, and a cache of its own in the server's folder.
//!
//! Every answer says how often the origin was asked for that path (`@N@`), so a stored response is told from a fetched one by its
//! body, whatever the servers say of it; what the origin was asked is compared too. No story waits for a time to pass: what is to be
//! stale is stored with `X-Accel-Expires` in the past, which nginx stores as it is.

mod checks;
mod clients;
mod gateways;
mod ignored;
mod keys;
mod locks;
mod revalidated;
mod settings;
mod space;
mod stale;
mod validity;
mod variants;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use freerun_testkit::{
    AnsweringUpstream, Kind, PATIENCE, ReceivedRequest, Setup, TestServer, TestUpstream, eventually, within,
};

use crate::exchange::{Exchange, difference};
use crate::harness::{Case, exchange, get};
use crate::runner::{Report, all_differences, both, shows};
use crate::t13_proxy::proxied::{Ports, TODAY};

/// Stored, and no longer fresh, from the beginning.
pub const STALE: &str = "X-Accel-Expires: @1000000000";

/// Stored for long.
pub const FRESH: &str = "Cache-Control: max-age=1000";

/// What every story's cache has; `@DIR@` is the server's own folder.
const CACHE: &str = "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=z:1m;
    add_header X-Cache $upstream_cache_status always;";

/// What the origin answers.
#[derive(Clone, Default)]
pub struct Answer {
    bytes: Vec<u8>,
    /// To a request with a condition.
    unchanged: Option<Vec<u8>>,
}

impl From<&str> for Answer {
    fn from(text: &str) -> Answer {
        Answer { bytes: text.into(), unchanged: None }
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        text.as_str().into()
    }
}

/// A response of 200 with these fields and a body that tells how often the origin was asked.
pub fn ok(fields: &[&str]) -> Answer {
    status("200 OK", fields)
}

/// A response with this status and these fields, and a body that tells how often the origin was asked.
pub fn status(line: &str, fields: &[&str]) -> Answer {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    format!("HTTP/1.1 {line}\r\n{fields}Content-Length: 13\r\n\r\nanswer no @N@").into()
}

/// The origin closes the connection without a word.
pub fn dead() -> Answer {
    Answer::default()
}

impl Answer {
    /// What is said to a request with `If-None-Match` or `If-Modified-Since`.
    pub fn unchanged(mut self, line: &str, fields: &[&str]) -> Answer {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.unchanged = Some(format!("HTTP/1.1 {line}\r\n{fields}\r\n").into_bytes());
        self
    }

    fn to(&self, request: &ReceivedRequest, number: usize) -> Vec<u8> {
        let asks = ["If-None-Match", "If-Modified-Since"].iter().any(|name| request.header(name).is_some());
        let bytes = self.unchanged.as_ref().filter(|_| asks).unwrap_or(&self.bytes);
        let mut bytes = bytes.clone();
        // Every try has a connection of its own: one that was used before would be tried again where the origin is dead.
        if let Some(end) = bytes.windows(2).position(|two| two == b"\r\n")
            && !bytes.windows(13).any(|some| some == b"\r\nConnection:")
        {
            bytes.splice(end..end, *b"\r\nConnection: close");
        }
        if let Some(at) = bytes.windows(3).position(|three| three == b"@N@") {
            bytes.splice(at..at + 3, format!("{number:03}").into_bytes());
        }
        bytes
    }
}

/// One request, and what the origin says if it is asked.
pub struct Step {
    case: Case,
    answer: Answer,
    /// The origin will have been asked so many times, perhaps after the client has its answer.
    asked: Option<usize>,
    /// The request is made again until this line is in what comes back.
    until: Option<&'static str>,
    /// The request is made when freerun has stored the responses before, which is a moment after their clients have them.
    when_stored: bool,
    /// The two are to disagree, for this reason, and freerun's has these lines.
    instead: Option<(&'static str, &'static [&'static str])>,
}

impl Step {
    /// See [`Step::asked`](struct@Step).
    pub fn asked(mut self, times: usize) -> Step {
        self.asked = Some(times);
        self
    }

    /// See [`Step::until`](struct@Step).
    pub fn until(mut self, line: &'static str) -> Step {
        self.until = Some(line);
        self
    }

    /// See [`Step::when_stored`](struct@Step).
    pub fn when_stored(mut self) -> Step {
        self.when_stored = true;
        self
    }

    /// See [`Step::instead`](struct@Step).
    pub fn instead(mut self, reason: &'static str, lines: &'static [&'static str]) -> Step {
        assert!(!reason.is_empty());
        self.instead = Some((reason, lines));
        self
    }
}

/// A step.
pub fn step(case: Case, answer: impl Into<Answer>) -> Step {
    Step { case, answer: answer.into(), asked: None, until: None, when_stored: false, instead: None }
}

/// Two steps of one GET, which tell whether it is stored.
pub fn twice(target: &str, answer: impl Into<Answer>) -> Vec<Step> {
    let answer = answer.into();
    vec![step(get(target), answer.clone()), step(get(target), answer)]
}

/// Stories about one configuration: each has a target of its own.
pub struct Stories {
    http: String,
    lines: String,
    stories: Vec<Vec<Step>>,
    /// The names of the stored files are compared.
    names: bool,
    /// Not even their number is, for this reason.
    files_differ: Option<&'static str>,
}

impl Stories {
    /// `lines` are those of the server; `@UP@` in them is the origin's address. The directives of `http` come after the cache `z`.
    pub fn new(http: &str, lines: &str) -> Stories {
        Stories {
            http: http.to_owned(),
            lines: lines.to_owned(),
            stories: Vec::new(),
            names: false,
            files_differ: None,
        }
    }

    /// `/a` is cached for as long as the origin says.
    pub fn plain() -> Stories {
        Stories::new("", "location /a { proxy_pass http://@UP@; proxy_cache z; }")
    }

    /// See [`Stories::names`](struct@Stories): the keys have nothing in them that differs by nature.
    pub fn names(mut self) -> Stories {
        self.names = true;
        self
    }

    /// See [`Stories::files_differ`](struct@Stories).
    pub fn files_differ(mut self, reason: &'static str) -> Stories {
        assert!(!reason.is_empty());
        self.files_differ = Some(reason);
        self
    }

    /// A story about a target of its own under `location`.
    pub fn tell(&mut self, location: &str, story: impl FnOnce(&str) -> Vec<Step>) {
        let target = format!("{location}/{}", self.stories.len());
        self.stories.push(story(&target));
    }

    /// A story in which the same GET comes twice.
    pub fn twice(&mut self, location: &str, answer: impl Into<Answer>) {
        self.tell(location, |target| twice(target, answer));
    }

    /// Tells them to both servers.
    #[track_caller]
    pub fn compare(self) {
        let Some(sides) = both(|kind| Side::start(kind, &self)) else { return };
        let ports = Ports::of([&sides.nginx, &sides.freerun].map(|side| (&side.server, &side.origin)));
        let mut report = Report::default();
        for story in &self.stories {
            let mut problems = Vec::new();
            for (number, step) in story.iter().enumerate() {
                let mut outcomes = sides.each(|side| side.take(step, &ports));
                if shows() {
                    println!("{}\n  {:?}", step.case.shown(), outcomes.freerun);
                }
                if let Some(why) = differs(step, &mut outcomes.nginx, &mut outcomes.freerun) {
                    problems.push(format!("step {}: \"{}\"\n{why}", number + 1, step.case.shown()));
                }
            }
            let answer = story.first().map_or(&[][..], |step| &step.answer.bytes);
            report.add(format_args!("answered first \"{}\"", answer.escape_ascii()), all_differences(&problems));
        }
        // Where the key has the origin's port in it, the number of the files says what can be said.
        let compared = self.files_differ.is_none() && self.stories.iter().flatten().all(|step| step.instead.is_none());
        if compared {
            let mut files = sides.each(Side::stored);
            // Files come and go behind the answers.
            let same = within(PATIENCE, || {
                files = sides.each(Side::stored);
                if self.names { files.nginx == files.freerun } else { files.nginx.len() == files.freerun.len() }
            });
            let difference = || format!("  - {:?}\n  + {:?}\n", files.nginx, files.freerun);
            report.add("files of the cache", (!same).then(difference));
        }
        drop(sides);
        report.finish();
    }
}

/// What came of a step.
#[derive(Debug)]
struct Outcome {
    exchange: Exchange,
    /// What the origin was asked.
    asked: Vec<String>,
}

fn differs(step: &Step, theirs: &mut Outcome, ours: &mut Outcome) -> Option<String> {
    if let Some((reason, lines)) = step.instead.filter(|_| Kind::under_test() == Kind::Freerun) {
        let shown = format!("{:?}", ours.exchange);
        let missing: Vec<_> = lines.iter().filter(|line| !ours.exchange.has(line)).collect();
        return (!missing.is_empty()).then(|| format!("  wanted {missing:?} ({reason})\n  + {shown}\n"));
    }
    // What is stored has a length, which freerun tells though the origin did not.
    ours.exchange.forget_known_lengths(&mut theirs.exchange);
    if theirs.exchange.line().contains(" 412 ") {
        // nginx gives up the origin's response, and closes; freerun stores it.
        theirs.exchange.forget_end();
        ours.exchange.forget_end();
    }
    let mut problems = Vec::from_iter(difference(&theirs.exchange, &ours.exchange));
    if theirs.asked != ours.asked {
        problems.push(format!("  asked - {:#?}\n  asked + {:#?}\n", theirs.asked, ours.asked));
    }
    all_differences(&problems)
}

/// What [`until_ready`] asks, as a line of the server.
pub fn status_for(kind: Kind) -> &'static str {
    if kind == Kind::Freerun { "location = /status { access_log off; status; }" } else { "" }
}

/// Waits for the caches: freerun answers before it has opened them, and stores nothing then; nginx opens them before.
pub fn until_ready(server: &TestServer) {
    if server.kind() == Kind::Freerun {
        eventually("the caches are ready", || {
            let status = server.status();
            let mut caches = status["caches"].as_array().into_iter().flatten();
            caches.all(|cache| cache["state"] == "ready")
        });
    }
}

/// One of the two, with its origin and its cache.
struct Side {
    server: TestServer,
    origin: AnsweringUpstream,
    answer: Arc<Mutex<Answer>>,
}

impl Side {
    fn start(kind: Kind, stories: &Stories) -> Side {
        let answer = Arc::new(Mutex::new(Answer::default()));
        let (says, asked) = (answer.clone(), Mutex::new(HashMap::new()));
        let origin = TestUpstream::answering(move |request| {
            let path = request.target().split('?').next().unwrap_or_default().to_owned();
            let mut asked = asked.lock().expect("the counters");
            let number = asked.entry(path).or_insert(0);
            *number += 1;
            says.lock().expect("the answer").to(request, *number)
        });
        let lines = stories.lines.replace("@UP@", origin.address());
        let http = stories.http.replace("@UP@", origin.address());
        let status = status_for(kind);
        let server = Setup::new()
            .http(&format!(
                "{TODAY}\n{CACHE}\n{http}\nserver {{ listen 127.0.0.1:@PORT@; server_name localhost; \
                 location = /probe {{ return 204; }} {status} {lines} }}"
            ))
            .start(kind);
        until_ready(&server);
        Side { server, origin, answer }
    }

    fn take(&self, step: &Step, ports: &Ports) -> Outcome {
        *self.answer.lock().expect("the answer") = step.answer.clone();
        if step.when_stored && self.server.kind() == Kind::Freerun {
            eventually("nothing is being fetched", || {
                let status = self.server.status();
                let mut caches = status["caches"].as_array().into_iter().flatten();
                caches.all(|cache| cache["fills"]["now"] == 0)
            });
        }
        let mut got = exchange(&self.server, &step.case, &ports.servers);
        if let Some(line) = step.until {
            eventually(&format!("{line} in the answer to {}", step.case.shown()), || {
                got = exchange(&self.server, &step.case, &ports.servers);
                got.has(line)
            });
        }
        got.forget_ports(&ports.behind, "ORIGIN");
        got.forget_server_of_cut();
        let mut asked = self.origin.take_requests();
        if let Some(times) = step.asked {
            eventually(&format!("the origin is asked {times} times for {}", step.case.shown()), || {
                asked.extend(self.origin.take_requests());
                asked.len() >= times
            });
        }
        Outcome { exchange: got, asked: asked.iter().map(|request| ports.shown(request)).collect() }
    }

    /// The names of the stored files, below the cache's folder.
    fn stored(&self) -> Vec<String> {
        stored(&self.server.path("cache"))
    }
}

/// The names of the stored files below a cache's folder.
fn stored(cache: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![cache.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                let below = path.strip_prefix(cache).expect("below the cache");
                names.push(below.to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    names
}
