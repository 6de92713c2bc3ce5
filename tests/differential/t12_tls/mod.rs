//! TLS: the same clients visit both servers; what was agreed on, what is answered, how it ends, and what the error logs say is compared.

mod arguments;
mod clients;
mod encodings;
mod files;
mod listeners;
mod signatures;
mod upstreams;

use crate::exchange::{Exchange, lines, text_without_ports};
use crate::harness::{Spoken, WAIT};
use crate::runner::{Report, line_difference, shows, start};
use freerun_testkit::{AgreedParameters, Kind, Setup, TestClient, TestServer, Tls, certificates, methods};

/// One connection of a client.
struct Visit {
    what: String,
    /// `None`: without TLS.
    tls: Option<Tls>,
    bytes: String,
    responses: usize,
    differs: Option<(&'static str, &'static str)>,
}

/// A client that asks for `/` of `localhost`.
fn visit(what: impl Into<String>, tls: Tls) -> Visit {
    Visit { what: what.into(), tls: Some(tls), bytes: request("/", "localhost"), responses: 1, differs: None }
}

/// A client without TLS that asks for `/` of `localhost`.
fn plain(what: &str) -> Visit {
    Visit { tls: None, ..visit(what, Tls::new()) }
}

fn request(target: &str, host: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

impl Visit {
    /// Sends a request for this target of this host.
    fn asks(mut self, target: &str, host: &str) -> Visit {
        self.bytes = request(target, host);
        self
    }

    /// Sends these bytes, which get so many responses.
    fn says(mut self, bytes: &str, responses: usize) -> Visit {
        (self.bytes, self.responses) = (bytes.to_owned(), responses);
        self
    }

    /// The two are to disagree, for this reason; this is in freerun's outcome and not in nginx's.
    fn differs(mut self, reason: &'static str, shows: &'static str) -> Visit {
        assert!(!reason.is_empty());
        self.differs = Some((reason, shows));
        self
    }

    /// What came of it, in lines.
    fn outcome(&self, server: &TestServer, ports: &[u16]) -> Vec<String> {
        let client = server.connect();
        let (mut client, mut told) = match &self.tls {
            None => (client, Vec::new()),
            Some(tls) => match client.try_tls(tls) {
                Ok(client) => {
                    let told = vec![agreed(&client.agreed())];
                    (client, told)
                }
                Err(failure) => return vec![format!("no session: alert {:?}", failure.alert)],
            },
        };
        let exchange = self.exchange(&mut client, ports);
        client.half_close().ending();
        let notified = self.tls.is_some() && client.is_notified();
        let alert = self.tls.as_ref().and_then(|_| client.alert());
        told.extend(lines(&exchange));
        told.push(format!("close_notify {notified}, alert {alert:?}"));
        told
    }

    fn exchange(&self, client: &mut TestClient, ports: &[u16]) -> Exchange {
        let methods = methods(self.bytes.as_bytes());
        let bytes = self.bytes.as_bytes();
        Spoken { bytes, methods: &methods, wanted: self.responses, in_order: false, wait: WAIT }.over(client, ports)
    }
}

/// What was agreed on. The group is left out: what is preferred differs from version to version of OpenSSL.
fn agreed(agreed: &AgreedParameters) -> String {
    let names = ["rsa", "ec", "other", "below", "foreign"];
    let is = |name: &&&str| agreed.certificates.first() == Some(&certificates().der(&format!("{name}.crt")));
    let name = names.iter().find(is).copied().unwrap_or("unknown");
    let AgreedParameters { version, cipher, alpn, certificates, resumed, .. } = agreed;
    format!("{version} {cipher} {alpn:?} {name}, {} certificates, resumed {resumed}", certificates.len())
}

/// The visits to both servers, one after the other; the error logs are compared when all are done.
#[track_caller]
fn compare(setup: &Setup, visits: Vec<Visit>) {
    compare_with(setup, visits, true);
}

#[track_caller]
fn compare_with(setup: &Setup, visits: Vec<Visit>, logs: bool) {
    let Some(servers) = start(setup) else { return };
    let ports: Vec<u16> =
        [&servers.nginx, &servers.freerun].iter().flat_map(|server| server.ports().to_vec()).collect();
    let mut report = Report::default();
    let mut silent = logs;
    for visit in &visits {
        let outcomes = servers.each(|server| visit.outcome(server, &ports));
        if shows() {
            println!("{}\n  => {:?}", visit.what, outcomes.freerun);
        }
        let mut difference = line_difference(&outcomes.nginx, &outcomes.freerun);
        if let Some((reason, shows)) = visit.differs.filter(|_| Kind::under_test() == Kind::Freerun) {
            silent = false;
            let shown = outcomes.each(|lines| lines.iter().any(|line| line.contains(shows)));
            let as_told = shown.freerun && !shown.nginx;
            let told = difference.unwrap_or_default();
            difference = (!as_told).then(|| format!("  wanted {shows} ({reason})\n{told}"));
        }
        report.add(&visit.what, difference);
    }
    if silent {
        let logs = servers.each(|server| said(server, &ports));
        report.add("the error logs", line_difference(&logs.nginx, &logs.freerun));
    }
    drop(servers);
    report.finish();
}

/// What the error log says of clients, each once: without time, process, numbers of connections and ports. The end of a kept connection is
/// left out, as it may come at any time.
fn said(server: &TestServer, ports: &[u16]) -> Vec<String> {
    // All visits have come to their end, so all but the last lines are there; a request that is refused is one more.
    let mark = format!("GET /mark-{} HTTP/1.1\r\n\r\n", server.port());
    let mut client = server.connect_tls(&Tls::new());
    client.send(mark);
    let _ = client.try_response("GET");
    server.logs(&format!("/mark-{}", server.port()));
    let log = server.error_log_of_traffic();
    let of_clients =
        log.lines().filter_map(|line| line.split_once("] ")?.1.split_once(": *").map(|(_, rest)| (line, rest)));
    let mut said: Vec<String> = of_clients
        .filter_map(|(line, rest)| {
            let level = line.split_once('[')?.1.split_once(']')?.0;
            let text = rest.split_once(' ')?.1;
            Some(format!("[{level}] {}", text_without_ports(text, ports)))
        })
        .filter(|line| !["keepalive connection", "keepalive", "/mark-"].iter().any(|part| line.contains(part)))
        .collect();
    said.sort();
    said.dedup();
    said
}
