//! Pairs that several machines share.

use freerun_testkit::{Kind, TempDir, TestClient, within};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;

use crate::engine::Engine;
use crate::{RECOVERED, becomes, change, cluster, flag, gets, json, node, setup};

#[test]
fn a_change_on_one_machine_is_seen_on_all() {
    let Some(engine) = Engine::redis() else { return };
    let [a, b, c] = [0; 3].map(|_| node(&engine.address(), "sync"));
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    // The machine that was asked has it when it answers.
    assert_eq!(flag(&a, "x"), "1");
    gets(&b, "x", "1");
    gets(&c, "x", "1");
    // The engine judges, wherever the change comes from.
    assert_eq!(change(&b, "POST", r#"{"x":"2"}"#), 409);
    assert_eq!(change(&b, "PATCH", r#"{"x":"2"}"#), 204);
    gets(&a, "x", "2");
    assert_eq!(change(&c, "PATCH", r#"{"y":"2"}"#), 404);
    assert_eq!(change(&c, "POST", r#"{"y":"2","z":"3"}"#), 400);
    assert_eq!(change(&c, "PATCH", r#"{"x":null}"#), 204);
    gets(&a, "x", "");
    gets(&b, "x", "");
    assert_eq!(change(&c, "PATCH", r#"{"x":null}"#), 404);
    // Several at once, into an empty zone, and all of them gone.
    assert_eq!(change(&a, "POST", r#"{"y":"2","z":"3"}"#), 201);
    gets(&b, "z", "3");
    assert_eq!(change(&b, "DELETE", ""), 204);
    gets(&c, "y", "");
    gets(&a, "z", "");
    let all = json(&a.get("/api/9/stream/zone_sync"));
    assert_eq!(all["zones"]["flags"]["records_total"], 0, "{all}");
    assert!(within(2 * RECOVERED, || json(&a.get("/api/9/stream/zone_sync"))["status"]["nodes_online"] == 2));
    let nodes = json(&b.get("/api/freerun/1/cluster/nodes"));
    assert_eq!(nodes.as_array().map(Vec::len), Some(3), "{nodes}");
}

#[test]
fn a_machine_that_comes_later_has_what_there_is() {
    let Some(engine) = Engine::redis() else { return };
    let a = node(&engine.address(), "sync");
    for number in 0..1500 {
        if number == 0 {
            assert_eq!(change(&a, "POST", r#"{"k0":"0"}"#), 201);
        } else {
            assert_eq!(change(&a, "POST", &format!(r#"{{"k{number}":"{number}"}}"#)), 201);
        }
    }
    let b = node(&engine.address(), "sync");
    for number in [0, 1, 700, 1499] {
        assert_eq!(flag(&b, &format!("k{number}")), number.to_string());
    }
    assert_eq!(cluster(&b)["zones"][0]["pairs"], 1500);
}

#[test]
fn the_time_of_a_pair_is_the_same_everywhere() {
    let Some(engine) = Engine::redis() else { return };
    let [a, b] = [0; 2].map(|_| node(&engine.address(), "timeout=1h sync"));
    assert_eq!(change(&a, "POST", r#"{"x":{"value":"1","expire":700}}"#), 201);
    assert_eq!(change(&a, "POST", r#"{"y":"1"}"#), 201);
    gets(&b, "y", "1");
    gets(&b, "x", "");
    gets(&a, "x", "");
    assert_eq!((flag(&a, "y"), flag(&b, "y")), ("1".to_owned(), "1".to_owned()));
    // Its place is free, for the engine too.
    assert_eq!(change(&b, "POST", r#"{"x":"2"}"#), 201);
    gets(&a, "x", "2");
}

#[test]
fn the_first_machine_brings_the_pairs_of_its_state_file() {
    let Some(engine) = Engine::redis() else { return };
    let folder = TempDir::new("state");
    // The worker has given up root.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("permissions");
    let file = folder.path().join("flags.json");
    std::fs::write(&file, r#"{"old": {"value": "kept"}}"#).expect("a state file");
    let a = node(&engine.address(), &format!("state={} sync", file.display()));
    assert_eq!(flag(&a, "old"), "kept");
    let b = node(&engine.address(), "sync");
    assert_eq!(flag(&b, "old"), "kept");
    assert_eq!(change(&b, "POST", r#"{"new":"1"}"#), 201);
    // What others change reaches the file.
    let has = |text: &str| std::fs::read_to_string(&file).is_ok_and(|saved| saved.contains(text));
    assert!(within(RECOVERED, || has("\"new\"") && has("\"old\"")));
}

#[test]
fn a_reload_keeps_the_connection_and_can_leave_the_cluster() {
    let Some(engine) = Engine::redis() else { return };
    let [a, b] = [0; 2].map(|_| node(&engine.address(), "sync"));
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    a.reload();
    assert_eq!(flag(&a, "x"), "1");
    assert_eq!(change(&a, "PATCH", r#"{"x":"2"}"#), 204);
    gets(&b, "x", "2");
    assert_eq!(a.error_log().matches("cluster: connected").count(), 1, "{}", a.error_log());
    a.edit(&format!("zone_sync_engine {};", engine.address()), "");
    a.edit("zone=flags:1m sync", "zone=flags:1m");
    a.reload();
    assert_eq!(flag(&a, "x"), "2", "its pairs are its own now");
    assert_eq!(change(&a, "PATCH", r#"{"x":"3"}"#), 204);
    assert_eq!(a.get("/api/freerun/1/cluster").status, 404);
    assert_eq!(flag(&b, "x"), "2");
}

#[test]
fn a_machine_that_moves_to_another_engine_brings_nothing_to_those_who_are_there() {
    let (Some(one), Some(other)) = (Engine::redis(), Engine::redis()) else { return };
    let [a, b] = [&one, &other].map(|engine| node(&engine.address(), "sync"));
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    assert_eq!(change(&b, "POST", r#"{"y":"2"}"#), 201);
    a.edit(&one.address(), &other.address());
    a.reload();
    gets(&a, "y", "2");
    assert_eq!((flag(&a, "x"), flag(&b, "x")), (String::new(), String::new()));
    // The machine has left the engine that it does not use any more.
    assert_eq!(one.ask(&["zcard", "{freerun}:nodes"]).trim(), "0");
}

#[test]
fn a_machine_that_ends_is_gone_at_once() {
    let Some(engine) = Engine::redis() else { return };
    let mut a = node(&engine.address(), "sync");
    let b = node(&engine.address(), "sync");
    let nodes = || json(&b.get("/api/freerun/1/cluster/nodes")).as_array().map(Vec::len);
    assert_eq!(nodes(), Some(2));
    assert!(a.stop().success());
    assert_eq!(nodes(), Some(1));
}

#[test]
fn a_worker_that_dies_is_followed_by_one_that_has_the_pairs() {
    let Some(engine) = Engine::redis() else { return };
    let a = node(&engine.address(), "sync");
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 201);
    a.signal_pid(a.worker(), Signal::KILL);
    let answers = || {
        let Ok(mut client) = TestClient::try_connect(a.address()) else { return false };
        client.try_send("GET /?key=x HTTP/1.0\r\n\r\n").is_ok()
            && client.try_response("GET").is_ok_and(|response| response.text() == "1")
    };
    assert!(within(2 * RECOVERED, answers));
}

#[test]
fn what_is_wrong_is_told_before_the_start() {
    for (engine, sync, told) in [
        ("redis://127.0.0.1:x", "sync", "invalid address of an engine"),
        ("redis://a,b", "sync", "topology=sentinel:NAME"),
        ("redis://127.0.0.1 topology=cluster", "sync", "invalid parameter"),
        ("redis://127.0.0.1 prefix=", "sync", "invalid parameter"),
        ("redis://127.0.0.1 password_file=/nonexistent", "sync", "/nonexistent"),
        ("redis://127.0.0.1", "sync alone=no", "\"refuse\" or \"local\""),
        ("redis://127.0.0.1", "alone=local", "belongs to \"sync\""),
    ] {
        let error = setup(engine, sync).try_start(Kind::Freerun).expect_err(told).to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
}

#[test]
fn sync_needs_an_engine() {
    let lines = "keyval_zone zone=flags:1m sync;";
    let error = freerun_testkit::Setup::new().http(lines).try_start(Kind::Freerun).expect_err("refused").to_string();
    assert!(error.contains("\"sync\" of \"keyval_zone\" needs \"zone_sync_engine\""), "{error}");
}

#[test]
fn an_engine_that_is_not_there_holds_up_no_start() {
    let port = freerun_testkit::ports::free();
    let a = setup(&format!("redis://127.0.0.1:{port}"), "sync").start(Kind::Freerun);
    becomes(&a, "away");
    assert_eq!(a.get("/?key=x").status, 200);
    assert_eq!(change(&a, "POST", r#"{"x":"1"}"#), 503);
}
