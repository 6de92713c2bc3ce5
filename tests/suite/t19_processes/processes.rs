//! Master and worker: signals, a worker that dies, pid file, rights.

use freerun_testkit::http2::Http2;
use freerun_testkit::{ConnectionEnd, Kind, Setup, Site, TestClient, TestUpstream, Tls, eventually, require, within};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

fn site() -> Site {
    let site = Site::new();
    site.file("a", "file a").file("big", vec![b'x'; 30_000_000]);
    site
}

#[test]
fn the_pid_file_names_the_master() {
    let site = site();
    let mut server = Setup::server(&site, "").run();
    let path = server.path("server.pid");
    assert_eq!(fs::read_to_string(&path).expect("the pid file"), format!("{}\n", server.master()));
    assert_eq!(server.stop().code(), Some(0));
    assert!(!path.exists());
}

/// As in nginx, with the other name.
#[test]
fn titles_say_what_a_process_is() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let mut server = Setup::server(&site, "").freerun();
    let title = |pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).trim_end_matches('\0').to_owned()
    };
    let (master, worker) = (server.master(), server.worker());
    let shown = title(master);
    assert!(shown.starts_with("freerun: master process /"), "{shown}");
    assert!(shown.contains(&format!(" -c {}", server.path("nginx.conf").display())), "{shown}");
    assert_eq!(title(worker), "freerun: worker process");
    let mut busy = TestClient::try_connect_narrow(server.address(), 65_536).expect("connecting");
    busy.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    server.signal(Signal::QUIT);
    eventually("the worker shows that it ends", || title(worker) == "freerun: worker process is shutting down");
    assert_eq!(busy.response().body.len(), 30_000_000);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn stop_is_at_once() {
    let site = site();
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Setup::server(&site, "").run();
        let worker = server.worker();
        let mut idle = server.connect();
        idle.get("/a");
        let mut busy = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
        busy.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
        assert!(!fs::exists(format!("/proc/{worker}")).unwrap_or(true), "the worker is gone too");
        assert_ne!(idle.ending(), ConnectionEnd::Silent);
        assert!(busy.rest().0.len() < 30_000_000);
    }
}

