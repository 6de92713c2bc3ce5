//! Changes of a group's servers while requests come, others change it too, the configuration is read again, and processes die.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use rustix::process::Signal;

use freerun_testkit::{Dns, DnsReply, TestClient};

use super::*;

/// How many times each of the two writers adds, changes, drains and removes a server: eight changes each time.
const ROUNDS: usize = 13;

/// The clients that ask meanwhile.
const CLIENTS: usize = 3;

const SERVERS: &str = "/http/upstreams/g/servers";

/// A group whose servers stand in a file in this folder.
fn kept_in(folder: &TempDir, more: &str) -> Setup {
    let http = format!("upstream g {{ zone g 64k; state {}/g.state; }} {more}", folder.path().display());
    setup(&http, "location = /g { proxy_pass http://g; }").main("worker_processes 2;")
}

/// The addresses of the group's servers as they are configured, and as requests are given to them.
fn addresses(server: &TestServer) -> [Vec<String>; 2] {
    let list = |all: &Value| -> Vec<String> {
        let all = all.as_array().expect("a list").iter();
        all.map(|one| one["server"].as_str().expect("an address").to_owned()).collect()
    };
    [list(&get(server, SERVERS)), list(&get(server, "/http/upstreams/g")["peers"])]
}

fn in_file(folder: &TempDir) -> Vec<String> {
    let text = fs::read_to_string(folder.path().join("g.state")).expect("the file");
    text.lines().map(|line| line.split([' ', ';']).nth(1).expect("an address").to_owned()).collect()
}

/// Asks again and again over a kept connection until it is told to stop; the answers that were wrong.
fn load(address: std::net::SocketAddr, stop: &AtomicBool, asked: &AtomicUsize) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut client = TestClient::connect(address);
    while !stop.load(Relaxed) {
        let response = client.get("/g");
        asked.fetch_add(1, Relaxed);
        if response.status != 200 || response.body != b"here" {
            wrong.push(response.text());
        }
        if response.says_close() {
            client = TestClient::connect(address);
        }
    }
    wrong
}

/// Adds, changes, drains and removes each of these servers in turn, and adds the last one again. Each change has to be in effect
/// when it is answered.
fn write(server: &TestServer, own: &[&str]) {
    let is_there = |id: &Value| {
        let peers = get(server, "/http/upstreams/g")["peers"].clone();
        peers.as_array().expect("a list").iter().any(|peer| peer["id"] == *id)
    };
    let add = |address: &str| {
        let (status, added) = change(server, "POST", SERVERS, Some(json!({"server": address, "weight": 2})));
        assert_eq!((status, &added["server"]), (201, &json!(address)), "{added}");
        assert!(is_there(&added["id"]), "{added} is not in effect");
        added["id"].clone()
    };
    for round in 0..ROUNDS {
        let id = add(own[round % own.len()]);
        let path = format!("{SERVERS}/{id}");
        for (body, field, value) in [
            (json!({"weight": 5}), "weight", json!(5)),
            (json!({"max_fails": 0, "max_conns": 100}), "max_conns", json!(100)),
            (json!({"down": true}), "down", json!(true)),
            (json!({"down": false}), "down", json!(false)),
            (json!({"drain": true}), "drain", json!(true)),
            (json!({"drain": false}), "weight", json!(5)),
        ] {
            let (status, changed) = change(server, "PATCH", &path, Some(body));
            assert_eq!((status, &changed[field]), (200, &value), "{changed}");
        }
        let (status, rest) = change(server, "DELETE", &path, None);
        assert_eq!(status, 200, "{rest}");
        assert!(!is_there(&id), "{id} is still in effect");
    }
    add(own[0]);
}

