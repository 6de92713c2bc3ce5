//! Caches for a long time: everything that can happen at once, and every byte compared.
//!
//! `FREERUN_SOAK_REQUESTS` says how many requests (200,000 if nothing is said). It is left out of ordinary runs:
//! `cargo test --release -p freerun-tests --test faults -- --ignored soak --nocapture`.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use freerun_testkit::fuse::{Action, Mirror, Op};
use freerun_testkit::{
    ReceivedRequest, Response, Setup, Site, TestClient, TestServer, TestUpstream, eventually, require,
};
use rustix::process::Signal;

use crate::full::Tiny;

const CLIENTS: usize = 8;
/// Objects of each place.
const OBJECTS: usize = 600;
/// No longer than this, however slow the machine is.
const MOST: Duration = Duration::from_secs(1800);
/// Where objects are, and whether they are purged: an ordinary disk whose cache is far too small; one that is smaller than it
/// is said to be; one that fails and hangs; and slices.
const PLACES: [(&str, bool); 4] = [("/small", true), ("/tiny", true), ("/bad", true), ("/sliced", false)];

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    /// Small numbers far more often than large ones.
    fn skewed(&mut self, end: usize) -> usize {
        let most = self.below(end) + 1;
        self.below(most)
    }
}

/// The length of an object, and its bytes: any part of it tells what it is of, and of which version.
fn length(target: &str) -> usize {
    let number: usize = target.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    match number % 20 {
        0 => 0,
        1..=9 => 1 + number * 37 % 5000,
        10..=14 => 60_000 + number * 97 % 10_000,
        15..=18 => 100_000 + number * 997 % 300_000,
        _ => 1_500_000,
    }
}

fn content(target: &str, version: u32) -> Vec<u8> {
    let mut word = target.bytes().fold(u64::from(version) + 17, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    let length = length(target);
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(&(word ^ word >> 29).to_le_bytes());
    }
    out.truncate(length);
    out
}

/// What the origin has of an object, and what purges promise of it.
#[derive(Default)]
struct Versions {
    /// That the origin answers with.
    now: AtomicU32,
    /// Older ones must not be seen any more.
    least: AtomicU32,
}

type Table = Arc<HashMap<String, Versions>>;

fn key(target: &str) -> &str {
    PLACES.iter().find_map(|(place, _)| target.strip_prefix(place)).unwrap_or(target)
}

