//! Which figures are problems, and how the problems are told.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_conf::{OneText, parse};
use freerun_serve::configuration::object_places::ObjectPlaces;
use freerun_serve::configuration::parts::Paths;
use freerun_telemetry::SpanCounts;

use super::{certificate, figures, histogram, ordered, sessions, upstream};
use crate::content::status::figures::{Figures, Log};
use crate::content::status::problem::StatusProblem;
use crate::content::status::problems::baselines::{Baselines, CounterSample, CounterSamples};
use crate::content::status::problems::problem_log::ProblemLog;
use crate::content::status::problems::{self, ProblemContext};
use crate::content::status::sessions::Sessions;
use crate::content::status::tls::{LoadedCertificate, Tls};
use crate::content::status::upstreams::HealthChecks;
use crate::content::status::zones::Zone;

/// Figures without a problem.
fn calm() -> Figures {
    let mut pools = figures().pools;
    pools[0].refused = 0;
    Figures {
        pools,
        upstreams: Vec::new(),
        stream: Sessions { upstreams: Vec::new(), server_zones: Vec::new(), limit_conns: Vec::new(), ..sessions() },
        server_zones: Vec::new(),
        limit_reqs: Vec::new(),
        limit_conns: Vec::new(),
        mounts: Vec::new(),
        logs: Vec::new(),
        unsaved_states: Vec::new(),
        acme: vec![ordered("waiting")],
        cluster: None,
        otel: Some(SpanCounts::default().into()),
        tls: Tls { certificates: Vec::new(), ..figures().tls },
        ..figures()
    }
}

/// The problems of these figures, with all counters as if they had begun now.
fn problems_at(figures: &Figures, now: i64) -> Vec<StatusProblem> {
    problems::of(figures, &ProblemContext::new(now))
}

/// The texts of the problems of these figures that concern an object of this name.
fn problems_of(figures: &Figures, subject: &str, now: i64) -> Vec<String> {
    let all = problems_at(figures, now).into_iter().filter(|problem| problem.subject == subject);
    all.map(|problem| problem.text).collect()
}

#[test]
fn servers_that_cannot_be_asked_are_problems_and_those_taken_out_are_none() {
    let mut figures = Figures { upstreams: vec![upstream("app")], ..figures() };
    let texts = |figures: &Figures| problems_of(figures, "app", 0);
    let left_out = "127.0.0.1:81 is left out after failures. Its last failure (timeout) was 0 s ago. Requests go to 1 of 2 servers.";
    assert_eq!(texts(&figures), [left_out]);
    figures.upstreams[0].servers[0].state = "down";
    assert_eq!(texts(&figures)[0], "None of 2 servers can be asked.");
    figures.upstreams[0].servers[1].state = "down";
    assert_eq!(texts(&figures), [""; 0], "both were taken out");
    let servers = &mut figures.upstreams[0].servers;
    servers.remove(0);
    // A server without others is never left out.
    (servers[0].state, servers[0].checks) = ("up", HealthChecks { done: 20, failed: 3, unhealthy: 1 });
    assert_eq!(texts(&figures), ["127.0.0.1:81, the only server, has failed just now (timeout)."]);
    figures.upstreams[0].servers[0].state = "unhealthy";
    let unhealthy = "127.0.0.1:81 fails its health checks (3 of 20). Its last failure (timeout) was 0 s ago.";
    assert_eq!(texts(&figures), ["The only server cannot be asked.", unhealthy]);
    (figures.upstreams[0].servers, figures.upstreams[0].unresolved) = (Vec::new(), vec!["gone.example".to_owned()]);
    assert_eq!(texts(&figures), ["The name gone.example has no address."]);
}

