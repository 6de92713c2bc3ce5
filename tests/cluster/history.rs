//! The history of changes that many make at once, while the primary changes: it is one for all, and in the order of time.

use freerun_testkit::{Kind, PATIENCE, TestServer, within};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use crate::engine::ask;
use crate::failover::WatchedEngines;
use crate::{RECOVERED, becomes, change, json, setup};

/// The number of clients of each machine.
const CLIENTS: usize = 2;

/// The keys that all of them change.
const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// The number of changes that are answered before the primary dies, and again afterwards.
const ANSWERED: usize = 200;

/// The kind of a change. Its name is the order in which a client makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    Add,
    Set,
    Remove,
}

const KINDS: [ChangeKind; 3] = [ChangeKind::Add, ChangeKind::Set, ChangeKind::Remove];

/// A change that was answered.
#[derive(Debug, Clone)]
struct AnsweredChange {
    kind: ChangeKind,
    key: &'static str,
    value: String,
    begun: Instant,
    ended: Instant,
}

/// An entry of the engine's log: the key, and the value unless the pair was removed.
type Entry = (String, Option<String>);

/// The entries of the log of the zone, the oldest first.
fn entries(engines: &WatchedEngines) -> Vec<Entry> {
    let told = engines.replica.ask(&["--json", "-3", "xrange", "{freerun}:kv:flags:log", "-", "+"]);
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let entry = |entry: &Value| {
        let words: Vec<String> = entry[1].as_array().expect("fields").iter().map(text).collect();
        let field = |name: &str| {
            let found = words.chunks(2).find(|field| field[0] == name);
            found.unwrap_or_else(|| panic!("{name}: {words:?}"))[1].clone()
        };
        let value = field("v");
        (field("k"), (field("o") == "s").then(|| value.trim_start_matches("0|").to_owned()))
    };
    told.as_array().expect("entries").iter().map(entry).collect()
}

/// The pairs of a machine.
fn table(node: &TestServer) -> BTreeMap<String, String> {
    let pairs = json(&node.get("/api/9/http/keyvals/flags"));
    let pairs = pairs.as_object().expect("pairs");
    pairs.iter().map(|(key, value)| (key.clone(), value.as_str().expect("a text").to_owned())).collect()
}

