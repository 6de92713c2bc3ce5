//! Sessions with OpenSSL's own client, over a socket. Nothing here waits longer than [`LIMIT`].

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use freerun_testkit::require;
use freerun_tls::load::{CertificateKey, CertifiedKey, Chain};
use freerun_tls::session::{
    Event, FailureKind, ServerConfig, ServerSettings, SessionCache, SessionFailure, SessionSettings, SessionStore,
    TicketKeys, TlsSession,
};

/// How long a test waits for the client, which needs some tens of milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The time of the sessions.
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// How many requests a client sends at most.
const REQUESTS: usize = 4;

fn config(groups: &[u16]) -> ServerConfig {
    let pair = [include_str!("fixtures/ec.crt"), include_str!("fixtures/ec.key")];
    let chain = Chain::from_pem(pair[0].as_bytes()).expect("a chain");
    let key = CertificateKey::from_pem::<&[u8]>(pair[1].as_bytes(), &[]).expect("a key");
    let keys = vec![CertifiedKey::new(&chain, &key).expect("a pair")];
    ServerSettings { keys, groups: groups.to_vec(), ..ServerSettings::default() }.build().expect("settings")
}

/// What a server has seen of a client.
struct Seen {
    /// What was agreed on, printed.
    agreed: String,
    resumed: bool,
    plaintext: Vec<u8>,
    /// How the session ended, unless it was closed.
    failure: Option<SessionFailure>,
}

/// Serves one client that has connected: what it sends comes back, until it closes, fails or has sent `bye`.
fn echo(mut socket: TcpStream, config: &ServerConfig) -> Seen {
    socket.set_read_timeout(Some(LIMIT)).expect("a socket");
    socket.set_write_timeout(Some(LIMIT)).expect("a socket");
    let mut session = TlsSession::new(config).expect("a session");
    let (mut received, mut output) = (Vec::new(), Vec::new());
    let mut seen = Seen { agreed: String::new(), resumed: false, plaintext: Vec::new(), failure: None };
    loop {
        let begin = seen.plaintext.len();
        let progress = session.step(NOW, &mut received, &mut output, &mut seen.plaintext, 4096);
        received.drain(..progress.consumed);
        let mut over = false;
        match &progress.event {
            Event::NeedsInput => {}
            Event::Established => {
                let agreed = session.agreed().expect("a session");
                (seen.agreed, seen.resumed) = (format!("{agreed:?}"), agreed.resumed);
            }
            Event::Plaintext(_) => {
                let mut buffer = [0; 8192];
                let encrypted = session.encrypt(&seen.plaintext[begin..], &mut buffer).expect("to encrypt");
                output.extend_from_slice(&buffer[..encrypted.written]);
                over = seen.plaintext.ends_with(b"bye\n") || seen.plaintext.len() > 100 * REQUESTS;
                if over {
                    session.close(&mut output);
                }
            }
            Event::PeerClosed => over = true,
            Event::Failed(failure) => {
                seen.failure = Some(failure.clone());
                over = true;
            }
        }
        // The client may be gone; what it has said is known then.
        let sent = socket.write_all(&output).is_ok();
        output.clear();
        if over || !sent {
            return seen;
        }
        if progress.event == Event::NeedsInput {
            let mut bytes = [0; 4096];
            match socket.read(&mut bytes) {
                Ok(0) | Err(_) => return seen,
                Ok(length) => received.extend_from_slice(&bytes[..length]),
            }
        }
    }
}

