//! Cases with a server behind the servers that are compared: it answers what the case says, and what it was asked is
//! compared too, byte by byte.

use std::sync::{Arc, Mutex};

use freerun_testkit::{AnsweringUpstream, Kind, ReceivedRequest, Setup, Site, TestServer, TestUpstream};

use crate::exchange::{Exchange, text_with_name, text_without_ports};
use crate::harness::{Case, exchange};
use crate::runner::{Both, Report, all_differences, both, shows};
use crate::site::site;

/// What makes nginx 1.22 speak as today's does.
pub const TODAY: &str = "proxy_http_version 1.1; proxy_set_header Connection \"\";";

/// A case, and what the server behind answers.
pub struct Proxied {
    case: Case,
    answer: Vec<u8>,
    sent_differs: Option<&'static str>,
    without: &'static [&'static str],
}

/// A case that is answered with `ok`.
pub fn passed(case: Case) -> Proxied {
    answered(case, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
}

/// A case that is answered with exactly these bytes.
pub fn answered(case: Case, answer: impl AsRef<[u8]>) -> Proxied {
    Proxied { case, answer: answer.as_ref().to_vec(), sent_differs: None, without: &[] }
}

/// A case that is answered with these fields and a body of two bytes.
pub fn with_fields(case: Case, status: &str, fields: &[&str]) -> Proxied {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    answered(case, format!("HTTP/1.1 {status}\r\n{fields}Content-Length: 2\r\n\r\nok"))
}

impl Proxied {
    /// Fields of the response that are not compared: both have them by the time.
    pub fn without(mut self, fields: &'static [&'static str]) -> Proxied {
        self.without = fields;
        self
    }

    /// The two ask the server behind in different ways, for this reason; what the client gets has to agree all the same.
    pub fn asks_otherwise(mut self, reason: &'static str) -> Proxied {
        assert!(!reason.is_empty());
        self.sent_differs = Some(reason);
        self
    }
}

/// One of the two, with the server behind it.
struct Side {
    server: TestServer,
    behind: AnsweringUpstream,
    answer: Arc<Mutex<Vec<u8>>>,
    _site: Site,
}

impl Side {
    fn start(kind: Kind, http: &str, lines: &str) -> Side {
        let answer = Arc::new(Mutex::new(Vec::new()));
        let says = answer.clone();
        let behind = TestUpstream::answering(move |_| says.lock().expect("the answer").clone());
        let with_address = |text: &str| text.replace("@UP@", behind.address()).replace("@UPPORT@", port(&behind));
        let site = site();
        let setup = Setup::server(&site, &with_address(lines)).http(&with_address(http));
        Side { server: setup.start(kind), behind, answer, _site: site }
    }

    fn run(&self, one: &Proxied, ports: &Ports) -> (Exchange, Vec<String>) {
        *self.answer.lock().expect("the answer") = with_port(&one.answer, port(&self.behind));
        let mut got = exchange(&self.server, &one.case, &ports.servers);
        got.forget_ports(&ports.behind, "BEHIND");
        got.forget_server_of_cut();
        got.forget_fields(one.without);
        let asked = self.behind.take_requests().iter().map(|request| ports.shown(request)).collect();
        (got, asked)
    }
}

/// The ports of two servers that are compared, and of the servers behind them.
pub struct Ports {
    pub servers: [u16; 2],
    pub behind: [u16; 2],
}

impl Ports {
    /// Of these servers, each with the one behind it.
    pub fn of(pairs: [(&TestServer, &AnsweringUpstream); 2]) -> Ports {
        Ports {
            servers: pairs.map(|(server, _)| server.port()),
            behind: pairs.map(|(_, behind)| port(behind).parse().expect("a port")),
        }
    }

    /// What a server behind was asked, without them.
    pub fn shown(&self, request: &ReceivedRequest) -> String {
        let head = text_without_ports(&request.head, &self.servers);
        let head = text_with_name(&head, &self.behind, "UPPORT");
        format!("{} {}", head.escape_debug(), request.body.escape_ascii())
    }
}

fn port(behind: &AnsweringUpstream) -> &str {
    behind.address().rsplit(':').next().expect("a port")
}

/// `answer` with the port in place of `UPPORT`.
fn with_port(answer: &[u8], port: &str) -> Vec<u8> {
    match answer.windows(6).position(|six| six == b"UPPORT") {
        Some(at) => [&answer[..at], port.as_bytes(), &answer[at + 6..]].concat(),
        None => answer.to_vec(),
    }
}

/// Runs the cases against both. `@UP@` in the lines is the address of the server behind, `@UPPORT@` its port, `UPPORT` in an
/// answer too.
#[track_caller]
pub fn compare_proxied(http: &str, lines: &str, cases: Vec<Proxied>) {
    let http = format!("{TODAY}\n{http}");
    let Some(sides) = both(|kind| Side::start(kind, &http, lines)) else { return };
    let ports = Ports::of([&sides.nginx, &sides.freerun].map(|side| (&side.server, &side.behind)));
    let mut report = Report::default();
    for one in &cases {
        let name = one.case.shown();
        let Both { nginx: (theirs, their_requests), freerun: (ours, our_requests) } =
            sides.each(|side| side.run(one, &ports));
        if shows() {
            println!("{name}\n  asked {our_requests:?}\n  {ours:?}");
        }
        let mut problems = Vec::from_iter(one.case.judge(|| theirs, &ours));
        let agrees = our_requests == their_requests;
        if one.sent_differs.is_none() && !agrees {
            problems.push(format!("  asked - {their_requests:#?}\n  asked + {our_requests:#?}\n"));
        }
        if let Some(reason) = one.sent_differs.filter(|_| agrees && Kind::under_test() == Kind::Freerun) {
            problems.push(format!("  asked the same, though: {reason}\n"));
        }
        let answer = &one.answer[..one.answer.len().min(300)];
        report.add(format_args!("\"{name}\", answered \"{}\"", answer.escape_ascii()), all_differences(&problems));
    }
    drop(sides);
    report.finish();
}
