//! The promises of each method, tested with given time and randomness.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::failure::AttemptFailure;
use crate::group::{Group, GroupSettings, PeerSpec};
use crate::group_state::GroupState;
use crate::method::Measure;
use crate::peer::{PeerSettings, PeerState, SCALE};
use crate::query::NoPeer;

const ALL: [Method; 11] = [
    Method::RoundRobin,
    Method::LeastConn,
    Method::IpHash,
    Method::Hash,
    Method::ConsistentHash,
    Method::Random,
    Method::RandomTwo(Two::LeastConn),
    Method::RandomTwo(Two::LeastTime(Measure::Header)),
    Method::LeastTime { measure: Measure::Header, inflight: false },
    Method::LeastTime { measure: Measure::LastByte, inflight: false },
    Method::LeastTime { measure: Measure::LastByte, inflight: true },
];

pub(super) fn spec(number: usize, settings: PeerSettings) -> PeerSpec {
    let server: Arc<str> = format!("127.0.0.1:{}", 8000 + number).into();
    PeerSpec { address: crate::UpstreamAddress::Ip(server.parse().unwrap()), server, settings }
}

pub(super) fn weighted(weights: &[u32]) -> Vec<PeerSpec> {
    let settings = |&weight| PeerSettings { weight, ..PeerSettings::default() };
    weights.iter().map(settings).enumerate().map(|(number, settings)| spec(number, settings)).collect()
}

pub(super) fn group(method: Method, peers: Vec<PeerSpec>) -> Group {
    Group::new("g", GroupSettings { method, ..GroupSettings::default() }, Arc::default(), peers)
}

pub(super) fn index(lease: &Lease) -> usize {
    usize::from(lease.peer().server.rsplit_once(':').unwrap().1.parse::<u16>().unwrap() - 8000)
}

fn ask(group: &Group, now: Millis, key: &[u8], random: u64) -> Result<Lease, NoPeer> {
    group.pick(&Query { now, key, sticky: None, random }, &mut TriedServers::new())
}

pub(super) fn chosen(group: &Group, now: Millis) -> Option<usize> {
    ask(group, now, b"", 0).ok().map(|lease| index(&lease))
}

/// How often each server is chosen in `count` queries with different keys and random numbers.
fn counts(group: &Group, servers: usize, count: usize) -> Vec<usize> {
    let mut random = Random::seeded(1);
    let mut counts = vec![0; servers];
    for number in 0..count {
        // As long as an IPv6 address, for `ip_hash`.
        let key = format!("key-{number:012}");
        counts[index(&ask(group, 0, key.as_bytes(), random.number()).unwrap())] += 1;
    }
    counts
}

#[test]
fn many_servers_of_one_weight_take_turns_in_their_order() {
    let mut specs = weighted(&[1; 100]);
    specs[7].settings.down = true;
    let group = group(Method::RoundRobin, specs.clone());
    let order: Vec<usize> = (0..198).map(|_| chosen(&group, 0).unwrap()).collect();
    let expected: Vec<usize> = (0..100).filter(|index| *index != 7).collect();
    assert_eq!(order, expected.repeat(2));
    // A further try of a request goes to the next one, and the turns go on where they were after a change of the list.
    let mut tried = TriedServers::new();
    let next = |tried: &mut TriedServers| index(&group.pick(&Query::default(), tried).unwrap());
    assert_eq!([next(&mut tried), next(&mut tried)], [0, 1]);
    group.replace(specs.split_off(1));
    assert_eq!(chosen(&group, 0), Some(2));
}

