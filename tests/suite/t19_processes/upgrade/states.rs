//! What goes on in the worker of a new binary, which does not begin with nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};

use freerun_testkit::daemon::{Daemon, ends, lives, signal};
use freerun_testkit::{
    ReceivedRequest, RefusingAddress, TestClient, TestUpstream, Tls, TlsVersion, eventually, ok, require,
};
use rustix::process::Signal;
use serde_json::Value;

fn status(daemon: &Daemon) -> Value {
    serde_json::from_slice(&daemon.get("/status").body).expect("the status")
}

/// The states of the servers of the group `g`.
fn states(daemon: &Daemon) -> Vec<String> {
    let status = status(daemon);
    let group =
        status["upstreams"].as_array().expect("groups").iter().find(|group| group["name"] == "g").expect("the group");
    let servers = group["servers"].as_array().expect("servers");
    servers.iter().map(|server| server["state"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn limits_go_on() {
    if !require::freerun() {
        return;
    }
    let http = "limit_req_zone $arg_k zone=a:1m rate=1r/m;
                server { listen 127.0.0.1:@PORT@; location / { limit_req zone=a burst=19 nodelay; empty_gif; } }";
    let daemon = Daemon::run("worker_processes 2;", http);
    // Of a key that was not asked for, twenty requests pass; of another one not more than minutes have passed since.
    let is_new = |key: &str| {
        let mut client = TestClient::connect(daemon.address());
        let passed = (0..20).filter(|_| client.get(&format!("/?k={key}")).status == 200).count();
        assert!(passed == 20 || passed < 10, "{passed} of {key}");
        passed == 20
    };
    assert_eq!((is_new("one"), is_new("one")), (true, false));
    daemon.complete_change();
    assert_eq!((is_new("one"), is_new("two")), (false, true));
    // What counts is not only the last binary's.
    daemon.complete_change();
    assert_eq!((is_new("one"), is_new("two"), is_new("three")), (false, false, true));
    daemon.logs(" states of the worker before go on");

    // An old worker that comes back has what it had.
    let (old, new) = daemon.change();
    signal(old, Signal::WINCH);
    eventually("the old worker has ended", || daemon.workers(old).is_empty());
    assert_eq!((is_new("one"), is_new("four")), (false, true));
    signal(old, Signal::HUP);
    eventually("the old master has a worker", || daemon.workers(old).len() == 1);
    signal(new, Signal::QUIT);
    ends(new);
    assert_eq!((is_new("one"), is_new("two"), is_new("five")), (false, false, true));
}

#[test]
fn locks_of_webdav_go_on() {
    if !require::freerun() {
        return;
    }
    let http = "dav_ext_lock_zone zone=l:1m;
                server { listen 127.0.0.1:@PORT@; root @DIR@/dav;
                         dav_methods PUT; dav_ext_methods LOCK; dav_ext_lock zone=l; }";
    let daemon = Daemon::run("worker_processes 2;", http);
    std::fs::create_dir(daemon.path("dav")).and_then(|()| std::fs::write(daemon.path("dav/a"), "a")).expect("a file");
    let ask = |method: &str, body: &str| {
        let request = format!("{method} /a HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        TestClient::connect(daemon.address()).send(request).response().status
    };
    let body = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    assert_eq!(ask("LOCK", body), 200);
    assert_eq!(ask("PUT", "b"), 423);
    daemon.complete_change();
    assert_eq!((ask("PUT", "b"), ask("LOCK", body)), (423, 423));
}

#[test]
fn sessions_of_tls_are_resumed() {
    if !require::freerun() {
        return;
    }
    let http = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; ssl_protocols TLSv1.2 TLSv1.3;
                ssl_session_cache shared:s:1m;
                server { listen 127.0.0.1:@PORT@ ssl; return 200 $ssl_session_reused; }";
    let daemon = Daemon::run("worker_processes 2;", http);
    let visit = |tls: &Tls| TestClient::connect(daemon.address()).tls(tls).get("/").text();
    let clients: Vec<Tls> = TlsVersion::ALL
        .into_iter()
        .flat_map(|version| [Tls::new().resuming().only(version), Tls::new().resuming_by_id().only(version)])
        .collect();
    for tls in &clients {
        assert_eq!((visit(tls), visit(tls)), (".".to_owned(), "r".to_owned()));
    }
    for _ in 0..2 {
        daemon.complete_change();
        for (number, tls) in clients.iter().enumerate() {
            assert_eq!(visit(tls), "r", "client {number}");
        }
    }
}

#[test]
fn what_is_known_of_upstream_servers_goes_on() {
    if !require::freerun() {
        return;
    }
    let (dead, answer) = (RefusingAddress::new(), Arc::new(AtomicU16::new(500)));
    let checked = answer.clone();
    let good = TestUpstream::answering(move |request: &ReceivedRequest| match request.target() {
        "/well" => format!("HTTP/1.1 {} X\r\nContent-Length: 0\r\n\r\n", checked.load(SeqCst)).into_bytes(),
        _ => ok("answered"),
    });
    let http = format!(
        "upstream g {{ server {dead} fail_timeout=1h; server {good}; }}
         upstream checked {{ server {good}; }}
         server {{ listen 127.0.0.1:@PORT@; location = /status {{ status; }}
             location / {{ proxy_pass http://g; }}
             location /checked {{ proxy_pass http://checked; health_check uri=/well interval=50ms passes=1000000; }} }}",
        dead = dead.address(),
        good = good.address()
    );
    let daemon = Daemon::run("worker_processes 2;", &http);
    let checked = |daemon: &Daemon| daemon.get("/checked").status;
    eventually("the failed one is known", || {
        daemon.get("/").text() == "answered" && states(&daemon) == ["unavail", "up"]
    });
    eventually("the check has found it", || checked(&daemon) == 502);
    // So many checks cannot pass meanwhile: without what is known, it would be healthy.
    answer.store(200, SeqCst);
    daemon.complete_change();
    assert_eq!(states(&daemon), ["unavail", "up"]);
    assert_eq!(checked(&daemon), 502);
}

/// One process has a cache: the old one gives it away when it is told to go, though it may serve for long.
#[test]
fn a_cache_goes_over_when_the_old_worker_is_told_to_go() {
    if !require::freerun() {
        return;
    }
    let origin = TestUpstream::answering(|_: &ReceivedRequest| ok("stored"));
    let http = format!(
        "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=z:1m;
         server {{ listen 127.0.0.1:@PORT@; root @DIR@; location = /status {{ status; }}
             location /stored {{ proxy_pass http://{}; proxy_cache z; proxy_cache_valid 1h;
                                 add_header X-Cache $upstream_cache_status; }} }}",
        origin.address()
    );
    let daemon = Daemon::run("worker_processes 2;", &http);
    std::fs::write(daemon.path("big"), vec![b'x'; 30_000_000]).expect("a file");
    // The worker that answers, and the state of its cache.
    let cache = |daemon: &Daemon| {
        let status = status(daemon);
        let state = status["caches"][0]["state"].as_str().unwrap_or_default();
        (vec![status["pid"].as_u64().unwrap_or_default() as u32], state.to_owned())
    };
    let how = |daemon: &Daemon| daemon.get("/stored/a").header("x-cache").unwrap_or_default().to_owned();
    eventually("it is stored", || how(&daemon) == "HIT");
    let asked = origin.take_requests().len();
    let mut slow = TestClient::try_connect_narrow(daemon.address(), 65_536).expect("connecting");
    slow.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);

    let (old, new) = daemon.change();
    signal(old, Signal::WINCH);
    eventually("the new worker has the cache", || cache(&daemon) == (daemon.workers(new), "ready".to_owned()));
    assert_eq!(how(&daemon), "HIT");
    assert_eq!(origin.take_requests().len(), 0, "of {asked} before");
    assert!(!daemon.workers(old).is_empty(), "the old worker sends a file");
    assert_eq!(slow.response().body.len(), 30_000_000);
    eventually("the old worker has ended", || daemon.workers(old).is_empty());

    // And back.
    signal(old, Signal::HUP);
    eventually("the old master has a worker", || daemon.workers(old).len() == 1);
    signal(new, Signal::QUIT);
    ends(new);
    eventually("its worker has the cache", || cache(&daemon) == (daemon.workers(old), "ready".to_owned()));
    assert_eq!(how(&daemon), "HIT");
    assert!(lives(old));
}
