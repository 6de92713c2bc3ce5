//! Handshakes with OpenSSL's own client.

use super::super::{Event, ServerSettings, Session};
use super::{NOW, ServerConfig, settings};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Serves one client: what it sends comes back, and then the end.
fn echo(listener: &TcpListener, config: &ServerConfig) -> Option<String> {
    let (mut socket, _) = listener.accept().expect("a client");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let mut session = Session::new(config).expect("a session");
    let (mut received, mut output, mut plaintext) = (Vec::new(), Vec::new(), Vec::new());
    let mut agreed = None;
    loop {
        let progress = session.step(NOW, &mut received, &mut output, &mut plaintext, 4096);
        received.drain(..progress.consumed);
        let mut over = false;
        match progress.event {
            Event::NeedsInput => {}
            Event::Established => agreed = session.agreed().map(|agreed| format!("{agreed:?}")),
            Event::Plaintext(length) => {
                let mut buffer = [0; 8192];
                let encrypted = session.encrypt(&plaintext[..length], &mut buffer).expect("to encrypt");
                assert_eq!(encrypted.taken, length);
                output.extend_from_slice(&buffer[..encrypted.written]);
                session.close(&mut output);
                over = true;
            }
            Event::PeerClosed => over = true,
            Event::Failed(ref failure) => panic!("{failure:?}"),
        }
        socket.write_all(&output).expect("to send");
        output.clear();
        if over {
            return agreed;
        }
        if progress.event == Event::NeedsInput {
            let mut bytes = [0; 4096];
            match socket.read(&mut bytes) {
                Ok(0) | Err(_) => return agreed,
                Ok(length) => received.extend_from_slice(&bytes[..length]),
            }
        }
    }
}

#[test]
fn openssl_agrees_on_the_same() {
    if Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: openssl is not installed");
        return;
    }
    let config = ServerSettings { groups: vec![25, 29, 24], ..settings() }.build().expect("settings");
    let cases = [
        (vec!["-tls1_3"], "TLS_AES_256_GCM_SHA384", "X25519"),
        (vec!["-tls1_3", "-groups", "P-521"], "TLS_AES_256_GCM_SHA384", "secp521r1"),
        (vec!["-tls1_2", "-curves", "P-521:P-256"], "ECDHE-ECDSA-AES256-GCM-SHA384", "secp521r1"),
        (vec!["-tls1_2", "-cipher", "ECDHE+CHACHA20"], "ECDHE-ECDSA-CHACHA20-POLY1305", "X25519"),
        (vec!["-tls1_3", "-groups", "X448:P-384"], "TLS_AES_256_GCM_SHA384", "secp384r1"),
    ];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address").to_string();
    for (arguments, cipher, group) in cases {
        let mut client = Command::new("openssl")
            .args(["s_client", "-connect", &address, "-servername", "www.example.org", "-ign_eof", "-quiet"])
            .args(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        client.stdin.as_mut().expect("a pipe").write_all(b"hello\n").expect("to write");
        let agreed = echo(&listener, &config).expect("a handshake");
        let output = client.wait_with_output().expect("openssl's end");
        assert_eq!(output.stdout, b"hello\n", "{arguments:?}");
        for words in [cipher, group, "www.example.org"] {
            assert!(agreed.contains(&format!("\"{words}\"")), "{arguments:?}: {agreed}");
        }
    }
}
