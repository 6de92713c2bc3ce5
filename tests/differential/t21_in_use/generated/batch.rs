//! Many generated servers in one configuration, run by nginx and by freerun.

use super::config::{Node, print};
use super::requests::{Request, bytes};
use crate::exchange::{Exchange, difference, text_without_ports};
use crate::harness::{Spoken, WAIT};
use crate::runner::{Both, both, same_words};
use freerun_testkit::{Kind, PATIENCE, ProgramOutput, Setup, Site, TempDir, TestClient, TestServer, check, within};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What stands in a `server` block, and what is said to it, a connection each.
#[derive(Clone, Debug)]
pub struct Case {
    pub nodes: Vec<Node>,
    pub connections: Vec<Vec<Request>>,
}

/// Cases that share a configuration, and its lines in `http`.
#[derive(Clone, Debug)]
pub struct Batch {
    pub http: Vec<Node>,
    pub cases: Vec<Case>,
}

/// Where the two did not agree, by case.
#[derive(Debug, Default)]
pub struct Findings {
    /// What they said to the configuration, where that differed.
    pub verdicts: BTreeMap<usize, String>,
    /// The connection, and what differed.
    pub answers: Vec<(usize, usize, String)>,
    /// Both refused these, in the same words.
    pub refused: BTreeSet<usize>,
    /// How many connections were compared.
    pub compared: usize,
}

/// The variables of a line in the access log; the first two are looked at by themselves.
const LOGGED: &[&str] = &[
    "remote_port",
    "body_bytes_sent",
    "status",
    "request",
    "server_name",
    "host",
    "uri",
    "args",
    "request_filename",
    "document_root",
    "remote_user",
    "request_length",
    "sent_http_content_encoding",
    "sent_http_transfer_encoding",
    "http_user_agent",
    "connection_requests",
    "u1",
    "u2",
    "request_method",
    "server_protocol",
];

/// Differences that are known: words of the configuration, a part of what is said to it, and why.
const KNOWN: &[(&[&str], &str, &str)] = &[
    (
        &["$realpath_root"],
        "",
        "what is not in the kernel's cache of names yet is told as it is written: a variable cannot wait",
    ),
    (
        &["disable_symlinks"],
        "/secret",
        "nginx opens files to look at them then, and those that may not be read are not there",
    ),
    (&["alias ", "try_files"], "", "what is left of a path may be empty, and nginx looks at the byte before it"),
    (&["expires @"], "", "the second may have passed between the two answers"),
    (&["open_file_cache"], "/secret", "the same for what is kept open"),
    (
        &["directio", "output_buffers 1 1;"],
        "",
        "nginx reads nothing directly with a buffer of a byte, and closes the connection",
    ),
    (&["msie_refresh"], "If-", "nginx judges the conditions of the page that refreshes, which is no resource"),
    (
        &["auth_request", "if ($arg_a", "index"],
        "",
        "what an `if` of a subrequest made of $arg_a stays with nginx's request",
    ),
];

/// How many bytes longer freerun's built-in pages are for its name.
const NAME: i64 = "freerun".len() as i64 - "nginx".len() as i64;

/// The length of `100 Continue`.
const CONTINUE: i64 = "HTTP/1.1 100 Continue\r\n\r\n".len() as i64;

fn host(case: usize) -> String {
    format!("h{case}.example")
}

