//! A change of the binary: connections of the old one go on, and new ones come to the new one.

use super::{PAIR, content};
use freerun_testkit::daemon::{Daemon, ends, signal};
use freerun_testkit::http3::{H3End, Http3, Http3Options, LinkEnd};
use freerun_testkit::{eventually, require};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// H3_NO_ERROR.
const NO_ERROR: u64 = 0x100;

/// Clients whose requests all have to be served: some on new connections all the time, others on connections that they keep.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Result<usize, String>>>,
}

impl Load {
    fn start(addresses: &[SocketAddr]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |(address, is_kept): (SocketAddr, bool)| {
            let stop = stop.clone();
            std::thread::spawn(move || if is_kept { ask_on_kept(address, &stop) } else { ask_on_new(address, &stop) })
        };
        let each = addresses.iter().flat_map(|address| [(*address, true), (*address, false), (*address, true)]);
        let clients = each.map(start).collect();
        Load { stop, clients }
    }

    /// Ends the clients: none of their requests may have failed. Returns how many there were of each client.
    #[track_caller]
    fn end(self) -> Vec<usize> {
        self.stop.store(true, Relaxed);
        let ended: Vec<_> = self.clients.into_iter().map(|client| client.join().expect("a client")).collect();
        let failed: Vec<_> = ended.iter().filter_map(|ended| ended.as_ref().err()).collect();
        assert!(failed.is_empty(), "{failed:?}");
        ended.into_iter().flatten().collect()
    }
}

/// Whether the server has said that it has not begun to serve this stream: a client asks again on another connection.
fn is_refused(http3: &Http3, stream: u64) -> bool {
    http3.away().last().is_some_and(|first| stream >= *first)
}

fn ask_on_new(address: SocketAddr, stop: &AtomicBool) -> Result<usize, String> {
    let mut count = 0;
    while !stop.load(Relaxed) {
        let failed = |what: String| format!("new connection {count}: {what}");
        let mut http3 = Http3::try_with(address, &Http3Options::new()).map_err(|end| failed(format!("{end:?}")))?;
        let Some(stream) = http3.try_ask_for("/") else { continue };
        let answer = http3.answer(stream);
        match answer.end {
            H3End::Whole if answer.status == 200 => count += 1,
            _ if is_refused(&http3, stream) => {}
            end => return Err(failed(format!("{} {end:?}", answer.status))),
        }
    }
    Ok(count)
}

fn ask_on_kept(address: SocketAddr, stop: &AtomicBool) -> Result<usize, String> {
    let mut count = 0;
    while !stop.load(Relaxed) {
        let failed = |what: String| format!("kept connection, request {count}: {what}");
        let mut http3 = Http3::try_with(address, &Http3Options::new()).map_err(|end| failed(format!("{end:?}")))?;
        let mut on_this = 0;
        while !stop.load(Relaxed) {
            let Some(stream) = http3.try_ask_for("/") else { break };
            let answer = http3.answer(stream);
            match answer.end {
                H3End::Whole if answer.status == 200 => on_this += 1,
                _ if is_refused(&http3, stream) => break,
                end => return Err(failed(format!("{} {end:?} after {on_this}", answer.status))),
            }
            http3.run_for(Duration::from_millis(1));
        }
        count += on_this;
    }
    Ok(count)
}

/// A server with two loops, whose answer is the worker's process id.
fn daemon() -> Daemon {
    let http = format!(
        "server {{ listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT@ quic reuseport; listen 127.0.0.2:@PORT@ quic;
                   {PAIR} root @DIR@; client_max_body_size 0; keepalive_timeout 1h;
                   location = / {{ return 200 $pid; }} }}"
    );
    Daemon::run("worker_processes 2;", &http)
}

fn addresses(daemon: &Daemon) -> [SocketAddr; 2] {
    [daemon.address(), SocketAddr::from(([127, 0, 0, 2], daemon.address().port()))]
}

/// Waits until new connections come to the worker of this master.
#[track_caller]
fn comes_to(daemon: &Daemon, master: u32) {
    for address in addresses(daemon) {
        eventually("new connections come to the right process", || {
            let pid = Http3::connect(address).get("/").text().parse().expect("a process id");
            daemon.workers(master).contains(&pid)
        });
    }
}

#[test]
fn five_upgrades_lose_no_request() {
    if !require::freerun() {
        return;
    }
    let daemon = daemon();
    let load = Load::start(&addresses(&daemon));
    for _ in 0..5 {
        let new = daemon.complete_change();
        comes_to(&daemon, new);
    }
    let served = load.end();
    assert!(served.iter().all(|count| *count > 5), "{served:?}");
}

