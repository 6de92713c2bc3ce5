//! Sessions of datagrams: all pairs of settings and of what clients send. The answers, where sessions begin and end, and the
//! lines of both logs are compared.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::runner::observe;
use freerun_testkit::{Datagrams, Setup, TestServer, eventually};

/// Settings of the server, and how many answers a client gets to a datagram that the server behind would answer once.
const SETTINGS: [(&str, Answers); 14] = [
    ("proxy_pass @ECHO@;", Answers::All),
    ("proxy_pass @ECHO@; proxy_requests 1;", Answers::All),
    ("proxy_pass @ECHO@; proxy_requests 2;", Answers::All),
    ("proxy_pass @ECHO@; proxy_responses 1;", Answers::All),
    ("proxy_pass @ECHO@; proxy_responses 1; proxy_requests 1;", Answers::All),
    ("proxy_pass @ECHO@; proxy_responses 2; proxy_requests 1;", Answers::All),
    ("proxy_pass @ECHO@; proxy_responses 0;", Answers::None),
    ("proxy_pass @ECHO@; proxy_protocol on;", Answers::All),
    ("proxy_pass @ECHO@; proxy_bind 127.0.0.3;", Answers::All),
    ("proxy_pass echoes;", Answers::All),
    ("proxy_pass down_and_echo;", Answers::All),
    ("return \"$protocol $bytes_received $server_port\";", Answers::One),
    ("return \"\";", Answers::None),
    ("deny all; proxy_pass @ECHO@;", Answers::None),
];

/// How many answers there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// Those of the server behind.
    All,
    /// One to each datagram.
    One,
    None,
}

/// What a client sends, one after the other: it waits for the answers to each. `n` and a number has as many answers.
const CLIENTS: [&[&str]; 5] = [&["one"], &["one", "two", "three"], &[""], &["", "x", ""], &["n2", "one", "n0", "n3"]];

/// The answers of the server behind.
fn answers(text: &str) -> usize {
    text.strip_prefix('n').and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// A case: its settings, and what its client sends.
struct Case {
    settings: &'static str,
    answers: Answers,
    sends: &'static [&'static str],
}

/// The number of cases that are run at a time.
const AT_ONCE: usize = 8;

/// A server for each of the cases.
fn setup(cases: &[Case], echo: SocketAddr) -> Setup {
    let mut text = format!(
        "upstream echoes {{ server {echo}; }}
         upstream down_and_echo {{ server 127.0.0.1:1 down; server {echo} backup; }}\n"
    );
    for (number, case) in cases.iter().enumerate() {
        text += &format!(
            "log_format c{number} '/{number} $status $protocol $upstream_addr $bytes_received $bytes_sent $upstream_bytes_received $upstream_bytes_sent';
             server {{ listen 127.0.0.1:@PORT{}@ udp; access_log @DIR@/access.log c{number}; proxy_timeout 700ms; {} }}\n",
            number + 2,
            case.settings.replace("@ECHO@", &echo.to_string()),
        );
    }
    Setup::new().http("server { listen 127.0.0.1:@PORT@; return 204; }").stream(&text)
}

/// What a server says of each of the cases, in their order.
fn told(server: &TestServer, cases: &[Case], echo: SocketAddr) -> Vec<String> {
    let spoken: Vec<(Vec<String>, usize)> =
        cases.iter().enumerate().map(|(number, case)| talk(server, number, case)).collect();
    eventually("all lines of the log", || {
        let access = server.access_log();
        let lines = |number: usize| access.lines().filter(|line| line.starts_with(&format!("/{number} "))).count();
        spoken.iter().enumerate().all(|(number, (_, sessions))| lines(number) >= *sessions)
    });
    let (access, errors) = (server.access_log(), server.error_log_of_traffic());
    spoken
        .into_iter()
        .enumerate()
        .map(|(number, (said, _))| {
            let own = format!("/{number} ");
            let mut lines: Vec<_> = access.lines().filter_map(|line| line.strip_prefix(&own)).collect();
            lines.sort_unstable();
            let words = words(&errors, server, number);
            // They are in order only when nothing is left in them that is different each time.
            let mut words: Vec<_> = words.iter().map(|words| without_ports(words, server, echo)).collect();
            words.sort_unstable();
            let text = format!("{}\n      {}", said.join(" | "), lines.join("\n      "));
            format!("{}\n      {}", without_ports(&text, server, echo), words.join("\n      "))
        })
        .collect()
}

