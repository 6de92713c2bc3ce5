//! The examples on the page of freerun's own API: each is asked, and has the fields that the page shows.

use std::path::Path;
use std::time::Duration;

use freerun_testkit::{Kind, Setup, Site, TempDir, eventually, require, run};
use serde_json::Value;

use super::{TWO, ask, engine, is_connected, origin};

const TIME: Duration = Duration::from_secs(60);

/// The page, as the binary writes it.
fn page(folder: &Path) -> String {
    let path = folder.display().to_string();
    let done = run(Kind::Freerun, &["reference", &path], TIME).expect("it starts");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    std::fs::read_to_string(folder.join("freerun-api.md")).expect("the page")
}

/// A request as a command for curl says it: its method, its path and its body.
fn request(command: &str) -> (&str, &str, &str) {
    let behind = |mark: &str, end: char| {
        let (_, rest) = command.split_once(mark)?;
        rest.split(end).next()
    };
    let body = behind("-d '", '\'').unwrap_or_default();
    let path = behind("'http://127.0.0.1:8080", '\'').expect("a URL");
    (behind("-X ", ' ').unwrap_or("GET"), path, body)
}

/// Whether a value has at least the fields of an example; texts and numbers are those of the day.
fn has(value: &Value, example: &Value) -> bool {
    match (value, example) {
        (Value::Object(members), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| members.get(name).is_some_and(|member| has(member, wanted)))
        }
        (Value::Array(items), Value::Array(wanted)) => {
            wanted.iter().enumerate().all(|(index, wanted)| items.get(index).is_some_and(|item| has(item, wanted)))
        }
        (Value::Bool(one), Value::Bool(other)) => one == other,
        _ => std::mem::discriminant(value) == std::mem::discriminant(example),
    }
}

#[test]
fn every_example_of_the_page_is_answered_as_it_says() {
    if !require::freerun() {
        return;
    }
    let Some((_engine, shared)) = engine() else { return };
    let folder = TempDir::new("reference");
    let page = page(folder.path());
    let origin = origin();
    let site = Site::new();
    site.file("file", "text");
    let server = Setup::new()
        .root(&site)
        .main(&format!("{TWO} {shared}"))
        .http(&format!(
            "proxy_cache_path @DIR@/cache keys_zone=pages:1m sync; keyval_zone zone=flags:1m sync;
             server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; location /api {{ api write=on; }}
                 location /page {{ proxy_cache pages; proxy_cache_key $uri; proxy_pass http://{}; }} }}",
            origin.address()
        ))
        .freerun();
    is_connected(&server);
    // The list of mounts has those that files were served from.
    assert_eq!(server.get("/file").text(), "text");
    let mut examples = 0;
    for section in page.split("\n## `").skip(1) {
        let heading = section.split('`').next().expect("a heading");
        let Some((_, block)) = section.split_once("```console\n$ ") else { panic!("no example of {heading}") };
        let block = block.split("```").next().expect("its end");
        let (command, answer) = block.split_once('\n').expect("a command");
        let (method, path, body) = request(command);
        assert!(heading.starts_with(&format!("{method} ")), "{heading}: {command}");
        // What is removed in one example is there again in the next.
        eventually("the object is stored", || {
            server.get("/page");
            let key = ask(&server, "GET", "/api/freerun/1/caches/pages/keys?key=/page", "", "");
            key.text().contains("\"fresh\":true")
        });
        if answer.is_empty() {
            let response = ask(&server, method, path, body, "");
            assert_eq!(response.status, 204, "{command}\n{}", response.text());
        } else {
            let example: Value = serde_json::from_str(answer).expect("an answer that is JSON");
            // A machine tells others what it has purged a little later.
            eventually(&format!("{command}\n{answer}"), || {
                let response = ask(&server, method, path, body, "");
                assert_eq!(response.status, 200, "{command}\n{}", response.text());
                has(&serde_json::from_slice(&response.body).expect("JSON"), &example)
            });
        }
        examples += 1;
    }
    assert!(examples >= 15, "{examples}");
}
