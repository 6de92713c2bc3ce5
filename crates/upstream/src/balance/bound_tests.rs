//! Clients that are bound to a server: how they find it again.

use super::tests::{chosen, group, index, spec, weighted};
use super::*;
use crate::failure::AttemptFailure;
use crate::peer::PeerSettings;

#[test]
fn who_is_bound_stays() {
    let mut specs = weighted(&[1, 1, 1]);
    specs[1].settings.route = Some("b".into());
    specs[2].settings.drain = true;
    let group = group(Method::RoundRobin, specs);
    let bound = |bound, now| {
        let query = Query { now, sticky: Some(bound), ..Query::default() };
        group.pick(&query, &mut TriedServers::new()).map(|lease| index(&lease))
    };
    let peers = group.peers();
    // md5 of "127.0.0.1:8000"
    let first = &peers.primary.peers[0].route.clone();
    assert_eq!(first.len(), 32);
    for _ in 0..5 {
        assert_eq!(bound(ClientBinding::Route(first.as_bytes()), 0), Ok(0));
        assert_eq!(bound(ClientBinding::Route(b"b"), 0), Ok(1));
        // A drained server serves the clients that are bound to it, and no others.
        assert_eq!(bound(ClientBinding::Id(peers.primary.peers[2].id), 0), Ok(2));
        assert_ne!(chosen(&group, 0), Some(2));
        assert!(bound(ClientBinding::Route(b"unknown"), 0).unwrap() < 2);
    }
    Lease::acquire(&peers.primary.peers[1], 0).unwrap().failed(AttemptFailure::Connect, 0);
    assert_eq!(bound(ClientBinding::Route(b"b"), 0), Ok(0));
}

#[test]
fn routes_of_backup_servers_count_once_the_others_are_dead() {
    let mut specs = weighted(&[1, 1, 1]);
    for spec in &mut specs[1..] {
        spec.settings.backup = true;
    }
    specs[2].settings.route = Some("b".into());
    let group = group(Method::RoundRobin, specs);
    let bound = |bound| {
        let query = Query { sticky: Some(bound), ..Query::default() };
        group.pick(&query, &mut TriedServers::new()).map(|lease| index(&lease))
    };
    let peers = group.peers();
    for _ in 0..3 {
        assert_eq!(bound(ClientBinding::Route(b"b")), Ok(0));
        // A connection that is tied to a server stays there.
        assert_eq!(bound(ClientBinding::Id(peers.backup.peers[1].id)), Ok(2));
    }
    Lease::acquire(&peers.primary.peers[0], 0).unwrap().failed(AttemptFailure::Connect, 0);
    for _ in 0..3 {
        assert_eq!(bound(ClientBinding::Route(b"b")), Ok(2));
    }
}

#[test]
fn servers_of_one_route_take_turns_whatever_turns_others_had() {
    let route = |weight| PeerSettings { weight, route: Some("r".into()), ..PeerSettings::default() };
    let group = group(Method::RoundRobin, [1, 1].into_iter().enumerate().map(|(n, w)| spec(n, route(w))).collect());
    let bound = || {
        let query = Query { sticky: Some(ClientBinding::Route(b"r")), ..Query::default() };
        index(&group.pick(&query, &mut TriedServers::new()).unwrap())
    };
    assert_eq!(chosen(&group, 0), Some(0));
    assert_eq!([bound(), bound(), bound(), bound()], [1, 0, 1, 0]);
    assert_eq!(chosen(&group, 0), Some(1));
}
