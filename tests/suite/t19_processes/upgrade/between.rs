//! From nginx to freerun and back, and from freerun to freerun, while clients ask: nobody is refused.

use freerun_testkit::daemon::{Daemon, Load, ends, signal};
use freerun_testkit::{Kind, TestClient, eventually, require};
use rustix::process::Signal;

const HTTP: &str = "server { listen 127.0.0.1:@PORT@; listen unix:@DIR@/socket; return 200 served; }";

/// The name of the server that answers.
fn server(daemon: &Daemon) -> String {
    let response = TestClient::connect(daemon.address()).get("/");
    response.header("server").unwrap_or_default().split('/').next().unwrap_or_default().to_owned()
}

fn from_nginx_and_back(listen: &str) {
    if !require::nginx() {
        return;
    }
    let nginx = Kind::Nginx.program().expect("nginx");
    let freerun = Kind::Freerun.program().expect("freerun");
    let http = HTTP.replace("listen 127.0.0.1:@PORT@", &format!("listen 127.0.0.1:@PORT@{listen}"));
    let daemon = Daemon::start(&nginx, "worker_processes 2;", &http);
    let load = Load::start(daemon.address(), 4, "served");
    assert_eq!(server(&daemon), "nginx");
    for (program, name) in [(&freerun, "freerun"), (&nginx, "nginx"), (&freerun, "freerun"), (&freerun, "freerun")] {
        daemon.replace(program);
        daemon.complete_change();
        assert_eq!(server(&daemon), name);
        std::os::unix::net::UnixStream::connect(daemon.path("socket")).expect("the socket is there");
    }
    // Back from freerun, which goes on when nginx ends again.
    daemon.replace(&nginx);
    let (old, new) = daemon.change();
    signal(old, Signal::WINCH);
    eventually("freerun's worker has ended", || daemon.workers(old).is_empty());
    assert_eq!(server(&daemon), "nginx");
    signal(old, Signal::HUP);
    eventually("freerun has a worker again", || daemon.workers(old).len() == 1);
    signal(new, Signal::QUIT);
    ends(new);
    eventually("the pid file has its name", || daemon.old_pid().is_none() && daemon.pid() == Some(old));
    assert_eq!(server(&daemon), "freerun");
    assert!(load.end() > 0);
}

#[test]
fn nobody_is_refused_between_nginx_and_freerun() {
    from_nginx_and_back("");
}

#[test]
fn nobody_is_refused_with_a_socket_for_each_loop() {
    from_nginx_and_back(" reuseport");
}

#[test]
fn nobody_is_refused_over_many_changes() {
    let daemon = Daemon::run("worker_processes 2;", HTTP);
    let load = Load::start(daemon.address(), 4, "served");
    for round in 0..6 {
        match round % 3 {
            0 => {
                daemon.complete_change();
            }
            // Without `WINCH`: the old master waits for its worker.
            1 => {
                let (old, _) = daemon.change();
                signal(old, Signal::QUIT);
                ends(old);
            }
            // Back again.
            _ => {
                let (old, new) = daemon.change();
                signal(new, Signal::QUIT);
                ends(new);
                eventually("the pid file has its name", || daemon.pid() == Some(old) && daemon.old_pid().is_none());
            }
        }
    }
    assert!(load.end() > 0);
}
