//! Requests that are passed on while something fails: the folder for temporary files is full, upstreams stall or go at
//! random, pools are stuck.

use freerun_testkit::fuse::{Mirror, Op};
use freerun_testkit::{ReceivedRequest, Setup, Site, TestClient, TestUpstream, eventually, require};

use crate::full::Tiny;

#[test]
fn a_full_disk_under_a_buffered_response_loses_nothing() {
    const SIZE: usize = 8_000_000;
    if !require::root() {
        return;
    }
    let disk = Tiny::new();
    let upstream = TestUpstream::new();
    let place = disk.path().display().to_string();
    let lines = format!("proxy_temp_path {place}/proxy; location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = Setup::server(&Site::new(), &lines).freerun();
    let mut client = TestClient::try_connect_narrow(server.address(), 16 * 1024).expect("a client");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    peer.request();
    let body: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let sent = body.clone();
    let sending = std::thread::spawn(move || {
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
        peer.send(&sent);
    });
    server.logs(&format!("pwrite() \"{place}/proxy/#"));
    server.logs("\" failed (28: No space left on device) while reading upstream, client: 127.0.0.1");
    let response = client.response();
    assert!(response.body == body, "{} bytes", response.body.len());
    sending.join().expect("the upstream");
}

#[test]
fn connections_that_are_closed_at_random_cost_no_request() {
    // Every third answer is the last one of its connection, though it does not say so.
    let count = std::sync::atomic::AtomicUsize::new(0);
    let upstream = TestUpstream::new();
    let address = upstream.address();
    std::thread::spawn(move || {
        while let Some(mut peer) = upstream.try_accept(std::time::Duration::from_secs(3600)) {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            std::thread::spawn(move || {
                for _ in 0..=number % 3 {
                    if peer.try_request().is_none() {
                        return;
                    }
                    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            });
        }
    });
    let lines = format!("location / {{ proxy_pass http://{address}; }}");
    let server = Setup::server(&Site::new(), &lines).main("worker_processes 2;").freerun();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let server = server.address();
            std::thread::spawn(move || {
                let mut client = TestClient::connect(server);
                for _ in 0..200 {
                    assert_eq!(client.get("/").text(), "ok");
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("a client without an error");
    }
}

#[test]
fn upstreams_that_stall_hold_only_those_who_ask_them() {
    let (stalls, works) = (TestUpstream::new(), TestUpstream::answering(|_| "HTTP/1.1 204 No\r\n\r\n".into()));
    let lines = format!(
        "location / {{ proxy_pass http://{}; }} location /stalls {{ proxy_pass http://{}; }}",
        works.address(),
        stalls.address()
    );
    let server = Setup::server(&Site::new(), &lines).freerun();
    let waiting: Vec<TestClient> = (0..100)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /stalls HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let peers: Vec<_> = (0..100).map(|_| stalls.accept()).collect();
    for _ in 0..20 {
        assert_eq!(server.get("/").status, 204);
    }
    drop(peers);
    for mut client in waiting {
        assert_eq!(client.response().status, 502);
    }
    eventually("all lines of the log", || server.access_log().lines().count() == 120);
}

#[test]
fn a_folder_for_temporary_files_that_hangs_holds_up_nobody() {
    const SIZE: usize = 8_000_000;
    if !require::fuse() {
        return;
    }
    let site = Site::new();
    site.folder("of").folder("temp").mode("of", 0o777);
    let disk = Mirror::mount(&site.at("of"), &site.at("temp")).expect("mounting");
    let body: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let sent = body.clone();
    let upstream = TestUpstream::answering(move |_: &ReceivedRequest| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").into_bytes(), sent.clone()].concat()
    });
    let (folder, address) = (site.at("temp/proxy"), upstream.address());
    let lines = format!("proxy_temp_path {}; location / {{ proxy_pass http://{address}; }}", folder.display());
    let server = Setup::server(&site, &lines).main("user root;").freerun();
    disk.control().hang(Op::Write, "");
    // More than those who write at the same time.
    let mut slow: Vec<TestClient> = (0..20)
        .map(|_| {
            let mut client = TestClient::try_connect_narrow(server.address(), 16 * 1024).expect("a client");
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").at_least(1);
            client
        })
        .collect();
    eventually("writes hang", || disk.control().waiting() > 0);
    for client in slow.iter_mut().rev().take(10) {
        assert!(client.response().body == body);
    }
    disk.control().clear();
    for mut client in slow.into_iter().take(10) {
        assert!(client.response().body == body);
    }
}

#[test]
fn a_folder_for_temporary_files_that_hangs_leaves_those_of_other_disks_alone() {
    const SIZE: usize = 8_000_000;
    // Flows of a loop that write to one file system at the same time.
    const WRITING: usize = 3;
    if !require::fuse() {
        return;
    }
    let site = Site::new();
    site.folder("of").folder("temp").folder("other").mode("of", 0o777).mode("other", 0o777);
    let disk = Mirror::mount(&site.at("of"), &site.at("temp")).expect("mounting");
    let upstream = TestUpstream::answering(move |_: &ReceivedRequest| {
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").into_bytes(), vec![b'a'; SIZE]].concat()
    });
    let location = |name: &str, folder: &str| {
        let (folder, address) = (site.at(folder), upstream.address());
        format!("location /{name} {{ proxy_temp_path {}; proxy_pass http://{address}; }}\n", folder.display())
    };
    let lines = location("hangs", "temp/proxy") + &location("works", "other/proxy");
    let server = Setup::server(&site, &lines).main("user root;").freerun();
    disk.control().hang(Op::Write, "");
    let slow = |path: &str| {
        let mut client = TestClient::try_connect_narrow(server.address(), 16 * 1024).expect("a client");
        client.send(format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n")).at_least(1);
        client
    };
    let mut hanging: Vec<TestClient> = (0..3 * WRITING).map(|_| slow("hangs")).collect();
    eventually("all that may write do", || disk.control().waiting() == WRITING);
    // Who takes something meanwhile does not make room for others to write.
    for client in &mut hanging {
        client.at_least(500_000);
    }
    let _works = slow("works");
    eventually("another folder is written to", || server.error_log().contains("buffered to a temporary file"));
    assert_eq!(disk.control().waiting(), WRITING);
    disk.control().clear();
}
