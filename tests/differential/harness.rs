//! Runs a group of cases against both servers and compares what came back; `exchange.rs` says what of it counts.

use crate::exchange::{Exchange, comparable, difference, lines};
use crate::runner::{self, Report};
use freerun_testkit::{Kind, Setup, TestClient, TestServer, methods};
use std::time::Duration;

/// One exchange on a connection of its own.
pub struct Case {
    bytes: Vec<u8>,
    fields: String,
    body: Vec<u8>,
    responses: usize,
    eof: bool,
    raw: bool,
    differs: Option<(&'static str, &'static str)>,
    stays_open: bool,
    in_order: bool,
}

/// A GET over HTTP/1.1.
pub fn get(target: &str) -> Case {
    request("GET", target)
}

/// A HEAD over HTTP/1.1.
pub fn head(target: &str) -> Case {
    request("HEAD", target)
}

/// A request over HTTP/1.1 with `Host: localhost`.
pub fn request(method: &str, target: &str) -> Case {
    Case { fields: "Host: localhost\r\n".into(), raw: false, ..raw(format!("{method} {target} HTTP/1.1\r\n")) }
}

/// Exactly these bytes.
pub fn raw(bytes: impl AsRef<[u8]>) -> Case {
    Case {
        bytes: bytes.as_ref().to_vec(),
        fields: String::new(),
        body: Vec::new(),
        responses: 1,
        eof: false,
        raw: true,
        differs: None,
        stays_open: false,
        in_order: false,
    }
}

impl Case {
    /// A further header line.
    pub fn field(mut self, line: &str) -> Case {
        self.fields.push_str(line);
        self.fields.push_str("\r\n");
        self
    }

    /// Bytes behind the head.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Case {
        self.body = body.as_ref().to_vec();
        self
    }

    /// How many responses to read before looking whether the connection is still open.
    pub fn responses(mut self, count: usize) -> Case {
        self.responses = count;
        self
    }

    /// The client ends its sending side; everything up to the server's end is compared.
    pub fn eof(mut self) -> Case {
        self.eof = true;
        self
    }

    /// The two are to disagree: freerun answers with this status line (`""`: closes without a word), for this reason.
    pub fn differs(mut self, reason: &'static str, line: &'static str) -> Case {
        assert!(!reason.is_empty());
        self.differs = Some((reason, line));
        self
    }

    /// nginx closes here, freerun goes on, for this reason; everything else has to agree.
    pub fn stays_open(mut self, reason: &'static str) -> Case {
        assert!(!reason.is_empty());
        self.stays_open = true;
        self
    }

    /// The order of the header fields counts too.
    pub fn in_order(mut self) -> Case {
        self.in_order = true;
        self
    }

    /// What is wrong with what freerun has answered.
    pub fn judge(&self, theirs: impl FnOnce() -> Exchange, ours: &Exchange) -> Option<String> {
        match self.differs {
            Some(_) if Kind::under_test() == Kind::Nginx => None,
            Some((reason, line)) => {
                let got = ours.responses.first().map_or("", |response| response.line.as_str());
                (got != line).then(|| format!("  wanted {line:?} ({reason})\n  + {}\n", lines(ours).join("\n  + ")))
            }
            None => {
                let mut theirs = theirs();
                if self.stays_open && Kind::under_test() == Kind::Freerun {
                    theirs.end = "open".to_owned();
                }
                difference(&theirs, ours)
            }
        }
    }

    /// How it begins, to be shown.
    pub fn shown(&self) -> String {
        let bytes = self.all_bytes();
        bytes[..bytes.len().min(300)].escape_ascii().to_string()
    }

    fn all_bytes(&self) -> Vec<u8> {
        let end: &[u8] = if self.raw { b"" } else { b"\r\n" };
        [&self.bytes, self.fields.as_bytes(), end, &self.body].concat()
    }
}

/// How long a server may take for the next byte of a case: longer than any disk or machine that is busy with something else.
pub const WAIT: Duration = Duration::from_secs(60);

