//! Sessions that are passed on: all pairs of what servers behind do and of what clients do, under some settings. What the
//! client gets, how its connection ends, and all lines of both logs are compared.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::runner::observe;
use freerun_testkit::{ConnectionEnd, RefusingAddress, Setup, TestClient, TestServer, eventually};

/// What the servers behind do. Two words are two servers.
const KINDS: [&str; 10] = [
    "echo",
    "greets",
    "answers",
    "listens",
    "resets",
    "refuses",
    "refuses echo",
    "refuses refuses",
    "refuses answers",
    "refuses resets",
];

/// What clients ask.
const QUESTION: &[u8] = b"question";

/// What the clients do. Those that end have heard all that the server says of itself, so that nothing depends on who is faster.
const CLIENTS: [&str; 4] = ["asks", "asks and ends", "asks thrice and ends", "asks much and ends"];

/// Settings.
const SETTINGS: [&str; 5] = [
    "",
    "proxy_half_close on;",
    "proxy_next_upstream off;",
    "proxy_next_upstream_tries 1; proxy_buffer_size 100;",
    "proxy_protocol on; proxy_connect_timeout 5s; proxy_half_close on;",
];

/// A server that does that on each connection; its address.
fn behind(kind: &'static str) -> String {
    if kind == "refuses" {
        // For as long as the tests run.
        return Box::leak(Box::new(RefusingAddress::new())).address();
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(serve(kind, stream)));
        }
    });
    address
}

/// The first bytes that come; none at the end.
fn first(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut buffer = [0; 65536];
    let n = stream.read(&mut buffer)?;
    Ok(buffer[..n].to_vec())
}

/// Reads all of what a client asks, with the header that may come before it: a server that closes with unread bytes resets.
fn question(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut all = Vec::new();
    while !all.ends_with(QUESTION) {
        let bytes = first(stream)?;
        if bytes.is_empty() {
            break;
        }
        all.extend(bytes);
    }
    Ok(())
}

fn serve(kind: &str, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    match kind {
        "echo" => loop {
            let bytes = first(&mut stream)?;
            if bytes.is_empty() {
                return Ok(());
            }
            stream.write_all(&bytes)?;
        },
        "greets" => {
            stream.write_all(b"220 hello\r\n")?;
            while !first(&mut stream)?.is_empty() {}
            Ok(())
        }
        "answers" => {
            question(&mut stream)?;
            stream.write_all(b"an answer")?;
            stream.shutdown(Shutdown::Write)?;
            while !first(&mut stream)?.is_empty() {}
            Ok(())
        }
        "listens" => question(&mut stream),
        "resets" => {
            question(&mut stream)?;
            Ok(rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?)
        }
        _ => Ok(()),
    }
}

/// One session: what the client does with its connection, and what it gets.
fn talk(client: &mut TestClient, case: &Case) -> String {
    let last = case.kind.split(' ').next_back().unwrap_or_default();
    let mut said = Vec::new();
    // What the server says first comes first.
    if last == "greets" {
        said.extend(client.until(|bytes| bytes.ends_with(b"\r\n")).to_vec());
        client.take();
    }
    let much: Vec<u8> = (0..40_000u32).map(|n| b'a' + (n % 23) as u8).collect();
    let ask = if case.client == "asks much and ends" && last == "echo" { &much[..] } else { QUESTION };
    let turns = if case.client == "asks thrice and ends" && last == "echo" { 3 } else { 1 };
    let mut header = !case.settings.contains("proxy_protocol");
    for _ in 0..turns {
        let _ = client.try_send(ask);
        if last != "echo" {
            continue;
        }
        // The header is echoed, too. The port of the client is in it.
        if !std::mem::replace(&mut header, true) {
            let is_line = |bytes: &[u8]| bytes.windows(2).position(|two| two == b"\r\n").map(|at| at + 2);
            let line = is_line(client.until(|bytes| is_line(bytes).is_some())).unwrap_or_default();
            client.at_least(line + ask.len());
            let all = client.take();
            assert!(all.starts_with(b"PROXY TCP4 127.0.0.1 "), "{:?}", all.escape_ascii());
            said.extend_from_slice(&all[line..]);
            continue;
        }
        client.at_least(ask.len());
        said.extend(client.take());
    }
    match last {
        "greets" | "echo" if case.client != "asks" => drop(client.half_close()),
        "greets" | "echo" => return format!("{} bytes", said.len()),
        _ => {}
    }
    let (rest, ending) = client.rest();
    said.extend(rest);
    // Whether an end is a reset depends on what has come by then.
    let ending = if ending == ConnectionEnd::Silent { "silent" } else { "closed" };
    format!("{} bytes, {:?}, {ending}", said.len(), String::from_utf8_lossy(&said[..said.len().min(40)]))
}

