//! Measures the cost of a choice: nanoseconds for each method with 3, 30 and 300 servers, by one loop and by two at
//! once.
//!
//! `cargo run --release -p freerun-upstream --example pick`

use std::sync::Arc;
use std::time::Instant;

use freerun_upstream::method::{Measure, Method, Two};
use freerun_upstream::random::Random;
use freerun_upstream::{Group, GroupSettings, PeerSettings, PeerSpec, Query, TriedServers, UpstreamAddress};

const ROUNDS: u32 = 200_000;

fn group(method: Method, servers: u16) -> Group {
    let peers = (0..servers).map(|number| {
        let server: Arc<str> = format!("127.0.0.1:{}", 1000 + number).into();
        let address = UpstreamAddress::Ip(([127, 0, 0, 1], 1000 + number).into());
        PeerSpec { address, server, settings: PeerSettings::default() }
    });
    Group::new("bench", GroupSettings { method, ..GroupSettings::default() }, Arc::default(), peers.collect())
}

fn run(group: &Group, loops: u64) -> u128 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for seed in 0..loops {
            scope.spawn(move || {
                let mut random = Random::seeded(seed);
                for round in 0..ROUNDS {
                    let key = random.number().to_le_bytes();
                    let query =
                        Query { now: u64::from(round) / 100, key: &key, random: random.number(), ..Query::default() };
                    let lease = group.pick(&query, &mut TriedServers::new());
                    std::hint::black_box(&lease);
                }
            });
        }
    });
    start.elapsed().as_nanos() / u128::from(ROUNDS)
}

fn main() {
    let methods = [
        ("round robin", Method::RoundRobin),
        ("least_conn", Method::LeastConn),
        ("hash", Method::Hash),
        ("hash consistent", Method::ConsistentHash),
        ("random", Method::Random),
        ("random two", Method::RandomTwo(Two::LeastConn)),
        ("least_time", Method::LeastTime { measure: Measure::Header, inflight: false }),
    ];
    println!("{:16} {:>8} {:>8} {:>8}   two loops: {:>8} {:>8} {:>8}", "ns per choice", 3, 30, 300, 3, 30, 300);
    for (name, method) in methods {
        let costs: Vec<u128> =
            [1, 2].iter().flat_map(|&loops| [3, 30, 300].map(|servers| run(&group(method, servers), loops))).collect();
        let [a, b, c, d, e, f] = costs[..] else { return };
        println!("{name:16} {a:>8} {b:>8} {c:>8}              {d:>8} {e:>8} {f:>8}");
    }
}