/// Runs `openssl s_client` with these arguments and this input against the server.
fn talk(config: &ServerConfig, arguments: &[&str], input: &[u8]) -> (Seen, Output) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address").to_string();
    // The program `timeout` ends the client if it hangs, and the listener hears of that: the client has connected before, or
    // its end makes the one below that connects in its place.
    let mut client = Command::new("timeout")
        .args([&LIMIT.as_secs().to_string(), "openssl", "s_client", "-connect", &address])
        .args(["-servername", "www.example.org"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl");
    client.stdin.as_mut().expect("a pipe").write_all(input).expect("to write");
    std::thread::scope(|scope| {
        let served = scope.spawn(|| listener.accept().map(|(socket, _)| echo(socket, config)));
        let output = client.wait_with_output().expect("openssl's end");
        // Nobody else connects, so this is the first one only if openssl was not.
        drop(TcpStream::connect(&address));
        let seen = served.join().expect("the server's end").expect("a client");
        (seen, output)
    })
}

#[test]
fn both_agree_on_the_same() {
    if require::program("openssl").is_none() {
        return;
    }
    let config = config(&[25, 29, 24]);
    let cases = [
        (&["-tls1_3"][..], "TLS_AES_256_GCM_SHA384", "X25519"),
        (&["-tls1_3", "-groups", "P-521"], "TLS_AES_256_GCM_SHA384", "secp521r1"),
        (&["-tls1_2", "-curves", "P-521:P-256"], "ECDHE-ECDSA-AES256-GCM-SHA384", "secp521r1"),
        (&["-tls1_2", "-cipher", "ECDHE+CHACHA20"], "ECDHE-ECDSA-CHACHA20-POLY1305", "X25519"),
        (&["-tls1_3", "-groups", "X448:P-384"], "TLS_AES_256_GCM_SHA384", "secp384r1"),
    ];
    for (arguments, cipher, group) in cases {
        let (seen, output) = talk(&config, &[arguments, &["-quiet"]].concat(), b"hello\nbye\n");
        assert_eq!((seen.failure, &output.stdout[..]), (None, &b"hello\nbye\n"[..]), "{arguments:?}");
        for words in [cipher, group, "www.example.org"] {
            assert!(seen.agreed.contains(&format!("\"{words}\"")), "{arguments:?}: {}", seen.agreed);
        }
    }
}

#[test]
fn sessions_are_resumed_from_a_store_and_from_tickets() {
    if require::program("openssl").is_none() {
        return;
    }
    let folder = freerun_testkit::TempDir::new("tls");
    let timeout = Duration::from_secs(300);
    let keys = TicketKeys::random(timeout, NOW).expect("keys");
    for sessions in [
        SessionSettings {
            cache: SessionCache::Kept(SessionStore::new(1 << 20)),
            tickets: None,
            timeout,
            figures: Default::default(),
        },
        SessionSettings { cache: SessionCache::Off, tickets: Some(keys), timeout, figures: Default::default() },
    ] {
        let config = config(&[29]).with_sessions(&sessions, b"context");
        for version in ["-tls1_2", "-tls1_3"] {
            let file = folder.path().join("session.pem");
            let file = file.to_str().expect("a name");
            let run = |option| talk(&config, &[version, option, file, "-ign_eof"], b"bye\n");
            let (first, output) = run("-sess_out");
            assert!(!first.resumed, "{version}, {sessions:?}: {output:?}");
            // OpenSSL's server takes a session as often as a client has it, so this does, too.
            for _ in 0..2 {
                let (second, output) = run("-sess_in");
                assert!(second.resumed, "{version}, {sessions:?}: {output:?}");
                assert!(String::from_utf8_lossy(&output.stdout).contains("\nReused, "));
            }
        }
    }
}

#[test]
fn a_client_that_wants_to_renegotiate_is_told_no() {
    if require::program("openssl").is_none() {
        return;
    }
    // The line `R` makes the client renegotiate. It takes the refusal, which is only a warning, for an error.
    let (seen, output) = talk(&config(&[29]), &["-tls1_2"], b"R\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("RENEGOTIATING") && said.contains("no renegotiation"), "{said}");
    assert!(!seen.agreed.is_empty() && seen.plaintext.is_empty());
    // What the client says then is its own matter; the server has not failed by itself.
    let kind = seen.failure.map(|failure| failure.kind);
    assert!(matches!(kind, None | Some(FailureKind::PeerAlert(_))), "{kind:?}");
}

#[test]
fn alerts_have_the_names_that_openssl_gives_them() {
    if require::program("openssl").is_none() {
        return;
    }
    let reason = |alert: u8| format!("{:08X}", 0x0a00_0000 + 1000 + u32::from(alert));
    let codes: Vec<String> = (0..=u8::MAX).map(reason).collect();
    let output = Command::new("openssl").arg("errstr").args(&codes).output().expect("openssl");
    let lines = String::from_utf8(output.stdout).expect("a text");
    assert_eq!(lines.lines().count(), codes.len());
    for (alert, line) in (0..=u8::MAX).zip(lines.lines()) {
        // A reason without a name is printed as its number.
        let known = line.rsplit(':').next().filter(|name| !name.starts_with("reason("));
        assert_eq!(freerun_proto::tls::names::alert(alert), known, "{alert}: {line}");
    }
}