#[test]
fn quit_lets_requests_end() {
    let site = site();
    let mut server = Setup::server(&site, "").run();
    let mut idle = server.connect();
    idle.get("/a");
    let mut fresh = server.connect();
    let mut busy = TestClient::try_connect_narrow(server.address(), 65_536).expect("connecting");
    busy.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    server.signal(Signal::QUIT);
    assert_eq!(idle.ending(), ConnectionEnd::Closed, "an idle connection is closed");
    eventually("the listener is closed", || TestClient::try_connect(server.address()).is_err());
    assert!(server.runs(), "it waits for the request under way");
    let response = busy.response();
    assert_eq!((response.status, response.body.len()), (200, 30_000_000));
    assert_eq!(fresh.get("/a").text(), "file a", "and for a first one that comes late");
    assert_eq!(fresh.ending(), ConnectionEnd::Closed);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_shutdown_has_its_time() {
    let site = site();
    let mut server = Setup::server(&site, "").main("worker_shutdown_timeout 1s;").run();
    let mut busy = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
    busy.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    server.signal(Signal::QUIT);
    assert_eq!(server.wait().code(), Some(0));
    assert!(busy.rest().0.len() < 30_000_000, "the request was cut");
}

/// What a client asked for and got stands in the access log, though the time was up.
#[test]
fn requests_that_a_shutdown_cuts_off_are_logged() {
    let (site, upstream) = (site(), TestUpstream::new());
    let http = format!(
        "log_format line '$request_uri $status $request_completion$body_bytes_sent'; access_log @DIR@/cut.log line buffer=32k;
         server {{ listen 127.0.0.1:@PORT@; root @ROOT@; http2 on; location /silent {{ proxy_pass http://{}; }} }}",
        upstream.address()
    );
    let mut server = Setup::new().root(&site).main("worker_shutdown_timeout 100ms;").http(&http).run();
    let mut silent = server.connect();
    silent.send("GET /silent/1 HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut busy = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
    busy.send("GET /big?1 HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    let mut streams = Http2::new(server.connect());
    streams.ask_for("/silent/2");
    let big = streams.ask_for("/big?2");
    assert_eq!(streams.head(big), 200);
    let _peers = (upstream.accept(), upstream.accept());
    server.signal(Signal::QUIT);
    assert_eq!(server.wait().code(), Some(0));
    let mut lines: Vec<String> =
        fs::read_to_string(server.path("cut.log")).expect("the log").lines().map(str::to_owned).collect();
    lines.sort();
    let [big1, big2, silent1, silent2] = &lines[..] else { panic!("{lines:?}") };
    assert!(big1.starts_with("/big?1 200 ") && big2.starts_with("/big?2 200 "), "{lines:?}");
    for line in [big1, big2] {
        let sent = line.rsplit(' ').next().and_then(|sent| sent.parse::<u64>().ok());
        assert!(sent.is_some_and(|sent| (1..30_000_000).contains(&sent)), "{line}");
    }
    assert_eq!((silent1.as_str(), silent2.as_str()), ("/silent/1 000 0", "/silent/2 499 0"));
    // The client knows which of its streams have begun.
    streams.end();
    assert_eq!(streams.away().last().map(|away| away.last), Some(big));
}

/// The time is that of everything that the worker does.
#[test]
fn a_shutdown_has_its_time_whatever_the_protocol() {
    if !require::freerun() {
        return;
    }
    let (site, upstream) = (site(), TestUpstream::new());
    let http = format!(
        "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
         server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ ssl; http2 on; root @ROOT@;
             location /chat {{ proxy_pass http://{}; proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}",
        upstream.address()
    );
    let mut server = Setup::new().root(&site).main("worker_shutdown_timeout 1s;").http(&http).freerun();
    const BIG: &str = "GET /big HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut secure =
        TestClient::try_connect_narrow(server.address_number(2), 4096).expect("connecting").tls(&Tls::new());
    secure.send(BIG).at_least(1);
    let mut streams = Http2::new(server.connect());
    let stream = streams.ask_for("/big");
    assert_eq!(streams.head(stream), 200);
    let mut tunnel = server.connect();
    tunnel.send("GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut peer = upstream.accept();
    peer.head();
    peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    tunnel.until(|bytes| bytes.ends_with(b"\r\n\r\n"));
    server.signal(Signal::QUIT);
    assert_eq!(server.wait().code(), Some(0));
    tunnel.take();
    for (name, ending) in [("tls", secure.rest().1), ("http2", streams.end().1), ("tunnel", tunnel.ending())] {
        assert_ne!(ending, ConnectionEnd::Silent, "{name}");
    }
}

#[test]
fn a_killed_worker_is_replaced() {
    let site = site();
    let server = Setup::server(&site, "").main("worker_processes 2;").run();
    for _ in 0..3 {
        let before = server.workers();
        for worker in &before {
            server.signal_pid(*worker, Signal::KILL);
        }
        // The listening socket stays open: a connection made now waits for the new worker.
        assert_eq!(server.get("/a").text(), "file a");
        eventually("other workers", || {
            let now = server.workers();
            now.len() == before.len() && now.iter().all(|pid| !before.contains(pid))
        });
    }
    server.logs("exited on signal 9");
}

#[test]
fn a_worker_that_cannot_live_does_not_spin() {
    // It dies at once again and again; the master must stay alive and answer signals.
    let site = site();
    let mut server = Setup::server(&site, "").run();
    for _ in 0..20 {
        if let Some(worker) = server.workers().first() {
            server.signal_pid(*worker, Signal::KILL);
        }
    }
    assert!(within(Duration::from_secs(15), || TestClient::try_connect(server.address()).is_ok_and(
        |mut client| client.try_send("GET /a HTTP/1.0\r\n\r\n").is_ok() && client.try_response("GET").is_ok()
    )));
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn the_master_s_death_ends_the_worker() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let mut server = Setup::server(&site, "").freerun();
    let worker = server.worker();
    server.signal(Signal::KILL);
    server.wait();
    eventually("the worker ends", || !fs::exists(format!("/proc/{worker}")).unwrap_or(true));
}

#[test]
fn the_worker_gives_up_its_rights() {
    if !require::root() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "").main("user nobody nogroup;").run();
    let worker = server.worker();
    assert_eq!(server.get("/a").text(), "file a");
    let status = fs::read_to_string(format!("/proc/{worker}/status")).expect("its status");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_ascii_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("Uid:"), ["65534"; 4]);
    assert_eq!(field("Gid:"), ["65534"; 4]);
    assert_eq!(field("CapEff:"), ["0000000000000000"]);
    if server.kind() == Kind::Freerun {
        assert_eq!(field("NoNewPrivs:"), ["1"]);
        assert!(field("Groups:").iter().all(|group| group == "65534"), "{:?}", field("Groups:"));
    }
}

/// As in nginx: an alarm that was set before the program was executed must not end it, for instance.
#[test]
fn stray_signals_end_nobody() {
    let site = site();
    let server = Setup::server(&site, "").run();
    server.get("/a");
    let (master, worker) = (server.master(), server.worker());
    let mut signals = vec![Signal::ALARM, Signal::IO, Signal::SYS, Signal::PIPE, Signal::URG];
    if server.kind() == Kind::Freerun {
        signals.extend([Signal::VTALARM, Signal::PROF, Signal::POWER, Signal::STKFLT, Signal::XFSZ]);
    }
    for signal in signals {
        server.signal_pid(worker, signal);
        server.signal_pid(master, signal);
        // Both have handled it when they handle what comes after it.
        server.get("/a");
    }
    server.signal(Signal::USR1);
    server.logs("reopening logs");
    assert_eq!((server.master(), server.workers()), (master, vec![worker]));
}

/// Memory that runs out costs the worker, and not the process that starts another one.
#[test]
fn the_master_is_the_last_to_be_killed_when_memory_runs_out() {
    if !require::freerun() || !require::root() {
        return;
    }
    let score = |pid: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("a score");
        text.trim().parse::<i32>().expect("a number")
    };
    let own = score("self");
    let protected = -900.min(own);
    // Root of a container may lack the right to be protected; then the score stays as it is.
    let order = format!("echo {protected} 2>/dev/null > /proc/self/oom_score_adj");
    let may = std::process::Command::new("sh").args(["-c", &order]).status().is_ok_and(|status| status.success());
    let server = Setup::server(&site(), "").freerun();
    server.get("/a");
    assert_eq!(score(&server.master().to_string()), if may { protected } else { own });
    eventually("the worker has the score of who started the master", || score(&server.worker().to_string()) == own);
}

#[test]
fn one_worker_with_many_loops() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "").main("worker_processes 4;").freerun();
    server.get("/a");
    let worker = server.worker();
    let threads = fs::read_dir(format!("/proc/{worker}/task")).expect("threads").count();
    assert!(threads >= 4, "{threads} threads");
    assert_eq!(server.workers().len(), 1);
}

#[test]
fn without_a_master() {
    let site = site();
    let mut server = Setup::server(&site, "").main("master_process off;").run();
    assert_eq!(server.get("/a").text(), "file a");
    assert!(server.workers().is_empty(), "{:?}", server.workers());
    assert_eq!(server.stop().code(), Some(0));
}

#[test]
fn descriptors_do_not_leak_into_the_worker() {
    if !require::freerun() {
        return;
    }
    let site = site();
    let server = Setup::server(&site, "").freerun();
    server.get("/a");
    let names = |pid: u32| {
        let dir = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
        dir.flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
    };
    let worker = names(server.worker());
    assert!(!worker.iter().any(|name| name.ends_with("nginx.conf") || name.ends_with("server.pid")), "{worker:?}");
}