/// A case: what is behind, what the client does, the settings.
struct Case {
    kind: &'static str,
    client: &'static str,
    settings: &'static str,
}

/// The address that a case has for itself; all have one port.
fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1 + (number / 200) as u8, 1 + (number % 200) as u8)
}

/// What a server says of each of the cases, in their order.
fn told(server: &TestServer, cases: &[Case], names: &[(String, String)]) -> Vec<String> {
    let results: Vec<String> = cases
        .iter()
        .enumerate()
        .map(|(number, case)| {
            let mut client = TestClient::connect(SocketAddr::from((address(number), server.port_number(2))));
            talk(&mut client, case)
        })
        .collect();
    eventually("all lines of the log", || server.access_log().lines().count() >= cases.len());
    let (access, errors) = (server.access_log(), server.error_log_of_traffic());
    results
        .into_iter()
        .enumerate()
        .map(|(number, result)| {
            let own = format!("/{number} ");
            let line = access.lines().find_map(|line| line.strip_prefix(&own)).expect("a line for each session");
            let port = format!("connected to {}:{}", address(number), server.port_number(2));
            let begin = errors.lines().find(|line| line.ends_with(&port)).expect("a line");
            let session =
                format!("*{} ", begin.split_once(": *").expect("a number").1.split(' ').next().expect("a number"));
            let words = errors.lines().filter(|line| line.contains(&session)).filter_map(|line| {
                let message = line.split_once(&session)?.1;
                let level = line.split(['[', ']']).nth(1)?;
                Some(format!("{level}: {}", without_ports(message, names, server)))
            });
            let words: Vec<String> = words.collect();
            without_ports(&format!("{result}\n      {line}\n      {}", words.join("\n      ")), names, server)
        })
        .collect()
}

/// The text with names in place of addresses.
fn without_ports(text: &str, names: &[(String, String)], server: &TestServer) -> String {
    let mut text = names.iter().fold(text.to_owned(), |text, (address, name)| text.replace(address, name));
    let port = server.port_number(2).to_string();
    text = text.replace(&port, "PORT");
    let mut out = String::new();
    for (index, part) in text.split("127.0.0.1:").enumerate() {
        if index > 0 {
            out.push_str("port");
        }
        out.push_str(if index > 0 { part.trim_start_matches(|digit: char| digit.is_ascii_digit()) } else { part });
    }
    out
}

#[test]
fn all_pairs_of_servers_and_clients() {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut groups = String::new();
    for kind in KINDS {
        let servers = kind.split(' ').enumerate().map(|(index, kind)| {
            let kind = KINDS.iter().find(|known| **known == kind).expect("a kind");
            let address = behind(kind);
            names.push((address.clone(), format!("{kind}-{index}")));
            format!("server {address} max_fails=0;")
        });
        let servers: String = servers.collect();
        groups += &format!("upstream {} {{ {servers} }}\n", kind.replace(' ', "-"));
    }
    let (mut cases, mut servers) = (Vec::new(), String::new());
    for settings in SETTINGS {
        // Without a further try, nobody may answer.
        let is_tried_once = settings.contains("upstream off") || settings.contains("tries 1");
        // nginx goes on with the client after a reset of the server, to which nothing can be sent any more.
        let is_half_close = settings.contains("half_close");
        let is_compared =
            |kind: &&str| !(is_tried_once && *kind == "refuses echo" || is_half_close && kind.ends_with("resets"));
        for kind in KINDS.into_iter().filter(is_compared) {
            for client in CLIENTS {
                let number = cases.len();
                servers += &format!(
                    "log_format c{number} '/{number} $status $upstream_addr $bytes_received $bytes_sent $upstream_bytes_received $upstream_bytes_sent';
                     server {{ listen {}:@PORT2@; access_log @DIR@/access.log c{number}; {settings} proxy_pass {}; }}\n",
                    address(number),
                    kind.replace(' ', "-"),
                );
                cases.push(Case { kind, client, settings });
            }
        }
    }
    let text = format!("{groups} {servers}");
    let setup = Setup::new().http("server { listen 127.0.0.1:@PORT@; return 204; }").stream(&text);
    if let Some(told) = observe(&setup, |server| told(server, &cases, &names)) {
        let name = |case: &Case| format!("{} to \"{}\", {}", case.client, case.kind, case.settings);
        told.assert_same_cases(|number| name(&cases[number]));
    }
}
