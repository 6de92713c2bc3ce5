//! An application that notes what it is told, and says what the test wants.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use freerun_testkit::{Peer, TestUpstream};

/// How the application is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// FastCGI; the answer is put into records.
    FastCgi,
    /// FastCGI; the answer is the records.
    Records,
    Uwsgi,
    Scgi,
    Memcached,
}

#[derive(Default)]
struct State {
    answer: Vec<u8>,
    told: Vec<String>,
}

/// The application.
pub struct Recorder {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Recorder {
    /// Listens on a free port, until the process ends.
    pub fn start(protocol: Protocol) -> Recorder {
        let upstream = TestUpstream::new();
        let recorder = Recorder { address: upstream.address(), state: Arc::default() };
        let state = recorder.state.clone();
        std::thread::spawn(move || {
            while let Some(mut peer) = upstream.try_accept(Duration::from_secs(3600)) {
                let state = state.clone();
                std::thread::spawn(move || {
                    let told =
                        hear(protocol, &mut peer).unwrap_or_else(|| vec!["(nothing that can be read)".to_owned()]);
                    let answer = match state.lock() {
                        Ok(mut state) => {
                            state.told.extend(told);
                            state.answer.clone()
                        }
                        Err(_) => return,
                    };
                    let _ = peer.try_send(if protocol == Protocol::FastCgi { output(&answer) } else { answer });
                    peer.half_close();
                    // The other side closes when it has read all of it.
                    let _ = peer.try_bytes(usize::MAX);
                });
            }
        });
        recorder
    }

    /// As a directive has it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it says from now on.
    pub fn answer_with(&self, answer: &[u8]) {
        self.state.lock().expect("the state").answer = answer.to_vec();
    }

    /// What it was told since it was asked last.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().expect("the state").told)
    }
}

/// A record of FastCGI.
pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// What a script writes, and the end.
pub fn output(text: &[u8]) -> Vec<u8> {
    let pieces = text.chunks(60_000).flat_map(|piece| record(6, piece));
    pieces.chain(record(6, b"")).chain(record(3, &[0; 8])).collect()
}

fn hear(protocol: Protocol, peer: &mut Peer) -> Option<Vec<String>> {
    match protocol {
        Protocol::FastCgi | Protocol::Records => fastcgi(peer),
        Protocol::Uwsgi => uwsgi(peer),
        Protocol::Scgi => scgi(peer),
        Protocol::Memcached => {
            let mut line = Vec::new();
            while !line.ends_with(b"\n") {
                line.extend(peer.try_bytes(1)?);
            }
            Some(vec![line.escape_ascii().to_string()])
        }
    }
}

fn pair(name: &[u8], value: &[u8]) -> String {
    format!("{}={}", name.escape_ascii(), value.escape_ascii())
}

fn told_body(body: &[u8]) -> String {
    format!("body: {} bytes \"{}\"", body.len(), body[..body.len().min(100)].escape_ascii())
}

fn fastcgi(peer: &mut Peer) -> Option<Vec<String>> {
    let (mut told, mut params, mut body) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let head = peer.try_bytes(8)?;
        let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let content = peer.try_bytes(len)?;
        peer.try_bytes(usize::from(head[6]))?;
        assert_eq!((head[0], head[2], head[3]), (1, 0, 1), "version and id");
        match head[1] {
            1 => told.push(format!("begin {}", content.escape_ascii())),
            4 => params.extend(content),
            5 if len == 0 => break,
            5 => body.extend(content),
            kind => told.push(format!("record {kind}")),
        }
    }
    let mut rest = &params[..];
    while !rest.is_empty() {
        let mut lengths = [0; 2];
        for length in &mut lengths {
            let bytes = if rest[0] < 128 { 1 } else { 4 };
            *length = rest[..bytes].iter().fold(0, |n, byte| n << 8 | usize::from(*byte)) & 0x7fff_ffff;
            rest = &rest[bytes..];
        }
        let (name, value) = rest[..lengths[0] + lengths[1]].split_at(lengths[0]);
        told.push(pair(name, value));
        rest = &rest[lengths[0] + lengths[1]..];
    }
    told.push(told_body(&body));
    Some(told)
}

/// How long the body is that the variables speak of.
fn length(pairs: &[String]) -> usize {
    let value = |name: &str| pairs.iter().find_map(|pair| pair.strip_prefix(name)?.parse().ok());
    value("CONTENT_LENGTH=").or_else(|| value("HTTP_CONTENT_LENGTH=")).unwrap_or(0)
}

fn uwsgi(peer: &mut Peer) -> Option<Vec<String>> {
    let head = peer.try_bytes(4)?;
    let packet = peer.try_bytes(usize::from(u16::from_le_bytes([head[1], head[2]])))?;
    let mut told = vec![format!("modifiers {} {}", head[0], head[3])];
    let (mut rest, mut texts) = (&packet[..], Vec::new());
    while let Some((&length, behind)) = rest.split_first_chunk::<2>() {
        // What is no variable stands behind them.
        let Some((text, behind)) = behind.split_at_checked(usize::from(u16::from_le_bytes(length))) else { break };
        texts.push(text);
        rest = behind;
    }
    told.extend(texts.chunks(2).map(|two| pair(two[0], two[1])));
    told.push(format!("text: \"{}\"", rest.escape_ascii()));
    let length = length(&told);
    told.push(told_body(&peer.try_bytes(length)?));
    Some(told)
}

fn scgi(peer: &mut Peer) -> Option<Vec<String>> {
    let mut digits = Vec::new();
    while !digits.ends_with(b":") {
        digits.extend(peer.try_bytes(1)?);
    }
    let len = std::str::from_utf8(&digits[..digits.len() - 1]).ok()?.parse().ok()?;
    let variables = peer.try_bytes(len)?;
    assert_eq!(peer.try_bytes(1)?, b",");
    let texts: Vec<_> = variables.split(|byte| *byte == 0).collect();
    let mut told: Vec<_> = texts.chunks_exact(2).map(|two| pair(two[0], two[1])).collect();
    let length = length(&told);
    told.push(told_body(&peer.try_bytes(length)?));
    Some(told)
}