#[test]
fn disks_queues_logs_and_certificates_are_problems_when_they_are() {
    assert_eq!(problems_at(&calm(), 0).len(), 0);
    let subject = calm().pools[0].name.clone();
    let after = |change: &dyn Fn(&mut Figures)| {
        let mut figures = calm();
        change(&mut figures);
        problems_of(&figures, &subject, 1_000_000)
    };
    assert_eq!(
        after(&|figures| figures.pools[0].waiting = 52_429),
        ["52429 tasks of at most 65536 wait for a thread."]
    );
    assert_eq!(after(&|figures| figures.pools[0].waiting = 52_000), [""; 0]);
    let broken = "The cache is not used, because of its disk: stuck.";
    assert_eq!(after(&|figures| figures.caches[0].disk.health = "stuck"), [broken]);
    for (expires, told) in [
        (1_000_000 + 86_400 * 7, None),
        (1_000_000 + 86_400 * 2, Some("ends in 2 d.")),
        (1_000_000 - 7_200, Some("has ended 2 h ago.")),
    ] {
        let ends = LoadedCertificate { expires, ..certificate(&subject) };
        let texts = after(&|figures| figures.tls.certificates = vec![ends.clone()]);
        assert_eq!(texts, told.map(|told| format!("The certificate {subject} {told}")).into_iter().collect::<Vec<_>>());
    }
    let all = problems_at(&figures(), 0);
    for told in ["has ended for 2 s", "takes no lines; 10 bytes wait", "could not be written", "cannot be ordered"] {
        assert!(all.iter().any(|problem| problem.text.contains(told)), "{told}: {all:?}");
    }
}

#[test]
fn thousands_of_problems_are_counted() {
    let many = Figures { upstreams: (0..300).map(|n| upstream(&n.to_string())).collect(), ..figures() };
    let told = problems_at(&many, 0);
    assert_eq!(told.len(), 101);
    assert!(told[100].text.starts_with("There are ") && told[100].text.ends_with(" more problems."), "{:?}", told[100]);
}

/// A moment, and the samples before it.
struct Past {
    samples: CounterSamples,
    baselines: Baselines,
    log: ProblemLog,
    at: Instant,
    now: i64,
}

impl Past {
    fn new() -> Past {
        let (samples, baselines, log) = (CounterSamples::default(), Baselines::default(), ProblemLog::default());
        Past { samples, baselines, log, at: Instant::now(), now: 1_000_000 }
    }

    fn context(&self) -> ProblemContext {
        let Past { at, now, baselines, log, .. } = self;
        let (baselines, log) = (baselines.clone(), log.clone());
        ProblemContext { at: *at, baselines, log, ..ProblemContext::new(*now) }
    }

    /// The problems of these figures now.
    fn find(&self, figures: &Figures) -> Vec<StatusProblem> {
        problems::of(figures, &self.context())
    }

    /// Takes a sample, and lets five seconds pass.
    fn sample(&mut self, figures: &Figures) {
        let found = self.find(figures);
        self.baselines = self.samples.add(CounterSample::of(figures, self.at));
        self.log = self.log.with(&found, self.now);
        self.at += Duration::from_secs(5);
        self.now += 5;
    }

    /// The texts of the problems of these figures.
    fn texts(&self, figures: &Figures) -> Vec<String> {
        self.find(figures).into_iter().map(|problem| problem.text).collect()
    }
}

/// Calm figures with a server that has answered so often.
fn answered(good: u64, bad: u64) -> Figures {
    let zone = Zone { responses: BTreeMap::from([("2xx", good), ("5xx", bad)]), ..super::zone("shop") };
    Figures { server_zones: vec![zone], ..calm() }
}

