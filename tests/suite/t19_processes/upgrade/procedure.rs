//! nginx's procedure, step by step: <https://nginx.org/en/docs/control.html#upgrade>

use std::os::unix::net::UnixStream;
use std::path::Path;

use freerun_testkit::daemon::{Daemon, children, ends, lives, signal};
use freerun_testkit::{Kind, Setup, Site, TestClient, eventually, require};
use rustix::process::Signal;

use crate::t03_connections::quic::sockets;

const HTTP: &str = "server { listen 127.0.0.1:@PORT@; listen unix:@DIR@/socket; return 200 served; }";

const IGNORED: &str = "the changing binary signal is ignored: you should shutdown or terminate before either old or new binary's \
                       process";

fn socket_answers(daemon: &Daemon) {
    UnixStream::connect(daemon.path("socket")).expect("the file of the socket is there, and somebody listens");
}

/// The lines of the log without what differs from run to run.
fn lines(daemon: &Daemon, from: usize) -> Vec<String> {
    let log = daemon.log();
    log.lines().skip(from).filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect()
}

#[test]
fn every_step_goes_one_further_or_back() {
    let daemon = Daemon::run("worker_processes 1;", HTTP);
    let (old, new) = daemon.change();
    assert_eq!((daemon.old_pid(), daemon.pid()), (Some(old), Some(new)));
    assert!(children(old).contains(&new), "the new binary is a child of the old one");
    for line in ["changing binary", &format!("start new binary process {new}"), "using inherited sockets from \""] {
        daemon.logs(line);
    }
    assert_eq!((daemon.workers(old).len(), daemon.workers(new).len()), (1, 1), "both serve");
    assert_eq!(daemon.get("/").text(), "served");

    // Neither of the two takes a second change.
    for master in [old, new] {
        let before = daemon.log().matches(IGNORED).count();
        signal(master, Signal::USR2);
        eventually("it is refused", || daemon.log().matches(IGNORED).count() > before);
    }

    // The old worker goes, the new one serves alone; the old master comes back with the same configuration.
    signal(old, Signal::WINCH);
    eventually("the old worker has ended", || daemon.workers(old).is_empty());
    assert!(lives(old));
    assert_eq!(daemon.get("/").text(), "served");
    daemon.configure("worker_processes 1;", "no such directive;");
    let seen = daemon.log().lines().count();
    signal(old, Signal::HUP);
    eventually("the old master has a worker", || daemon.workers(old).len() == 1);
    assert!(lines(&daemon, seen).contains(&"start worker processes".to_owned()));
    assert!(!lines(&daemon, seen).contains(&"reconfiguring".to_owned()), "the configuration is not read");
    signal(new, Signal::QUIT);
    ends(new);
    daemon.logs(&format!("new binary process {new} exited with code 0"));
    eventually("the pid file has its name", || (daemon.old_pid(), daemon.pid()) == (None, Some(old)));
    socket_answers(&daemon);
    assert_eq!(daemon.get("/").text(), "served");

    // Once more, to the end.
    daemon.configure("worker_processes 1;", HTTP);
    let (_, new) = daemon.change();
    signal(old, Signal::WINCH);
    eventually("the old worker has ended", || daemon.workers(old).is_empty());
    signal(old, Signal::QUIT);
    ends(old);
    assert_eq!((daemon.old_pid(), daemon.pid()), (None, Some(new)));
    socket_answers(&daemon);
    assert_eq!(daemon.get("/").text(), "served");

    // The new binary is as good as the first one was.
    let (_, third) = daemon.change();
    signal(new, Signal::WINCH);
    eventually("its worker has ended", || daemon.workers(new).is_empty());
    signal(new, Signal::TERM);
    ends(new);
    socket_answers(&daemon);
    assert_eq!(daemon.get("/").text(), "served");
    signal(third, Signal::QUIT);
    ends(third);
    eventually("nothing is left", || daemon.pid().is_none() && !daemon.path("socket").exists());
}