/// What the error log says of a case's sessions: of each, all lines together.
fn words(errors: &str, server: &TestServer, number: usize) -> Vec<String> {
    let port = format!("connected to {}", server.address_number(number + 2));
    let mut by_session: HashMap<String, Vec<String>> = HashMap::new();
    let began = errors.lines().filter(|line| line.ends_with(&port));
    for begin in began {
        let session = begin.split_once(": *").expect("a number").1.split(' ').next().expect("a number");
        let marker = format!("*{session} ");
        let lines = errors.lines().filter_map(|line| {
            let message = line.split_once(&marker)?.1;
            Some(format!("{}: {message}", line.split(['[', ']']).nth(1)?))
        });
        by_session.insert(session.to_owned(), lines.collect());
    }
    by_session.into_values().map(|lines| lines.join("; ")).collect()
}

/// What a client gets, and how many sessions it has had. A session is told from another one by its port at the server behind.
fn talk(server: &TestServer, number: usize, case: &Case) -> (Vec<String>, usize) {
    let (client, to) = (Datagrams::new(), server.address_number(number + 2));
    let mut ports: Vec<String> = Vec::new();
    let mut said = Vec::new();
    let mut alone = 0;
    for text in case.sends {
        client.send(text, to);
        let expected = match case.answers {
            Answers::All => answers(text),
            Answers::One => 1,
            Answers::None => 0,
        };
        for _ in 0..expected {
            let (bytes, from) = client.receive();
            assert_eq!(from, to);
            let answer = String::from_utf8_lossy(&bytes).into_owned();
            let (port, rest) = answer.split_once(':').unwrap_or((&answer, ""));
            if case.answers == Answers::All && !ports.iter().any(|known| known == port) {
                ports.push(port.to_owned());
            }
            let session = ports.iter().position(|known| known == port).map_or(0, |at| at + 1);
            said.push(match case.answers {
                Answers::All => format!("{session}:{rest}"),
                _ => answer,
            });
        }
        if case.answers != Answers::All {
            alone += 1;
        }
    }
    assert!(!client.receives_within(Duration::from_millis(1)), "{}: an answer too many", case.settings);
    (said, ports.len() + alone)
}

/// The text with names in place of ports.
fn without_ports(text: &str, server: &TestServer, echo: SocketAddr) -> String {
    let mut text = text.replace(&echo.to_string(), "echo");
    for (number, port) in server.ports().iter().enumerate().rev() {
        text = text.replace(&format!("127.0.0.1:{port}"), &format!("server-{}", number + 1));
        text = text.replace(&format!(" {port}"), &format!(" server-{}", number + 1));
    }
    let mut out = String::new();
    for (index, part) in text.split("127.0.0.").enumerate() {
        if index == 0 {
            out.push_str(part);
            continue;
        }
        // The last number of the address stays, and its port goes.
        let (host, rest) = part.split_at(part.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(part.len()));
        let port = rest.strip_prefix([':', ' ']);
        out.push_str(&format!("127.0.0.{host}"));
        out.push_str(port.map_or(rest, |port| port.trim_start_matches(|digit: char| digit.is_ascii_digit())));
    }
    out
}

#[test]
fn all_pairs_of_settings_and_clients() {
    let echo = Datagrams::echo();
    let pairs = SETTINGS.iter().flat_map(|(settings, answers)| CLIENTS.map(|sends| (*settings, *answers, sends)));
    // Whether a session that ends with an answer still passes the next one on is a matter of luck; and behind a header the
    // server does not see how many answers it is to send.
    let is_sure = |settings: &str, sends: &[&str]| {
        !sends.contains(&"n2") || !settings.contains("proxy_responses") && !settings.contains("proxy_protocol")
    };
    let pairs = pairs.filter(|(settings, _, sends)| is_sure(settings, sends));
    let cases: Vec<Case> = pairs.map(|(settings, answers, sends)| Case { settings, answers, sends }).collect();
    for cases in cases.chunks(AT_ONCE) {
        let Some(told) = observe(&setup(cases, echo), |server| told(server, cases, echo)) else { return };
        told.assert_same_cases(|number| format!("{:?} to {}", cases[number].sends, cases[number].settings));
    }
}
