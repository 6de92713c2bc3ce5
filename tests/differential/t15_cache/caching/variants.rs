//! `Vary`: one target, several stored responses.

use super::{FRESH, STALE, Step, Stories, dead, ok, step};
use crate::harness::get;

const LAST: &str = "since 1.23.0 all fields of Vary count, not the last of them";

/// A GET with these fields, answered with this `Vary`.
fn asks(target: &str, fields: &[&str], vary: &[&str]) -> Step {
    let case = fields.iter().fold(get(target), |case, field| case.field(field));
    step(case, ok(&[&[FRESH], vary].concat()))
}

#[test]
fn vary() {
    let mut stories = Stories::plain();
    // A `*` among others is in the table of ../cache_rules.rs: nginx takes it for the name of a field.
    for vary in [
        "Vary: Accept",
        "Vary: accept",
        "Vary: Accept, X-B",
        "Vary: X-B,Accept",
        "Vary: *",
        "Vary:",
        "Vary: X-None",
        "Vary: Accept-Encoding",
        "Vary: Host",
        "Vary: Cookie",
        "Vary: ,Accept",
        "Vary: Accept,",
        "Vary: Accept  X-B",
        "Vary: User-Agent, Accept-Language, Accept",
    ] {
        stories.tell("/a", |target| {
            let asks = |fields: &[&str]| asks(target, fields, &[vary]);
            vec![
                asks(&[]),
                asks(&[]),
                asks(&["Accept: a"]),
                asks(&["Accept: a"]),
                asks(&["Accept: b"]),
                asks(&["Accept: a"]),
                asks(&["accept: a", "X-B: c"]),
                asks(&["X-B: c", "Accept: a"]),
                asks(&["Accept: A", "X-B: c"]),
                asks(&[]),
            ]
        });
    }
    stories.compare();
}

#[test]
fn values_that_mean_the_same() {
    let mut stories = Stories::plain();
    for name in ["Accept-Encoding", "Accept-Language", "Accept", "X-B"] {
        stories.tell("/a", |target| {
            let vary = format!("Vary: {name}");
            let asks = |value: &str| asks(target, &[&format!("{name}:{value}")], &[&vary]);
            vec![
                asks(" gzip, br"),
                asks(" gzip,br"),
                asks(" br, gzip"),
                asks(" gzip,  br"),
                asks("   gzip, br  "),
                asks(" GZIP, br"),
                asks(" gzip, br;q=1"),
                asks(" gzip , br"),
                asks(" gzip, br,"),
                asks(""),
                asks(" "),
                asks(" ,"),
            ]
        });
    }
    stories.compare();
}

#[test]
fn a_star_among_others() {
    const STAR: &str = "a * stands for all requests wherever it stands (RFC 9110 section 12.5.5)";
    let mut stories = Stories::plain();
    stories.tell("/a", |target| {
        let asks = || asks(target, &[], &["Vary: Accept, *"]);
        vec![asks(), asks().instead(STAR, &["X-Cache: MISS"])]
    });
    stories.compare();
}

#[test]
fn a_response_that_varies_no_more() {
    let mut stories = Stories::plain();
    stories.tell("/a", |target| {
        vec![
            asks(target, &["Accept: a"], &["Vary: Accept"]),
            asks(target, &["Accept: b"], &[]),
            asks(target, &["Accept: a"], &[]).when_stored().until("13 bytes \"answer no 002\""),
            asks(target, &["Accept: c"], &[]),
        ]
    });
    stories.tell("/a", |target| {
        vec![
            asks(target, &["Accept: a"], &[]),
            asks(target, &["Accept: b"], &["Vary: Accept"]),
            asks(target, &["Accept: c"], &["Vary: Accept"]),
        ]
    });
    stories.tell("/a", |target| {
        vec![
            asks(target, &["Accept: a", "X-B: 1"], &["Vary: Accept"]),
            asks(target, &["Accept: b", "X-B: 1"], &["Vary: X-B"]),
            asks(target, &["Accept: a", "X-B: 1"], &["Vary: X-B"]).when_stored().until("13 bytes \"answer no 002\""),
            asks(target, &["Accept: b", "X-B: 1"], &["Vary: X-B"]),
            asks(target, &["Accept: b", "X-B: 2"], &["Vary: X-B"]),
            asks(target, &["Accept: b", "X-B: 2"], &["Vary: Accept"]),
        ]
    });
    stories.compare();
}

#[test]
fn stale_variants() {
    let mut stories = Stories::plain();
    stories.tell("/a", |target| {
        let asks = |accept: &str| step(get(target).field(accept), ok(&[STALE, "Vary: Accept"]));
        vec![asks("Accept: a"), asks("Accept: a"), asks("Accept: b"), asks("Accept: b"), asks("Accept: a")]
    });
    stories.compare();
}

#[test]
fn repeated_request_fields() {
    let mut stories = Stories::plain();
    stories.tell("/a", |target| {
        let asks = |fields: &[&str]| asks(target, fields, &["Vary: X-B"]);
        vec![
            asks(&["X-B: 1", "X-B: 2"]),
            asks(&["X-B: 1, 2"]),
            asks(&["X-B: 1,2"]),
            asks(&["X-B: 2", "X-B: 1"]),
            asks(&["X-B: 1"]),
        ]
    });
    stories.compare();
}

#[test]
fn several_fields_of_vary() {
    let mut stories = Stories::plain();
    stories.tell("/a", |target| {
        let asks = |fields: &[&str]| asks(target, fields, &["Vary: Accept", "Vary: X-B"]);
        vec![
            asks(&["Accept: a", "X-B: 1"]),
            asks(&["Accept: a", "X-B: 1"]),
            asks(&["Accept: b", "X-B: 1"]).instead(LAST, &["X-Cache: MISS"]),
            asks(&["Accept: b", "X-B: 1"]).instead(LAST, &["X-Cache: HIT", "13 bytes \"answer no 002\""]),
        ]
    });
    stories.compare();
}

#[test]
fn long_values() {
    let mut stories = Stories::plain();
    for length in [40, 41, 42, 43, 44, 45, 60, 100, 128, 129, 200, 1000] {
        stories.tell("/a", |target| {
            let vary = format!("Vary: X-{}", "n".repeat(length));
            let asks = |value: &str| asks(target, &[&format!("X-{}: {value}", "n".repeat(length))], &[&vary]);
            vec![asks("a"), asks("a"), asks("b"), asks(&"v".repeat(2000)), asks(&"v".repeat(2000))]
        });
    }
    stories.compare();
}

/// One who asks for a variant that nobody else wants must not take the page from the others.
#[test]
fn a_failure_is_that_of_its_variant() {
    let line = "location /a { proxy_cache z; proxy_cache_valid any 1m; proxy_pass http://@UP@; }";
    let mut stories = Stories::new("", line).files_differ("nginx remembers a failure in memory alone");
    stories.tell("/a", |target| {
        let asks = |value: &str| asks(target, &[&format!("Accept: {value}")], &["Vary: Accept"]);
        let fails = |value: &str| step(get(target).field(&format!("Accept: {value}")), dead());
        vec![asks("a"), asks("b"), fails("c"), fails("c"), fails("a"), fails("b"), asks("d"), asks("c")]
    });
    stories.tell("/a", |target| vec![step(get(target), dead()), asks(target, &["Accept: a"], &["Vary: Accept"])]);
    stories.compare();
}
