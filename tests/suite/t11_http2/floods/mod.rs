//! Attacks: each is ended within a bounded number of frames, costs others nothing, leaves no memory behind, and is one
//! line in the error log.

mod frames;
mod heads;
mod resets;
mod stalls;

use super::connect;
use freerun_testkit::http2::{FloodOutcome, Http2, code};
use freerun_testkit::{ConnectionEnd, Kind, Setup, Site, TestServer, require};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many frames an attack may have before it is ended, with those on their way in the kernel's buffers.
const MOST: usize = 50_000;
/// As [`MOST`], of nginx, which weighs bytes and not frames.
const MOST_OF_NGINX: usize = 3_000_000;
/// How much memory an attack may leave behind, in bytes; a debug build and what its allocator keeps are in it.
const GROWTH: u64 = 24 << 20;
/// Where the number of connections that were ended for what the client did is, in what `status` says (a JSON pointer).
const COUNTER: &str = "/http2/failed";

/// Whether nginx 1.22 ends an attack as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nginx {
    Ends,
    /// It goes on for as long as the attacker does, or was mended later.
    GoesOn,
}

/// A server that is attacked, with its other clients.
struct Attacked {
    server: TestServer,
    /// What it serves is there as long as it runs.
    _site: Site,
    memory: u64,
    lines: usize,
    counted: u64,
}

/// A configuration with a server of HTTP/2 on `@PORT@` with these lines, which answers `ok`, and one of HTTP/1 for
/// `status`.
fn setup(site: &Site, lines: &str) -> Setup {
    let status = if Kind::under_test() == Kind::Freerun { "location = /status { status; }" } else { "" };
    Setup::new().root(site).http(&format!(
        "keepalive_requests 10000000; keepalive_timeout 1h;
         server {{ listen 127.0.0.1:@PORT@ http2; server_name localhost; root @ROOT@;
                   location / {{ return 200 ok; }} {lines} }}
         server {{ listen 127.0.0.1:@PORT2@; {status} location / {{ return 200 ok; }} }}"
    ))
}

impl Attacked {
    fn new(site: Site, lines: &str) -> Attacked {
        let server = setup(&site, lines).run();
        // What the first requests need is there from now on.
        for _ in 0..3 {
            assert_eq!(connect(&server).get("/").text(), "ok");
        }
        let mut attacked = Attacked { server, _site: site, memory: 0, lines: 0, counted: 0 };
        (attacked.memory, attacked.lines, attacked.counted) = (attacked.memory(), attacked.lines(), attacked.counted());
        attacked
    }

    /// A connection of the attacker.
    fn connect(&self) -> Http2 {
        let mut http2 = connect(&self.server);
        http2.greeted();
        http2
    }

    /// The memory of the workers that is in use, in bytes.
    fn memory(&self) -> u64 {
        let of = |pid: u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
            line.split_ascii_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) << 10
        };
        self.server.workers().into_iter().map(of).sum()
    }

    /// How many lines of the error log are about clients. The harness looks whether a port listens; that may be logged any
    /// time later.
    fn lines(&self) -> usize {
        self.lines_without("client closed connection while waiting for request")
    }

    fn lines_without(&self, words: &str) -> usize {
        let is_other = |line: &str| line.contains("client closed connection while waiting for request");
        let log = self.server.error_log();
        let lines = log.lines().filter(|line| line.contains("client: 127.0.0.1") && !is_other(line));
        lines.filter(|line| !line.contains(words)).count()
    }

    fn counted(&self) -> u64 {
        if self.server.kind() != Kind::Freerun {
            return 0;
        }
        let mut client = freerun_testkit::TestClient::connect(self.server.address_number(2));
        let status: serde_json::Value = serde_json::from_slice(&client.get("/status").body).expect("JSON");
        let counter = status.pointer(COUNTER).and_then(serde_json::Value::as_u64);
        counter.unwrap_or_else(|| panic!("{COUNTER} in {status}"))
    }

    /// Whether other clients are served, on new connections and over both protocols.
    #[track_caller]
    fn serves_others(&self) {
        assert_eq!(connect(&self.server).get("/").text(), "ok");
        assert_eq!(freerun_testkit::TestClient::connect(self.server.address_number(2)).get("/").text(), "ok");
    }

    #[track_caller]
    fn has_not_grown(&self) {
        let growth = self.memory().saturating_sub(self.memory);
        assert!(growth < GROWTH, "{growth} bytes more than before");
    }

    /// Attacks on one connection, while another client goes on asking, and checks what has to hold then.
    #[track_caller]
    fn by(&self, attack: impl FnOnce(&mut Http2) -> FloodOutcome) -> FloodOutcome {
        let mut http2 = self.connect();
        let bystander = Bystander::new(&self.server);
        let mut flooded = attack(&mut http2);
        if flooded.ending.is_none() {
            // What the server has said last may be on its way; then it closes.
            flooded.ending = Some(http2.ending());
            flooded.away = http2.away().last().cloned();
        }
        bystander.has_been_served();
        self.serves_others();
        self.has_not_grown();
        flooded
    }

    /// As [`by`](Self::by); the attack has to be ended with ENHANCE_YOUR_CALM (or, by nginx, in any way), and told
    /// once.
    #[track_caller]
    fn ends(&self, what: &str, attack: impl FnOnce(&mut Http2, usize) -> FloodOutcome) {
        let most = if self.server.kind() == Kind::Nginx { MOST_OF_NGINX } else { MOST };
        let flooded = self.by(|http2| attack(http2, most));
        assert!(flooded.is_ended() && flooded.sent < most, "{what}: {flooded:?}");
        if self.server.kind() == Kind::Nginx {
            return;
        }
        assert_eq!(flooded.code(), Some(code::ENHANCE_YOUR_CALM), "{what}: {flooded:?}");
        assert_ne!(flooded.ending, Some(ConnectionEnd::Silent), "{what}: the connection lasts");
        self.is_told(what, 1);
        assert_eq!(self.counted(), self.counted + 1, "{what}");
    }

    /// Whether so many attacks have a line in the error log each.
    #[track_caller]
    fn is_told(&self, what: &str, attacks: usize) {
        self.is_told_besides("", what, attacks);
    }

    /// As [`is_told`](Self::is_told); lines with these words, if there are any, are not counted.
    #[track_caller]
    fn is_told_besides(&self, words: &str, what: &str, attacks: usize) {
        let lines = || if words.is_empty() { self.lines() } else { self.lines_without(words) };
        freerun_testkit::eventually("a line of the error log", || lines() >= self.lines + attacks);
        let log = self.server.error_log();
        assert_eq!(lines(), self.lines + attacks, "{what}:\n{log}");
    }
}

/// A client that goes on asking while something else happens.
struct Bystander {
    stop: Arc<AtomicBool>,
    asking: std::thread::JoinHandle<usize>,
}

impl Bystander {
    fn new(server: &TestServer) -> Bystander {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut http2) = (stop.clone(), connect(server));
        let asking = std::thread::spawn(move || {
            let mut served = 0;
            while served == 0 || !stopped.load(Ordering::SeqCst) {
                assert_eq!(http2.get("/").text(), "ok");
                served += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            served
        });
        Bystander { stop, asking }
    }

    #[track_caller]
    fn has_been_served(self) {
        self.stop.store(true, Ordering::SeqCst);
        assert!(self.asking.join().expect("another client is served") > 0);
    }
}

/// Whether an attack can be tried on the server under test.
fn can_be_tried(nginx: Nginx) -> bool {
    nginx == Nginx::Ends || require::freerun()
}
