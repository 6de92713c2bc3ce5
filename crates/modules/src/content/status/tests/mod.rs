//! Both forms are well-formed for any values and names.

mod problems;

use super::acme::AcmeCertificate as Ordered;
use super::http2::Http2;
use super::process::Process;
use super::quic::{Http3, Http3Upstreams, Quic};
use super::sessions::Sessions;
use super::tls::{LoadedCertificate, Side, Store, Tickets, Tls};
use freerun_acme::{CertificateSettings, CertificateState, CertificateStatus, Identifier, KeyKind};
use freerun_proto::h2::flood::Flood;
use freerun_serve::loops::figures::http2::Http2Figures;
use freerun_serve::loops::figures::limits::LimitFigures;
use freerun_serve::loops::figures::quic::{Http3Figures, QuicFigures};
use freerun_serve::loops::figures::sessions::SessionFigures;
use freerun_serve::loops::figures::zones::{SubjectEnd, ZoneFigures};
use freerun_serve::tls::handshake::figures::TlsFigures;
use freerun_telemetry::SpanCounts;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use freerun_cache::cache::{Cache, CacheConfig, Pace};
use freerun_cache::key::Levels;
use freerun_cache::usage::CacheStatus;
use freerun_runtime::stats;
use freerun_upstream::resolve::ResolverSpec;
use freerun_upstream::{
    AttemptFailure, Group, GroupSettings, PeerSettings, PeerSpec, Query, TriedServers, UpstreamAddress,
};

use super::caches::CacheFigures;
use super::figures::{Connections, Figures, Log, LogThreads, LoopFigures, Mount, Pool, SandboxLimit};
use super::limits::LimitZone;
use super::problem::{ProblemKind, StatusProblem};
use super::resolvers::Resolver;
use super::upstreams::Upstream;
use super::zones::Zone;
use super::{StatusFormat, prometheus};
use crate::content::described::histogram::Histogram;

fn histogram(durations_us: &[u64]) -> Histogram {
    let histogram = stats::Histogram::default();
    for us in durations_us {
        histogram.record(Duration::from_micros(*us));
    }
    histogram.snapshot().into()
}

fn one_loop(index: usize) -> LoopFigures {
    LoopFigures {
        index,
        state: "serving",
        drain: false,
        connections: Connections { active: 3, idle: 2, accepted: u64::MAX, dropped: 0, rescued: 1, moved: 0 },
        requests: 7,
        rescued_datagrams: 0,
        stalls: 0,
        stalls_without_processor: 0,
        longest_stall_of_its_own_us: 0,
        polls: histogram(&[0, 3, 3, 900, u64::MAX / 4]),
    }
}