#[test]
fn errors_of_the_last_minute_are_a_problem_and_compared_with_those_before() {
    let mut past = Past::new();
    assert_eq!(past.texts(&answered(97, 3)), ["3.0 % of its answers since the start are 5xx (3 of 100)."]);
    for turn in 0..60 {
        past.sample(&answered(10_000 + 100 * turn, 10));
    }
    assert_eq!(past.texts(&answered(16_000, 10)), [""; 0]);
    let told = past.find(&answered(16_000, 58));
    let text = "3.6 % of its answers in the last minute are 5xx (48 of 1348), 0 % before.";
    assert_eq!((told[0].text.as_str(), told[0].subject.as_str(), told[0].section), (text, "shop", "zones"));
    assert_eq!((told[0].kind, told[0].since), ("server_errors", past.now));
    past.sample(&answered(16_000, 58));
    assert_eq!(past.find(&answered(16_000, 58))[0].since, past.now - 5, "it is the same problem");
    for _ in 0..14 {
        past.sample(&answered(16_000, 58));
    }
    assert_eq!(past.texts(&answered(16_000, 58)), [""; 0], "it is over");
    let ended = past.log.past(&[], past.now);
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert!(ended[0].ended > Some(ended[0].since), "{ended:?}");
}

/// Calm figures with a group of two servers, whose answers have taken so long.
fn timed(first_us: &[u64], second_us: &[u64]) -> Figures {
    let mut group = upstream("app");
    group.servers[1].state = "up";
    for (server, times) in group.servers.iter_mut().zip([first_us, second_us]) {
        server.header = histogram(times);
    }
    Figures { upstreams: vec![group], ..calm() }
}

#[test]
fn a_server_that_has_become_slow_is_a_problem_until_it_is_not() {
    let (fast, slow) = (vec![1000; 40], [vec![1000; 40], vec![2_000_000; 10]].concat());
    // One of several that was slow from the beginning on.
    let text = "127.0.0.1:80 is slow: 20 % of its last answers took longer than 1 s";
    let compared = format!("{text}, and 0 % of those of the other servers.");
    assert_eq!(Past::new().texts(&timed(&slow, &fast)), [compared]);
    assert_eq!(Past::new().texts(&timed(&slow, &slow)), [""; 0], "they are all alike");
    // The only one, in comparison with itself.
    let mut past = Past::new();
    past.sample(&timed(&[], &[]));
    for _ in 0..4 {
        past.sample(&timed(&fast, &fast));
    }
    let text = "127.0.0.1:80 is slow: 100 % of its last answers took longer than 1 s";
    assert_eq!(past.texts(&timed(&slow, &fast)), [format!("{text}, 0 % before.")]);
    // It stays one when nothing is left to compare it with.
    past.sample(&timed(&slow, &fast));
    let mut longer = slow;
    for _ in 0..190 {
        longer.extend([2_000_000; 3]);
        past.sample(&timed(&longer, &fast));
    }
    assert_eq!(past.texts(&timed(&longer, &fast)), [format!("{text}.")]);
    past.sample(&timed(&longer, &fast));
    past.sample(&timed(&longer, &fast));
    past.sample(&timed(&longer, &fast));
    assert_eq!(past.texts(&timed(&longer, &fast)), [""; 0]);
}

#[test]
fn losses_refusals_and_late_loops_of_the_last_minute_are_problems() {
    let log = |lost_lines, error: Option<&str>| Log {
        name: "access.log".to_owned(),
        lost_lines,
        waiting_bytes: 7,
        held_up: false,
        error: error.map(str::to_owned),
    };
    let with = |change: &dyn Fn(&mut Figures)| {
        let mut figures = Figures { limit_reqs: figures().limit_reqs, logs: vec![log(0, None)], ..calm() };
        change(&mut figures);
        figures
    };
    let mut past = Past::new();
    past.sample(&with(&|_| {}));
    for (change, text) in [
        (
            &(|figures: &mut Figures| figures.logs[0] = log(1, None)) as &dyn Fn(&mut Figures),
            "1 line was lost in the last 5 s.",
        ),
        (
            &|figures| figures.logs[0] = log(0, Some("28: No space left on device")),
            "The file cannot be written (28: No space left on device); 7 bytes wait.",
        ),
        (
            &|figures| (figures.limit_reqs[1].passed, figures.limit_reqs[1].rejected) = (9, 1),
            "The limit has refused 10 % of its requests in the last 5 s (1 of 10).",
        ),
        (&|figures| figures.pools[0].refused += 2, "2 tasks were refused in the last 5 s, because the queue was full."),
        (&|figures| figures.caches[0].disk.full = 4, "There was no room for 4 objects in the last 5 s."),
        (&|figures| figures.caches[0].fills.unstored = 5, "5 objects could not be stored in the last 5 s."),
        (
            &|figures| {
                (figures.loops[1].stalls, figures.loops[1].stalls_without_processor) = (3, 1);
                let line = "event loop 1 stalled for 12 ms in \"sending a file\": it ran for 11 ms";
                figures.last_errors = vec![line.to_owned(), "event loop 0 stalled for 99 ms in \"x\"".to_owned()];
            },
            "It was held up 2 times in the last 5 s, the last time for 12 ms in \"sending a file\".",
        ),
    ] {
        assert_eq!(past.texts(&with(change)), [text]);
    }
}

