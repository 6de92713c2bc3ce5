//! OpenTelemetry: spans of requests and metrics of the server, at a collector.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use freerun_testkit::daemon::{Daemon, ends, signal};
use freerun_testkit::http2::{ServerReply, answering};
use freerun_testkit::{
    CollectedSpan, Collector, CollectorAnswer, RefusingAddress, Setup, TestServer, TestUpstream, certificates,
    eventually, ok, require,
};

/// A `traceparent` of a client that may have recorded its trace.
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn collector() -> Collector {
    Collector::grpc(TestUpstream::new())
}

/// A server that exports to a collector soon after each request.
fn server(collector: &Collector, lines: &str) -> TestServer {
    let exporter = format!("otel_exporter {{ endpoint {}; interval 50ms; }}", collector.address());
    Setup::new().http(&format!("{exporter}\n{lines}")).freerun()
}

/// Waits for this many spans.
#[track_caller]
fn spans(collector: &Collector, count: usize) -> Vec<CollectedSpan> {
    eventually(&format!("{count} spans are exported"), || collector.spans().len() >= count);
    let spans = collector.spans();
    assert_eq!(spans.len(), count, "{spans:#?}");
    spans
}

/// The spans of this kind: 1 internal, 2 server, 3 client.
fn of_kind(spans: &[CollectedSpan], kind: u64) -> Vec<&CollectedSpan> {
    spans.iter().filter(|span| span.kind == kind).collect()
}

fn attribute<'s>(span: &'s CollectedSpan, name: &str) -> &'s str {
    span.attributes.get(name).map_or("", String::as_str)
}

#[track_caller]
fn assert_attributes(span: &CollectedSpan, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(attribute(span, name), *value, "{name} in {span:#?}");
    }
}

/// The counts of spans in the state of the server.
fn counts(server: &TestServer) -> serde_json::Value {
    server.status()["otel"].clone()
}

