//! Changes of a group of upstream servers by the API, under load: does a client notice, and what is kept when processes die?

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::canned::{self, Pieces};
use crate::checked::{self, Seen};
use crate::client::Client;
use crate::configs::OK_PATH;
use crate::error::{Doing, Error, Result};
use crate::interrupt::wait_for;
use crate::process::{Placement, Watch};
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Latencies, short_or_nothing};

/// Connections under load.
const CLIENTS: usize = 8;
/// The number of clients that change the group at the same time.
const WRITERS: usize = 2;
/// The servers that each of them adds and removes.
const OWN: usize = 2;
/// Bytes of an answer.
const SIZE: usize = 1_000;
/// The address that the group is passed on to.
const PATH: &str = "/group";
/// The servers of the group in the API.
const SERVERS: &str = "/api/9/http/upstreams/group/servers";
/// The time that one answer may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let changes = if bench.options.quick { 100 } else { 1_000 };
    let root = bench.scratch.folder("data")?;
    let state = bench.scratch.folder("state-of-group")?;
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).doing(state.display())?;
    let file = state.join("group.state");
    let _ = fs::remove_file(&file);
    let http = format!("upstream group {{\nzone group 1m;\nstate {};\n}}\n", file.display());
    let lines = format!("location = {PATH} {{ proxy_pass http://group; }}\nlocation /api/ {{ api write=on; }}\n");
    let spec = Spec { http, ..Spec::new(Kind::Freerun, "", &root).lines("", lines).workers(bench.machine.cores) };
    let watch = Watch::start();
    let mut server = Server::start(bench, &spec, &Placement::default())?;
    let behind: Vec<SocketAddr> =
        (0..=WRITERS * OWN).map(|_| canned::start(SIZE, Pieces::One)).collect::<Result<_>>()?;
    change(&mut connect(server.address)?, "POST", SERVERS, &json!({ "server": behind[0].to_string() }), 201)?;

    let stop = Arc::new(AtomicBool::new(false));
    let paths = vec![(PATH.to_owned(), SIZE as u64), (OK_PATH.to_owned(), 2)];
    let clients = (0..CLIENTS).map(|index| checked::start(server.address, index, paths.clone(), &stop)).collect();
    let begin = Instant::now();
    let writers: Vec<_> = behind[1..]
        .chunks(OWN)
        .map(|own| {
            let (address, own) = (server.address, own.to_vec());
            thread::spawn(move || write(address, &own, changes / WRITERS))
        })
        .collect();
    let results: Vec<_> = writers.into_iter().map(thread::JoinHandle::join).collect();
    let length = begin.elapsed();
    stop.store(true, Relaxed);
    let seen = checked::all(clients);
    let mut times = Vec::new();
    for result in results {
        times.extend(result.map_err(|_| Error::Failed("a writer has panicked".into()))??);
    }

    let before = addresses(server.address)?;
    let worker = killed_worker(&server)?;
    let after_worker = addresses(server.address)?;
    server.process.kill();
    let next = Server::start(bench, &spec, &Placement::default())?;
    let after_master = addresses(next.address)?;
    next.stop();
    let kept = [&after_worker, &after_master].into_iter().filter(|after| **after == before).count();
    Ok(report(bench, (changes, length), seen, &Latencies::new(times), (before.len(), worker, kept), watch.strangers()))
}

fn report(
    bench: &Bench,
    (changes, length): (usize, Duration),
    seen: Seen,
    times: &Latencies,
    (servers, worker, kept): (usize, Duration, usize),
    strangers: f64,
) -> Report {
    let mut report = Report {
        name: "dynamic",
        method: format!(
            "{WRITERS} writers add, change, drain and remove servers of a group with a `state` file, {changes} changes together, each \
             when the one before is answered, while {CLIENTS} keep-alive connections ask for 1 KB from the group and `return 200` and \
             check each answer. {} workers. Then the worker is killed (SIGKILL), and the whole server, and it is looked whether the \
             group has the same servers as before.",
            bench.machine.cores
        ),
        ..Report::default()
    };
    let head = [
        "requests",
        "failed",
        "changes a second",
        "ms for a change (p50 / p99 / max)",
        "servers",
        "next worker answers after ms",
    ];
    let mut table = Table::new("", &head);
    let failed = seen.failed + seen.failed_reused;
    let of_change = [50.0, 99.0, 100.0].map(|percent| short_or_nothing(times.percentile_ms(percent)));
    table.row(vec![
        seen.answered.to_string(),
        failed.to_string(),
        format!("{:.0}", times.count() as f64 / length.as_secs_f64()),
        of_change.join(" / "),
        servers.to_string(),
        format!("{:.0}", worker.as_secs_f64() * 1000.0),
    ]);
    report.tables.push(table);
    report.goals = vec![
        Goal::at_most("no failed request", Some(failed as f64), 0.0),
        Goal::at_least("every change was made", Some(times.count() as f64 / changes as f64), 1.0),
        Goal::at_least("the servers are the same after both kills", Some(kept as f64), 2.0),
    ];
    report.notes.extend(crate::grid::disturbance(&[strangers]));
    report
}

