//! Chains of certificates are judged as nginx judges them with OpenSSL.

use freerun_sys::x509::{AddedCounts, Certificate, CertificatePurpose, CertificateStore, ChainRules, verify_words};
use std::collections::HashMap;

const CERTIFICATES: &str = include_str!("fixtures/certificates.pem");
const CASES: &str = include_str!("fixtures/verification.txt");

/// A day in 2030.
const NOW: i64 = 1_900_000_000;

/// The blocks of a fixture by their names.
fn blocks(fixture: &'static str) -> HashMap<&'static str, &'static str> {
    fixture.split("# ").skip(1).map(|block| block.split_once('\n').expect("a name and a block")).collect()
}

/// The texts of a list of names.
fn texts(names: &str) -> String {
    let blocks = blocks(CERTIFICATES);
    names.split(", ").filter(|name| !name.is_empty()).map(|name| blocks[name]).collect()
}

#[test]
fn nginx_is_of_the_same_opinion() {
    let mut wrong = Vec::new();
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let [trusted, lists, chain, depth, client, server] =
            line.split('|').map(str::trim).collect::<Vec<_>>().try_into().expect("six columns");
        let mut store = CertificateStore::new().expect("a store");
        store.add_pem(texts(trusted).as_bytes()).expect("trusted certificates");
        if !lists.is_empty() {
            store.add_pem(texts(lists).as_bytes()).expect("lists");
        }
        let certificates = Certificate::chain_from_pem(texts(chain).as_bytes()).expect("a chain");
        for (purpose, expected) in [(CertificatePurpose::Client, client), (CertificatePurpose::Server, server)] {
            let rules = ChainRules {
                purpose,
                depth: depth.parse().expect("a depth"),
                lists: !lists.is_empty(),
                level: 2,
                now: NOW,
            };
            let code = store.verify(&certificates, &rules).err().map_or(0, |error| error.code);
            if expected != "-" && expected.parse() != Ok(code) {
                wrong.push(format!("{line}: {purpose:?} {code}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn hosts_match_as_with_nginx() {
    let blocks = blocks(include_str!("fixtures/hosts.pem"));
    let mut lines = include_str!("fixtures/hosts.txt").lines().filter(|line| !line.starts_with('#'));
    let mut row = || lines.next().map(|line| line.split(" | ").collect::<Vec<_>>());
    let all = row().expect("all names");
    let mut compared = 0;
    while let Some(row) = row() {
        let certificate = &Certificate::chain_from_pem(blocks[row[0]].as_bytes()).expect("a certificate")[0];
        let matching: Vec<_> = all[1..].iter().copied().filter(|host| certificate.matches_host(host)).collect();
        assert_eq!(matching, row[1..], "{}", row[0]);
        compared += 1;
    }
    assert_eq!(compared, blocks.len());
    let certificate = &Certificate::chain_from_pem(blocks["dns"].as_bytes()).expect("a certificate")[0];
    assert!(!certificate.matches_host("") && !certificate.matches_host("a.example.com\0"));
}

/// The number of what is found, or nothing if the chain is trusted.
fn judged(store: &CertificateStore, chain: &[Certificate], rules: &ChainRules) -> Result<(), i32> {
    store.verify(chain, rules).map(|_| ()).map_err(|error| error.code)
}

const RULES: ChainRules =
    ChainRules { purpose: CertificatePurpose::Client, depth: 1, lists: false, level: 2, now: NOW };

fn store(trusted: &str) -> CertificateStore {
    let mut store = CertificateStore::new().expect("a store");
    store.add_pem(texts(trusted).as_bytes()).expect("certificates");
    store
}

fn chain(names: &str) -> Vec<Certificate> {
    Certificate::chain_from_pem(texts(names).as_bytes()).expect("a chain")
}

#[test]
fn results_have_the_words_of_openssl() {
    let error = store("root").verify(&chain("self plain"), &RULES).expect_err("it is not trusted");
    assert_eq!((error.code, error.depth, error.text()), (18, 0, "self-signed certificate"));
    let error = store("other root").verify(&chain("leaf of int1, int1, root"), &RULES).expect_err("it is not trusted");
    assert_eq!((error.code, error.depth, error.text()), (19, 2, "self-signed certificate in certificate chain"));
    assert_eq!(verify_words(0), "ok");
    assert_eq!(verify_words(94), "Certificate public key has explicit ECC parameters");
    assert_eq!(verify_words(95), verify_words(-1));
    assert_eq!(judged(&store("root"), &[], &RULES), Err(1));
}

#[test]
fn the_time_is_the_callers() {
    let (store, chain) = (store("root"), chain("leaf of root"));
    let at = |now| judged(&store, &chain, &ChainRules { now, ..RULES });
    // From 2021 to 2120.
    assert_eq!(at(1_609_459_199), Err(9));
    assert_eq!(at(1_609_459_200), Ok(()));
    assert_eq!(at(4_733_510_399), Ok(()));
    assert_eq!(at(4_733_510_400), Err(10));
    assert_eq!(at(i64::MIN), Err(9));
    assert_eq!(at(i64::MAX), Err(10));
}

#[test]
fn levels_say_what_is_too_weak() {
    let at = |trusted: &str, sent: &str, level| judged(&store(trusted), &chain(sent), &ChainRules { level, ..RULES });
    for (trusted, sent, highest, code) in [
        ("root", "leaf of root", 3, 66),
        ("root", "small", 1, 66),
        ("root", "sha1", 0, 68),
        ("root", "leaf of int small, int small", 1, 67),
        ("md5 root", "pss", 2, 67),
        ("ed root", "leaf of ed root", 3, 66),
    ] {
        for level in 0..=6 {
            let expected = if level <= highest { Ok(()) } else { Err(code) };
            let code = at(trusted, sent, level).map_err(|found| if (66..=68).contains(&found) { code } else { found });
            assert_eq!(code, expected, "{sent} {level}");
        }
    }
}

#[test]
fn a_store_takes_what_it_knows_from_a_text() {
    let add = |text: &str| CertificateStore::new().expect("a store").add_pem(text.as_bytes());
    let added = |certificates, lists| Ok(AddedCounts { certificates, lists });
    let (one, list) = (texts("root"), texts("crl root"));
    assert_eq!(add(""), added(0, 0));
    assert_eq!(add("words"), added(0, 0));
    assert_eq!(add(&format!("words\r\n{one}words\n{list}{one}")), added(2, 1));
    assert_eq!(add(&one.replace("CERTIFICATE", "X509 CERTIFICATE")), added(1, 0));
    assert_eq!(add(&one.replace("CERTIFICATE", "CERTIFICATE REQUEST")), added(0, 0));
    assert_eq!(add(&texts("root trusted any")), added(1, 0));
    let without_line =
        |text: &str| text.lines().enumerate().filter(|(at, _)| *at != 3).map(|(_, line)| format!("{line}\n")).collect();
    for damaged in
        [without_line(&one), without_line(&list), one[..one.len() - 30].to_owned(), one.replace("\nMI", "\n!!")]
    {
        let mut store = store("other root");
        let text = format!("{one}{damaged}");
        assert!(store.add_pem(text.as_bytes()).is_err(), "{text}");
        assert!(store.verify(&chain("leaf of root"), &RULES).is_err(), "nothing of it is trusted");
    }
}

#[test]
fn a_store_serves_several_threads() {
    let store = store("root, crl root, crl int1 leaf");
    let rules = ChainRules { lists: true, ..RULES };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(judged(&store, &chain("leaf of int1, int1"), &rules), Err(23));
                    assert_eq!(judged(&store, &chain("leaf of root"), &rules), Ok(()));
                }
            });
        }
    });
}

#[test]
fn the_chain_that_was_built_and_issuers_are_given() {
    let sent = chain("leaf of int2, int1, int2, root, self ca");
    let subjects = |chain: Vec<Certificate>| chain.iter().map(Certificate::subject).collect::<Vec<_>>();
    let built = store("root").verify(&sent, &ChainRules { depth: 2, ..RULES }).expect("it is trusted");
    assert_eq!(subjects(built), ["CN=leaf of int2", "CN=int2", "CN=int1", "CN=root"]);
    let alone = store("self signing").verify(&chain("self signing"), &RULES).expect("it is trusted");
    assert_eq!(subjects(alone), ["CN=self signing"]);
    let issuer = |trusted: &str, others: &[Certificate]| {
        store(trusted).issuer(&sent[0], others, NOW).map(|issuer| issuer.subject())
    };
    assert_eq!(issuer("root", &[]), None);
    assert_eq!(issuer("root", &sent).as_deref(), Some("CN=int2"));
    assert_eq!(issuer("root, int2", &[]).as_deref(), Some("CN=int2"));
    let ended = store("int1 expired, int1 renewed").issuer(&chain("leaf of int1")[0], &[], NOW).expect("an issuer");
    assert!(ended.end() > Some(NOW));
}