#[test]
fn turns_are_smooth() {
    let group = group(Method::RoundRobin, weighted(&[5, 1, 1]));
    let order: Vec<usize> = (0..7).map(|_| chosen(&group, 0).unwrap()).collect();
    assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn turns_follow_weights_exactly(weights in prop::collection::vec(1u32..20, 1..12)) {
        let group = group(Method::RoundRobin, weighted(&weights));
        let cycle: u32 = weights.iter().sum();
        for _ in 0..3 {
            let counts = counts(&group, weights.len(), cycle as usize);
            prop_assert_eq!(counts, weights.iter().map(|&weight| weight as usize).collect::<Vec<_>>());
        }
    }

    #[test]
    fn least_conn_chooses_the_least_loaded(weights in prop::collection::vec(1u32..10, 2..8), requests in 1usize..60) {
        let group = group(Method::LeastConn, weighted(&weights));
        let mut leases = Vec::new();
        for _ in 0..requests {
            let load = |connections: u32, number: usize| f64::from(connections) / f64::from(weights[number]);
            let before: Vec<f64> = group.peers().peers().enumerate().map(|(n, peer)| load(peer.connections(), n)).collect();
            let lease = ask(&group, 0, b"", 0).unwrap();
            let least = before.iter().copied().fold(f64::MAX, f64::min);
            prop_assert!(before[index(&lease)] <= least + 1e-9);
            leases.push(lease);
        }
    }

    #[test]
    fn nobody_who_is_out_is_chosen(
        out in prop::collection::vec(0u8..5, 2..10),
        method in prop::sample::select(&ALL[..]),
        seed in any::<u64>(),
    ) {
        // 0 and 1: fine, 2: down, 3: has failed, 4: drained.
        let specs = out.iter().enumerate().map(|(number, out)| {
            spec(number, PeerSettings { down: *out == 2, drain: *out == 4, ..PeerSettings::default() })
        });
        let group = group(method, specs.collect());
        for peer in group.peers().peers().zip(&out).filter(|(_, out)| **out == 3).map(|(peer, _)| peer) {
            prop_assert!(Lease::acquire(peer, 0).unwrap().failed(AttemptFailure::Connect, 0).disabled);
        }
        let mut random = Random::seeded(seed);
        let mut tried = TriedServers::new();
        let mut asked = Vec::new();
        loop {
            let key = random.number().to_le_bytes();
            let query = Query { now: 9_999, key: &key, sticky: None, random: random.number() };
            match group.pick(&query, &mut tried) {
                Ok(lease) => asked.push(index(&lease)),
                Err(NoPeer::AllTried) => {
                    prop_assert!(out.iter().all(|out| *out <= 2));
                    break;
                }
                Err(_) => break,
            }
        }
        asked.sort();
        let fine: Vec<usize> = (0..out.len()).filter(|&number| out[number] < 2).collect();
        prop_assert_eq!(asked, fine);
    }

    #[test]
    fn keys_keep_their_server_when_another_joins(servers in 3usize..10, method in prop::sample::select(&[
        Method::ConsistentHash, Method::Hash, Method::IpHash,
    ][..])) {
        let before = group(method, weighted(&vec![1; servers]));
        let after = group(method, weighted(&vec![1; servers + 1]));
        let keys = 2000usize;
        let moved = (0..keys).filter(|number| {
            let key = format!("/some/path/{number}");
            let at = |group: &Group| index(&ask(group, 0, key.as_bytes(), 0).unwrap());
            assert_eq!(at(&before), at(&before));
            at(&before) != at(&after)
        });
        let share = moved.count() as f64 / keys as f64;
        if method == Method::ConsistentHash {
            prop_assert!(share < 1.6 / (servers + 1) as f64, "{} of the keys moved", share);
        }
    }
}

#[test]
fn what_is_drawn_follows_weights() {
    let weights = [1u32, 2, 3, 4];
    for method in [Method::Random, Method::Hash, Method::IpHash, Method::ConsistentHash] {
        let counts = counts(&group(method, weighted(&weights)), 4, 10_000);
        // 640 points on a circle spread less evenly than numbers do.
        let most = if method == Method::ConsistentHash { 0.25 } else { 0.1 };
        for (count, weight) in counts.iter().zip(weights) {
            let wanted = f64::from(weight) * 1000.0;
            assert!((*count as f64 - wanted).abs() < wanted * most + 50.0, "{method:?}: {counts:?}");
        }
    }
}

#[test]
fn clients_of_one_network_have_one_server() {
    let group = group(Method::IpHash, weighted(&[1, 1, 1, 1, 1]));
    let at = |address: &[u8]| index(&ask(&group, 0, address, 0).unwrap());
    for third in 0..50 {
        let first = at(&[10, 0, third, 0]);
        assert!((1..=255).all(|last| at(&[10, 0, third, last]) == first));
    }
}

#[test]
fn two_at_random_prefer_the_idle_one() {
    let group = group(Method::RandomTwo(Two::LeastConn), weighted(&[1; 10]));
    let leases: Vec<Lease> = (0..200).map(|number| ask(&group, 0, b"", number * 7919).unwrap()).collect();
    let most = group.peers().peers().map(|peer| peer.connections()).max().unwrap();
    assert!(most <= 26, "{most} of {} on one server", leases.len());
}