#[test]
fn a_new_binary_that_cannot_start_changes_nothing() {
    let daemon = Daemon::run("worker_processes 1;", HTTP);
    let (old, worker) = (daemon.master(), daemon.workers(daemon.master()));
    let program = Kind::under_test().program().expect("a binary");
    let unchanged = |daemon: &Daemon| {
        eventually("the pid file has its name", || (daemon.old_pid(), daemon.pid()) == (None, Some(old)));
        assert_eq!(daemon.workers(old), worker);
        assert_eq!(daemon.get("/").text(), "served");
        socket_answers(daemon);
    };

    daemon.replace(Path::new("/no/such/program"));
    signal(old, Signal::USR2);
    let name = daemon.path("server");
    daemon.logs(&format!(
        "execve() failed while executing new binary process \"{}\" (2: No such file or directory)",
        name.display()
    ));
    unchanged(&daemon);

    daemon.replace(Path::new("/bin/false"));
    signal(old, Signal::USR2);
    daemon.logs(" exited with code 1");
    unchanged(&daemon);

    daemon.replace(&program);
    daemon.configure("", "no such directive;");
    signal(old, Signal::USR2);
    daemon.logs("unknown directive \"no\" in ");
    eventually("its end is told", || daemon.log().matches(" exited with code 1").count() >= 2);
    unchanged(&daemon);

    daemon.configure("", HTTP);
    daemon.change();
}

#[test]
fn a_new_binary_that_dies_leaves_its_place_to_the_old_one() {
    for winch in [false, true] {
        let daemon = Daemon::run("worker_processes 1;", HTTP);
        let (old, new) = daemon.change();
        let workers = daemon.workers(new);
        if winch {
            signal(old, Signal::WINCH);
            eventually("the old worker has ended", || daemon.workers(old).is_empty());
        }
        signal(new, Signal::KILL);
        daemon.logs(&format!("new binary process {new} exited on signal 9"));
        eventually("the pid file has its name", || (daemon.old_pid(), daemon.pid()) == (None, Some(old)));
        eventually("the old master has a worker", || daemon.workers(old).len() == 1);
        if Kind::under_test() == Kind::Nginx {
            // nginx's workers outlive their master.
            workers.iter().for_each(|worker| signal(*worker, Signal::TERM));
        }
        workers.into_iter().for_each(ends);
        assert_eq!(daemon.get("/").text(), "served");
        socket_answers(&daemon);
    }
}

#[test]
fn a_request_that_runs_ends_with_the_old_worker_and_the_master_may_quit_at_once() {
    let http = "server { listen 127.0.0.1:@PORT@; root @DIR@; }";
    let daemon = Daemon::run("worker_processes 2;", http);
    std::fs::write(daemon.path("big"), vec![b'x'; 30_000_000]).expect("a file");
    let mut slow = TestClient::try_connect_narrow(daemon.address(), 65_536).expect("connecting");
    slow.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n").at_least(1);
    let (old, new) = daemon.change();
    signal(old, Signal::QUIT);
    eventually("it has heard that", || daemon.log().contains("(SIGQUIT) received"));
    assert_eq!(slow.response().body.len(), 30_000_000);
    ends(old);
    assert_eq!((daemon.old_pid(), daemon.pid()), (None, Some(new)));
    assert_eq!(daemon.get("/big").body.len(), 30_000_000);
}

#[test]
fn a_change_and_the_end_may_be_ordered_at_once() {
    if !require::freerun() {
        return;
    }
    let daemon = Daemon::run("worker_processes 1;", HTTP);
    let old = daemon.master();
    // A process that is stopped hears of both when it goes on.
    for order in [Signal::STOP, Signal::USR2, Signal::QUIT, Signal::CONT] {
        signal(old, order);
    }
    ends(old);
    eventually("the new binary serves", || {
        daemon.pid().is_some_and(|new| new != old && daemon.workers(new).len() == 1)
    });
    assert_eq!(daemon.get("/").text(), "served");
}

/// Without a new binary, `HUP` reads the configuration as always. Who connects meanwhile waits.
#[test]
fn after_winch_a_reload_starts_a_worker() {
    let daemon = Daemon::run("worker_processes 1;", HTTP);
    let master = daemon.master();
    signal(master, Signal::WINCH);
    eventually("the worker has ended", || daemon.workers(master).is_empty());
    let mut early = TestClient::connect(daemon.address());
    daemon.configure("worker_processes 1;", "no such directive;");
    signal(master, Signal::HUP);
    daemon.logs("unknown directive \"no\" in ");
    assert!(daemon.workers(master).is_empty(), "a configuration that is refused changes nothing");
    daemon.configure("worker_processes 1;", &HTTP.replace("served", "again"));
    signal(master, Signal::HUP);
    assert_eq!(early.get("/").text(), "again");
    assert_eq!(daemon.workers(master).len(), 1);
    // The order to end ends it also while there is no worker.
    signal(master, Signal::WINCH);
    eventually("the worker has ended", || daemon.workers(master).is_empty());
    signal(master, Signal::QUIT);
    ends(master);
    assert!(!daemon.path("socket").exists());
}