/// The configuration's text; the servers' insides are in files of their own, so that an error names the server.
fn text(kind: Kind, dir: &TempDir, left_out: &BTreeSet<usize>, count: usize) -> String {
    let dir = dir.path().display();
    let mut text =
        "daemon off;\npid @DIR@/server.pid;\nworker_processes 1;\nerror_log @DIR@/error.log info;\n".to_owned();
    text += "events { worker_connections 512; }\nhttp {\n";
    let format: Vec<String> = LOGGED.iter().map(|name| format!("${name}")).collect();
    text += &format!("log_format generated '{}';\naccess_log @DIR@/access.log generated;\n", format.join("\t"));
    text += "client_body_temp_path @DIR@/body;\nserver_tokens off;\nlingering_close always;\n";
    text += "charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; }\n";
    text += "server_names_hash_max_size 4096;\nserver_names_hash_bucket_size 128;\nuninitialized_variable_warn off;\n";
    if kind == Kind::Nginx {
        for module in ["proxy", "fastcgi", "uwsgi", "scgi"] {
            text += &format!("{module}_temp_path @DIR@/{module};\n");
        }
    }
    text += "upstream back { server 127.0.0.1:@PORT2@; }\n";
    text += "server { listen 127.0.0.1:@PORT2@; root @ROOT@; access_log off; port_in_redirect off;\n";
    text += "location /one { return 200 \"one $request_method $uri $args $http_x_a\"; }\n";
    text += "location /two { add_header X-B b; add_header Cache-Control no-store; return 302 /three; }\n";
    text += "location /none { return 404 none; } location /dir { add_header X-A a always; } }\n";
    text += &format!("include {dir}/http.conf;\n");
    // The variables have to be made somewhere.
    text += "server { listen 127.0.0.1:@PORT@; server_name default.example;\n";
    text += "location / { set $u1 \"\"; set $u2 \"\"; if ($uri ~ (?<rest>never)) { } return 404; } }\n";
    for case in (0..count).filter(|case| !left_out.contains(case)) {
        text += &format!("server {{ listen 127.0.0.1:@PORT@; include {dir}/s{case}.conf; }}\n");
    }
    text + "}\n"
}

/// Of what `-t` says, the first error.
fn first_error(checked: &ProgramOutput) -> Option<String> {
    let mut lines = checked.stderr.lines().filter_map(|line| line.split_once("[emerg] "));
    match lines.next() {
        Some((_, words)) => Some(words.to_owned()),
        None => (checked.code != Some(0)).then(|| format!("{:?} {}", checked.code, checked.stderr)),
    }
}

/// The case whose file an error names.
fn case_of(words: &str) -> Option<usize> {
    let (_, after) = words.rsplit_once("/s")?;
    after.split_once(".conf:")?.0.parse().ok()
}

impl Case {
    /// Whether the server itself may answer, before a location is chosen.
    fn answers_early(&self) -> bool {
        self.nodes.iter().any(|node| ["return", "rewrite", "if"].contains(&node.name()))
    }
}

impl Batch {
    /// Runs it.
    pub fn run(&self, site: &Site) -> Findings {
        let dir = TempDir::new("generated");
        let write = |name: String, nodes: &[Node], host: &str| {
            let mut text = String::new();
            print(nodes, 0, &mut text);
            let text = text.replace("@ROOT@", &site.path().display().to_string()).replace("@HOST@", host);
            fs::write(dir.path().join(name), text).expect("a file for a server");
        };
        write("http.conf".into(), &self.http, "");
        for (number, case) in self.cases.iter().enumerate() {
            write(format!("s{number}.conf"), &case.nodes, &host(number));
        }
        let mut findings = Findings::default();
        let mut left_out = BTreeSet::new();
        self.verdicts(&dir, &mut findings, &mut left_out);
        if left_out.len() == self.cases.len() {
            return findings;
        }
        let setup = |kind| Setup::whole(&text(kind, &dir, &left_out, self.cases.len())).root(site);
        let Some(servers) = both(|kind| setup(kind).start(kind)) else { return findings };
        let own_ports = servers.ports();
        let Both { nginx, freerun } = servers;
        let mut ports = Vec::new();
        for (number, case) in self.cases.iter().enumerate().filter(|(number, _)| !left_out.contains(number)) {
            for (at, connection) in case.connections.iter().enumerate() {
                let (mut theirs, their_port) = exchange(&nginx, connection, &host(number), &own_ports);
                let (mut ours, our_port) = exchange(&freerun, connection, &host(number), &own_ports);
                if theirs.was_reset() {
                    ours.cut(theirs.count());
                    theirs.cut(theirs.count());
                }
                if theirs.contradicts_itself() && theirs.count() <= ours.count() {
                    // After a 412 of a filter, for one. freerun keeps its word.
                    ours.cut(theirs.count());
                    theirs.cut(theirs.count());
                    theirs.forget_keep_alive(&mut ours);
                }
                findings.compared += 1;
                if self.answers_early(number, connection) {
                    // nginx says keep-alive before it has looked at the location's settings, and may close all the same.
                    theirs.forget_keep_alive(&mut ours);
                }
                if theirs != ours {
                    theirs.forget_digits(&own_ports);
                    ours.forget_digits(&own_ports);
                }
                match difference(&theirs, &ours) {
                    None => ports.push((number, at, their_port, our_port)),
                    Some(_) if self.is_known(number, connection) => {}
                    Some(told) => findings.answers.push((number, at, told)),
                }
            }
        }
        let known = |(case, at, _): &(usize, usize, String)| self.is_known(*case, &self.cases[*case].connections[*at]);
        let differing = within_time(|| {
            let mut differing = differing_logs(&nginx, &freerun, &ports, |case, at| {
                let connection = &self.cases[case].connections[at];
                (self.answers_early(case, connection), connection.iter().any(Request::is_chunked))
            });
            differing.retain(|found| !known(found));
            differing
        });
        findings.answers.extend(differing);
        findings
    }