#[test]
fn limits_of_one_name_and_servers_of_one_address_are_not_mixed_up() {
    let with = |rejected| {
        let mut figures = Figures { limit_reqs: figures().limit_reqs, limit_conns: figures().limit_reqs, ..calm() };
        (figures.limit_reqs[1].passed, figures.limit_reqs[1].rejected) = (1000, 500);
        (figures.limit_conns[1].passed, figures.limit_conns[1].rejected) = (10, rejected);
        let mut group = super::alike();
        for (server, slow) in group.servers.iter_mut().zip([40, 2, 1]) {
            server.header = histogram(&vec![2_000_000; slow]);
        }
        figures.upstreams = vec![group];
        figures
    };
    let mut past = Past::new();
    for _ in 0..3 {
        past.sample(&with(0));
    }
    assert_eq!(past.texts(&with(0)), [""; 0]);
    let found = past.find(&with(10));
    assert_eq!((found.len(), found[0].kind, found[0].part.as_str()), (1, "limit", "connections"), "{found:?}");
}

#[test]
fn groups_of_http_and_stream_with_one_name_have_problems_of_their_own() {
    let broken = || {
        let mut group = upstream("app");
        (group.servers[0].state, group.servers[0].header) = ("unhealthy", histogram(&[2_000_000; 40]));
        (group.unresolved, group.waiting) = (vec!["gone.example".to_owned()], 1);
        group
    };
    let both = Figures {
        upstreams: vec![broken()],
        stream: Sessions { upstreams: vec![broken()], ..calm().stream },
        ..calm()
    };
    let found = problems_at(&both, 0);
    let kinds_in = |section: &str| -> Vec<&str> {
        found.iter().filter(|one| one.section == section).map(|one| one.kind).collect()
    };
    assert_eq!(kinds_in("upstreams"), kinds_in("streams"));
    assert_eq!(kinds_in("streams").len() * 2, found.len(), "{found:?}");
    assert!(kinds_in("streams").contains(&"group_out") && kinds_in("streams").contains(&"name_unresolved"));
    let keys: HashSet<u64> = found.iter().map(StatusProblem::key).collect();
    assert_eq!(keys.len(), found.len());
    // The answers of one are not compared with those of the other.
    let (fast, slow) = (vec![1000; 40], [vec![1000; 40], vec![2_000_000; 10]].concat());
    let both = |of_http: &[u64]| {
        let stream = Sessions { upstreams: timed(&fast, &fast).upstreams, ..calm().stream };
        Figures { stream, ..timed(of_http, &fast) }
    };
    let mut past = Past::new();
    past.sample(&timed(&[], &[]));
    for _ in 0..4 {
        past.sample(&both(&fast));
    }
    let found = past.find(&both(&slow));
    let told: Vec<_> = found.iter().map(|one| (one.section, one.kind, one.part.as_str())).collect();
    assert_eq!(told, [("upstreams", "server_slow", "127.0.0.1:80")]);
}

