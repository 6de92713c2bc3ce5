//! What `ssl_preread` knows, beside what nginx 1.22.1 knew of the same bytes.

use super::*;

/// Protocol, name and application protocols, as the variables have them; `None` while more is needed. The same whatever
/// pieces the input comes in.
fn preread(input: &[u8]) -> Option<String> {
    let ask = |ends: &mut dyn Iterator<Item = usize>| {
        let mut reader = PrereadReader::new();
        let found = ends.chain([input.len()]).find_map(|end| reader.advance(&input[..end]))?;
        let name = found.server_name(input).escape_ascii().to_string();
        let alpn: Vec<&[u8]> = found.alpn(input).collect();
        Some(format!("{}|{name}|{}", found.protocol, alpn.join(&b',').escape_ascii()))
    };
    let whole = ask(&mut std::iter::empty());
    assert_eq!(ask(&mut (0..input.len())), whole);
    whole
}

#[test]
fn hellos_of_clients() {
    for sample in SAMPLES {
        let wanted = format!("{}|{}|{}", sample.protocol, sample.server_name, sample.alpn);
        assert_eq!(preread(&bytes_of(sample.hex)), Some(wanted), "{}", sample.name);
    }
}

#[test]
fn what_does_not_concern_it_is_forgiven() {
    let some = |extensions: &[Vec<u8>]| records(&Builder::new(extensions).message(), usize::MAX);
    let whole = |builder: Builder| records(&builder.message(), usize::MAX);
    let plain = || Builder::new(&[]);
    for (name, input, wanted) in [
        ("nothing", some(&[]), "TLSv1.2||"),
        ("no extensions", whole(Builder { extensions: None, version: 0x0301, ..plain() }), "TLSv1||"),
        ("SSLv3", whole(Builder { version: 0x0300, ..plain() }), "SSLv3||"),
        ("TLSv1.1", whole(Builder { version: 0x0302, ..plain() }), "TLSv1.1||"),
        ("TLSv1.3", whole(Builder { version: 0x0304, ..plain() }), "TLSv1.3||"),
        ("3.5", whole(Builder { version: 0x0305, ..plain() }), "||"),
        ("2.0", whole(Builder { version: 0x0200, ..plain() }), "||"),
        ("2.0 and versions", whole(Builder { version: 0x0200, ..Builder::new(&usual()) }), "TLSv1.3||"),
        ("old versions", some(&[versions(&[0x0303, 0x0302])]), "TLSv1.3||"),
        ("half a version", some(&[extension(43, b"\x01\x03")]), "||"),
        ("no versions", some(&[extension(43, b"\0")]), "||"),
        ("longer versions", some(&[extension(43, b"\x02\x03\x04x")]), "||"),
        ("no cipher suites", whole(Builder { ciphers: vec![0, 0], ..plain() }), "TLSv1.2||"),
        ("no compression method", whole(Builder { compression: vec![], ..plain() }), "TLSv1.2||"),
        ("session id", whole(Builder { session_id: vec![0; 33], ..plain() }), "TLSv1.2||"),
        ("extension twice", usual_then(&[groups(&[29])]), "TLSv1.3||"),
        ("two names", some(&[server_names(&[b"a.b", b"c.d"])]), "TLSv1.2|a.b|"),
        ("name twice", some(&[server_names(&[b"a"]), server_names(&[b"b"])]), "||"),
        ("protocols twice", some(&[alpn(&[b"a"]), alpn(&[b"b"])]), "||"),
        ("protocols", some(&[alpn(&[b"a", b"b,c", b"d"])]), "TLSv1.2||a,b,c,d"),
        ("empty protocol", some(&[extension(16, b"\0\x03\0\x01a")]), "||"),
        ("odd name", some(&[server_names(&[b"a b/../c"])]), "TLSv1.2|a b/../c|"),
        ("empty name", some(&[server_names(&[b""])]), "TLSv1.2||"),
        ("other type of name", some(&[extension(0, b"\0\x04\x01\0\x01a")]), "||"),
        ("longer name", some(&[extension(0, b"\0\x04\0\0\x01ax")]), "||"),
        ("groups", some(&[extension(10, b"\0\0")]), "TLSv1.2||"),
        ("HTTP", b"GET / HTTP/1.1\r\n".to_vec(), "||"),
        ("SSLv2", b"\x80\x1c\x01\0\x02".to_vec(), "SSLv2||"),
        ("SSLv2 of TLS 1.2", b"\xff\x2e\x01\x03\x03\0\x15".to_vec(), "TLSv1.2||"),
        ("SSLv2 of an unknown version", b"\x80\x2e\x01\x04\0\0\x15".to_vec(), "||"),
        ("SSLv2, another message", b"\x80\x2e\x02\x03\x03\0\x15".to_vec(), "||"),
    ] {
        assert_eq!(preread(&input).as_deref(), Some(wanted), "{name}");
    }
    assert_eq!(preread(b"\x80\x2e\x01\x03"), None);
    assert_eq!(preread(b"\x16\x03\x01\0\x05\x01"), None);
}
