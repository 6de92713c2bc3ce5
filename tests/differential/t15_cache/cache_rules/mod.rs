//! What nginx stores, and for how long: the times that it writes into the files of its cache, against the rules of
//! `freerun_cache`, without a freerun that runs. So nothing has to be waited for, and a lifetime is compared to the second.

use std::time::{SystemTime, UNIX_EPOCH};

use freerun_cache::key::{Key, Levels};
use freerun_cache::rules::{Answer, Field, IgnoredFields, RequestFacts, Rules, Valid, Verdict, judge};
use freerun_proto::date::imf_fixdate;
use freerun_testkit::{Kind, ReceivedRequest, Setup, Site, TestServer, TestUpstream, require};

pub mod table;

use table::{CASES, DIFFERENT};

/// Seconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time behind the epoch").as_secs()
}

/// Status and fields of a case; times in it count from `base`.
fn answer(text: &str, base: u64) -> (u16, Vec<(String, String)>) {
    let mut parts = text.split('|');
    let status = parts.next().and_then(|status| status.parse().ok()).expect("a status");
    let field = |line: &str| {
        let (name, value) = line.split_once(':').expect("a field");
        (name.to_owned(), with_times(value.trim_start_matches(' '), base))
    };
    (status, parts.map(field).collect())
}

/// `{5}` is a date five seconds behind `base`, `[5]` the same time as a number.
fn with_times(value: &str, base: u64) -> String {
    for (open, close) in [('{', '}'), ('[', ']')] {
        if let Some((before, rest)) = value.split_once(open)
            && let Some((offset, after)) = rest.split_once(close)
            && let Ok(offset) = offset.parse::<i64>()
        {
            let time = base as i64 + offset;
            let date = || String::from_utf8_lossy(&imf_fixdate(time)).into_owned();
            let time = if open == '{' { date() } else { time.to_string() };
            return format!("{before}{time}{after}");
        }
    }
    value.to_owned()
}

fn bytes(text: &str, base: u64) -> Vec<u8> {
    let (status, fields) = answer(text, base);
    let mut out = format!("HTTP/1.1 {status} X\r\n");
    for (name, value) in fields {
        out += &format!("{name}: {value}\r\n");
    }
    let body = if matches!(status, 204 | 304) { "\r\n" } else { "Content-Length: 2\r\n\r\nok" };
    (out + body).into_bytes()
}

/// The rules of the locations of [`table::LOCATIONS`].
fn rules(location: &str) -> (IgnoredFields, Valid) {
    let (mut ignored, mut valid) = (IgnoredFields::default(), Valid::default());
    match location {
        "any" => {
            valid.push(&[Some(200), Some(302)], 1000);
            valid.push(&[Some(404)], 50);
            valid.push(&[None], 77);
        }
        "order" => {
            valid.push(&[None], 77);
            valid.push(&[Some(200)], 1000);
        }
        "zero" => {
            valid.push(&[Some(200)], 0);
            valid.push(&[None], 50);
        }
        "plain" => {}
        _ => valid.push(&[], 1000),
    }
    match location {
        "iaccel" => ignored.accel_expires = true,
        "iexp" => ignored.expires = true,
        "icc" => ignored.cache_control = true,
        "isc" => ignored.set_cookie = true,
        "ivary" => ignored.vary = true,
        "iall" => {
            ignored =
                IgnoredFields { accel_expires: true, expires: true, cache_control: true, set_cookie: true, vary: true };
        }
        _ => {}
    }
    (ignored, valid)
}

/// Up to when, and how long stale in two ways: as nginx has it in its file, or as the rules say.
type Stored = Option<(u64, u64, u64)>;

fn ours(location: &str, text: &str, base: u64, now: u64) -> Stored {
    let (ignored, valid) = rules(location);
    let (status, fields) = answer(text, base);
    let field = |(name, value): (String, String)| -> Field { (name.into(), value.into()) };
    let fields: Vec<Field> = fields.into_iter().map(field).collect();
    let rules = Rules { rfc9111: false, ignored, valid: Some(&valid) };
    match judge(&RequestFacts::default(), &Answer { status, fields: &fields }, &rules, now) {
        Verdict::Store { lifetime: l, .. } => {
            Some((l.fresh_until, l.stale_while_revalidate.into(), l.stale_if_error.into()))
        }
        Verdict::DoNot(_) => None,
    }
}

/// What nginx has in the file of a target, if it is one that a second request finds.
fn theirs(server: &TestServer, target: &str) -> Stored {
    let first = server.get(target);
    let second = server.get(target);
    assert_eq!(first.header("X-Cache"), Some("MISS"), "{target}");
    if second.header("X-Cache") == Some("MISS") {
        return None;
    }
    let levels = Levels::parse("1:2").expect("levels");
    let file = server.path("cache").join(levels.file_name(Key::of(target.as_bytes())));
    let head = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    Some((number(8), number(16), number(24)))
}

#[test]
fn what_is_stored_and_how_long() {
    if !require::nginx() {
        return;
    }
    let base = now();
    let behind = TestUpstream::answering(move |request: &ReceivedRequest| {
        let number = request.target().rsplit('/').next().and_then(|number| number.parse::<usize>().ok());
        bytes(CASES[number.expect("a number")].1, base)
    });
    let site = Site::new();
    let http = "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=z:1m; proxy_cache z; proxy_cache_key $uri;
        proxy_cache_use_stale error; add_header X-Cache $upstream_cache_status always;";
    let lines = table::LOCATIONS.replace("@UP@", behind.address());
    let server = Setup::server(&site, &lines).http(http).start(Kind::Nginx);
    let mut wrong = String::new();
    let (mut stored, mut different) = (0, 0);
    for (number, (location, text)) in CASES.iter().enumerate() {
        let begin = now();
        let theirs = theirs(&server, &format!("/{location}/{number}"));
        let agrees = (begin..=now()).any(|now| ours(location, text, base, now) == theirs);
        stored += usize::from(theirs.is_some());
        let reason = DIFFERENT.iter().find(|(case, _)| case == text).map(|(_, reason)| reason);
        different += usize::from(reason.is_some());
        if agrees == reason.is_some() {
            let relative = |s: Stored| s.map(|(until, a, b)| (until.wrapping_sub(begin) as i64, a, b));
            let ours = relative(ours(location, text, base, begin));
            wrong += &format!("{location} {text}\n  - {:?}\n  + {ours:?} {reason:?}\n", relative(theirs));
        }
    }
    println!("{} cases, {stored} stored, {different} different on purpose", CASES.len());
    drop(server);
    assert!(wrong.is_empty(), "- nginx, + the rules\n{wrong}");
}
