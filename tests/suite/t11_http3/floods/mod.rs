//! Attacks: each is ended within a bounded number of frames or datagrams, costs others nothing, and leaves no memory behind.

mod datagrams;
mod frames;
mod stalls;
mod transport;

use super::{connect, quic};
use freerun_testkit::http3::{Http3, LinkEnd};
use freerun_testkit::{Site, TestServer, eventually};
use serde_json::Value;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many steps an attack may have before it is ended.
const MOST: usize = 50_000;

/// How much memory an attack may leave behind, in bytes; a debug build and what its allocator keeps are in it.
const GROWTH: u64 = 24 << 20;

/// H3_EXCESSIVE_LOAD.
const EXCESSIVE_LOAD: u64 = 0x107;

/// A server that is attacked, with its other clients.
struct Attacked {
    server: TestServer,
    /// What it serves is there as long as it runs.
    _site: Site,
    memory: u64,
}

impl Attacked {
    fn new(site: Site, lines: &str) -> Attacked {
        let lines = format!(
            "keepalive_requests 10000000; keepalive_timeout 1h; location / {{ return 200 ok; }}
             location = /status {{ status; }} {lines}"
        );
        let server = quic(&site, &lines).freerun();
        // What the first requests need is there from now on.
        for _ in 0..3 {
            assert_eq!(connect(&server).get("/").text(), "ok");
        }
        let mut attacked = Attacked { server, _site: site, memory: 0 };
        attacked.memory = attacked.memory();
        attacked
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

    /// A number of the status page.
    #[track_caller]
    fn figure(&self, pointer: &str) -> u64 {
        let status: Value = serde_json::from_slice(&self.server.get("/status").body).expect("JSON");
        status.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {status}"))
    }

    #[track_caller]
    fn serves_others(&self) {
        assert_eq!(connect(&self.server).get("/").text(), "ok");
        assert_eq!(self.server.get("/").text(), "ok");
    }

    #[track_caller]
    fn has_not_grown(&self) {
        let growth = self.memory().saturating_sub(self.memory);
        assert!(growth < GROWTH, "{growth} bytes more than before");
    }

    /// Attacks on one connection by repeated steps, while another client goes on asking, until the connection has ended.
    #[track_caller]
    fn ends(&self, what: &str, step: impl FnMut(&mut Http3, usize)) {
        let http3 = &mut connect(&self.server);
        assert_eq!(http3.get("/").text(), "ok");
        self.ends_on(what, http3, step);
    }

    /// As [`ends`](Self::ends), on this connection.
    #[track_caller]
    fn ends_on(&self, what: &str, http3: &mut Http3, mut step: impl FnMut(&mut Http3, usize)) {
        let failed = self.figure("/http3/failed");
        let bystander = Bystander::new(&self.server);
        let mut steps = 0;
        while http3.link().end().is_none() && steps < MOST {
            step(http3, steps);
            steps += 1;
            if steps.is_multiple_of(16) {
                http3.step();
            }
        }
        assert!(steps < MOST, "{what} goes on");
        let end = http3.ending();
        assert!(matches!(end, LinkEnd::Closed(EXCESSIVE_LOAD, _)), "{what}: {end:?} after {steps}");
        bystander.has_been_served();
        self.serves_others();
        self.has_not_grown();
        assert_eq!(self.figure("/http3/failed"), failed + 1, "{what}");
        let told = "client broke the rules of HTTP/3: ";
        eventually("a line of the error log", || self.server.error_log().matches(told).count() as u64 > failed);
        assert_eq!(self.server.error_log().matches(told).count() as u64, failed + 1, "{what}");
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
        let (stopped, mut http3) = (stop.clone(), connect(server));
        let asking = std::thread::spawn(move || {
            let mut served = 0;
            while served == 0 || !stopped.load(Ordering::SeqCst) {
                assert_eq!(http3.get("/").text(), "ok");
                served += 1;
                http3.run_for(Duration::from_millis(2));
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
