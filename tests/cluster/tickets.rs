//! Keys of session tickets that several machines share.

use freerun_testkit::{Kind, Setup, Site, TestServer, Tls, TlsVersion, within};
use std::time::Duration;

use crate::RECOVERED;
use crate::engine::Engine;

/// The time after which a key is replaced.
const PERIOD: u64 = 3;

/// A machine that serves TLS and shares its keys.
fn node(engine: &str, secret: &str) -> TestServer {
    Setup::new()
        .main(&format!("zone_sync_engine {engine}; zone_sync_secret {secret};"))
        .http(&format!(
            "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
             ssl_session_tickets sync; ssl_session_timeout {PERIOD}s;
             server {{ listen 127.0.0.1:@PORT@ ssl; return 200 $ssl_session_reused; }}"
        ))
        .start(Kind::Freerun)
}

fn visit(node: &TestServer, tls: &Tls) -> String {
    node.connect_tls(tls).get("/").text()
}

fn secret(site: &Site) -> String {
    site.file("secret", "0123456789abcdef0123456789abcdef\n");
    site.at("secret").display().to_string()
}

/// Whether a session that begins on the first machine is resumed on all others.
fn is_resumed_on_all(nodes: &[TestServer], version: TlsVersion) -> bool {
    let tls = Tls::new().resuming().only(version);
    assert_eq!(visit(&nodes[0], &tls), ".");
    nodes[1..].iter().all(|node| visit(node, &tls) == "r")
}

#[test]
fn a_session_that_began_on_one_machine_is_resumed_on_others_whatever_key_is_in_use() {
    let Some(engine) = Engine::redis() else { return };
    let site = Site::new();
    let secret = secret(&site);
    let nodes = [0; 3].map(|_| node(&engine.address(), &secret));
    let table = format!("{{freerun}}:tickets:{PERIOD}");
    // Before the key itself stands the time at which it was put there.
    let newest = || engine.ask(&["lindex", &table, "0"]).split('|').next().unwrap_or_default().to_owned();
    let is_shared = || is_resumed_on_all(&nodes, TlsVersion::V13);
    assert!(within(RECOVERED, is_shared), "{}", newest());
    for number in 0..3 {
        let known = newest();
        for version in TlsVersion::ALL {
            assert!(is_resumed_on_all(&nodes, version), "{version} after {number} keys");
        }
        assert!(within(RECOVERED, || newest() != known), "{known} stays");
    }
    assert_eq!(engine.ask(&["llen", &table]).trim(), "4", "old keys go");
}

#[test]
fn without_the_engine_each_machine_goes_on_with_keys_of_its_own() {
    let Some(mut engine) = Engine::redis() else { return };
    let site = Site::new();
    let secret = secret(&site);
    let nodes = [0; 2].map(|_| node(&engine.address(), &secret));
    assert!(within(RECOVERED, || is_resumed_on_all(&nodes, TlsVersion::V13)));
    engine.kill();
    // Until the keys of the engine are too old, and beyond that, a session is resumed where it began.
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(2 * PERIOD) {
        let tls = Tls::new().resuming().only(TlsVersion::V13);
        assert_eq!((visit(&nodes[0], &tls), visit(&nodes[0], &tls)), (".".to_owned(), "r".to_owned()));
    }
    engine.again();
    assert!(within(2 * RECOVERED, || is_resumed_on_all(&nodes, TlsVersion::V13)));
}