/// How long a byte is waited for where it is known that none comes.
pub const SILENCE: Duration = Duration::from_secs(2);

/// One exchange with a server, without the ports of those that are compared.
pub fn exchange(server: &TestServer, case: &Case, ports: &[u16]) -> Exchange {
    let mut client = server.connect();
    let bytes = case.all_bytes();
    let methods = methods(&bytes);
    let wanted = if case.eof { usize::MAX } else { case.responses };
    let spoken = Spoken { bytes: &bytes, methods: &methods, wanted, in_order: case.in_order, wait: WAIT };
    spoken.over(&mut client, ports)
}

/// What is said on a connection, and what is looked at.
pub struct Spoken<'s> {
    pub bytes: &'s [u8],
    /// Of the requests in the bytes; those beyond the list are taken for GET.
    pub methods: &'s [String],
    /// How many responses to read before looking whether the connection is still open; with `usize::MAX` the client ends its sending side, and
    /// reads to the end.
    pub wanted: usize,
    pub in_order: bool,
    /// How long to wait for the next byte.
    pub wait: Duration,
}

impl Spoken<'_> {
    /// Says it, and hears what comes back, without these ports.
    pub fn over(&self, client: &mut TestClient, ports: &[u16]) -> Exchange {
        client.set_timeout(self.wait);
        // A server may refuse before it has read all; what it said is read below.
        let _ = client.try_send(self.bytes);
        if self.wanted == usize::MAX {
            client.half_close();
        }
        let mut exchange = Exchange { responses: Vec::new(), end: String::new() };
        // Interim responses are none of these.
        let mut finals = 0;
        while finals < self.wanted {
            let method = self.methods.get(finals).map_or("GET", String::as_str);
            match client.try_response(method) {
                Ok(response) => {
                    let ends = response.until_close;
                    finals += usize::from(response.status != 100);
                    exchange.responses.push(comparable(response, method, ports, self.in_order));
                    if ends {
                        exchange.end = "closed".to_owned();
                        return exchange;
                    }
                }
                Err(why) => {
                    exchange.end = ended(&why);
                    return exchange;
                }
            }
        }
        exchange.end = probe(client);
        exchange
    }
}

/// Whether the connection takes another request.
fn probe(client: &mut TestClient) -> String {
    let _ = client.try_send("GET /probe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    match client.try_response("GET") {
        Ok(_) => "open".to_owned(),
        Err(why) => ended(&why),
    }
}

/// A reset and an orderly close are the same here: which of the two the client sees depends on what was still under way.
fn ended(why: &str) -> String {
    if why == "Closed" || why == "Reset" {
        return "closed".to_owned();
    }
    // Of a response that is cut, what has come of it is shown.
    let Some((what, shown)) = why.split_once(" within ") else { return why.to_owned() };
    let lines = shown.split_once(" bytes ").map_or(shown, |(_, shown)| shown).split("\\r\\n");
    let told: Vec<&str> = lines.filter(|line| !line.starts_with("Server: ") && !line.starts_with("Date: ")).collect();
    format!("{what} within {}", told.join("\\r\\n"))
}

/// Runs the cases against both servers, one after the other on connections of their own.
#[track_caller]
pub fn compare(setup: &Setup, cases: Vec<Case>) {
    let Some(servers) = runner::start(setup) else { return };
    let ports = servers.ports();
    let mut report = Report::default();
    for case in &cases {
        let name = case.shown();
        let ours = exchange(&servers.freerun, case, &ports);
        if runner::shows() {
            let lines: Vec<&str> = ours.responses.iter().map(|response| response.line.as_str()).collect();
            println!("{name}\n  => {lines:?}, {}{}", ours.end, if case.differs.is_some() { " (differs)" } else { "" });
        }
        let problem = case.judge(|| exchange(&servers.nginx, case, &ports), &ours);
        report.add(format_args!("\"{name}\""), problem);
    }
    drop(servers);
    report.finish();
}