#[test]
fn the_fastest_gets_the_most() {
    let method = Method::LeastTime { measure: Measure::Header, inflight: false };
    let group = group(method, weighted(&[1, 1, 1]));
    let times = [2u64, 10, 50];
    let mut counts = [0; 3];
    for _ in 0..100 {
        let lease = ask(&group, 1000, b"", 0).unwrap();
        let took = Duration::from_millis(times[index(&lease)]);
        counts[index(&lease)] += 1;
        lease.header(200, took, 1000);
        lease.succeeded(took, 1000);
    }
    assert_eq!(counts, [98, 1, 1]);
    // While the fast server is busy, the others are chosen.
    let leases: Vec<Lease> = (0..12).map(|_| ask(&group, 1000, b"", 0).unwrap()).collect();
    let busy = [0, 1, 2].map(|number| leases.iter().filter(|lease| index(lease) == number).count());
    assert!(busy[0] > busy[1] && busy[1] >= 1, "{busy:?}");
    drop(leases);
    // A server that was slow long ago is tried again.
    let now = 200_000;
    let seen: Vec<usize> = (0..40)
        .map(|_| {
            let lease = ask(&group, now, b"", 0).unwrap();
            let number = index(&lease);
            lease.header(200, Duration::from_millis(5), now);
            number
        })
        .collect();
    assert!(seen.contains(&2), "{seen:?}");
}

#[test]
fn a_time_counts_half_after_each_fail_timeout_of_its_server_and_a_second() {
    let method = Method::LeastTime { measure: Measure::Header, inflight: false };
    let settings = |seconds| PeerSettings { fail_timeout: Duration::from_secs(seconds), ..PeerSettings::default() };
    let group = group(method, vec![spec(0, settings(3)), spec(1, settings(9)), spec(2, settings(0))]);
    let peers = group.peers();
    let at = |now| [0, 1, 2].map(|number: usize| peers.primary.peers[number].slowness(Measure::Header, false, now));
    for peer in &peers.primary.peers {
        peer.averaged(&peer.header_average, Duration::from_millis(8), 0);
    }
    for (now, expected) in [
        (0, [8000, 8000, 8000]),
        (999, [8000, 8000, 8000]),
        (1000, [8000, 8000, 4000]),
        (3_999, [8000, 8000, 1000]),
        (9_999, [2000, 8000, 15]),
        (20_000, [250, 2000, 0]),
    ] {
        assert_eq!(at(now), expected, "{now}");
    }
}

#[test]
fn requests_on_their_way_count_where_they_should() {
    let method = Method::LeastTime { measure: Measure::LastByte, inflight: true };
    let group = group(method, weighted(&[1, 1]));
    for _ in 0..2 {
        ask(&group, 0, b"", 0).unwrap().succeeded(Duration::from_millis(1), 0);
    }
    let stuck = ask(&group, 0, b"", 0).unwrap();
    for _ in 0..10 {
        let lease = ask(&group, 5_000, b"", 0).unwrap();
        assert_ne!(index(&lease), index(&stuck));
    }
}

#[test]
fn failures_make_a_server_unavailable_and_one_request_tries_it_again() {
    let settings = PeerSettings { max_fails: 2, fail_timeout: Duration::from_secs(5), ..PeerSettings::default() };
    let group = group(Method::RoundRobin, vec![spec(0, settings.clone()), spec(1, settings)]);
    let peers = group.peers();
    let first = &peers.primary.peers[0];
    assert!(!Lease::acquire(first, 0).unwrap().failed(AttemptFailure::Timeout, 0).disabled);
    assert_eq!(first.state(0), PeerState::Up);
    // The second failure comes too late to count together with the first.
    assert!(!Lease::acquire(first, 6_000).unwrap().failed(AttemptFailure::Timeout, 6_000).disabled);
    assert!(Lease::acquire(first, 8_000).unwrap().failed(AttemptFailure::Timeout, 8_000).disabled);
    assert_eq!(first.state(8_000), PeerState::Unavailable);
    assert!((0..10).all(|_| chosen(&group, 12_999) == Some(1)));
    // One request at a time finds out whether the server is back.
    let mut probe = None;
    for _ in 0..10 {
        let lease = ask(&group, 13_000, b"", 0).unwrap();
        if index(&lease) == 0 {
            assert!(probe.replace(lease).is_none());
        }
    }
    // It is not back: it may be tried again after the same time.
    assert!(probe.unwrap().failed(AttemptFailure::Connect, 14_000).disabled);
    assert!((0..10).all(|_| chosen(&group, 18_999) == Some(1)));
    let probe = (0..10).map(|_| ask(&group, 19_000, b"", 0).unwrap()).find(|lease| index(lease) == 0).unwrap();
    probe.succeeded(Duration::from_millis(1), 19_500);
    assert_eq!(first.state(19_500), PeerState::Up);
    let seen = (0..10).filter(|_| chosen(&group, 19_500) == Some(0)).count();
    assert!((4..=6).contains(&seen), "{seen}");
}