#[test]
fn a_change_waits_for_a_reload_that_is_under_way() {
    if !require::freerun() {
        return;
    }
    let daemon = Daemon::run("worker_processes 1;", HTTP);
    daemon.configure("worker_processes 1;", &HTTP.replace("served", "reloaded"));
    signal(daemon.master(), Signal::HUP);
    let (old, new) = daemon.change();
    daemon.logs("configuration 2 is in use");
    signal(old, Signal::QUIT);
    ends(old);
    assert_eq!(daemon.get("/").text(), "reloaded");
    // A worker that dies in between is replaced, on both sides.
    let (_, third) = daemon.change();
    for master in [new, third] {
        let before = daemon.workers(master);
        before.iter().for_each(|worker| signal(*worker, Signal::KILL));
        eventually("another worker", || {
            let now = daemon.workers(master);
            now.len() == 1 && now != before
        });
    }
    assert_eq!(daemon.get("/").text(), "reloaded");
    signal(new, Signal::TERM);
    ends(new);
    assert_eq!(daemon.get("/").text(), "reloaded");
}

#[test]
fn numbers_that_are_no_sockets_are_told_of_and_ignored() {
    let site = Site::new();
    site.file("a", "file a");
    for (sockets, told) in [
        ("abc", "invalid socket number \"abc\" in NGINX environment variable, ignoring"),
        ("77;", "getsockname() of the inherited socket #77 failed (9: Bad file descriptor)"),
    ] {
        let server = Setup::server(&site, "").main("master_process on;").environment("NGINX", sockets).run();
        server.logs(&format!("using inherited sockets from \"{sockets}\""));
        server.logs(told);
        assert_eq!(server.get("/a").text(), "file a");
    }
}

/// A terminal sends it when its size changes.
#[test]
fn in_the_foreground_winch_changes_nothing() {
    let site = Site::new();
    site.file("a", "file a");
    let server = Setup::server(&site, "").run();
    let worker = server.worker();
    server.signal(Signal::WINCH);
    server.logs("signal 28 (SIGWINCH) received");
    assert_eq!(server.get("/a").text(), "file a");
    assert_eq!(server.workers(), [worker]);
    assert!(!server.error_log().contains("gracefully shutting down"));
}

#[test]
fn a_process_without_master_is_not_changed() {
    let site = Site::new();
    site.file("a", "file a");
    let server = Setup::server(&site, "").main("master_process off;").run();
    server.signal(Signal::USR2);
    server.logs(IGNORED);
    assert_eq!(server.get("/a").text(), "file a");
    assert!(server.path("server.pid").exists());
}

/// nginx refuses that, since it cannot tell its own parent from an old binary.
#[test]
fn in_the_foreground_the_binary_is_changed_too() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("a", "file a");
    let mut server = Setup::server(&site, "").freerun();
    let old = server.master();
    server.signal(Signal::USR2);
    let pid = || std::fs::read_to_string(server.path("server.pid")).ok()?.trim().parse::<u32>().ok();
    eventually("a new master", || pid().is_some_and(|new| new != old));
    let new = pid().expect("a pid file");
    server.signal(Signal::QUIT);
    server.wait();
    assert_eq!(server.get("/a").text(), "file a");
    signal(new, Signal::QUIT);
    ends(new);
    assert!(!server.path("server.pid").exists());
}

#[test]
fn a_new_binary_has_the_sockets_of_quic() {
    if !require::freerun() {
        return;
    }
    let http = "server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT@ quic; return 200 served;
        ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key; }";
    let daemon = Daemon::run("worker_processes 2;", http);
    let before = sockets(daemon.address().port());
    assert_eq!(before.len(), 2);
    let (old, new) = daemon.change();
    assert_eq!(sockets(daemon.address().port()), before, "no packet waits in a socket that nobody reads");
    signal(old, Signal::QUIT);
    ends(old);
    assert_eq!(sockets(daemon.address().port()), before);
    assert_eq!(daemon.get("/").text(), "served");
    signal(new, Signal::HUP);
    daemon.logs("configuration 2 is in use");
    assert_eq!(sockets(daemon.address().port()), before);
}