#[test]
fn a_request_is_a_span_with_the_attributes_of_nginx() {
    if !require::freerun() {
        return;
    }
    let collector = collector();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    let server = server(
        &collector,
        "otel_service_name shop; otel_resource_attr deployment.environment test;
         server { listen 127.0.0.1:@PORT@;
            location /traced { otel_trace on; otel_span_attr tenant $arg_tenant; otel_span_attr none $arg_none;
                return 200 traced; }
            location /named { otel_trace on; otel_span_name \"GET $uri\"; return 503; }
            location / { return 200 no; } }",
    );
    server.get("/");
    let body = "x".repeat(5);
    server.send(format!(
        "POST /traced?tenant=a HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: test \u{e9}\r\nContent-Length: 5\r\n\r\n{body}"
    ));
    server.get("/named/x");
    let spans = spans(&collector, 2);
    let span = spans.iter().find(|span| span.name == "/traced").expect("the span of /traced");
    assert_eq!((span.kind, span.trace_id.len(), span.span_id.len()), (2, 32, 16));
    assert_eq!((span.parent_id.as_str(), span.is_error), ("", false));
    assert!(before <= span.start && span.start <= span.end, "{span:#?}");
    let port = server.address().port().to_string();
    assert_attributes(
        span,
        &[
            ("http.method", "POST"),
            ("http.target", "/traced?tenant=a"),
            ("http.route", "/traced"),
            ("http.scheme", "http"),
            ("http.flavor", "1.1"),
            ("http.user_agent", "test \u{e9}"),
            ("http.request_content_length", "5"),
            ("http.response_content_length", "6"),
            ("http.status_code", "200"),
            ("net.host.name", "shop.example"),
            ("net.host.port", &port),
            ("net.sock.peer.addr", "127.0.0.1"),
            ("tenant", "a"),
        ],
    );
    assert!(!span.attributes.contains_key("none") && span.attributes.contains_key("net.sock.peer.port"));
    let resource = |name: &str| span.resource.get(name).map(String::as_str);
    assert_eq!((resource("service.name"), resource("deployment.environment")), (Some("shop"), Some("test")));
    let named = spans.iter().find(|span| span.name == "GET /named/x").expect("the span with a name");
    assert!(named.is_error && named.trace_id != span.trace_id);
}

#[test]
fn a_collector_over_http_gets_the_same_messages() {
    if !require::freerun() {
        return;
    }
    let collector = Collector::http(TestUpstream::new());
    let exporter = format!(
        "otel_exporter {{ endpoint http://{}/otlp/; otlp_protocol http/protobuf; interval 50ms; header X-Key \"a b\"; }}",
        collector.address()
    );
    let lines = "server { listen 127.0.0.1:@PORT@; otel_trace on; location / { return 200; } }";
    let server = Setup::new().http(&format!("{exporter}\n{lines}")).freerun();
    server.get("/a");
    assert_eq!(spans(&collector, 1)[0].name, "/");
    let exports = collector.take_exports();
    let field = |name: &str| exports[0].fields.get(name).map(String::as_str);
    assert_eq!(exports[0].path, "/otlp/v1/traces");
    assert_eq!((field("content-type"), field("x-key")), (Some("application/x-protobuf"), Some("a b")));
}

#[test]
fn a_collector_with_tls_is_verified() {
    if !require::freerun() {
        return;
    }
    let collector = Collector::grpc_tls("ec");
    let port = collector.address().rsplit(':').next().expect("a port").to_owned();
    let lines = "server { listen 127.0.0.1:@PORT@; otel_trace on; location / { return 200; } location /s { status; } }";
    let with = |more: &str| {
        let exporter =
            format!("otel_exporter {{ endpoint https://localhost:{port}; interval 50ms; {more} header key secret; }}");
        Setup::new().http(&format!("{exporter}\n{lines}")).freerun()
    };
    let trusting = with(&format!("trusted_certificate {};", certificates().path("ca.crt").display()));
    trusting.get("/");
    spans(&collector, 1);
    let exports = collector.take_exports();
    assert_eq!(exports[0].fields.get("key").map(String::as_str), Some("secret"));
    assert!(exports[0].path.ends_with("TraceService/Export"), "{}", exports[0].path);
    let other = with(&format!("trusted_certificate {};", certificates().path("strangers.crt").display()));
    other.get("/");
    other.logs("otel: export to localhost:");
    assert_eq!(collector.exports(), 0);
}

#[test]
fn a_trace_goes_on_to_upstream_servers() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|asked| {
        let field = |name: &str| asked.headers(name).join("+");
        ok(format!("{}|{}", field("traceparent"), field("tracestate")))
    });
    let collector = collector();
    let server = server(
        &collector,
        &format!(
            "server {{ listen 127.0.0.1:@PORT@; otel_trace on;
                add_header Ids $otel_trace_id:$otel_span_id:$otel_parent_id:$otel_parent_sampled;
                location /extract {{ otel_trace_context extract; proxy_pass http://{0}; }}
                location /inject {{ otel_trace_context inject; proxy_pass http://{0}; }}
                location /propagate {{ otel_trace_context propagate; proxy_pass http://{0}; }}
                location /unsampled {{ otel_trace off; otel_trace_context propagate; proxy_pass http://{0}; }}
                location /ignore {{ proxy_pass http://{0}; }} }}",
            upstream.address()
        ),
    );
    let ask = |path: &str, parent: &str| {
        let answer = server.get_with(path, &format!("traceparent: {parent}\r\ntracestate: a=1\r\ntracestate: b=2\r\n"));
        let ids = answer.header("ids").expect("identifiers").to_owned();
        let ids: Vec<String> = ids.split(':').map(str::to_owned).collect();
        let text = answer.text();
        let (sent, state) = text.split_once('|').expect("two fields");
        (ids, sent.to_owned(), state.to_owned())
    };
    let known = |sampled: &str| [TRACE, "00f067aa0ba902b7", sampled].map(str::to_owned);
    let (ids, sent, state) = ask("/extract", PARENT);
    assert_eq!([&ids[0], &ids[2], &ids[3]], known("1").each_ref());
    assert_eq!((sent.as_str(), state.as_str()), (PARENT, "a=1+b=2"), "the client's fields are passed on");
    let (ids, sent, state) = ask("/inject", PARENT);
    assert!(ids[0] != TRACE && ids[2].is_empty() && state.is_empty(), "{ids:?} {state}");
    assert_eq!(sent, format!("00-{}-{}-01", ids[0], ids[1]));
    let (ids, sent, state) = ask("/propagate", &PARENT.replace("-01", "-00"));
    assert_eq!([&ids[0], &ids[2], &ids[3]], known("0").each_ref());
    assert_eq!((sent, state.as_str()), (format!("00-{TRACE}-{}-01", ids[1]), "a=1+b=2"));
    let (ids, sent, state) = ask("/propagate", "00-wrong");
    assert!(ids[0] != TRACE && state.is_empty(), "a state without a trace is not passed on: {ids:?} {state}");
    assert_eq!(sent, format!("00-{}-{}-01", ids[0], ids[1]));
    let (ids, sent, _) = ask("/unsampled", PARENT);
    assert_eq!(sent, format!("00-{TRACE}-{}-00", ids[1]));
    let (ids, sent, _) = ask("/ignore", PARENT);
    assert_eq!((sent.as_str(), ids[0] == TRACE), (PARENT, false));
    // Five requests are traced, each with one try.
    let spans = spans(&collector, 10);
    let servers = of_kind(&spans, 2);
    let extracted = servers.iter().find(|span| attribute(span, "http.route") == "/extract").expect("a span");
    assert_eq!((extracted.trace_id.as_str(), extracted.parent_id.as_str()), (TRACE, "00f067aa0ba902b7"));
    assert_eq!(extracted.trace_state, "a=1,b=2");
    let ignored = servers.iter().find(|span| attribute(span, "http.route") == "/ignore").expect("a span");
    assert_eq!((ignored.parent_id.as_str(), ignored.trace_state.as_str()), ("", ""));
}

#[test]
fn tries_at_upstream_servers_are_children() {
    if !require::freerun() {
        return;
    }
    let refusing = RefusingAddress::new();
    let upstream = TestUpstream::answering(|_| ok("hello"));
    let collector = collector();
    let server = server(
        &collector,
        &format!(
            "upstream group {{ server {} max_fails=0; server {} backup; }}
             server {{ listen 127.0.0.1:@PORT@; location / {{ otel_trace on; proxy_pass http://group; }} }}",
            refusing.address(),
            upstream.address()
        ),
    );
    assert_eq!(server.get("/").text(), "hello");
    let spans = spans(&collector, 3);
    let parent = of_kind(&spans, 2)[0];
    let mut tries = of_kind(&spans, 3);
    tries.sort_by_key(|span| span.start);
    for one in &tries {
        assert_eq!((&one.trace_id, &one.parent_id), (&parent.trace_id, &parent.span_id));
        assert!(parent.start <= one.start && one.start <= one.end, "{one:#?} in {parent:#?}");
    }
    assert_attributes(tries[0], &[("net.sock.peer.addr", &refusing.address()), ("http.status_code", "502")]);
    assert!(tries[0].is_error && !tries[0].events.contains(&"response head".to_owned()));
    assert_attributes(
        tries[1],
        &[
            ("net.sock.peer.addr", upstream.address()),
            ("http.status_code", "200"),
            ("http.response_content_length", "5"),
        ],
    );
    assert_eq!(
        (tries[1].is_error, &tries[1].events[..]),
        (false, &["connected".to_owned(), "response head".to_owned()][..])
    );
}

#[test]
fn subrequests_calls_and_other_protocols_carry_the_trace() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|asked| ok(asked.header("traceparent").unwrap_or("none")));
    let grpc = answering(TestUpstream::new(), |asked| {
        let parent = asked.field("traceparent").unwrap_or("none").to_owned();
        ServerReply { status: 200, ..ServerReply::default() }.field("parent", &parent).trailer("grpc-status", "0")
    });
    let collector = collector();
    let server = server(
        &collector,
        &format!(
            "server {{ listen 127.0.0.1:@PORT@; otel_trace on; otel_trace_context propagate;
                location /page {{ auth_request /auth; proxy_pass http://{0}; }}
                location = /auth {{ internal; proxy_pass http://{0}; }}
                location /call {{ grpc_pass grpc://{1}; }} }}",
            upstream.address(),
            grpc.address()
        ),
    );
    let text = server.get_with("/page", &format!("traceparent: {PARENT}\r\n")).text();
    assert!(text.starts_with(&format!("00-{TRACE}-")) && text != PARENT, "{text}");
    let asked = upstream.take_requests();
    assert_eq!(
        asked.iter().map(|asked| asked.header("traceparent").unwrap_or_default()).collect::<Vec<_>>(),
        [&text, &text]
    );
    let spans = spans(&collector, 3);
    let parent = of_kind(&spans, 2)[0];
    assert!(of_kind(&spans, 3).iter().all(|span| span.parent_id == parent.span_id), "{spans:#?}");
    let answer = server.get_with("/call", &format!("traceparent: {PARENT}\r\n"));
    assert!(answer.header("parent").is_some_and(|parent| parent.starts_with(&format!("00-{TRACE}-"))));
}

#[test]
fn a_share_of_requests_is_traced_and_a_decision_stays() {
    if !require::freerun() {
        return;
    }
    let collector = collector();
    let server = server(
        &collector,
        "split_clients $otel_trace_id $sampled { 30% on; * off; }
         server { listen 127.0.0.1:@PORT@;
            location /share { otel_trace $sampled; return 200 $sampled; }
            location /parent { otel_trace $otel_parent_sampled; otel_trace_context extract; return 200; }
            location /first { otel_trace on; otel_span_name first; try_files /none @later; }
            location @later { return 200 later; }
            location /last { try_files /none @traced; }
            location @traced { otel_trace on; return 200 last; } }",
    );
    let mut client = server.connect();
    let share = (0..200).filter(|_| client.get("/share").text() == "on").count();
    assert!((20..100).contains(&share), "{share} of 200");
    spans(&collector, share);
    server.get_with("/parent", &format!("traceparent: {PARENT}\r\n"));
    server.get_with("/parent", &format!("traceparent: {}\r\n", PARENT.replace("-01", "-00")));
    server.get("/parent");
    server.get("/first");
    server.get("/last");
    let spans = spans(&collector, share + 3);
    let names: Vec<_> =
        spans[share..].iter().map(|span| (span.name.as_str(), attribute(span, "http.target"))).collect();
    assert!(names.contains(&("/parent", "/parent")) && names.contains(&("@traced", "/last")), "{names:?}");
    assert!(names.contains(&("@later", "/first")), "{names:?}");
}

#[test]
fn a_variable_decides_once_and_only_what_is_passed_on_gets_fields() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|asked| {
        let told = asked.header("traceparent").unwrap_or("none");
        format!("HTTP/1.1 200 OK\r\nSampled: on\r\nContent-Length: {}\r\n\r\n{told}", told.len()).into_bytes()
    });
    let collector = collector();
    let server = server(
        &collector,
        &format!(
            "server {{ listen 127.0.0.1:@PORT@; otel_trace_context propagate; add_header Seen $http_traceparent always;
                location /late {{ otel_trace $upstream_http_sampled; proxy_pass http://{0}; }}
                location /own {{ empty_gif; }}
                location /moved {{ try_files /none @app; }}
                location @app {{ otel_trace on; proxy_pass http://{0}; }} }}",
            upstream.address()
        ),
    );
    let ask = |path: &str| server.get_with(path, &format!("traceparent: {PARENT}\r\n"));
    let late = ask("/late");
    assert_eq!(late.header("seen"), Some(late.text().as_str()));
    assert!(late.text().starts_with(&format!("00-{TRACE}-")) && late.text().ends_with("-00"), "{}", late.text());
    assert_eq!(ask("/own").header("seen"), Some(PARENT), "no server is asked");
    let moved = ask("/moved").text();
    assert!(moved.starts_with(&format!("00-{TRACE}-")) && moved.ends_with("-01"), "{moved}");
    let spans = spans(&collector, 2);
    let names: Vec<_> = of_kind(&spans, 2).iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["@app"], "the first one was left out before its response came");
}

#[test]
fn a_collector_that_hangs_or_refuses_costs_spans_and_no_requests() {
    if !require::freerun() {
        return;
    }
    let collector = collector();
    let exporter =
        format!("otel_exporter {{ endpoint {}; interval 20ms; batch_size 4; batch_count 2; }}", collector.address());
    let lines =
        "server { listen 127.0.0.1:@PORT@; location / { otel_trace on; return 200; } location /status { status; } }";
    let server = Setup::new().http(&format!("{exporter}\n{lines}")).freerun();
    collector.set_answer(CollectorAnswer::Code(3));
    server.get("/");
    eventually("the span has failed", || counts(&server)["failed"] == 1);
    server.logs("failed: grpc-status 3: as the test wants it");
    collector.set_answer(CollectorAnswer::Rejects(1));
    server.get("/");
    eventually("the collector has refused a part", || counts(&server)["failed"] == 2);
    collector.set_answer(CollectorAnswer::Hangs);
    server.get("/");
    eventually("a batch is on its way", || counts(&server)["waiting"] == 0);
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/").status, 200);
    }
    eventually("spans beyond the queue are dropped", || counts(&server)["dropped"] == 42);
    assert_eq!(counts(&server)["waiting"], 8);
    let metrics = server.get("/status?format=prometheus").text();
    assert!(metrics.contains("freerun_otel_spans_total{result=\"dropped\"} 42\n"), "{metrics}");
}

#[test]
fn a_batch_is_sent_again_when_the_collector_comes_back() {
    if !require::freerun() {
        return;
    }
    for (collector, protocol, unavailable) in [
        (Collector::grpc(TestUpstream::new()), "grpc", 14),
        (Collector::http(TestUpstream::new()), "http/protobuf", 503),
    ] {
        collector.set_answer(CollectorAnswer::Code(unavailable));
        let exporter =
            format!("otel_exporter {{ endpoint {}; otlp_protocol {protocol}; interval 20ms; }}", collector.address());
        let lines = "server { listen 127.0.0.1:@PORT@; location / { otel_trace on; return 200; } location /status { status; } }";
        let server = Setup::new().http(&format!("{exporter}\n{lines}")).freerun();
        server.get("/");
        eventually("an export has failed", || counts(&server)["errors"] == 1);
        collector.set_answer(CollectorAnswer::Takes);
        spans(&collector, 1);
        eventually("it is counted", || counts(&server)["exported"] == 1);
        assert_eq!(counts(&server)["failed"], 0);
        server.logs("works again");
    }
}

#[test]
fn spans_stay_over_a_reload_and_leave_before_the_end() {
    if !require::freerun() {
        return;
    }
    let (first, second) = (collector(), collector());
    let exporter = format!("otel_exporter {{ endpoint {}; interval 1h; }}", first.address());
    let lines =
        "server { listen 127.0.0.1:@PORT@; location / { otel_trace on; return 200; } location /status { status; } }";
    let mut server = Setup::new().http(&format!("{exporter}\n{lines}")).freerun();
    server.get("/one");
    eventually("a span waits", || counts(&server)["waiting"] == 1);
    server.edit(first.address(), second.address());
    server.reload();
    server.get("/two");
    eventually("both wait", || counts(&server)["waiting"] == 2);
    assert!(server.stop().success());
    assert_eq!((first.spans().len(), second.spans().len()), (0, 2));
}

#[test]
fn the_end_does_not_wait_for_a_collector_without_end() {
    if !require::freerun() {
        return;
    }
    for signal in [Signal::TERM, Signal::QUIT] {
        let collector = collector();
        collector.set_answer(CollectorAnswer::Hangs);
        let lines = "server { listen 127.0.0.1:@PORT@; location / { otel_trace on; return 200; } }";
        let mut server = server(&collector, lines);
        server.get("/");
        server.signal(signal);
        assert!(server.wait().success());
        server.logs("1 spans were not exported before the end");
    }
}

#[test]
fn a_configuration_without_an_exporter_ends_the_one_before() {
    if !require::freerun() {
        return;
    }
    let collector = collector();
    let exporter = format!("otel_exporter {{ endpoint {}; interval 1h; }}", collector.address());
    let lines =
        "server { listen 127.0.0.1:@PORT@; location / { otel_trace on; return 200; } location /status { status; } }";
    let server = Setup::new().http(&format!("{exporter}\n{lines}")).freerun();
    server.get("/");
    eventually("a span waits", || counts(&server)["waiting"] == 1);
    server.edit(&exporter, "");
    server.reload();
    spans(&collector, 1);
    assert_eq!(server.get("/").status, 200);
    server.edit("http {", &format!("http {{ {exporter}"));
    server.reload();
    server.get("/");
    eventually("a span waits again", || counts(&server)["waiting"] == 1);
}

#[test]
fn metrics_are_those_of_prometheus() {
    if !require::freerun() {
        return;
    }
    let collector = collector();
    let exporter = format!("otel_exporter {{ endpoint {}; }} otel_metrics on interval=50ms;", collector.address());
    let lines = "server { listen 127.0.0.1:@PORT@; server_name a.example; location / { return 200; } \
                 location /broken { return 503; } location /status { status; } }";
    let server = Setup::new().http(&format!("{exporter}\n{lines}")).freerun();
    server.get("/");
    let mut metrics = Vec::new();
    eventually("the request is in an export", || {
        metrics = collector.take_exports().into_iter().flat_map(|export| export.metrics).collect();
        let is_counted = |labels: &freerun_testkit::Attributes| labels.get("code").is_some_and(|code| code == "200");
        metrics.iter().any(|metric: &freerun_testkit::CollectedMetric| {
            metric.name == "freerun_http_requests_total" && metric.points.iter().any(|(labels, _)| is_counted(labels))
        })
    });
    let text = server.get("/status?format=prometheus").text();
    let kinds = [("counter", 7), ("gauge", 5), ("histogram", 9)];
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a type");
        let has_samples = text.lines().any(|line| line.starts_with(name) && !line.starts_with('#'));
        let expected = kinds.iter().find(|(known, _)| *known == kind).map(|(_, number)| *number);
        let found = metrics.iter().find(|metric| metric.name == name).map(|metric| metric.kind);
        assert_eq!(found, expected.filter(|_| has_samples), "{name}");
    }
    assert_eq!(server.get("/broken").status, 503);
    eventually("a problem is in an export", || {
        let metrics = collector.take_exports().into_iter().flat_map(|export| export.metrics);
        metrics.into_iter().any(|metric| metric.name == "freerun_problem_begin_timestamp_seconds")
    });
}

#[test]
fn mistakes_are_named() {
    for (lines, message) in [
        ("otel_exporter { interval 5s; }", "\"otel_exporter\" requires \"endpoint\""),
        ("otel_exporter { endpoint localhost; }", "invalid port in endpoint \"localhost\""),
        (
            "otel_exporter { endpoint ftp://a:1; }",
            "invalid scheme in endpoint, it must be \"http\" or \"https\" \"ftp://a:1\"",
        ),
        ("otel_exporter { endpoint a:1/x; }", "\"endpoint\" has a path, which gRPC has not"),
        ("otel_exporter { endpoint a:1; batch_size 0; }", "\"batch_size\" must be between 1 and 1024"),
        ("otel_exporter { endpoint a:1; interval 0; }", "\"interval\" must not be 0"),
        ("otel_exporter { endpoint a:1; header Host b; }", "the field \"Host\" is the exporter's own"),
        ("otel_exporter { endpoint a:1; header \"a b\" c; }", "invalid name of a field \"a b\""),
        ("otel_exporter { endpoint a:1; } otel_exporter { endpoint a:1; }", "\"otel_exporter\" directive is duplicate"),
        ("otel_exporter { endpoint a:1; trusted_certificate /none.pem; }", "open() \"/none.pem\" failed"),
        ("otel_trace maybe;", "\"otel_trace\" directive invalid value"),
        ("otel_metrics on interval=0;", "invalid parameter \"interval=0\""),
    ] {
        let text = format!("events {{ }}\nhttp {{ {lines} }}\n");
        let output = freerun_testkit::check(freerun_testkit::Kind::Freerun, &text).expect("a test");
        assert!(output.stderr.contains(message), "{lines}: {}", output.stderr);
    }
}

#[test]
fn a_change_of_the_binary_loses_no_spans() {
    if !require::freerun() {
        return;
    }
    let collector = collector();
    let daemon = Daemon::run(
        "worker_processes 1;",
        &format!(
            "otel_exporter {{ endpoint {}; interval 1h; }}
             server {{ listen 127.0.0.1:@PORT@; otel_trace on; return 200; }}",
            collector.address()
        ),
    );
    for _ in 0..3 {
        daemon.get("/");
    }
    let (old, new) = daemon.change();
    assert_eq!(collector.spans().len(), 0, "the spans wait in the old worker");
    signal(old, Signal::QUIT);
    ends(old);
    spans(&collector, 3);
    daemon.get("/");
    signal(new, Signal::QUIT);
    ends(new);
    spans(&collector, 4);
}

#[test]
fn exports_share_a_connection() {
    if !require::freerun() {
        return;
    }
    let collector = answering(TestUpstream::new(), |_| {
        ServerReply { status: 200, ..ServerReply::default() }.trailer("grpc-status", "0")
    });
    let server = Setup::new()
        .http(&format!(
            "otel_exporter {{ endpoint {}; interval 10ms; }}
             server {{ listen 127.0.0.1:@PORT@; location / {{ otel_trace on; return 200; }} location /status {{ status; }} }}",
            collector.address()
        ))
        .freerun();
    for count in 1..=5 {
        server.get("/");
        eventually("the span is exported", || counts(&server)["exported"] == count);
    }
    assert_eq!(collector.connections(), 1);
}