#[test]
fn a_response_goes_on_in_the_old_process() {
    if !require::freerun() {
        return;
    }
    let daemon = daemon();
    std::fs::write(daemon.path("file"), content(3_000_000)).expect("a file");
    for address in addresses(&daemon) {
        let narrow = Http3Options::new().windows(100_000, 200_000);
        let mut http3 = Http3::with(address, &narrow);
        let worker = http3.get("/").text();
        let file = http3.ask_for("/file");
        http3.body_of(file, 1);
        http3.hold(file);
        let (old, new) = daemon.change();
        comes_to(&daemon, new);
        assert_eq!(http3.get("/").text(), worker, "the connection stays where it is");
        signal(old, Signal::WINCH);
        http3.wait("GOAWAY", |http3| !http3.away().is_empty());
        http3.resume(file);
        let answer = http3.answer(file);
        assert!(answer.body() == content(3_000_000) && answer.end == H3End::Whole, "{:?}", answer.end);
        assert_eq!(http3.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
        eventually("the old worker has ended", || daemon.workers(old).is_empty());
        signal(old, Signal::QUIT);
        ends(old);
    }
}

#[test]
fn the_old_binary_takes_back_the_sockets() {
    if !require::freerun() {
        return;
    }
    let daemon = daemon();
    let load = Load::start(&addresses(&daemon));
    // The new one is asked to end while the old one still serves, or serves again.
    for is_paused in [false, true] {
        let (old, new) = daemon.change();
        comes_to(&daemon, new);
        if is_paused {
            signal(old, Signal::WINCH);
            eventually("the old worker has ended", || daemon.workers(old).is_empty());
            signal(old, Signal::HUP);
            comes_to(&daemon, old);
        }
        signal(new, Signal::QUIT);
        comes_to(&daemon, old);
        ends(new);
        comes_to(&daemon, old);
    }
    let served = load.end();
    assert!(served.iter().all(|count| *count > 5), "{served:?}");
}

#[test]
fn a_new_binary_that_is_killed_leaves_the_sockets_to_the_old_one() {
    if !require::freerun() {
        return;
    }
    let daemon = daemon();
    let mut http3 = Http3::connect(daemon.address());
    let worker = http3.get("/").text();
    let (old, new) = daemon.change();
    comes_to(&daemon, new);
    let mut lost = Http3::connect(daemon.address());
    let workers = daemon.workers(new);
    assert_eq!(lost.get("/").text(), workers[0].to_string());
    // Its worker alone: the old one serves until there is another one.
    signal(workers[0], Signal::KILL);
    for address in addresses(&daemon) {
        eventually("somebody serves", || Http3::try_with(address, &Http3Options::new()).is_ok());
    }
    assert_eq!(http3.get("/").text(), worker, "the connection of the old process goes on");
    eventually("there is another worker", || daemon.workers(new).iter().any(|worker| !workers.contains(worker)));
    comes_to(&daemon, new);
    let workers = daemon.workers(new);
    signal(new, Signal::KILL);
    workers.iter().for_each(|worker| signal(*worker, Signal::KILL));
    ends(new);
    comes_to(&daemon, old);
    assert_eq!(http3.get("/").text(), worker, "the connection of the old process goes on");
}

/// A master has four numbers for workers, of which three may be finishing their requests while another one serves.
#[test]
fn the_oldest_of_many_workers_that_end_makes_room_for_the_next_one() {
    const LEAVING: usize = 4;
    if !require::freerun() {
        return;
    }
    let daemon = daemon();
    std::fs::write(daemon.path("file"), content(1_000_000)).expect("a file");
    let master = daemon.master();
    let mut held: Vec<(Http3, u64)> = Vec::new();
    for _ in 0..LEAVING {
        let narrow = Http3Options::new().windows(100_000, 200_000);
        let mut http3 = Http3::with(daemon.address(), &narrow);
        let file = http3.ask_for("/file");
        http3.body_of(file, 1);
        http3.hold(file);
        let serving = daemon.workers(master);
        signal(master, Signal::WINCH);
        http3.wait("GOAWAY", |http3| !http3.away().is_empty());
        held.push((http3, file));
        signal(master, Signal::HUP);
        eventually("there is another worker", || daemon.workers(master).iter().any(|one| !serving.contains(one)));
        comes_to(&daemon, master);
    }
    assert_eq!(daemon.workers(master).len(), LEAVING, "the oldest one has ended");
    // The others go on, each with packets that the newest one reads.
    for (http3, file) in held.iter_mut().skip(1) {
        http3.resume(*file);
        let answer = http3.answer(*file);
        assert!(answer.body() == content(1_000_000) && answer.end == H3End::Whole, "{:?}", answer.end);
    }
    eventually("they have ended", || daemon.workers(master).len() == 1);
    comes_to(&daemon, master);
}