#[test]
fn a_server_is_back_with_the_head_of_its_response() {
    let group = group(Method::RoundRobin, weighted(&[1, 1]));
    let peer = group.peers().primary.peers[0].clone();
    for (status, state) in [(503, PeerState::Unavailable), (200, PeerState::Up)] {
        Lease::acquire(&peer, 0).map(|lease| lease.failed(AttemptFailure::Connect, 0));
        let probe = Lease::acquire(&peer, 20_000).unwrap();
        probe.header(status, Duration::ZERO, 20_000);
        assert_eq!(peer.state(20_000), state);
        peer.until.store(1, std::sync::atomic::Ordering::Relaxed);
        drop(probe);
    }
}

#[test]
fn a_request_that_was_slow_to_succeed_proves_nothing() {
    let group = group(Method::RoundRobin, weighted(&[1, 1]));
    let slow = ask(&group, 0, b"", 0).unwrap();
    let peer = slow.peer().clone();
    Lease::acquire(&peer, 0).unwrap().failed(AttemptFailure::Connect, 100);
    slow.succeeded(Duration::from_millis(200), 200);
    assert_eq!(peer.state(200), PeerState::Unavailable);
}

#[test]
fn weight_comes_back_step_by_step() {
    let settings = PeerSettings { weight: 10, max_fails: 2, ..PeerSettings::default() };
    let group = group(Method::RoundRobin, vec![spec(0, settings.clone()), spec(1, settings)]);
    let peer = group.peers().primary.peers[0].clone();
    Lease::acquire(&peer, 0).unwrap().failed(AttemptFailure::Connect, 0);
    let weights: Vec<u32> = (0..7).map(|_| peer.weight(0).unwrap() / SCALE).collect();
    assert_eq!(weights, [5, 6, 7, 8, 9, 10, 10]);
}

#[test]
fn a_server_whose_failures_no_longer_count_is_asked_at_once() {
    let state = Arc::<GroupState>::default();
    let with = |max_fails| {
        let settings = PeerSettings { max_fails, weight: 4, ..PeerSettings::default() };
        let specs = vec![spec(0, settings.clone()), spec(1, settings)];
        Group::new("g", GroupSettings::default(), state.clone(), specs)
    };
    let before = with(1);
    Lease::acquire(&before.peers().primary.peers[0], 0).unwrap().failed(AttemptFailure::Connect, 0);
    assert!((0..10).all(|_| chosen(&before, 1) == Some(1)));
    // The configuration is loaded again with `max_fails=0`.
    let after = with(0);
    let peer = after.peers().primary.peers[0].clone();
    assert_eq!(peer.state(1), PeerState::Up);
    for _ in 0..10 {
        let seen: Vec<_> = (0..2).filter_map(|_| chosen(&after, 1)).collect();
        assert!(seen.contains(&0), "{seen:?}");
        assert!(!Lease::acquire(&peer, 1).unwrap().failed(AttemptFailure::Connect, 1).disabled);
    }
}

#[test]
fn a_server_that_is_alone_is_never_unavailable() {
    let group = group(Method::RoundRobin, weighted(&[1]));
    for _ in 0..5 {
        let lease = ask(&group, 0, b"", 0).unwrap();
        assert_eq!(lease.failed(AttemptFailure::Connect, 0), Default::default());
    }
    assert_eq!(group.peers().primary.peers[0].state(0), PeerState::Up);
    let mut tried = TriedServers::new();
    group.pick(&Query::default(), &mut tried).unwrap();
    assert_eq!(group.pick(&Query::default(), &mut tried).unwrap_err(), NoPeer::AllTried);
}