fn figures() -> Figures {
    let nasty = "/a \"b\"\\\n{c=\"d\"} \u{1F980}";
    Figures {
        version: "0.1.0",
        generation: 3,
        reloads: 2,
        uptime_seconds: 12.345,
        pid: 4711,
        process: Process {
            cpu_seconds: 1.5,
            resident_bytes: Some(4096),
            virtual_bytes: Some(8192),
            open_fds: None,
            max_fds: Some(1024),
            start_time_seconds: 1_700_000_000.25,
        },
        problems: vec![StatusProblem::new(ProblemKind::LogFails, nasty, nasty, nasty.to_owned(), 1)],
        past_problems: Vec::new(),
        sandbox: vec![SandboxLimit { name: "calls", active: false, failure: nasty.to_owned() }],
        loops: vec![one_loop(0), one_loop(1)],
        pools: vec![Pool {
            name: nasty.to_owned(),
            threads: 1,
            limit: 32,
            active: 1,
            waiting: 4,
            max_queue: 65536,
            refused: 5,
            served: 6,
            cancelled: 7,
            panicked: 8,
            wait: histogram(&[1, 2, 3]),
            service: histogram(&[]),
        }],
        mounts: vec![Mount {
            mount: nasty.to_owned(),
            device: "8:1".to_owned(),
            fs_type: "ext4".to_owned(),
            rung: "nowait",
            demoted: true,
            density: "dense",
            hits: 1,
            misses: 2,
            pooled: 3,
            stalls: 4,
            demotions: 5,
            stuck_us: 2_500_000,
        }],
        missing_kernel_features: vec!["cachestat"],
        logs: vec![Log { name: nasty.to_owned(), lost_lines: 9, waiting_bytes: 10, held_up: true, error: None }],
        log_threads: LogThreads { now: 2, limit: 8 },
        last_errors: vec![nasty.to_owned()],
        error_log: nasty.to_owned(),
        unsaved_states: vec![nasty.to_owned()],
        server_zones: vec![zone(nasty), zone("z")],
        location_zones: vec![zone(nasty)],
        limit_reqs: vec![LimitZone::of(nasty, &LimitFigures::default()), LimitZone::of("z", &LimitFigures::default())],
        limit_conns: vec![LimitZone::of(nasty, &LimitFigures::default())],
        upstreams: vec![upstream(nasty), alike(), Upstream { computed: true, ..upstream("computed") }],
        resolvers: resolvers(nasty),
        caches: vec![cache(nasty), cache("other")],
        tls: Tls {
            clients: side(),
            upstreams: side(),
            tickets: Tickets { issued: 3, ..Tickets::default() },
            session_caches: vec![Store { name: nasty.to_owned(), sessions: 1, bytes: 2, max_bytes: 3, evicted: 4 }],
            certificates: vec![
                certificate(nasty),
                LoadedCertificate { key: "ecdsa", ..certificate(nasty) },
                LoadedCertificate { expires: 2, ..certificate(nasty) },
            ],
        },
        http2: http2(),
        http3: http3(),
        quic: quic(),
        http3_upstreams: Http3Upstreams::now(),
        stream: sessions(),
        acme: vec![ordered(nasty), ordered("waiting")],
        cluster: None,
        otel: Some(SpanCounts { exported: 1, dropped: 2, failed: 3, errors: 4, waiting: 5 }.into()),
    }
}

fn sessions() -> Sessions {
    let figures = SessionFigures::default();
    figures.begin();
    figures.end(403, 1, 2);
    let all = Sessions::of(&figures, vec![upstream("s")]);
    Sessions { server_zones: vec![zone("s")], ..all }
}

fn zone(name: &str) -> Zone {
    let figures = ZoneFigures::default();
    figures.tls().failed[0].add();
    for status in (400..440).map(Some).chain([None]) {
        figures.pass(&SubjectEnd { status, received: 1, sent: 2, took: Duration::from_micros(3) });
    }
    Zone::of(name, &figures)
}

fn http2() -> Http2 {
    let figures = Http2Figures::default();
    figures.connections.add();
    figures.failed(Some(Flood::Resets));
    figures.failed(None);
    Http2::of(&figures)
}

fn http3() -> Http3 {
    let figures = Http3Figures::default();
    figures.reset_here.add();
    figures.failed(Some(Flood::Fields));
    Http3::of(&figures)
}

fn quic() -> Quic {
    let figures = QuicFigures::default();
    figures.completed.add();
    figures.early_rejected.add();
    figures.lost_to_clients.add();
    Quic::of(&figures)
}

fn ordered(name: &str) -> Ordered {
    let names = [name, "a.example"].map(|name| Identifier::Dns(name.to_owned())).to_vec();
    let certificate = CertificateSettings { issuer: name.to_owned(), identifiers: names, key: KeyKind::Rsa2048 };
    let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let has = (name != "waiting").then_some(());
    Ordered::from(CertificateStatus {
        certificate,
        state: has.map_or(CertificateState::Waiting, |()| CertificateState::Failed),
        not_after: has.map(|()| time(9)),
        next_attempt: Some(time(5)),
        last_error: has.map(|()| name.to_owned()),
        renewal_window: has.map(|()| (time(6), time(7))),
    })
}

fn side() -> Side {
    let figures = TlsFigures::default();
    figures.steps.record(Duration::from_micros(80));
    figures.by_version[1].add();
    Side::of(&figures)
}

fn certificate(nasty: &str) -> LoadedCertificate {
    let names = vec![nasty.to_owned(), "b.example".to_owned()];
    let (file, subject) = (nasty.to_owned(), nasty.to_owned());
    LoadedCertificate { file, subject, names, key: "rsa", issuer: "CN=ca".to_owned(), expires: 1 }
}

