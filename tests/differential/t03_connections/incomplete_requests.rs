//! Connections that end before a request, or with a part of one: what both logs say of them.

use crate::exchange::text_without_ports;
use crate::runner::observe;
use freerun_testkit::{Setup, TestClient, TestServer};

/// How a client ends what it has said.
#[derive(Clone, Copy)]
enum Ends {
    /// It ends its side, and waits for the server's end.
    Closes,
    /// It resets the connection.
    Resets,
    /// It waits for the server's end.
    Waits,
}

use Ends::{Closes, Resets, Waits};

const REQUEST: &str = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
const HEADER: &str = "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n";

/// The address, what is said before a response, if there is to be one, and after it, and the end. Requests come on the address that
/// is patient, and on the second one, which is not; the third and the fourth are the same behind a proxy.
const SAID: &[(usize, &str, &str, Ends)] = &[
    (2, "", "", Closes),
    (2, "", "", Resets),
    (2, "", "\r\n", Closes),
    (2, "", "\n\r", Closes),
    (2, "", "\r\n", Resets),
    (2, "", "GE", Closes),
    (2, "", "GET /a HTTP/1.1\r\nHost:", Closes),
    (2, REQUEST, "", Closes),
    (2, REQUEST, "", Resets),
    (2, REQUEST, "\r\n", Closes),
    (2, REQUEST, "GE", Closes),
    (2, "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGE", "", Closes),
    (2, "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGE", "x", Closes),
    (2, "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HTTP/1.1\r\n", "", Closes),
    (3, "", "", Waits),
    (3, "", "\r\n", Waits),
    (3, "", "\r", Waits),
    (3, "", "GE", Waits),
    (3, REQUEST, "", Waits),
    (3, REQUEST, "\r\n", Waits),
    (4, "", "", Closes),
    (4, "", "", Resets),
    (4, "", "PRO", Closes),
    (4, "", HEADER, Closes),
    (4, "", "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n\r\n", Closes),
    (4, "PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\nGET /a HTTP/1.1\r\nHost: localhost\r\n\r\n", "", Closes),
    (5, "", "", Waits),
    (5, "", HEADER, Waits),
    (2, REQUEST, "", Closes),
];

/// What the logs say after that: the errors without their connections' numbers, and the requests, sorted.
fn logs_of(server: &mut TestServer) -> Vec<String> {
    let mut waiting = Vec::new();
    for (address, before, after, ends) in SAID {
        let mut client = TestClient::connect(server.address_number(*address));
        if !before.is_empty() {
            client.send(before).response();
        }
        client.send(after);
        match ends {
            Resets => client.reset(),
            Closes => drop(client.half_close().rest()),
            Waits => waiting.push(client),
        }
    }
    for mut client in waiting {
        client.rest();
    }
    server.stop();
    let impatient = std::fs::read_to_string(server.path("impatient.log")).unwrap_or_default();
    let mut told = told(server, &(server.error_log_of_traffic() + &impatient + &server.access_log()));
    told.sort();
    told
}

/// The lines that speak of connections, but those of the harness, which looks whether the server is there on the first address.
fn told(server: &TestServer, log: &str) -> Vec<String> {
    let own = format!("server: {}", server.address());
    let lines = log.lines().filter(|line| !line.contains(&own)).filter_map(|line| {
        let Some((level, text)) = line.split_once(" [").and_then(|(_, rest)| rest.split_once("] ")) else {
            return Some(line.to_owned());
        };
        let (_, message) = text.split_once(" *")?.1.split_once(' ')?;
        Some(format!("[{level}] {message}"))
    });
    let ports = [2, 3, 4, 5].map(|number| server.port_number(number));
    lines.map(|line| text_without_ports(&line, &ports)).collect()
}

#[test]
fn what_is_said_of_connections_without_a_request() {
    let impatient = "client_header_timeout 2s; keepalive_timeout 2s; error_log @DIR@/impatient.log info;";
    let setup = Setup::new().http(&format!(
        "log_format short '$request|$status|$request_length'; access_log @DIR@/access.log short;
             server {{ listen 127.0.0.1:@PORT@; }}
             server {{ listen 127.0.0.1:@PORT2@; server_name a; return 204; }}
             server {{ listen 127.0.0.1:@PORT3@; server_name b; {impatient} return 204; }}
             server {{ listen 127.0.0.1:@PORT4@ proxy_protocol; server_name c; return 204; }}
             server {{ listen 127.0.0.1:@PORT5@ proxy_protocol; server_name d; {impatient} return 204; }}"
    ));
    let Some(logs) = observe(&setup, logs_of) else { return };
    for line in ["[info] client closed connection while waiting for request", "[info] client timed out"] {
        assert!(logs.nginx.iter().any(|told| told.starts_with(line)), "{line}: {:#?}", logs.nginx);
    }
    logs.assert_same_lines("the logs");
}