    /// Whether a difference is one of those that are known.
    fn is_known(&self, case: usize, connection: &[Request]) -> bool {
        let mut text = String::new();
        print(&self.http, 0, &mut text);
        print(&self.cases[case].nodes, 0, &mut text);
        let said = String::from_utf8_lossy(&bytes(connection, "")).into_owned();
        let asks_for = |text: &str| said.contains(text);
        KNOWN.iter().any(|(words, path, _)| words.iter().all(|word| text.contains(word)) && asks_for(path))
    }

    /// Whether a server itself may answer a connection's requests. Some names lead to any server that has them.
    fn answers_early(&self, case: usize, connection: &[Request]) -> bool {
        let elsewhere = |request: &Request| request.fields.iter().any(|field| field.starts_with("Host: www."));
        let takes_all = |case: &&Case| case.nodes.iter().any(|node| node.text.starts_with("server_name www."));
        self.cases[case].answers_early()
            || connection.iter().any(elsewhere) && self.cases.iter().filter(takes_all).any(Case::answers_early)
    }

    /// Leaves out the cases that one of the two refuses, until both take the configuration.
    fn verdicts(&self, dir: &TempDir, findings: &mut Findings, left_out: &mut BTreeSet<usize>) {
        let all: BTreeSet<usize> = (0..self.cases.len()).collect();
        let short = |words: Option<String>| words.unwrap_or_default().replace(&dir.path().display().to_string(), "");
        // Each turn leaves one out.
        while left_out.len() < all.len() {
            let said = |kind, left_out: &BTreeSet<usize>| {
                first_error(&check(kind, &text(kind, dir, left_out, all.len())).expect("it starts"))
            };
            let Some(Both { nginx, freerun }) = both(|kind| said(kind, left_out)) else { return };
            let place = |words: &Option<String>| words.as_deref().and_then(case_of);
            let case = match (place(&nginx), place(&freerun)) {
                (None, None) if nginx.is_none() && freerun.is_none() => return,
                (Some(one), Some(other)) => one.min(other),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => match all.difference(left_out).next() {
                    Some(first) => *first,
                    None => return,
                },
            };
            left_out.insert(case);
            // With several errors in several servers, the two may find another one first.
            let others: BTreeSet<usize> = all.iter().copied().filter(|other| *other != case).collect();
            let Some(Both { nginx, freerun }) = both(|kind| short(said(kind, &others))) else { return };
            // Locations are compared when all else is right.
            let later = freerun.starts_with("duplicate location") && !nginx.is_empty();
            if same_words(&nginx, &freerun) || later {
                findings.refused.insert(case);
            } else {
                findings.verdicts.insert(case, format!("  - {nginx}\n  + {freerun}\n"));
            }
        }
    }
}

/// Says it to a server; with the client's port.
fn exchange(server: &TestServer, requests: &[Request], host: &str, ports: &[u16]) -> (Exchange, u16) {
    let mut client: TestClient = server.connect();
    let port =
        client.socket().local_addr().ok().and_then(|address| address.as_socket()).map_or(0, |address| address.port());
    let bytes = bytes(requests, host);
    let methods: Vec<String> = requests.iter().map(|request| request.method.clone()).collect();
    let spoken = Spoken { bytes: &bytes, methods: &methods, wanted: requests.len(), in_order: true, wait: WAIT };
    (spoken.over(&mut client, ports), port)
}

/// A line of the log: its fields.
type Line = Vec<String>;

