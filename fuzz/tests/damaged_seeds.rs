//! Runs the bodies of the fuzz targets over damaged seeds, without a fuzzer.
//!
//! The damage comes from a fixed generator, so that a failure comes again. `FUZZ_ROUNDS` sets how many inputs each
//! target gets, and `FUZZ_SEED` where the generator begins.

use std::collections::BTreeSet;
use std::path::Path;

use freerun_fuzz::target::Target;
use freerun_fuzz::targets::ALL;

/// Inputs for each target when nothing else is asked for: a few seconds without optimisation.
const ROUNDS: u64 = 20_000;
/// Targets whose inputs take so many times as long as others, and get as many times fewer.
const SLOW: [(&str, u64); 2] = [("conversation", 10), ("quic", 40)];
/// Where the generator begins when nothing else is asked for.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Longest input.
const LONGEST: usize = 600;

/// A small generator of numbers; good enough to break things.
struct Numbers(u64);

impl Numbers {
    /// Numbers that begin at `seed`, of which any will do: 0, at which the generator would stay, is replaced.
    fn from(seed: u64) -> Numbers {
        Numbers(if seed == 0 { SEED } else { seed })
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Damages a seed: bytes changed, cut out, doubled, or taken from another seed or from `words`.
fn damage(numbers: &mut Numbers, seeds: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    let mut text = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..numbers.below(6) {
        let at = numbers.below(text.len() + 1);
        match numbers.below(7) {
            0 if at < text.len() => text[at] = numbers.next() as u8,
            1 if at < text.len() => text[at] ^= 1 << numbers.below(8),
            2 => text.truncate(at),
            3 => {
                let end = (at + numbers.below(8)).min(text.len());
                text.drain(at..end);
            }
            4 => {
                let end = (at + numbers.below(40)).min(text.len());
                let part = text[at..end].to_vec();
                text.splice(at..at, part);
            }
            5 => {
                let other = &seeds[numbers.below(seeds.len())];
                let part = &other[numbers.below(other.len())..];
                text.splice(at.., part.iter().copied());
            }
            _ => {
                let word = words[numbers.below(words.len())];
                text.splice(at..at, word.iter().copied());
            }
        }
        text.truncate(LONGEST);
    }
    text
}

/// A number from the environment, or `default`.
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// Runs a body over its seeds, and over damaged ones; a failure shows the input as a literal for a unit test.
fn run(target: &Target) {
    let (rounds, begin) = (setting("FUZZ_ROUNDS", ROUNDS), setting("FUZZ_SEED", SEED));
    let seeds = (target.seeds)();
    let mut numbers = Numbers::from(begin);
    let slow = SLOW.iter().find(|(name, _)| *name == target.name).map_or(1, |(_, times)| *times);
    let damaged = (0..rounds / slow).map(|_| damage(&mut numbers, &seeds, target.words));
    for (round, text) in seeds.iter().cloned().chain(damaged).enumerate() {
        let result = std::panic::catch_unwind(|| (target.body)(&text));
        assert!(result.is_ok(), "{}, FUZZ_SEED={begin}, input {round}: b\"{}\"", target.name, text.escape_ascii());
    }
}

fn named(name: &str) -> &'static Target {
    ALL.into_iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no target {name}"))
}

/// A test for each target, so that they run beside each other.
macro_rules! test_each {
    ($($name:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                run(named(stringify!($name)));
            }
        )*
    };
}

test_each!(
    field_head,
    request_head,
    chunked,
    requests,
    uri,
    expression,
    log_line,
    range,
    configuration,
    proxy_header,
    response,
    fastcgi,
    uwsgi,
    scgi,
    memcached,
    record,
    cache_control,
    client_hello,
    cipher_string,
    session,
    certificates,
    acme_state,
    telemetry,
    conversation,
    hpack,
    http1,
    http2,
    qpack,
    quic,
    http3,
    handed_over,
    message_box,
);

/// A target that is in no list would never be run.
#[test]
fn every_target_is_in_the_lists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder of the targets")
        .map(|entry| entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let listed: BTreeSet<String> = ALL.iter().map(|target| target.name.to_owned()).collect();
    let tested: BTreeSet<String> = TESTED.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(files, listed);
    assert_eq!(files, tested);
}