/// Answers, wholly, in part, in chunks; and now and then breaks off.
fn origin(table: Table, troubled: Arc<AtomicBool>) -> freerun_testkit::AnsweringUpstream {
    let count = AtomicU64::new(1);
    TestUpstream::answering(move |request: &ReceivedRequest| {
        let target = request.target();
        let version = table.get(key(target)).map_or(0, |versions| versions.now.load(SeqCst));
        let mut body = content(key(target), version);
        let mut random = Random(count.fetch_add(1, SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut head = format!(
            "X-Version: {version}\r\nETag: \"{version}\"\r\nCache-Control: max-age=3600\r\n\
             Accept-Ranges: bytes\r\n"
        );
        let mut status = "200 OK";
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        if let Some((first, last)) = range {
            let whole = body.len();
            let first: usize = first.parse().unwrap_or(0);
            if first >= whole {
                let head = format!("HTTP/1.1 416 Range\r\nContent-Range: bytes */{whole}\r\nContent-Length: 0\r\n\r\n");
                return head.into_bytes();
            }
            let last = last.parse().unwrap_or(usize::MAX).min(whole - 1);
            body = body[first..=last].to_vec();
            status = "206 Partial Content";
            head += &format!("Content-Range: bytes {first}-{last}/{whole}\r\n");
        }
        let breaks = troubled.load(SeqCst) && random.below(50) == 0;
        if breaks && random.below(2) == 0 {
            return Vec::new();
        }
        let mut out = if range.is_none() && random.below(3) == 0 {
            let mut out = format!("HTTP/1.1 {status}\r\n{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
            for piece in body.chunks(1 + random.below(100_000)) {
                out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"0\r\n\r\n");
            out
        } else {
            let length = body.len();
            [format!("HTTP/1.1 {status}\r\n{head}Content-Length: {length}\r\n\r\n").into_bytes(), body].concat()
        };
        if breaks {
            // The connection is closed behind an answer that says so.
            let text = String::from_utf8_lossy(&out[..head.len() + 30]).into_owned();
            let at = text.find("X-Version").unwrap_or(0);
            out.splice(at..at, b"Connection: close\r\n".iter().copied());
            out.truncate(out.len() - out.len() / 3);
        }
        out
    })
}

/// What was seen.
#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    whole: AtomicUsize,
    parts: AtomicUsize,
    hits: AtomicUsize,
    purges: AtomicUsize,
    cut: AtomicUsize,
    errors: AtomicUsize,
    left: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

struct World {
    server: TestServer,
    table: Table,
    seen: Seen,
    most: usize,
    until: Instant,
}

impl World {
    fn goes_on(&self) -> bool {
        let wrong = self.seen.wrong.lock().map_or(0, |wrong| wrong.len());
        self.seen.requests.load(SeqCst) < self.most && Instant::now() < self.until && wrong == 0
    }

    fn wrong(&self, what: String) {
        if let Ok(mut wrong) = self.seen.wrong.lock() {
            wrong.push(what);
        }
    }

    /// Compares an answer that came as a whole. `least`: what purges had promised before it was asked for.
    fn check(&self, target: &str, range: Option<(usize, usize)>, least: u32, response: &Response) {
        let seen = &self.seen;
        if !matches!(response.status, 200 | 206) {
            // Of an origin that is gone, or a queue that is full.
            if matches!(response.status, 500 | 502 | 503 | 504) || response.status == 416 {
                seen.errors.fetch_add(1, SeqCst);
            } else {
                self.wrong(format!("{target}: status {}", response.status));
            }
            return;
        }
        let version = response.header("x-version").and_then(|version| version.parse().ok()).unwrap_or(u32::MAX);
        if version < least {
            self.wrong(format!("{target}: version {version} after a purge of what was before {least}"));
        }
        let whole = content(key(target), version);
        let expected = match (response.status, range) {
            (206, Some((first, last))) => {
                seen.parts.fetch_add(1, SeqCst);
                &whole[first..last.min(whole.len() - 1) + 1]
            }
            (206, None) => return self.wrong(format!("{target}: a part that nobody has asked for")),
            _ => &whole[..],
        };
        if response.body != expected {
            let same = response.body.iter().zip(expected).take_while(|(one, other)| one == other).count();
            let (got, wanted) = (response.body.len(), expected.len());
            self.wrong(format!("{target} {range:?}, version {version}: {got} bytes instead of {wanted}, {same} right"));
        }
        seen.whole.fetch_add(1, SeqCst);
        if response.header("x-cache") == Some("HIT") {
            seen.hits.fetch_add(1, SeqCst);
        }
    }

    fn client(&self, number: usize) {
        let mut random = Random((number as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut open: Option<TestClient> = None;
        while self.goes_on() {
            let Some(mut client) = open.take().or_else(|| TestClient::try_connect(self.server.address()).ok()) else {
                // It is being started again.
                std::thread::yield_now();
                continue;
            };
            client.set_timeout(Duration::from_secs(60));
            let (place, purged) = PLACES[random.below(PLACES.len())];
            let name = format!("/{}", random.skewed(OBJECTS));
            let target = format!("{place}{name}");
            let Some(versions) = self.table.get(&name) else { return };
            self.seen.requests.fetch_add(1, SeqCst);
            if purged && random.below(200) == 0 {
                self.purge(&mut client, &name, versions);
                continue;
            }
            let least = if purged { versions.least.load(SeqCst) } else { 0 };
            let range = (random.below(4) == 0 && length(&name) > 0).then(|| {
                let first = random.below(length(&name));
                (first, first + random.below(length(&name)))
            });
            let field = range.map_or(String::new(), |(first, last)| format!("Range: bytes={first}-{last}\r\n"));
            let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{field}\r\n");
            if client.try_send(&request).is_err() {
                continue;
            }
            if random.below(40) == 0 {
                // It has enough.
                self.seen.left.fetch_add(1, SeqCst);
                continue;
            }
            match client.try_response("GET") {
                Ok(response) => {
                    self.check(&target, range, least, &response);
                    if !response.says_close() {
                        open = Some(client);
                    }
                }
                Err(_) => {
                    self.seen.cut.fetch_add(1, SeqCst);
                }
            }
        }
    }

    /// The origin has a new version, and what is stored goes everywhere; then nobody is to see older ones.
    fn purge(&self, client: &mut TestClient, name: &str, versions: &Versions) {
        let new = versions.now.fetch_add(1, SeqCst) + 1;
        for (place, _) in PLACES.iter().filter(|(_, purged)| *purged) {
            let request = format!("PURGE {place}{name} HTTP/1.1\r\nHost: h\r\n\r\n");
            let answer = client.try_send(&request).ok().and_then(|()| client.try_response("PURGE").ok());
            match answer.map(|answer| answer.status) {
                Some(200 | 204 | 404 | 412) => {}
                // Not told: nothing is promised.
                _ => return,
            }
        }
        self.seen.purges.fetch_add(1, SeqCst);
        versions.least.fetch_max(new, SeqCst);
    }
}

/// What happens to the server and its disks meanwhile, one thing after a share of the requests.
fn trouble(world: &World, disk: &Mirror, tiny: &Tiny, troubled: &AtomicBool, over: &AtomicBool) {
    let filler = tiny.path().join("filler");
    let share = (world.most / 40).max(1);
    let mut next = share;
    let mut round = 0;
    while !over.load(SeqCst) && world.goes_on() {
        if world.seen.requests.load(SeqCst) < next {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        next += share;
        round += 1;
        let control = disk.control();
        control.clear();
        troubled.store(round % 2 == 0, SeqCst);
        match round % 8 {
            1 => control.hang(Op::Write, ""),
            2 => control.rule(Op::Write, Action::Fail, ""),
            3 => {
                let worker = world.server.workers().first().copied();
                if let Some(worker) = worker {
                    world.server.signal_pid(worker, Signal::KILL);
                }
            }
            4 => control.hang(Op::Open, ""),
            5 => world.server.signal(Signal::HUP),
            6 => drop(fs::write(&filler, vec![0; 300_000])),
            7 => {
                let _ = fs::remove_file(&filler);
                control.rule(Op::Create, Action::Fail, "");
            }
            _ => {}
        }
    }
    disk.control().clear();
    troubled.store(false, SeqCst);
}

#[test]
#[ignore = "takes minutes; bench/README.md names it"]
fn soak() {
    if !require::root() || !require::fuse() {
        return;
    }
    let most = std::env::var("FREERUN_SOAK_REQUESTS").ok().and_then(|most| most.parse().ok()).unwrap_or(200_000);
    let (site, tiny) = (Site::new(), Tiny::new());
    for name in ["small", "of", "bad", "sliced"] {
        site.folder(name).mode(name, 0o777);
    }
    let disk = Mirror::mount(&site.at("of"), &site.at("bad")).expect("mounting");
    let table: Table = Arc::new((0..OBJECTS).map(|number| (format!("/{number}"), Versions::default())).collect());
    let troubled = Arc::new(AtomicBool::new(false));
    let origin = origin(table.clone(), troubled.clone());
    let mut http = String::new();
    let mut lines = "set $purge 0; if ($request_method = PURGE) { set $purge 1; } proxy_cache_purge $purge;
        proxy_cache_key $uri; add_header X-Cache $upstream_cache_status; proxy_read_timeout 20s;"
        .to_owned();
    let folders = [("small", site.at("small")), ("tiny", tiny.path().join("cache")), ("bad", site.at("bad"))];
    let parameters = ["max_size=8m memory=1m", "max_size=1g memory=200k", "max_size=30m memory=0"];
    for ((name, folder), parameters) in folders.iter().zip(parameters) {
        http += &format!("proxy_cache_path {} levels=1:2 keys_zone={name}:1m {parameters};\n", folder.display());
        let lock = if *name == "small" { "proxy_cache_lock on;" } else { "" };
        let address = origin.address();
        lines += &format!("location /{name}/ {{ proxy_cache {name}; {lock} proxy_pass http://{address}; }}\n");
    }
    http += &format!("proxy_cache_path {} keys_zone=sliced:1m max_size=20m;\n", site.at("sliced").display());
    lines += &format!(
        "location /sliced/ {{ slice 64k; proxy_cache sliced; proxy_cache_key $uri$slice_range;
         proxy_set_header Range $slice_range; proxy_http_version 1.1; proxy_pass http://{}; }}",
        origin.address()
    );
    let main = "user root; worker_processes 2;";
    let server = Setup::server(&site, &lines).http(&http).main(main).events("worker_connections 2000;").freerun();
    let world = World { server, table, seen: Seen::default(), most, until: Instant::now() + MOST };
    let over = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn({
                    let world = &world;
                    move || world.client(number)
                })
            })
            .collect();
        let chaos = scope.spawn(|| trouble(&world, &disk, &tiny, &troubled, &over));
        for client in clients {
            client.join().expect("a client");
        }
        over.store(true, SeqCst);
        chaos.join().expect("the trouble");
    });
    let Seen { requests, whole, parts, hits, purges, cut, errors, left, wrong } = &world.seen;
    let count = |number: &AtomicUsize| number.load(SeqCst);
    println!(
        "{} requests in {:?}: {} answers compared ({} parts), {} hits, {} purges, {} cut, {} errors, {} clients left",
        count(requests),
        began.elapsed(),
        count(whole),
        count(parts),
        count(hits),
        count(purges),
        count(cut),
        count(errors),
        count(left)
    );
    let wrong = wrong.lock().expect("what was wrong");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count(requests) >= most, "only {} requests in the time there was", count(requests));
    assert!(count(whole) * 10 > count(requests) * 8, "too few answers came as a whole");
    // When all is well again, all of it can be had.
    for (place, _) in PLACES {
        // (The first one is empty, and has no slices.)
        for number in 1..20 {
            let target = format!("{place}/{number}");
            let version = world.table[key(&target)].now.load(SeqCst);
            if place == "/sliced" && version > 0 {
                // Nothing purges its slices: those of several versions do not make a whole, and such an answer is cut.
                continue;
            }
            eventually("it is answered", || {
                let response = world.server.get(&target);
                world.check(&target, None, 0, &response);
                response.status == 200
            });
        }
    }
}
