//! The figures of `status` in OpenMetrics 1.0: its rules, and traces as exemplars.

use std::collections::HashSet;

use std::net::TcpListener;

use freerun_testkit::{Collector, Setup, TestServer, TestUpstream, eventually, require};

/// What Prometheus sends.
const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
                          q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The type and the text of the figures for a client with this `Accept`.
fn figures(server: &TestServer, search: &str, accept: &str) -> (String, String) {
    let response = server.send(format!("GET /status{search} HTTP/1.1\r\nHost: h\r\nAccept: {accept}\r\n\r\n"));
    assert_eq!(response.status, 200);
    (response.header("content-type").unwrap_or_default().to_owned(), response.text())
}

/// The name, the bound of the bucket, and the exemplar of a sample.
fn parts(line: &str) -> (&str, &str, Option<&str>) {
    let (sample, exemplar) = match line.split_once(" # ") {
        Some((sample, exemplar)) => (sample, Some(exemplar)),
        None => (line, None),
    };
    let name = &sample[..sample.find(['{', ' ']).unwrap_or(sample.len())];
    let bound = sample.split_once("le=\"").and_then(|(_, rest)| rest.split_once('"'));
    (name, bound.map_or("", |(bound, _)| bound), exemplar)
}

/// Checks the rules of the format, and gives the exemplars: the name of the histogram, the labels and the value.
fn check(text: &str) -> Vec<(String, String, f64)> {
    let lines = text.strip_suffix("# EOF\n").expect("the end");
    assert!(!lines.contains("# EOF") && lines.ends_with('\n'), "one end");
    let (mut families, mut exemplars) = (HashSet::new(), Vec::new());
    let (mut family, mut kind) = ("", "");
    for line in lines.lines() {
        assert!(!line.is_empty(), "no line is empty");
        if let Some((name, declared)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            assert!(families.insert(name), "{name} is declared once");
            assert!(matches!(declared, "counter" | "gauge" | "histogram"), "{line}");
            assert!(declared != "counter" || !name.ends_with("_total"), "{line}");
            (family, kind) = (name, declared);
        } else if !line.starts_with("# HELP ") {
            let (name, bound, exemplar) = parts(line);
            let part = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not in the family {family}"));
            let parts: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(parts.contains(&part), "{line}");
            if let Some((labels, numbers)) = exemplar.and_then(|text| text.split_once("} ")) {
                assert_eq!(part, "_bucket", "{line}");
                let (value, time) = numbers.split_once(' ').expect("a value and a time");
                let [value, time] = [value, time].map(|text| text.parse::<f64>().expect("a number"));
                let most = bound.parse::<f64>().unwrap_or(f64::INFINITY);
                assert!(value <= most && time > 1.7e9 && labels.len() < 128, "{line}");
                exemplars.push((family.to_owned(), format!("{labels}}}"), value));
            }
        }
    }
    exemplars
}

/// Whether a zone of this kind and number has an exemplar.
fn has_exemplar(server: &TestServer, kind: &str, zone: usize) -> bool {
    server.status()[kind][zone]["exemplars"].as_array().is_some_and(|all| !all.is_empty())
}

#[test]
fn a_scraper_that_prefers_it_gets_it_with_traces_as_exemplars() {
    if !require::freerun() {
        return;
    }
    let collector = Collector::grpc(TestUpstream::new());
    let server = Setup::new()
        .http(&format!(
            "otel_exporter {{ endpoint {}; interval 50ms; }}
             server {{ listen 127.0.0.1:@PORT@; location /status {{ status; }}
                 location /traced {{ status_zone traced; otel_trace on; otel_trace_context extract; return 200 ok; }}
                 location /plain {{ status_zone plain; return 200 ok; }} }}",
            collector.address()
        ))
        .freerun();
    server.get("/plain");
    let (_, before) = figures(&server, "", PROMETHEUS);
    assert_eq!(check(&before), [], "nothing was traced");
    // A client may have its response before the request is counted, and its trace is kept after that. A trace whose place is
    // being read is not kept, and the next one is.
    let mut sent = 0;
    eventually("the requests are counted, and traces are kept", || {
        server.send(format!("GET /traced HTTP/1.1\r\nHost: h\r\ntraceparent: {PARENT}\r\n\r\n"));
        sent += 1;
        let is_counted = server.status()["location_zones"][1]["requests"] == sent;
        is_counted && has_exemplar(&server, "location_zones", 1) && has_exemplar(&server, "server_zones", 0)
    });
    for search in ["", "?format=prometheus", "?format=openmetrics"] {
        let (kind, text) = figures(&server, search, PROMETHEUS);
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        let exemplars = check(&text);
        let of = |family: &str| exemplars.iter().filter(|(name, ..)| name == family).collect::<Vec<_>>();
        let [server, location] =
            ["freerun_http_request_duration_seconds", "freerun_http_location_request_duration_seconds"].map(of);
        assert!(!server.is_empty() && server.len() <= sent && !location.is_empty(), "{exemplars:?}");
        let begin = format!("{{trace_id=\"{TRACE}\",span_id=\"");
        assert!(exemplars.iter().all(|(_, labels, _)| labels.starts_with(&begin)), "{exemplars:?}");
        let counted =
            format!("\nfreerun_http_location_requests_total{{location_zone=\"traced\",code=\"200\"}} {sent}\n");
        assert!(text.contains(&counted), "{text}");
    }
    // All others get what they got before.
    for accept in ["*/*", "text/plain;version=0.0.4"] {
        let (kind, text) = figures(&server, "?format=prometheus", accept);
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        assert!(text.contains("\n# TYPE freerun_http_location_requests_total counter\n") && !text.contains("trace_id"));
        assert!(!text.contains("# EOF"));
    }
    assert_eq!(figures(&server, "", "*/*").0, "application/json");
    let zone = server.status()["location_zones"][1].clone();
    assert_eq!((&zone["name"], &zone["exemplars"][0]["trace_id"]), (&"traced".into(), &TRACE.into()), "{zone}");
}

#[test]
fn a_request_whose_span_was_dropped_is_no_exemplar() {
    if !require::freerun() {
        return;
    }
    // It never answers, so that the first span stays on its way and the second one in the queue.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = Setup::new()
        .http(&format!(
            "otel_exporter {{ endpoint {}; batch_size 1; batch_count 1; }}
             server {{ listen 127.0.0.1:@PORT@; location /status {{ status; }}
                 location /first {{ status_zone 1; otel_trace on; return 200 ok; }}
                 location /second {{ status_zone 2; otel_trace on; return 200 ok; }}
                 location /third {{ status_zone 3; otel_trace on; return 200 ok; }} }}",
            silent.local_addr().expect("its address")
        ))
        .freerun();
    let spans = |name: &str| server.status()["otel"][name].clone();
    let is_kept = |zone| has_exemplar(&server, "location_zones", zone);
    server.get("/first");
    eventually("the exporter has taken the span", || is_kept(0) && spans("waiting") == 0);
    server.get("/second");
    eventually("the queue is full", || is_kept(1) && spans("waiting") == 1);
    // The second response of a connection comes when all is done for its first request.
    let mut client = server.connect();
    client.get("/third");
    client.get("/third");
    assert!(spans("dropped").as_u64() > Some(0));
    assert!(!is_kept(2));
}
