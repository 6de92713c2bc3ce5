//! Generated configurations and requests: the same to nginx and to freerun, many servers in one configuration.
//!
//! The seed is fixed, so that a run finds what the run before found. `FREERUN_TEST_BATCHES` runs more batches than the few of every run,
//! `FREERUN_TEST_SEED` begins at another seed (a batch has the seed of the one before and one more). A case that differs is printed as
//! small as it could be made. What the grammar makes is what nginx 1.22 and freerun are to agree on: where nginx itself changed since, it is
//! left out.

mod batch;
mod config;
mod grammar;
mod random;
mod requests;
mod shrink;
mod syntax;

use crate::site::{MTIME, site};
use batch::{Batch, Case};
use random::Random;

/// A page of server-side includes.
const SSI: &str = "<p>ssi <!--#echo var=\"uri\" --> <!--#echo var=\"arg_a\" default=\"none\" -->
<!--#set var=\"v\" value=\"$arg_a-x\" --><!--#echo var=\"v\" encoding=\"none\" -->
<!--#if expr=\"$arg_a = b\" -->is b<!--#elif expr=\"$arg_a\" -->is else<!--#else -->is nothing<!--#endif -->
<!--#include virtual=\"/a.txt\" --> <!--#include virtual=\"/none\" --> <!--#include virtual=\"/dir/?q=$arg_a\" -->
";

/// Servers in a batch.
const CASES: usize = 40;

/// Connections to each of them.
const CONNECTIONS: usize = 12;

/// How many differing cases of a batch are made smaller and shown; the others are counted.
const SHOWN: usize = 6;

/// Configurations with something wrong in a batch of them.
const WRONG: u64 = 40;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn batch(seed: u64) -> Batch {
    let random = &mut Random::new(seed);
    let http = config::http(random);
    let cases = (0..CASES).map(|_| Case {
        nodes: config::server(random),
        connections: (0..CONNECTIONS).map(|_| requests::connection(random)).collect(),
    });
    Batch { http, cases: cases.collect() }
}

#[test]
fn configurations_with_something_wrong() {
    if !freerun_testkit::require::nginx() {
        return;
    }
    let first = number("FREERUN_TEST_SEED", 1);
    let mut wrong = 0;
    for seed in first..first + WRONG * number("FREERUN_TEST_BATCHES", 1) {
        if let Some(text) = syntax::difference(seed) {
            println!("seed {seed}:\n{text}");
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0, "verdicts differ");
}

#[test]
fn configurations_and_requests() {
    if !freerun_testkit::require::nginx() {
        return;
    }
    let site = site();
    site.file("users", "user:{PLAIN}pw\n");
    site.dated("ssi.html", SSI, MTIME);
    let mut wrong = 0;
    let first = number("FREERUN_TEST_SEED", 1);
    for seed in first..first + number("FREERUN_TEST_BATCHES", 3) {
        let mut batch = batch(seed);
        let mut findings = batch.run(&site);
        if findings.compared == 0 && findings.verdicts.is_empty() {
            // Something in `http` is refused, which is no reason to leave the rest out.
            batch.http.retain(|node| node.block.is_some());
            findings = batch.run(&site);
        }
        let counts = (findings.compared, findings.answers.len(), findings.verdicts.len(), findings.refused.len());
        println!(
            "seed {seed}: {} connections, {} differ; verdicts on servers: {} differ, {} refused by both",
            counts.0, counts.1, counts.2, counts.3
        );
        wrong += findings.answers.len() + findings.verdicts.len();
        for (case, text) in &findings.verdicts {
            println!("seed {seed}, case {case}:\n{text}");
        }
        for (case, connection, text) in &findings.answers {
            if std::env::var_os("FREERUN_TEST_SHOW").is_some() {
                let said = requests::bytes(&batch.cases[*case].connections[*connection], "@HOST@");
                println!("#{case} \"{}\"\n{text}", said.escape_ascii());
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for (case, connection, text) in &findings.answers {
            // One of each server: often the others are the same.
            if seen.len() == SHOWN || !seen.insert(*case) {
                continue;
            }
            let of = &batch.cases[*case];
            match shrink::shrink(&site, &batch.http, &of.nodes, &of.connections[*connection]) {
                Some(small) => println!("seed {seed}, case {case}:\n{small}"),
                None => {
                    println!("seed {seed}, case {case}, not when alone:\n  {:?}\n{text}", of.connections[*connection])
                }
            }
        }
    }
    assert_eq!(wrong, 0, "cases differ");
}