/// The log's lines by the port of the client.
fn log(server: &TestServer, ports: &[u16]) -> BTreeMap<String, Vec<Line>> {
    let mut lines: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let dir = server.path("").display().to_string();
    for line in server.access_log().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields.len() != LOGGED.len() {
            // Half of it is still to be written.
            continue;
        }
        // They may stand between other digits.
        let without_ports = |field: &str| {
            if field.contains("0123456789") {
                text_without_ports(field, ports)
            } else {
                ports.iter().fold(field.to_owned(), |field, port| field.replace(&port.to_string(), "PORT"))
            }
        };
        let rest = fields[1..].iter().map(|field| without_ports(&field.replace(&dir, "DIR/"))).collect();
        lines.entry(fields[0].to_owned()).or_default().push(rest);
    }
    lines
}

/// The fields that differ.
fn line_difference(theirs: &Line, ours: &Line, chunked: bool) -> String {
    let number = |line: &Line| line[0].parse::<i64>().unwrap_or(-1);
    // nginx takes `100 Continue` for a part of the body.
    // How a body is compressed, and cut into chunks, is one's own affair.
    let packed = LOGGED[1..].iter().zip(ours).any(|(name, value)| name.ends_with("_encoding") && value != "-");
    let page = packed || {
        // A page may be made of several.
        let longer = number(ours) - number(theirs);
        [longer, longer + CONTINUE].iter().any(|longer| (0..=4).any(|pages| *longer == pages * NAME))
    };
    let fields = LOGGED[1..].iter().zip(theirs.iter().zip(ours)).skip(usize::from(page));
    let protocol = &ours[LOGGED.len() - 2];
    let file = LOGGED.iter().position(|name| *name == "request_filename");
    let ours_file = file.map_or("", |file| &ours[file - 1]);
    let allowed = |name: &str| match name {
        // Of a line that was not understood: empty, or not there.
        "server_protocol" => protocol == "-",
        // Of a line that was not understood nginx knows what had come of it.
        "request" => protocol == "-" && ours[2].starts_with(&theirs[2]),
        // nginx loses count where a chunked body is followed by more, even below zero.
        "request_length" => chunked,
        // Empty or not there: it is both in nginx, depending on what came before.
        "args" => theirs[6].trim_matches('-') == ours[6].trim_matches('-'),
        // A URI without a slash in front names a file beside the root in nginx, and none here.
        "request_filename" => ours_file.starts_with("/dev/null/"),
        _ => false,
    };
    let differing = fields.filter(|(name, (theirs, ours))| theirs != ours && !allowed(name));
    differing.map(|(name, (theirs, ours))| format!("  - log ${name}: {theirs}\n  + log ${name}: {ours}\n")).collect()
}

/// Lines may come after the responses: what differs is looked at again, for as long as a busy machine may take.
fn within_time<T>(mut look: impl FnMut() -> Vec<T>) -> Vec<T> {
    let mut differing = Vec::new();
    within(PATIENCE, || {
        differing = look();
        differing.is_empty()
    });
    differing
}

fn differing_logs(
    nginx: &TestServer,
    freerun: &TestServer,
    ports: &[(usize, usize, u16, u16)],
    known: impl Fn(usize, usize) -> (bool, bool),
) -> Vec<(usize, usize, String)> {
    let mut differing = Vec::new();
    let own_ports = [nginx.port(), freerun.port()];
    let (mut nginx, mut freerun) = (log(nginx, &own_ports), log(freerun, &own_ports));
    // A port may be taken a second time.
    let again = |port: u16, of: fn(&(usize, usize, u16, u16)) -> u16| {
        ports.iter().filter(|entry| of(entry) == port).count() > 1
    };
    for (case, at, their_port, our_port) in ports {
        if again(*their_port, |entry| entry.2) || again(*our_port, |entry| entry.3) {
            continue;
        }
        let theirs = nginx.remove(&their_port.to_string()).unwrap_or_default();
        let ours = freerun.remove(&our_port.to_string()).unwrap_or_default();
        let (early, chunked) = known(*case, *at);
        // See where the answers were compared.
        let kept_open = theirs.len() < ours.len() || early;
        let text = if theirs.len() == ours.len() || kept_open {
            theirs.iter().zip(&ours).map(|(theirs, ours)| line_difference(theirs, ours, chunked)).collect()
        } else {
            format!("  - log: {} lines {theirs:?}\n  + log: {} lines {ours:?}\n", theirs.len(), ours.len())
        };
        if !text.is_empty() {
            differing.push((*case, *at, text));
        }
    }
    differing
}
