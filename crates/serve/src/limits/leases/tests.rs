//! Nodes with an engine, in simulated time.

use std::collections::HashMap;

use super::*;

/// The engine, as its script judges.
#[derive(Default)]
struct Engine {
    full: HashMap<[u8; 32], u64>,
    calls: usize,
    keys: usize,
}

impl Engine {
    fn answer(&mut self, now: u64, bucket: Bucket, digest: [u8; 32], demand: LeaseDemand) -> LeaseGrant {
        self.keys += 1;
        let cost = 1_000_000_000.0 / bucket.rate as f64;
        let mut full = (*self.full.get(&digest).unwrap_or(&now)).max(now) as f64;
        let window = 2.0 * (bucket.burst as f64 / 1000.0 + 1.0) * cost;
        full = (full + demand.used as f64 * cost).min(now as f64 + window.max(1e6));
        let before = full - now as f64;
        let room = (bucket.burst as f64 / 1000.0 - before / cost).floor() + 1.0;
        let granted = (demand.wanted as f64).min(room).max(0.0);
        self.full.insert(digest, (full + granted * cost) as u64);
        LeaseGrant { granted: granted as u64, before: before as u64 }
    }
}

/// Nodes with an engine whose answer takes some time.
struct Simulation {
    nodes: Vec<Arc<Leases>>,
    engine: Engine,
    bucket: Bucket,
    /// The bucket that the engine counts with.
    counted: Bucket,
    /// The pause between two calls of a node, and the time of an answer, in milliseconds.
    pause: u32,
    latency: u32,
    answers: Vec<(u32, usize, LeaseRequest, LeaseGrant)>,
    /// Requests that wait, with their nodes and the times at which they give up.
    waits: Vec<(LeaseWait, usize, u32)>,
    admitted: u64,
    now: u32,
}

impl Simulation {
    fn new(nodes: usize, rate: u64, burst: u64) -> Simulation {
        Simulation::with(nodes, rate, burst, false)
    }

    fn with(nodes: usize, rate: u64, burst: u64, is_strict: bool) -> Simulation {
        let bucket = Bucket { rate: rate * 1000, burst: burst * 1000 };
        let leases = |_| {
            let leases = Leases::new(1 << 20, LimitAlone::Share, is_strict).unwrap();
            leases.set_nodes(nodes);
            Arc::new(leases)
        };
        let nodes: Vec<_> = (0..nodes).map(leases).collect();
        let counted = nodes.iter().map(|leases| leases.set_bucket(bucket)).next_back().unwrap();
        Simulation {
            nodes,
            engine: Engine::default(),
            bucket,
            counted,
            pause: 10,
            latency: 1,
            answers: Vec::new(),
            waits: Vec::new(),
            admitted: 0,
            now: 1,
        }
    }

    /// A millisecond passes.
    fn step(&mut self) {
        self.now += 1;
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.answers).into_iter().partition(|(at, ..)| *at <= now);
        self.answers = later;
        let due: Vec<_> = due;
        for (_, node, request, grant) in due {
            self.nodes[node].grant(request, now, self.counted, grant);
        }
        self.end_waits();
        if !now.is_multiple_of(self.pause) {
            return;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            self.engine.calls += usize::from(node.pending() > 0);
            while let Some(request) = node.next_waiting() {
                let Some(demand) = node.demand(request.place, now, self.counted) else { continue };
                let grant = self.engine.answer(u64::from(now) * 1000, self.counted, request.digest, demand);
                self.answers.push((now + self.latency, number, request, grant));
            }
        }
    }

    /// Sends a request to a node.
    fn send(&mut self, node: usize, key: &[u8]) {
        if let Some(judged) = self.nodes[node].count(key, self.now, self.bucket) {
            self.admitted += u64::from(matches!(judged, Judgement::Within(_)));
        } else {
            self.waits.push((LeaseWait::new(self.nodes[node].clone(), key), node, self.now + WAIT));
        }
    }

    /// Judges the requests that wait once more.
    fn end_waits(&mut self) {
        let now = self.now;
        for (wait, node, end) in std::mem::take(&mut self.waits) {
            match self.nodes[node].count(b"key", now, self.bucket) {
                Some(judged) => self.admitted += u64::from(matches!(judged, Judgement::Within(_))),
                None if now >= end => wait.note_vain(),
                None => self.waits.push((wait, node, end)),
            }
        }
    }

    /// The number of requests of a key that are admitted in this time, when each node is asked `shares[node]` times in each
    /// millisecond.
    fn admitted(&mut self, seconds: u32, shares: &[f64]) -> u64 {
        let mut due = vec![0.0; shares.len()];
        for _ in 0..seconds * 1000 {
            self.step();
            for (node, share) in shares.iter().enumerate() {
                due[node] += share;
                while due[node] >= 1.0 {
                    due[node] -= 1.0;
                    self.send(node, b"key");
                }
            }
        }
        self.admitted
    }

    /// The number of requests of a key that are admitted when as many come at once, within a tenth of a second.
    fn admitted_at_once(&mut self, node: usize, count: usize) -> u64 {
        let before = self.admitted;
        (0..count).for_each(|_| self.send(node, b"key"));
        (0..100).for_each(|_| self.step());
        self.admitted - before
    }
}

