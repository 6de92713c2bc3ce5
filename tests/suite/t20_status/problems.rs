//! `problems` of `status`: what an operator should look at, in sentences.

use freerun_testkit::{Setup, TestServer, TestUpstream, eventually, ok, require};
use serde_json::Value;

/// The problems of upstream servers, each as its subject and text. A busy machine may have others.
fn problems(server: &TestServer) -> Vec<String> {
    let status = server.status();
    let all = status["problems"].as_array().cloned().unwrap_or_default();
    let text = |problem: &Value, name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    let ours = all.iter().filter(|problem| problem["section"] == "upstreams");
    ours.map(|one| ["subject", "text"].map(|name| text(one, name)).join(": ")).collect()
}

#[test]
fn a_dead_server_is_named_until_it_is_asked_again() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|_| ok("alive"));
    let server = Setup::new()
        .http(&format!(
            "upstream app {{ server {}; server 127.0.0.1:@PORT9@ fail_timeout=1h; }}
             upstream lonely {{ server 127.0.0.1:@PORT8@; }}
             server {{ listen 127.0.0.1:@PORT@; location /status {{ status; }}
                 location / {{ proxy_pass http://app; }} location /lonely {{ proxy_pass http://lonely; }} }}",
            origin.address()
        ))
        .freerun();
    assert_eq!(problems(&server), [""; 0]);
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "alive");
    }
    let (dead, lonely) = (server.address_number(9), server.address_number(8));
    let begins = format!("app: {dead} is left out after failures. Its last failure (connect) was ");
    let found = problems(&server);
    assert!(found.len() == 1 && found[0].starts_with(&begins), "{found:?}");
    assert!(found[0].ends_with(" ago. Requests go to 1 of 2 servers."), "{found:?}");
    let only = format!("lonely: {lonely}, the only server, has failed just now (connect).");
    eventually("a server without others is a problem while it fails", || {
        assert_eq!(server.get("/lonely").status, 502);
        problems(&server).contains(&only)
    });
    let metrics = server.get("/status?format=prometheus").text();
    assert!(metrics.contains("\nfreerun_problems "), "{metrics}");
    // By the second configuration somebody has taken it out.
    server.edit("fail_timeout=1h", "down");
    server.reload();
    eventually("a server that is down on purpose is no problem", || {
        problems(&server).iter().all(|problem| !problem.starts_with("app: "))
    });
}

/// The place of the problem of this kind and subject, as the number of its line, and its line of the log; nothing without
/// such a problem.
fn origin(server: &TestServer, kind: &str, subject: &str) -> (String, String) {
    let status = server.status();
    let all = status["problems"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|problem| problem["kind"] == kind && problem["subject"] == subject);
    let Some(problem) = found else { return Default::default() };
    let place = problem["place"].as_str().unwrap_or_default();
    let (file, line) = place.rsplit_once(':').unwrap_or_default();
    assert!(file.is_empty() || file.ends_with("nginx.conf"), "{place}");
    (line.to_owned(), problem["log_line"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_problem_names_its_line_of_the_configuration_and_of_the_log() {
    if !require::freerun() {
        return;
    }
    let origin_of = TestUpstream::answering(|_| ok("alive"));
    let server = Setup::new()
        .http(&format!(
            "limit_req_zone $server_name zone=each:1m rate=1r/m;
             upstream app {{
                 server {};
                 server 127.0.0.1:@PORT9@ fail_timeout=1h;
             }}
             server {{
                 listen 127.0.0.1:@PORT@;
                 server_name shop.example;
                 access_log /dev/full;
                 location /status {{ status; access_log off; }}
                 location / {{ proxy_pass http://app; access_log off; }}
                 location /direct {{ proxy_pass http://127.0.0.1:@PORT8@; access_log off; }}
                 location /limited {{ limit_req zone=each; access_log off; }}
                 location /logged {{ return 200 ok; }}
             }}",
            origin_of.address()
        ))
        .freerun();
    for _ in 0..4 {
        assert_eq!(server.get("/").text(), "alive");
    }
    for _ in 0..4 {
        assert_eq!(server.get("/direct").status, 502);
        server.get("/limited");
    }
    server.get("/logged");
    let text = std::fs::read_to_string(server.path("nginx.conf")).expect("the configuration");
    let line_of = |words: &str| {
        let at = text.lines().position(|line| line.contains(words)).unwrap_or_else(|| panic!("no {words}"));
        (at + 1).to_string()
    };
    let (dead, direct) = (server.address_number(9), server.address_number(8).to_string());
    let name = format!("shop.example:{}", server.port());
    let listen = format!("listen 127.0.0.1:{}", server.port());
    let block: usize = line_of(&listen).parse().expect("a number");
    for (kind, subject, line, logged) in [
        ("server_out", "app", line_of(&format!("server {dead} ")), format!("http://{dead}/")),
        ("server_out", &direct, line_of("location /direct"), format!("http://{direct}/direct")),
        ("server_errors", &name, (block - 1).to_string(), "server: shop.example".to_owned()),
        ("limit", "each", line_of("limit_req_zone "), "zone \"each\"".to_owned()),
        ("log_fails", "/dev/full", line_of("/dev/full"), String::new()),
    ] {
        let mut last = Default::default();
        let is_there = || {
            if subject == direct {
                // The failures of an only server are a problem for a few seconds.
                server.get("/direct");
            }
            last = origin(&server, kind, subject);
            last.0 == line && last.1.contains(&logged)
        };
        assert!(freerun_testkit::within(freerun_testkit::PATIENCE, is_there), "{kind} {subject} {line}: {last:?}");
    }
    assert_eq!(server.status()["error_log"], server.path("error.log").display().to_string());
}
