//! The alert rules and the dashboard in `contrib/`: each metric in them is one that a running server has, and the rules fire when
//! what they watch breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use freerun_testkit::{
    Collector, CollectorAnswer, RefusingAddress, Setup, TempDir, TestServer, TestUpstream, eventually, require,
};

/// The files whose metrics are checked.
const FILES: [&str; 3] = ["prometheus/freerun.rules.yml", "prometheus/freerun.test.yml", "grafana/freerun.json"];

fn contrib(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(contrib(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A server with something of everything that the rules watch, whose upstream servers are gone.
fn server(collector: &Collector, refusing: &[RefusingAddress; 2]) -> TestServer {
    Setup::new()
        .http(&format!(
            "proxy_cache_path @DIR@/cache keys_zone=c:1m; limit_req_zone $remote_addr zone=l:1m rate=9r/s;
             otel_exporter {{ endpoint {}; interval 20ms; }}
             upstream app {{ server {}; server {}; }}
             server {{ listen 127.0.0.1:@PORT@; server_name shop.example; otel_trace on; limit_req zone=l burst=1000 nodelay;
                 location / {{ proxy_cache c; proxy_pass http://app; }}
                 location /status {{ limit_req_dry_run on; otel_trace off; status; }} }}
             server {{ listen 127.0.0.1:@PORT2@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; }}",
            collector.address(),
            refusing[0].address(),
            refusing[1].address()
        ))
        .freerun()
}

fn metrics(server: &TestServer) -> String {
    server.get("/status?format=prometheus").text()
}

/// The metrics that a text names.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words = text.split(|char: char| !is_part(char));
    words.filter(|word| ["freerun_", "process_"].iter().any(|begin| word.starts_with(begin))).collect()
}

#[test]
fn every_metric_of_the_rules_and_the_dashboard_is_there() {
    if !require::freerun() {
        return;
    }
    let server = server(&Collector::grpc(TestUpstream::new()), &[RefusingAddress::new(), RefusingAddress::new()]);
    let text = metrics(&server);
    let mut kinds = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a name and a kind");
        kinds.insert(name, kind);
    }
    let mut unknown = Vec::new();
    for file in FILES {
        let text = read(file);
        let found = names(&text);
        assert!(found.len() > 5, "{file} names {found:?}");
        for name in found {
            let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            let is_part = histogram.is_some_and(|of| kinds.get(of) == Some(&"histogram"));
            if !is_part && !kinds.contains_key(name) {
                unknown.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_max_fds"] {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
        assert!(line.trim().parse::<f64>().is_ok_and(|value| value > 0.0), "{name}{line}");
    }
    serde_json::from_str::<serde_json::Value>(&read("grafana/freerun.json")).expect("the dashboard is JSON");
}

/// Runs promtool, and returns what it says; with a failure, the test fails.
#[track_caller]
fn run(promtool: &Path, arguments: &[&str], input: &str) -> String {
    let folder = TempDir::new("promtool");
    let path = folder.path().join("input");
    std::fs::write(&path, input).expect("written");
    let output = Command::new(promtool).args(arguments).stdin(File::open(&path).expect("a file")).output();
    let output = output.expect("promtool runs");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

#[test]
fn promtool_finds_nothing_in_the_metrics_and_the_rules() {
    let Some(promtool) = require::program("promtool").filter(|_| require::freerun()) else { return };
    let server = server(&Collector::grpc(TestUpstream::new()), &[RefusingAddress::new(), RefusingAddress::new()]);
    assert_eq!(run(&promtool, &["check", "metrics"], &metrics(&server)), "");
    run(&promtool, &["check", "rules", &contrib(FILES[0]).display().to_string()], "");
    run(&promtool, &["test", "rules", &contrib(FILES[1]).display().to_string()], "");
}

/// The samples of a text, by their series.
fn samples(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' ')).collect()
}

#[test]
fn rules_fire_when_what_they_watch_breaks() {
    let Some(promtool) = require::program("promtool").filter(|_| require::freerun()) else { return };
    let collector = Collector::grpc(TestUpstream::new());
    collector.set_answer(CollectorAnswer::Code(3));
    let refusing = [RefusingAddress::new(), RefusingAddress::new()];
    let server = server(&collector, &refusing);
    // The first request finds that both servers are gone, and the others find none that could be asked.
    assert_eq!(server.get("/").status, 502);
    eventually("its span has failed", || server.status()["otel"]["failed"].as_u64() > Some(0));
    let before = metrics(&server);
    for _ in 0..10 {
        assert_eq!(server.get("/").status, 502);
    }
    eventually("their spans have failed", || server.status()["otel"]["failed"].as_u64() >= Some(11));
    let after = metrics(&server);
    // Their texts are compared in freerun.test.yml.
    let rules = read(FILES[0]).lines().fold(String::new(), |mut kept, line| {
        let is_text = line.trim() == "annotations:" || line.starts_with("          summary:");
        if !is_text && !line.starts_with("          description:") {
            kept += line;
            kept.push('\n');
        }
        kept
    });
    let watched = names(&rules);
    let before = samples(&before);
    let mut test =
        "rule_files: [rules.yml]\nevaluation_interval: 30s\ntests:\n  - interval: 30s\n    input_series:\n".to_owned();
    for (series, value) in samples(&after) {
        let name = series.split('{').next().unwrap_or_default();
        if !watched.contains(name) {
            continue;
        }
        let labels = series.strip_prefix(name).unwrap_or_default().trim_matches(['{', '}']);
        let first = before.get(series).unwrap_or(&"0");
        writeln!(test, "      - series: '{name}{{job=\"freerun\",{labels}}}'\n        values: '{first} {value}x60'")
            .expect("a string");
    }
    test += "    alert_rule_test:\n";
    let port = server.address().port();
    let down = refusing.each_ref().map(|server| format!("upstream: app, server: '{}'", server.address()));
    for (alert, severity, all) in [
        ("FreerunServerErrors", "critical", vec![format!("server_zone: 'shop.example:{port}'")]),
        ("FreerunUpstreamServerDown", "warning", down.to_vec()),
        ("FreerunUpstreamWithoutServers", "critical", vec!["upstream: app".to_owned()]),
    ] {
        writeln!(test, "      - eval_time: 3m\n        alertname: {alert}\n        exp_alerts:").expect("a string");
        for labels in all {
            writeln!(test, "          - exp_labels: {{ severity: {severity}, {labels} }}").expect("a string");
        }
    }
    // Nothing of this has broken.
    for alert in ["FreerunDiskHangs", "FreerunPoolRefuses", "FreerunConnectionsDropped", "FreerunWorkerRestarted"] {
        writeln!(test, "      - {{ eval_time: 3m, alertname: {alert}, exp_alerts: [] }}").expect("a string");
    }
    let folder = TempDir::new("rules");
    let path = folder.path().join("live.yml");
    std::fs::write(folder.path().join("rules.yml"), &rules).expect("written");
    std::fs::write(&path, &test).expect("written");
    run(&promtool, &["test", "rules", &path.display().to_string()], "");
}