fn connect(server: SocketAddr) -> Result<Client> {
    Client::connect(server, None, LIMIT).doing("connect")
}

/// Makes a change and returns the answer, which has to have this status.
fn change(client: &mut Client, method: &str, path: &str, body: &Value, status: u16) -> Result<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let reply = client.ask(method, path, &body).doing(path)?;
    if reply.status != status {
        let text = String::from_utf8_lossy(&reply.body);
        return Err(Error::Failed(format!("{method} {path} is answered with {}: {text}", reply.status)));
    }
    serde_json::from_slice(&reply.body).map_err(|error| Error::Failed(format!("{method} {path}: {error}")))
}

/// Adds, changes, drains and removes one of its own servers after the other, until it has made all its changes. Returns
/// the time of each. The last server is left there.
fn write(server: SocketAddr, own: &[SocketAddr], changes: usize) -> Result<Vec<Duration>> {
    let mut client = connect(server)?;
    let mut times = Vec::new();
    let mut path = String::new();
    for number in 0..changes {
        crate::interrupt::check()?;
        let is_last = number + 1 == changes;
        let begin = Instant::now();
        let round = number / 5;
        match number % 5 {
            0 => {
                let server = own[round % own.len()].to_string();
                let added = change(&mut client, "POST", SERVERS, &json!({ "server": server, "weight": 2 }), 201)?;
                path = format!("{SERVERS}/{}", added["id"]);
            }
            1 => drop(change(&mut client, "PATCH", &path, &json!({ "weight": 5, "max_conns": 1000 }), 200)?),
            2 => drop(change(&mut client, "PATCH", &path, &json!({ "down": round.is_multiple_of(2) }), 200)?),
            3 => drop(change(&mut client, "PATCH", &path, &json!({ "drain": true }), 200)?),
            _ if is_last => drop(change(&mut client, "PATCH", &path, &json!({ "drain": false, "down": false }), 200)?),
            _ => drop(change(&mut client, "DELETE", &path, &Value::Null, 200)?),
        }
        times.push(begin.elapsed());
    }
    Ok(times)
}

/// The servers of the group: as they are configured, and as requests are given to them.
fn addresses(server: SocketAddr) -> Result<Vec<String>> {
    let mut client = connect(server)?;
    let mut all = Vec::new();
    for (path, list) in [(SERVERS, ""), (SERVERS.trim_end_matches("/servers"), "/peers")] {
        let reply = client.get(path).doing(path)?;
        let value: Value =
            serde_json::from_slice(&reply.body).map_err(|error| Error::Failed(format!("{path}: {error}")))?;
        let found = value.pointer(list).and_then(Value::as_array).into_iter().flatten();
        all.extend(found.filter_map(|one| one["server"].as_str()).map(str::to_owned));
    }
    Ok(all)
}

/// Kills the worker; how long until another one answers.
fn killed_worker(server: &Server) -> Result<Duration> {
    let workers = server.workers();
    let begin = Instant::now();
    for pid in workers.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        kill_process(pid, Signal::KILL).doing("kill the worker")?;
    }
    let answers = wait_for(LIMIT, Duration::from_millis(2), || {
        let is_new = !server.workers().iter().any(|worker| workers.contains(worker));
        let answer = Client::connect(server.address, None, LIMIT).and_then(|mut client| client.get(OK_PATH));
        Ok((is_new && answer.is_ok_and(|reply| reply.status == 200)).then_some(()))
    })?;
    answers.map(|()| begin.elapsed()).ok_or_else(|| Error::Failed("no other worker answers".into()))
}
