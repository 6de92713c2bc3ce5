//! Clients that take nothing, and clients that never go.

use super::Attacked;
use crate::t11_http3::{content, quic};
use freerun_testkit::http3::{H3End, Http3, Http3Options};
use freerun_testkit::{Site, TestUpstream, eventually, ok, require};
use std::time::Duration;

#[test]
fn streams_that_are_not_read_hold_little_memory_and_end() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::answering(|_| ok(content(4_000_000)));
    let lines = format!(
        "send_timeout 2s; location /file {{ }}
         location /up {{ proxy_max_temp_file_size 0; proxy_pass http://{}; }}",
        upstream.address()
    );
    for path in ["/file", "/up"] {
        let site = Site::new();
        site.file("file", content(4_000_000));
        let attacked = Attacked::new(site, &lines);
        let options = Http3Options::new().windows(1000, 8 << 20);
        let mut http3 = Http3::with(attacked.server.address_number(2), &options);
        let streams: Vec<u64> = (0..100)
            .map(|_| {
                let stream = http3.ask_for(path);
                http3.hold(stream);
                stream
            })
            .collect();
        http3.run_for(Duration::from_millis(300));
        // What was sent, and not the window of the connection.
        eventually("each stream has sent something", || {
            http3.step();
            (96 << 10..256 << 10).contains(&attacked.figure("/quic/unacknowledged"))
        });
        attacked.serves_others();
        attacked.has_not_grown();
        for stream in streams {
            http3.resume(stream);
            let answer = http3.answer(stream);
            // Those that were not asked for meanwhile have ended by `send_timeout`.
            assert!(matches!(answer.end, H3End::Reset(_) | H3End::Whole), "{path}: {:?}", answer.end);
        }
        attacked.serves_others();
        // Clients that have gone without a word have not acknowledged their short responses.
        eventually("little is kept", || attacked.figure("/quic/unacknowledged") < 160 << 10);
    }
}

/// The number of clients that go without a word.
const CLIENTS: u64 = 50;

#[test]
fn a_client_that_never_closes_is_forgotten() {
    if !require::freerun() {
        return;
    }
    let lines = "keepalive_timeout 500ms; client_header_timeout 1s; location = /status { status; } return 200 ok;";
    let lines = lines.replace("return 200 ok;", "location / { return 200 ok; }");
    let server = quic(&Site::new(), &lines).freerun();
    let figure = |name: &str| {
        let status: serde_json::Value = serde_json::from_slice(&server.get("/status").body).expect("JSON");
        status.pointer(&format!("/quic/{name}")).and_then(serde_json::Value::as_u64).expect("a figure")
    };
    // They say nothing at all after their handshakes, or a request, not even that they have received something. On a busy
    // machine the first ones are forgotten before the last ones are there.
    let silent: Vec<Http3> = (0..CLIENTS)
        .map(|number| {
            let mut http3 = super::connect(&server);
            if number % 2 == 0 {
                assert_eq!(http3.get("/").text(), "ok");
            }
            http3
        })
        .collect();
    eventually("all handshakes are complete", || figure("completed") == CLIENTS);
    eventually("all are forgotten", || figure("open") == 0);
    drop(silent);
}
