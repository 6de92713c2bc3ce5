//! Texts of an administrator in the language of OpenSSL.

use freerun_tls::openssl::ciphers::{self, Suite};
use freerun_tls::openssl::protocols::{Protocols, SslProtocol};
use freerun_tls::openssl::{ciphersuites, conf_command, groups};

use crate::choice;

/// Commands of `ssl_conf_command` with a value that is read.
const COMMANDS: [&str; 12] = [
    "CipherString",
    "Ciphersuites",
    "Groups",
    "ECDHParameters",
    "Protocol",
    "MinProtocol",
    "VerifyMode",
    "Options",
    "NumTickets",
    "RecordPadding",
    "SignatureAlgorithms",
    "nothing",
];

/// Cipher strings and the other lists: no panic, no suite twice, and a list that is written out by names means itself. The first
/// byte chooses the versions of the protocol and a command.
pub fn cipher_string(data: &[u8]) {
    let (options, text) = choice(data);
    let text = String::from_utf8_lossy(text);
    if let Ok((_, remarks)) = conf_command::parse(COMMANDS[usize::from(options >> 2) % COMMANDS.len()], &text) {
        assert!(remarks.len() <= text.len() + 1, "a remark for each word, and one for the command");
    }
    if let Ok((groups, _)) = groups::ssl_ecdh_curve(&text) {
        assert!(!groups.is_empty() && groups.iter().all(|group| group.usable));
    }
    let suites = ciphersuites::parse(&text).unwrap_or_default();
    assert!(ciphersuites::usable(&suites).0.len() <= suites.len());

    let Ok(list) = ciphers::evaluate(&text) else { return };
    assert!(!list.suites.is_empty() && !twice(&list.suites));
    let written = list.suites.iter().map(|suite| suite.name).collect::<Vec<_>>().join(":");
    let again = ciphers::evaluate(&written).map(|again| again.suites);
    assert_eq!(again.as_ref(), Ok(&list.suites));

    let mut protocols = Protocols::NONE;
    if options & 1 == 0 {
        protocols = protocols.with(SslProtocol::Tls12);
    }
    if options & 2 == 0 {
        protocols = protocols.with(SslProtocol::Tls13);
    }
    if let Ok(settled) = ciphers::settle(&text, &list, protocols) {
        assert!(settled.suites.iter().all(|suite| suite.usable() && list.suites.contains(suite)));
        assert_eq!(settled.suites.is_empty(), !settled.protocols.has(SslProtocol::Tls12));
        assert_eq!(settled.protocols.has(SslProtocol::Tls13), protocols.has(SslProtocol::Tls13));
    } else {
        assert!(!protocols.has(SslProtocol::Tls13));
    }
}

fn twice(suites: &[&Suite]) -> bool {
    suites.iter().enumerate().any(|(at, suite)| suites[at + 1..].contains(suite))
}