/// A cache that has answered from its contents once.
fn cache(name: &str) -> CacheFigures {
    let config = CacheConfig {
        name: name.into(),
        path: "/nowhere".into(),
        levels: Levels::default(),
        zone_size: 1 << 20,
        max_size: 1 << 30,
        min_free: 0,
        inactive: 600,
        memory: 0,
        manager: Pace::default(),
        loader: Pace::default(),
        purger: Pace::default(),
    };
    let cache = Cache::new(config);
    cache.usage().count(None, CacheStatus::Hit);
    CacheFigures::of(&cache, 1_900_000_000)
}

/// Two resolvers of one zone.
fn resolvers(name: &str) -> Vec<Resolver> {
    let of = |ipv6| {
        let spec = ResolverSpec { servers: Vec::new(), valid: None, ipv4: true, ipv6, status_zone: Some(name.into()) };
        let resolver = freerun_upstream::resolve::Resolver::new(spec);
        resolver.figures.names.add();
        resolver
    };
    Resolver::of([of(true), of(false)].iter())
}

/// A group of two servers, of which the first has answered once and failed once.
fn upstream(name: &str) -> Upstream {
    let spec = |port| PeerSpec {
        address: UpstreamAddress::Ip(([127, 0, 0, 1], port).into()),
        server: format!("127.0.0.1:{port}").into(),
        settings: PeerSettings::default(),
    };
    let group = Group::new(name, GroupSettings::default(), Default::default(), vec![spec(80), spec(81)]);
    let peer = group.peers().primary.peers[0].clone();
    for answers in [true, false] {
        let lease = group.pick(&Query { now: 10_000, ..Query::default() }, &mut TriedServers::new()).expect("a server");
        assert!(!answers || lease.peer().id == peer.id);
        if answers {
            lease.connected(false, Duration::from_millis(1));
            lease.header(200, Duration::from_millis(2), 0);
            lease.succeeded(Duration::from_millis(3), 0);
        } else {
            lease.failed(AttemptFailure::Timeout, 10_000);
        }
    }
    Upstream::new(&group, true, 10_000)
}

/// A group that names one server three times.
fn alike() -> Upstream {
    let spec = |backup| PeerSpec {
        address: UpstreamAddress::Ip(([127, 0, 0, 1], 80).into()),
        server: "127.0.0.1:80".into(),
        settings: PeerSettings { backup, ..PeerSettings::default() },
    };
    let specs = vec![spec(false), spec(false), spec(true)];
    Upstream::new(&Group::new("alike", GroupSettings::default(), Default::default(), specs), true, 10_000)
}

#[test]
fn servers_of_one_address_are_told_apart_and_resolvers_of_one_zone_added_up() {
    let text = prometheus::text(&figures());
    let all: Vec<&str> =
        text.lines().filter(|line| line.starts_with("freerun_upstream_active{upstream=\"alike\"")).collect();
    let labels = "freerun_upstream_active{upstream=\"alike\",server=\"127.0.0.1:80\"";
    assert_eq!(all, [format!("{labels}}} 0"), format!("{labels},nth=\"2\"}} 0"), format!("{labels},nth=\"3\"}} 0")]);
    let figures = figures();
    assert_eq!((figures.resolvers.len(), figures.resolvers[0].questions), (1, 2));
}

#[test]
fn statuses_beyond_those_that_a_zone_counts_one_by_one_are_told_by_class() {
    let text = prometheus::text(&figures());
    let of_zone = |name: &str| -> Vec<(String, f64)> {
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(sample);
        let ours =
            samples.filter(|(found, labels, _)| found == name && labels[0] == ("server_zone".into(), "z".into()));
        ours.map(|(_, labels, value)| (labels.last().expect("a label").1.clone(), value)).collect()
    };
    let requests = of_zone("freerun_http_requests_total");
    assert_eq!(requests.iter().map(|(_, count)| count).sum::<f64>(), 40.0);
    assert_eq!((requests[0].clone(), requests[32].clone()), (("400".into(), 1.0), ("4xx".into(), 8.0)));
    assert_eq!(of_zone("freerun_http_requests_discarded_total")[0].1, 1.0);
    assert_eq!(of_zone("freerun_http_request_duration_seconds_count")[0].1, 41.0);
    assert_eq!(of_zone("freerun_http_handshakes_total")[1], ("failed".into(), 1.0));
}