#[test]
fn a_slow_start_ramps_up() {
    let settings = PeerSettings { weight: 1, slow_start: Duration::from_secs(10), ..PeerSettings::default() };
    let group = group(Method::RoundRobin, vec![spec(0, settings.clone()), spec(1, settings)]);
    let peer = group.peers().primary.peers[0].clone();
    Lease::acquire(&peer, 0).unwrap().failed(AttemptFailure::Connect, 0);
    let probe = Lease::acquire(&peer, 20_000).unwrap();
    probe.succeeded(Duration::ZERO, 20_000);
    let share = |now| (0..200).filter(|_| chosen(&group, now) == Some(0)).count();
    let shares = [20_001, 22_500, 25_000, 30_000].map(share);
    assert!(shares[0] < 10 && shares[0] < shares[1] && shares[1] < shares[2] && shares[2] < shares[3], "{shares:?}");
    assert_eq!(shares[3], 100);
}

#[test]
fn those_for_need_are_asked_only_in_need() {
    let mut specs = weighted(&[1, 1, 1]);
    specs[2].settings.backup = true;
    let group = group(Method::RoundRobin, specs);
    assert!((0..10).all(|_| chosen(&group, 0) != Some(2)));
    let peers = group.peers();
    Lease::acquire(&peers.primary.peers[0], 0).unwrap().failed(AttemptFailure::Connect, 0);
    assert!((0..10).all(|_| chosen(&group, 0) == Some(1)));
    Lease::acquire(&peers.primary.peers[1], 0).unwrap().failed(AttemptFailure::Connect, 0);
    assert!((0..10).all(|_| chosen(&group, 0) == Some(2)));
    Lease::acquire(&peers.backup.peers[0], 0).unwrap().failed(AttemptFailure::Connect, 0);
    assert_eq!(ask(&group, 0, b"", 0).unwrap_err(), NoPeer::NoneLive);
}

#[test]
fn a_request_goes_to_each_server_once_then_to_those_for_need() {
    let mut specs = weighted(&[1, 1, 1]);
    specs[1].settings.backup = true;
    for method in [Method::RoundRobin, Method::LeastConn] {
        let group = group(method, specs.clone());
        let mut tried = TriedServers::new();
        let mut order = Vec::new();
        while let Ok(lease) = group.pick(&Query::default(), &mut tried) {
            order.push(index(&lease));
        }
        assert_eq!(order, [0, 2, 1]);
        assert_eq!(tried.count(), 3);
    }
}

#[test]
fn most_connections_are_never_exceeded_by_loops_that_ask_at_once() {
    for method in ALL {
        let settings = PeerSettings { max_conns: 3, ..PeerSettings::default() };
        let group = group(method, (0..4).map(|number| spec(number, settings.clone())).collect());
        let used: [AtomicU32; 4] = Default::default();
        let refused = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for seed in 0..6 {
                let (group, used, refused) = (&group, &used, &refused);
                scope.spawn(move || {
                    let mut random = Random::seeded(seed);
                    let mut held: Vec<Lease> = Vec::new();
                    let give_back = |lease: Lease| {
                        used[index(&lease)].fetch_sub(1, SeqCst);
                        drop(lease);
                    };
                    for _ in 0..2000 {
                        let key = random.number().to_le_bytes();
                        match ask(group, 0, &key, random.number()) {
                            Ok(lease) => {
                                assert!(used[index(&lease)].fetch_add(1, SeqCst) < 3);
                                held.push(lease);
                            }
                            Err(_) => {
                                refused.fetch_add(1, SeqCst);
                            }
                        }
                        if held.len() > random.below(4) as usize {
                            let lease = held.swap_remove(random.below(held.len() as u64) as usize);
                            give_back(lease);
                        }
                    }
                    held.into_iter().for_each(give_back);
                });
            }
        });
        assert!(group.peers().peers().all(|peer| peer.connections() == 0));
    }
}

#[test]
fn loops_that_take_turns_at_once_still_follow_weights() {
    let weights = [5u32, 3, 2];
    let group = group(Method::RoundRobin, weighted(&weights));
    let counts: [AtomicU32; 3] = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25_000 {
                    counts[index(&ask(&group, 0, b"", 0).unwrap())].fetch_add(1, SeqCst);
                }
            });
        }
    });
    for (count, weight) in counts.iter().zip(weights) {
        // Each of the copies may be in the middle of its cycle.
        assert!(count.load(SeqCst).abs_diff(weight * 10_000) <= 8 * 5, "{counts:?}");
    }
}