#[test]
fn nothing_fails_while_two_change_the_servers() {
    if !require::freerun() {
        return;
    }
    let behind: Vec<AnsweringUpstream> = (0..5).map(|_| named("here")).collect();
    let addresses_of =
        |range: std::ops::Range<usize>| -> Vec<&str> { behind[range].iter().map(|one| one.address()).collect() };
    let folder = for_workers("changed-servers");
    let server = kept_in(&folder, "").freerun();
    change(&server, "POST", SERVERS, Some(json!({"server": behind[0].address()})));
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wrong: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| load(server.address(), &stop, &asked))).collect();
        let writers = [addresses_of(1..3), addresses_of(3..5)].map(|own| {
            scope.spawn({
                let server = &server;
                move || write(server, &own)
            })
        });
        let done = writers.map(|writer| writer.join());
        stop.store(true, Relaxed);
        let wrong = clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect();
        done.into_iter().for_each(|done| done.expect("no panic"));
        wrong
    });
    assert!(wrong.is_empty(), "{} of {asked:?} failed, the first one: {}", wrong.len(), wrong[0]);
    assert!(asked.load(Relaxed) >= CLIENTS, "{asked:?} requests");
    // One order of both: what is configured, what serves and what the file has are the same.
    let [configured, serving] = addresses(&server);
    assert_eq!(configured, serving);
    assert_eq!(configured, in_file(&folder));
    let mut sorted = configured.clone();
    sorted.sort_unstable();
    let mut expected = [behind[0].address(), behind[1].address(), behind[3].address()];
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    // Killed without warning, the worker leaves them to the next one, and the master to the next start.
    let worker = server.worker();
    server.signal_pid(worker, Signal::KILL);
    eventually("another worker answers", || server.workers().first().is_some_and(|other| *other != worker));
    assert_eq!(addresses(&server), [configured.clone(), configured.clone()]);
    assert_eq!(server.get("/g").text(), "here");
    let worker = server.worker();
    server.signal(Signal::KILL);
    server.signal_pid(worker, Signal::KILL);
    let next = kept_in(&folder, "").freerun();
    assert_eq!(addresses(&next), [configured.clone(), configured]);
    assert_eq!(next.get("/g").text(), "here");
}

#[test]
fn no_change_is_lost_while_the_configuration_is_read_again() {
    if !require::freerun() {
        return;
    }
    let folder = for_workers("reloaded-servers");
    // Reading takes its time.
    let many: String = (0..400)
        .map(|n| format!("map $uri $m{n} {{ /{n} {n}; default x; }} upstream u{n} {{ server 127.0.0.1:{}; }}\n", n + 1))
        .collect();
    let server = kept_in(&folder, &many).freerun();
    let stop = AtomicBool::new(false);
    let added = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut added = Vec::new();
            while !stop.load(Relaxed) {
                let address = format!("127.1.{}.{}:9", added.len() / 250, added.len() % 250 + 1);
                let (status, body) = change(&server, "POST", SERVERS, Some(json!({"server": address})));
                assert_eq!(status, 201, "{body}");
                added.push(address);
                let [configured, serving] = addresses(&server);
                assert_eq!(configured, added);
                assert_eq!(serving, added);
            }
            added
        });
        for _ in 0..3 {
            server.reload();
        }
        stop.store(true, Relaxed);
        writer.join().expect("no panic")
    });
    assert_eq!(in_file(&folder), added);
    // What somebody writes into the file counts, as in nginx.
    fs::write(folder.path().join("g.state"), "server 127.2.0.1:9;\n").expect("the file");
    server.reload();
    let other = vec!["127.2.0.1:9".to_owned()];
    assert_eq!(addresses(&server), [other.clone(), other]);
}

#[test]
fn servers_that_stay_keep_their_ids_over_a_reload() {
    if !require::freerun() {
        return;
    }
    let folder = for_workers("ids-of-servers");
    fs::write(folder.path().join("g.state"), "server 127.0.0.1:1;\nserver 127.0.0.1:2;\n").expect("the file");
    let server =
        kept_in(&folder, "upstream written { zone written 64k; server 127.0.0.1:1; server 127.0.0.1:2; }").freerun();
    let ids = |group: &str, list: &str| -> Vec<(String, u64)> {
        let all = get(&server, &format!("/http/upstreams/{group}{list}"));
        let all = if list.is_empty() { all["peers"].clone() } else { all };
        let pair = |one: &Value| {
            (one["server"].as_str().expect("an address").to_owned(), one["id"].as_u64().expect("a number"))
        };
        all.as_array().expect("a list").iter().map(pair).collect()
    };
    for group in ["written", "g"] {
        let before = ids(group, "/servers");
        assert_eq!(before, ids(group, ""));
        server.reload();
        assert_eq!(ids(group, "/servers"), before, "{group}");
        // One comes before the others, and one of these gets another weight.
        let others = "server 127.0.0.1:3; server 127.0.0.1:2 weight=7;";
        if group == "g" {
            fs::write(folder.path().join("g.state"), others).expect("the file");
        } else {
            server.edit("server 127.0.0.1:1; server 127.0.0.1:2;", others);
        }
        server.reload();
        let after = ids(group, "/servers");
        assert_eq!(after, ids(group, ""));
        assert_eq!(after[1], before[1], "{group}");
        assert!(before.iter().all(|(_, id)| *id != after[0].1), "{after:?} {before:?}");
        let (status, changed) = change(
            &server,
            "PATCH",
            &format!("/http/upstreams/{group}/servers/{}", before[1].1),
            Some(json!({"weight": 2})),
        );
        assert_eq!(
            (status, &changed["server"], &changed["weight"]),
            (200, &json!("127.0.0.1:2"), &json!(2)),
            "{changed}"
        );
    }
}