#[test]
fn certificates_of_one_file_and_subject_are_told_apart() {
    let text = prometheus::text(&figures());
    let all =
        text.lines().filter(|line| line.starts_with("freerun_tls_certificate_expires_timestamp_seconds{")).map(sample);
    let told: Vec<_> = all
        .map(|(_, labels, value)| {
            let label = |name: &str| labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.clone());
            (label("key").expect("a kind"), label("nth"), value)
        })
        .collect();
    let expected = [("rsa", None, 1.0), ("ecdsa", None, 1.0), ("rsa", Some("2"), 2.0)];
    assert_eq!(told, expected.map(|(key, nth, value)| (key.to_owned(), nth.map(str::to_owned), value)));
}

#[test]
fn json_says_what_the_documentation_says() {
    let text = serde_json::to_string(&figures()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names = |value: &serde_json::Value| -> HashSet<String> { value.as_object().unwrap().keys().cloned().collect() };
    let documented = include_str!("../fields.md");
    let server = &value["upstreams"][0]["servers"][0];
    let parts = [
        &value,
        &value["problems"][0],
        &value["loops"][0],
        &value["pools"][0],
        &value["mounts"][0],
        &value["logs"][0],
        &value["log_threads"],
        &value["server_zones"][0],
        &value["server_zones"][0]["tls"],
        &value["limit_reqs"][0],
        &value["http3"],
        &value["quic"],
        &value["http3_upstreams"],
        &value["stream"],
        &value["upstreams"][0],
        &value["resolvers"][0],
        &value["caches"][0],
        &value["caches"][0]["answers"],
        &value["caches"][0]["fills"],
        &value["caches"][0]["removed"],
        &value["caches"][0]["memory"],
        &value["caches"][0]["disk"],
        &value["tls"]["certificates"][0],
        server,
        &server["responses"],
        &server["failures"],
        &server["checks"],
        &server["http3"],
    ];
    for part in parts {
        for name in names(part) {
            assert!(documented.contains(&format!("\"{name}\":")), "{name} is not documented");
        }
    }
    assert_eq!(value["loops"][1]["index"], 1);
    assert_eq!(value["loops"][0]["connections"]["accepted"], u64::MAX);
    let polls = &value["loops"][0]["polls"];
    assert_eq!(polls["count"], 5);
    assert_eq!(polls["counts"][0], 1);
    assert_eq!(polls["counts"][2], 2, "3 µs are below 4");
    assert_eq!(polls["bounds_us"][2], 4);
    assert_eq!(polls["counts"].as_array().unwrap().len(), polls["bounds_us"].as_array().unwrap().len() + 1);
    assert_eq!((&value["caches"][0]["answers"]["hit"], &value["caches"][0]["hit_ratio"]), (&1.into(), &1.0.into()));
    assert_eq!(value["mounts"][0]["type"], "ext4");
    assert_eq!(value["logs"][0]["lost_lines"], 9);
    assert_eq!((&server["responses"]["2xx"], &server["state"]), (&1.into(), &"up".into()));
    let other = &value["upstreams"][0]["servers"][1];
    assert_eq!((&other["failures"]["timeout"], &other["state"]), (&1.into(), &"unavail".into()));
    assert_eq!(server["header"]["sum_us"], 2000);
}

/// A sample: name, labels, value.
type Sample = (String, Vec<(String, String)>, f64);

/// Parses one line as the format is specified.
fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap();
    let name = line[..end].to_owned();
    let mut labels = Vec::new();
    let mut rest = &line[end..];
    if let Some(inside) = rest.strip_prefix('{') {
        let mut inside = inside;
        loop {
            let (label, after) = inside.split_once("=\"").unwrap();
            let mut value = String::new();
            let mut chars = after.char_indices();
            let close = loop {
                match chars.next().unwrap() {
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => value.push('\n'),
                        escaped @ ('"' | '\\') => value.push(escaped),
                        other => panic!("\\{other} in {line}"),
                    },
                    (at, '"') => break at,
                    (_, other) => value.push(other),
                }
            };
            labels.push((label.to_owned(), value));
            match after[close + 1..].strip_prefix(',') {
                Some(next) => inside = next,
                None => {
                    rest = after[close + 1..].strip_prefix('}').unwrap();
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap().parse().unwrap();
    (name, labels, value)
}

#[test]
fn prometheus_text_is_well_formed() {
    let text = prometheus::text(&figures());
    assert!(text.ends_with('\n'));
    let (mut kinds, mut helped) = (HashMap::new(), HashSet::new());
    let mut seen = HashSet::new();
    let mut last_family = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(helped.insert(name.to_owned()) && help.ends_with('.'), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none() && helped.contains(name), "{line}");
            last_family = name.to_owned();
        } else {
            let (name, labels, value) = sample(line);
            let kind = kinds[&last_family].as_str();
            let suffix = name.strip_prefix(&last_family).expect("samples stand below their TYPE");
            match kind {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
                "counter" => assert!(suffix.is_empty() && name.ends_with("_total"), "{line}"),
                "gauge" => assert!(suffix.is_empty() && !name.ends_with("_total"), "{line}"),
                other => panic!("{other}"),
            }
            assert!(["freerun_", "process_"].iter().any(|begin| name.starts_with(begin)) && value >= 0.0);
            assert!(seen.insert((name, labels)), "{line} is there twice");
        }
    }
    assert_eq!(kinds.len(), helped.len());
}

#[test]
fn labels_survive_their_escaping() {
    let text = prometheus::text(&figures());
    let name = figures().logs[0].name.clone();
    let lost = text.lines().find(|line| line.starts_with("freerun_log_lost_lines_total")).unwrap();
    assert_eq!(sample(lost), ("freerun_log_lost_lines_total".into(), vec![("log".into(), name)], 9.0));
}

#[test]
fn buckets_are_cumulative_and_agree_with_sum_and_count() {
    let text = prometheus::text(&figures());
    let of = |suffix: &str| -> Vec<Sample> {
        let start = format!("freerun_poll_seconds_{suffix}{{loop=\"1\"");
        text.lines().filter(|line| line.starts_with(&start)).map(sample).collect()
    };
    let buckets = of("bucket");
    let bounds: Vec<f64> =
        buckets.iter().map(|(_, labels, _)| labels[1].1.replace("+Inf", "inf").parse().unwrap()).collect();
    assert_eq!(buckets.len(), stats::BUCKETS);
    assert!(bounds.is_sorted_by(|one, next| one < next));
    assert_eq!(bounds[..3], [0.000001, 0.000002, 0.000004]);
    assert_eq!(bounds.last(), Some(&f64::INFINITY));
    let counts: Vec<f64> = buckets.iter().map(|(.., value)| *value).collect();
    assert!(counts.is_sorted());
    assert_eq!(counts[..3], [1.0, 1.0, 3.0], "0 µs, then two of 3 µs");
    assert_eq!(counts[10], 4.0, "900 µs are below 1024");
    assert_eq!(of("count")[0].2, 5.0);
    assert_eq!(counts.last(), Some(&5.0));
    let sum = (906 + u64::MAX / 4) as f64 / 1e6;
    assert!((of("sum")[0].2 / sum - 1.0).abs() < 1e-9);
}

#[test]
fn the_form_is_chosen_by_argument() {
    let asked = |args: &str| StatusFormat::asked(Some(args.as_bytes()), b"text/html;q=0");
    assert_eq!(StatusFormat::asked(None, b""), Some(StatusFormat::Json));
    assert_eq!(asked(""), Some(StatusFormat::Json));
    assert_eq!(asked("a=b"), Some(StatusFormat::Json));
    assert_eq!(asked("format=json"), Some(StatusFormat::Json));
    assert_eq!(asked("a=b&format=prometheus"), Some(StatusFormat::Prometheus));
    assert_eq!(asked("format=xml"), None);
    assert_eq!(asked("format="), None);
}
