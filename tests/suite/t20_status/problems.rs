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