#[test]
fn a_file_with_backup_servers_alone_can_be_read_again() {
    if !require::freerun() {
        return;
    }
    let folder = for_workers("backup-servers");
    let server = kept_in(&folder, "").freerun();
    let (status, body) = change(&server, "POST", SERVERS, Some(json!({"server": "127.0.0.1:9", "backup": true})));
    assert_eq!(status, 201, "{body}");
    server.reload();
    assert_eq!(addresses(&server)[0], ["127.0.0.1:9"]);
}

#[test]
fn a_name_that_takes_the_place_of_an_address_is_looked_up() {
    if !require::freerun() {
        return;
    }
    let behind = named("here");
    let port = behind.address().rsplit_once(':').expect("a port").1;
    let names = Dns::start();
    names.set("app.test", DnsReply::address([127, 0, 0, 1].into(), 60));
    let http = format!("resolver {} ipv6=off; upstream g {{ zone g 64k; server 127.0.0.1:9; }}", names.address());
    let server = setup(&http, "location = /g { proxy_pass http://g; }").freerun();
    let id = get(&server, SERVERS)[0]["id"].clone();
    let (status, body) =
        change(&server, "PATCH", &format!("{SERVERS}/{id}"), Some(json!({"server": format!("app.test:{port}")})));
    assert_eq!(status, 200, "{body}");
    eventually("the name has an address", || server.get("/g").text() == "here");
}

/// The file of a state cannot be written while a folder has the name under which it is made.
#[test]
fn a_change_whose_file_cannot_be_written_is_written_later() {
    if !require::freerun() {
        return;
    }
    const FILES: [&str; 2] = ["p.state", "g.state"];
    let folder = for_workers("state-unsaved");
    let in_the_way = |name: &str| folder.path().join(format!("{name}.new"));
    // Each directive has a line of its own.
    let pairs = format!("keyval_zone zone=p:64k state={}/p.state;", folder.path().display());
    let more = format!("\n{pairs}\nkeyval $arg_k $pair zone=p;");
    let site = "location = /status { status; }";
    let http = format!("upstream g {{ zone g 64k; state {}/g.state; }} {more}", folder.path().display());
    let mut server = setup(&http, site).freerun();
    let change_both = |server: &TestServer, key: &str, address: &str| {
        let (status, _) = change(server, "POST", "/http/keyvals/p", Some(json!({key: "1"})));
        assert_eq!(status, 201);
        let (status, _) = change(server, "POST", SERVERS, Some(json!({"server": address})));
        assert_eq!(status, 201);
    };
    let unsaved = |server: &TestServer| server.status()["unsaved_states"].as_array().map_or(0, Vec::len);
    FILES.iter().for_each(|name| fs::create_dir(in_the_way(name)).expect("a folder"));
    change_both(&server, "a", "127.0.0.1:1");
    assert_eq!(unsaved(&server), 2, "{:?}", server.status()["unsaved_states"]);
    let problems = server.status()["problems"].as_array().cloned().unwrap_or_default();
    let path = folder.path().join("p.state");
    let problem = problems.iter().find(|one| path.to_str() == one["subject"].as_str()).expect("a problem");
    let text = fs::read_to_string(server.path("nginx.conf")).expect("the configuration");
    let line = text.lines().position(|line| line == pairs).expect("the directive") + 1;
    let place = format!("{}:{line}", server.path("nginx.conf").display());
    assert_eq!((&problem["kind"], &problem["place"]), (&json!("state_unsaved"), &json!(place)));
    server.logs("cannot be written");
    FILES.iter().for_each(|name| fs::remove_dir(in_the_way(name)).expect("removing"));
    freerun_testkit::eventually("both are written", || unsaved(&server) == 0);
    let pairs = || fs::read_to_string(folder.path().join("p.state")).expect("the file");
    assert!(pairs().contains("\"a\""), "{}", pairs());
    assert_eq!(in_file(&folder), ["127.0.0.1:1"]);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(folder.path().join("p.state")).expect("the file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "pairs may be secret");

    // Whether the thread or the end of the process comes first.
    FILES.iter().for_each(|name| fs::create_dir(in_the_way(name)).expect("a folder"));
    change_both(&server, "b", "127.0.0.1:2");
    FILES.iter().for_each(|name| fs::remove_dir(in_the_way(name)).expect("removing"));
    server.signal(Signal::QUIT);
    server.wait();
    assert!(pairs().contains("\"b\""), "{}", pairs());
    assert_eq!(in_file(&folder), ["127.0.0.1:1", "127.0.0.1:2"]);
}
