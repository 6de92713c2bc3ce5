//! The files that the ACME client keeps.

use freerun_acme::{CertificateFile, Pair};

use crate::choice;

/// The end of the key in a file.
const END_OF_KEY: &str = "-----END PRIVATE KEY-----\n";

/// Files of certificates: no panic, and what is read is written as it was. With an odd first byte the rest is the key and
/// the chain of a file whose digest is right.
pub fn acme_state(data: &[u8]) {
    let (options, bytes) = choice(data);
    if options & 1 == 0 {
        if let Ok(file) = CertificateFile::parse(bytes) {
            assert_eq!(file.to_text().as_bytes(), bytes);
        }
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    let (key, chain) = text.split_once(END_OF_KEY).unwrap_or((&text, ""));
    let file = CertificateFile {
        uri: "https://ca.example/directory".to_owned(),
        identifiers: "a.example 192.0.2.1".to_owned(),
        key_kind: "ecdsa:256".to_owned(),
        pair: Pair { chain: chain.to_owned(), key: [key, END_OF_KEY].concat().into() },
    };
    let read = CertificateFile::parse(file.to_text().as_bytes());
    assert_eq!(read.as_ref(), Ok(&file));
    // Nearly always they do not fit; they are read all the same.
    let _ = file.check();
}

/// A file, and its key and chain alone.
pub fn seeds() -> Vec<Vec<u8>> {
    let body = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\nAAAA\n\
                -----END CERTIFICATE-----\n";
    let (key, chain) = body.split_at(body.find("-----BEGIN CERTIFICATE").unwrap_or_default());
    let file = CertificateFile {
        uri: "https://ca/".to_owned(),
        identifiers: "a.example b.example".to_owned(),
        key_kind: "rsa:2048".to_owned(),
        pair: Pair { chain: chain.to_owned(), key: key.to_owned().into() },
    };
    vec![[b"\0", file.to_text().as_bytes()].concat(), [b"\x01", body.as_bytes()].concat()]
}