/// The longest wait of a request, in milliseconds.
const WAIT: u32 = 20;

#[test]
fn nodes_together_admit_what_one_would() {
    // Requests a second for each node, and the rate and the burst of the zone.
    let cases: [(&[f64], u64, u64); 8] = [
        (&[400.0, 100.0, 50.0, 20.0, 10.0], 100, 20),
        (&[60.0, 60.0, 60.0, 60.0, 60.0], 100, 20),
        (&[3000.0, 10.0, 10.0, 10.0, 10.0], 100, 20),
        (&[150.0, 0.5, 0.5, 0.5, 0.5], 100, 20),
        (&[2000.0, 2000.0, 100.0], 1000, 0),
        (&[40.0, 40.0], 10, 5),
        // More nodes than requests fit into the bucket.
        (&[20.0; 20], 1, 0),
        (&[20.0; 10], 2, 3),
    ];
    for (shares, rate, burst) in cases {
        for latency in [1, 5, 50] {
            let mut simulation = Simulation::new(shares.len(), rate, burst);
            simulation.latency = latency;
            let seconds = 20;
            let shares: Vec<f64> = shares.iter().map(|share| share / 1000.0).collect();
            let admitted = simulation.admitted(seconds, &shares);
            let most = rate * u64::from(seconds) + simulation.counted.burst / 1000 + shares.len() as u64 + 1 + rate / 2;
            let least = (rate * u64::from(seconds) + burst) * 95 / 100;
            let text = format!("{shares:?} {rate} r/s, burst {burst}, {latency} ms: {admitted}, not {least} to {most}");
            assert!(admitted <= most, "{text}");
            // Where an answer takes longer than requests wait, some of them are refused that one node would admit.
            assert!(admitted >= if latency <= 5 { least } else { least * 4 / 5 }, "{text}");
            assert!(simulation.engine.calls <= seconds as usize * 1000 / 10 * shares.len(), "{text}");
        }
    }
}

#[test]
fn a_burst_on_a_node_that_does_not_know_the_key_is_admitted() {
    let mut simulation = Simulation::new(2, 10, 20);
    assert!((21..=22).contains(&simulation.admitted_at_once(0, 30)), "{}", simulation.admitted);
    assert!(simulation.admitted_at_once(1, 30) <= 3, "one on credit, and what the tenth of a second has made room for");
}

#[test]
fn strict_nodes_admit_no_more_than_the_engine_grants() {
    let mut simulation = Simulation::with(3, 100, 20, true);
    simulation.pause = 2;
    let admitted = simulation.admitted(20, &[0.4, 0.1, 0.02]);
    assert!((1919..=2021).contains(&admitted), "{admitted}");
    // An engine that does not answer: the rule for a node that is alone decides.
    simulation.latency = 10_000;
    let admitted = simulation.admitted(5, &[0.4, 0.1, 0.02]) - admitted;
    assert!((60..=520).contains(&admitted), "{admitted}");
}

#[test]
fn nobody_waits_long_for_a_late_engine() {
    let mut simulation = Simulation::new(2, 100, 20);
    simulation.latency = 2000;
    let mut waits = 0;
    for _ in 0..3000 {
        simulation.step();
        simulation.send(0, b"key");
        waits = waits.max(simulation.waits.len());
    }
    assert!(waits <= WAIT as usize, "{waits}");
    assert!(simulation.waits.is_empty());
    // Each node goes on at its share of the rate.
    assert!((100..=200).contains(&simulation.admitted), "{}", simulation.admitted);
}

#[test]
fn a_flood_costs_the_engine_little() {
    let mut simulation = Simulation::new(1, 10, 5);
    for _ in 0..2000 {
        simulation.step();
        // A client that sends a thousand times what it may.
        (0..10).for_each(|_| simulation.send(0, b"key"));
    }
    assert!(simulation.engine.keys <= 60, "{} leases for 25 requests that are admitted", simulation.engine.keys);

    // Keys that are all others: those beyond the room for waiting have their credit alone.
    let leases = Leases::new(8 << 20, LimitAlone::Share, false).unwrap();
    leases.set_nodes(1);
    let bucket = Bucket { rate: 10_000, burst: 5000 };
    for number in 0..WAITING as u64 * 2 {
        let judged = leases.count(&number.to_le_bytes(), 1, bucket);
        assert!(matches!(judged, Some(Judgement::Within(_))), "{number}");
    }
    assert_eq!((leases.pending(), leases.left_out()), (WAITING, WAITING as u64));
}