/// The place and the line of the log of the first problem of this kind, in a log of these lines.
fn origin(figures: &Figures, kind: &str, places: &Arc<ObjectPlaces>) -> (Option<String>, Option<String>) {
    let context = ProblemContext { places: places.clone(), ..ProblemContext::new(1_000_000) };
    let found = problems::of(figures, &context);
    let problem = found.into_iter().find(|problem| problem.kind == kind).unwrap_or_else(|| panic!("no {kind}"));
    (problem.place, problem.log_line)
}

#[test]
fn a_problem_has_the_line_of_its_own_object_and_no_line_of_another_one() {
    let text = "zone_sync_engine redis://10.0.0.9;
        http {
            upstream app { server 127.0.0.1:80; server gone.example:80 resolve; }
            server {
                server_name shop.example;
                ssl_certificate /c/shop.pem;
            }
            keyval_zone zone=pairs:1m state=/s/pairs.json;
            acme_issuer ca;
        }
        stream {
            upstream app { server 127.0.0.1:80; }
        }";
    let tree = parse("x.conf", None, "", &mut OneText(text));
    let mut places = ObjectPlaces::default();
    places.note_all(&tree.nodes, &Paths::default(), &tree.sources);
    let places = Arc::new(places);
    let mut group = upstream("app");
    group.unresolved = vec!["gone.example:80".to_owned()];
    group.servers[0].state = "unhealthy";
    let mut acme = ordered("failed");
    (acme.issuer, acme.names) = ("ca".to_owned(), vec!["shop.example".to_owned()]);
    let mut shop = certificate("/c/shop.pem");
    shop.names = vec!["shop.example".to_owned()];
    let mut of_http = Figures {
        upstreams: vec![group],
        acme: vec![acme],
        tls: Tls { certificates: vec![shop], ..figures().tls },
        unsaved_states: vec!["/s/pairs.json".to_owned()],
        ..calm()
    };
    let mut group = upstream("app");
    group.servers[0].state = "unhealthy";
    let mut of_stream = Figures { stream: Sessions { upstreams: vec![group], ..calm().stream }, ..calm() };
    let request = "connect() failed, client: 10.1.1.1, server: shop.example, request: \"GET /cluster HTTP/1.1\", \
                   host: \"gone.example\", upstream: \"http://127.0.0.1:80/\"";
    for (is_http, kind, line, logged) in [
        (true, "server_out", 3, Some(request)),
        (true, "name_unresolved", 3, Some("gone.example could not be resolved (3: Host not found)")),
        (true, "certificate_ended", 6, Some("\"/c/shop.pem\" cannot be read")),
        (true, "certificate_order", 9, Some("acme issuer \"ca\", certificate \"shop.example\" (ecdsa): refused")),
        (true, "state_unsaved", 8, Some("state file \"/s/pairs.json\" cannot be written (28: x)")),
        (false, "server_out", 12, Some(request)),
    ] {
        let figures = if is_http { &mut of_http } else { &mut of_stream };
        // The newest line is one of a request, which names the server, a host and a word of the log.
        figures.last_errors = logged.into_iter().chain([request]).map(str::to_owned).collect();
        let wanted = (Some(format!("x.conf:{line}")), logged.map(str::to_owned));
        assert_eq!(origin(figures, kind, &places), wanted, "{kind}");
    }
}

#[test]
fn causes_come_before_effects() {
    let mut figures = figures();
    figures.server_zones = answered(1, 9).server_zones;
    let kinds: Vec<&str> = problems_at(&figures, 0).iter().map(|problem| problem.kind).collect();
    let place = |kind| kinds.iter().position(|one| *one == kind).expect(kind);
    assert!(place("mount_hangs") < place("server_out") && place("server_out") < place("server_errors"), "{kinds:?}");
    assert!(place("server_errors") < place("log_fails"), "{kinds:?}");
}