#[test]
fn what_is_known_goes_on_when_servers_are_replaced() {
    let state: Arc<GroupState> = Arc::default();
    let settings = GroupSettings::default();
    let group = Group::new("g", settings.clone(), state.clone(), weighted(&[1, 1, 1]));
    let lease = ask(&group, 0, b"", 0).unwrap();
    let second = ask(&group, 0, b"", 0).unwrap();
    assert!(second.failed(AttemptFailure::Connect, 0).disabled);
    // The first server is removed, the second one gets another weight, and a new one is added.
    let mut specs = weighted(&[1, 7, 1, 1]);
    specs.remove(0);
    group.replace(specs.clone());
    let peers = group.peers();
    assert_eq!(
        peers.primary.peers.iter().map(|peer| peer.state(0)).collect::<Vec<_>>(),
        [PeerState::Unavailable, PeerState::Up, PeerState::Up,]
    );
    assert_eq!(lease.peer().connections(), 1);
    lease.succeeded(Duration::ZERO, 0);
    // A reload: another group with the same state.
    specs.remove(2);
    let next = Group::new("g", settings, state, specs);
    assert_eq!(next.peers().primary.peers[0].state(0), PeerState::Unavailable);
    assert_eq!(next.peers().primary.peers[0].id, peers.primary.peers[0].id);
    assert_eq!(chosen(&next, 0), Some(2));
}

#[test]
fn turns_go_on_when_servers_are_replaced() {
    let group = group(Method::RoundRobin, weighted(&[1, 1, 1]));
    let mut seen = HashMap::new();
    for _ in 0..9 {
        *seen.entry(chosen(&group, 0).unwrap()).or_insert(0) += 1;
        group.replace(weighted(&[1, 1, 1]));
    }
    assert_eq!(seen, HashMap::from([(0, 3), (1, 3), (2, 3)]));
}

#[test]
fn the_same_address_twice_is_two_servers() {
    let mut specs = weighted(&[1]);
    specs.push(specs[0].clone());
    let group = group(Method::RoundRobin, specs);
    let ids: Vec<u32> = (0..2).map(|_| ask(&group, 0, b"", 0).unwrap().peer().id).collect();
    assert_ne!(ids[0], ids[1]);
}

/// The servers that nginx 1.22 chose for the queries `k1` to `k40`: the last digit of the server's port (0: the Unix
/// socket).
const SEEN_WITH_NGINX: [(Method, &str, &str); 5] = [
    (Method::Hash, "127.0.0.1:29201;127.0.0.1:29202 2;127.0.0.1:29203", "2311322223122221313221331222222311322221"),
    (
        Method::Hash,
        "127.0.0.1:29201;127.0.0.1:29202 2 down;127.0.0.1:29203",
        "3311333333113311313311331131313311331311",
    ),
    (
        Method::ConsistentHash,
        "127.0.0.1:29201;127.0.0.1:29202 2;127.0.0.1:29203",
        "3212222122322223322222122121213322222122",
    ),
    (Method::ConsistentHash, "127.0.0.1:29201;unix:/tmp/one.sock", "1011110111110111001001111101100000001101"),
    (Method::ConsistentHash, "localhost:29201;127.0.0.1:29203", "3111111113111133111111113131133313311111"),
];

#[test]
fn keys_lead_where_nginx_sends_them() {
    for (method, servers, seen) in SEEN_WITH_NGINX {
        let specs = servers.split(';').map(|server| {
            let mut words = server.split(' ');
            let server: Arc<str> = words.next().unwrap().into();
            let weight = words.next().map_or(1, |weight| weight.parse().unwrap());
            let address = match server.strip_prefix("unix:") {
                Some(path) => crate::UpstreamAddress::Unix(std::path::Path::new(path).into()),
                None => crate::UpstreamAddress::Ip(server.replace("localhost", "127.0.0.1").parse().unwrap()),
            };
            let settings = PeerSettings { weight, down: words.next().is_some(), ..PeerSettings::default() };
            PeerSpec { address, server, settings }
        });
        let group = group(method, specs.collect());
        let found: String = (1..=40)
            .map(|number| {
                let lease = ask(&group, 0, format!("k{number}").as_bytes(), 0).unwrap();
                match &lease.peer().address {
                    crate::UpstreamAddress::Ip(address) => char::from(b'0' + (address.port() % 10) as u8),
                    crate::UpstreamAddress::Unix(_) => '0',
                }
            })
            .collect();
        assert_eq!(found, seen, "{method:?} {servers}");
    }
}