#[test]
fn without_the_engine_the_rule_decides() {
    let admitted = |alone| {
        let leases = Leases::new(1 << 16, alone, false).unwrap();
        leases.set_nodes(4);
        leases.set_nodes(0);
        let bucket = Bucket { rate: 4000, burst: 20_000 };
        let at =
            |now| (0..50).filter(|_| matches!(leases.count(b"k", now, bucket), Some(Judgement::Within(_)))).count();
        assert_eq!(leases.pending(), 0, "nobody is asked");
        (at(1), at(1001))
    };
    assert_eq!(admitted(LimitAlone::Local), (21, 4));
    assert_eq!(admitted(LimitAlone::Share), (6, 1));
    assert_eq!(admitted(LimitAlone::Refuse), (0, 0));
}

#[test]
fn a_location_with_a_smaller_burst_sees_the_same_bucket() {
    let mut simulation = Simulation::new(1, 10, 20);
    assert_eq!(simulation.admitted_at_once(0, 15), 15);
    let small = Bucket { burst: 5000, ..simulation.bucket };
    assert!(matches!(simulation.nodes[0].count(b"key", simulation.now, small), Some(Judgement::Beyond(_))));
    assert_eq!(simulation.admitted_at_once(0, 1), 1);
}

#[test]
fn asking_takes_nothing() {
    let mut simulation = Simulation::new(1, 10, 3);
    for _ in 0..10 {
        let asked = simulation.nodes[0].ask(b"key", simulation.now, simulation.bucket);
        assert!(matches!(asked, Some(Judgement::Within(_))));
    }
    assert_eq!(simulation.nodes[0].pending(), 0);
    assert!((4..=5).contains(&simulation.admitted_at_once(0, 10)));
    assert!(matches!(simulation.nodes[0].ask(b"key", simulation.now, simulation.bucket), Some(Judgement::Beyond(_))));
}

#[test]
fn a_slow_key_loses_nothing() {
    let mut simulation = Simulation::new(1, 1, 9);
    simulation.bucket.rate = 16;
    simulation.counted = simulation.nodes[0].set_bucket(simulation.bucket);
    for _ in 0..3 {
        assert_eq!(simulation.admitted_at_once(0, 1), 1);
    }
    (0..5000).for_each(|_| simulation.step());
    assert_eq!(simulation.admitted_at_once(0, 20), 7);
}

#[test]
fn a_strict_zone_asks_again_when_its_engine_is_back() {
    let mut simulation = Simulation::with(1, 100, 20, true);
    // Answers that never come, as after the loss of a connection.
    simulation.pause = u32::MAX;
    for _ in 0..200 {
        simulation.step();
        simulation.send(0, b"key");
        while let Some(request) = simulation.nodes[0].next_waiting() {
            simulation.nodes[0].release(request.place, 0);
        }
    }
    assert!(simulation.engine.keys == 0 && simulation.nodes[0].is_impatient());
    simulation.nodes[0].set_nodes(0);
    simulation.nodes[0].set_nodes(1);
    simulation.pause = 2;
    (0..2000).for_each(|_| simulation.step());
    assert_eq!(simulation.admitted_at_once(0, 5), 5);
    assert!(simulation.engine.keys > 0);
}

#[test]
fn a_key_that_comes_back_after_weeks_is_admitted() {
    const DAY: u32 = 24 * 3600 * 1000;
    let leases = Leases::new(1 << 16, LimitAlone::Share, false).unwrap();
    leases.set_nodes(1);
    let bucket = leases.set_bucket(Bucket { rate: 16, burst: 0 });
    for days in [1, 13, 20, 25, 30, 40, 48, 55, 100] {
        let (then, key) = (1000_u32, format!("{days}"));
        assert_eq!(leases.count(key.as_bytes(), then, bucket), Some(Judgement::Within(0)));
        let request = leases.next_waiting().expect("a charge");
        leases.demand(request.place, then, bucket);
        leases.grant(request, then, bucket, LeaseGrant { granted: 0, before: 120_000_000 });
        assert!(matches!(leases.count(key.as_bytes(), then + 1000, bucket), Some(Judgement::Beyond(_))));
        let later = then.wrapping_add(DAY.wrapping_mul(days));
        let judged = leases.count(key.as_bytes(), later, bucket);
        // Where less than its last use is known, the engine is asked.
        assert!(matches!(judged, Some(Judgement::Within(_)) | None), "{days}: {judged:?}");
        while leases.next_waiting().is_some() {}
    }
}

#[test]
fn a_change_of_the_rate_forgets_what_was_said_of_full_buckets() {
    let leases = Leases::new(1 << 16, LimitAlone::Share, false).unwrap();
    leases.set_nodes(1);
    let slow = leases.set_bucket(Bucket { rate: 16, burst: 0 });
    assert_eq!(leases.count(b"key", 1, slow), Some(Judgement::Within(0)));
    let request = leases.next_waiting().expect("a charge");
    leases.demand(request.place, 1, slow);
    leases.grant(request, 1, slow, LeaseGrant { granted: 0, before: 600_000_000 });
    assert!(matches!(leases.count(b"key", 100_000, slow), Some(Judgement::Beyond(_))));
    let fast = leases.set_bucket(Bucket { rate: 100_000, burst: 0 });
    assert!(!matches!(leases.count(b"key", 100_000, fast), Some(Judgement::Beyond(_))));
}