/// Changes pairs of a machine until `stop`, and notes what was answered with success; `client` is its number among all.
fn make_changes(node: &TestServer, client: usize, stop: &AtomicBool, count: &AtomicUsize) -> Vec<AnsweredChange> {
    let mut answered = Vec::new();
    for number in 0.. {
        if stop.load(SeqCst) {
            break;
        }
        // The clients meet at each key with each kind, each time in another order.
        let (key, kind) = (KEYS[(number / 3 + client) % KEYS.len()], KINDS[(number + client) % KINDS.len()]);
        let value = format!("{client}-{number}");
        let begun = Instant::now();
        let status = match kind {
            ChangeKind::Add => change(node, "POST", &format!(r#"{{"{key}":"{value}"}}"#)),
            ChangeKind::Set => change(node, "PATCH", &format!(r#"{{"{key}":"{value}"}}"#)),
            ChangeKind::Remove => change(node, "PATCH", &format!(r#"{{"{key}":null}}"#)),
        };
        match status {
            201 | 204 => {
                count.fetch_add(1, SeqCst);
                answered.push(AnsweredChange { kind, key, value, begun, ended: Instant::now() });
            }
            // There is a pair already, there is none, or the engine is away.
            404 | 409 | 503 => {}
            other => panic!("{kind:?} {key}: {other}"),
        }
    }
    answered
}

/// Checks that the log has all changes that were answered, each where it was allowed, and in the order of time.
fn check(log: &[Entry], answered: &[AnsweredChange]) {
    let mut places: Vec<(usize, &AnsweredChange)> = Vec::new();
    for made in answered.iter().filter(|made| made.kind != ChangeKind::Remove) {
        let is_it = |entry: &Entry| entry.1.as_ref() == Some(&made.value);
        let found: Vec<usize> = (0..log.len()).filter(|place| is_it(&log[*place])).collect();
        let [place] = found[..] else { panic!("{made:?} is in the log at {found:?}") };
        assert_eq!(log[place].0, made.key);
        let before = log[..place].iter().rfind(|(key, _)| key == made.key);
        let was_there = before.is_some_and(|(_, value)| value.is_some());
        assert_eq!(was_there, made.kind == ChangeKind::Set, "{made:?} follows {before:?}");
        places.push((place, made));
    }
    places.sort_by_key(|(place, _)| *place);
    for (at, (_, later)) in places.iter().enumerate() {
        let early = places[..at].iter().find(|(_, earlier)| earlier.begun > later.ended);
        assert!(early.is_none(), "{later:?} is behind {early:?}");
    }
    for removed in answered.iter().filter(|made| made.kind == ChangeKind::Remove) {
        let of_key = || places.iter().filter(|(_, made)| made.key == removed.key);
        let from = of_key().filter(|(_, made)| made.ended < removed.begun).map(|(place, _)| *place).max();
        let until = of_key().filter(|(_, made)| made.begun > removed.ended).map(|(place, _)| *place).min();
        let between = &log[from.unwrap_or_default()..until.unwrap_or(log.len())];
        let is_there = between.iter().any(|(key, value)| key == removed.key && value.is_none());
        assert!(is_there, "{removed:?} is not between {from:?} and {until:?} of {}", log.len());
    }
    for key in KEYS {
        let of_clients = answered.iter().filter(|made| made.key == key && made.kind == ChangeKind::Remove).count();
        let of_log = log.iter().filter(|(other, value)| other == key && value.is_none()).count();
        assert!(of_log >= of_clients, "{of_clients} removals of {key} were answered, the log has {of_log}");
    }
}

#[test]
fn the_history_survives_the_death_of_the_primary() {
    check_history(|engines| engines.primary.kill());
}

/// The old primary lives, and takes what is written to it until it is told that it is a replica.
#[test]
fn the_history_survives_a_planned_change_of_the_primary() {
    check_history(|engines| assert_eq!(ask(engines.sentinel_port, &["sentinel", "failover", "main"]).trim(), "OK"));
}

/// Checks that the history of many changes is one for all, and lacks nothing that was answered, while `move_primary` has the
/// primary change.
fn check_history(move_primary: impl FnOnce(&mut WatchedEngines)) {
    let Some(mut engines) = WatchedEngines::start() else { return };
    let nodes = [0; 3].map(|_| {
        let node = setup(&engines.address(), "sync").start(Kind::Freerun);
        becomes(&node, "connected");
        node
    });
    let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let answered = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..nodes.len() * CLIENTS {
            let (node, stop, count, answered) = (&nodes[client % nodes.len()], &stop, &count, &answered);
            scope.spawn(move || {
                let made = make_changes(node, client, stop, count);
                answered.lock().expect("no client has panicked").extend(made);
            });
        }
        // Whatever fails here must end the clients.
        let _stops = StopOnDrop(&stop);
        assert!(within(PATIENCE, || count.load(SeqCst) >= ANSWERED), "{} are answered", count.load(SeqCst));
        move_primary(&mut engines);
        nodes.iter().for_each(|node| engines.is_followed_by(node));
        let so_far = count.load(SeqCst);
        assert!(within(PATIENCE, || count.load(SeqCst) >= so_far + ANSWERED), "{} are answered", count.load(SeqCst));
    });
    let answered = answered.into_inner().expect("no client has panicked");
    let log = entries(&engines);
    check(&log, &answered);
    let mut present = BTreeMap::new();
    for (key, value) in log {
        match value {
            Some(value) => drop(present.insert(key, value)),
            None => drop(present.remove(&key)),
        }
    }
    for node in &nodes {
        assert!(within(RECOVERED, || table(node) == present), "{:?} instead of {present:?}", table(node));
    }
}

/// Ends the clients when it is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
