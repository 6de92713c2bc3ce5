use super::*;

fn ends(client: &str, client_port: u16, server: &str, server_port: u16) -> Option<Ends> {
    Some(Ends { client: client.into(), client_port, server: server.into(), server_port })
}

/// A header of version 2.
fn v2(version_and_command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[version_and_command, family], &len, body].concat()
}

const IPV4: &[u8] = &[192, 0, 2, 9, 198, 51, 100, 3, 0x15, 0xb3, 1, 0xbb];
const IPV6: &[u8] = &[
    0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3,
    0x15, 0xb3, 1, 0xbb,
];

#[test]
fn headers_are_read_whatever_pieces_they_come_in() {
    let tcp4 = ends("192.0.2.9", 5555, "198.51.100.3", 443);
    let tcp6 = ends("2001:db8::9", 5555, "2001:db8::3", 443);
    for (header, wanted) in [
        (b"PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\r\n".to_vec(), tcp4.clone()),
        (b"PROXY TCP6 2001:db8::9 2001:db8::3 5555 443\r\n".to_vec(), tcp6.clone()),
        (b"PROXY TCP4 192.0.2.9 198.51.100.3 0 65535\r\n".to_vec(), ends("192.0.2.9", 0, "198.51.100.3", 65535)),
        (b"PROXY TCP4 192.0.2.9 198.51.100.3 0005 00443\r\n".to_vec(), ends("192.0.2.9", 5, "198.51.100.3", 443)),
        (b"PROXY TCP4 abc def 1 2\r\n".to_vec(), ends("abc", 1, "def", 2)),
        (b"PROXY TCP4  198.51.100.3 1 2\r\n".to_vec(), ends("", 1, "198.51.100.3", 2)),
        (b"PROXY UNKNOWN\r\n".to_vec(), None),
        (b"PROXY UNKNOWN ffff::1 whatever \r 1 2\r\n".to_vec(), None),
        (v2(0x21, 0x11, IPV4), tcp4.clone()),
        (v2(0x21, 0x21, IPV6), tcp6),
        (v2(0x21, 0x11, &[IPV4, b"\x04\0\x01x"].concat()), tcp4.clone()),
        (v2(0x21, 0x11, &[IPV4, b"\x04\xff"].concat()), tcp4),
        (v2(0x20, 0, b""), None),
        (v2(0x20, 0x11, IPV4), None),
        (v2(0x22, 0x11, IPV4), None),
        (v2(0x21, 0x12, IPV4), None),
        (v2(0x21, 0x31, &[b'/'; 216]), None),
        (v2(0x21, 0, b"abc"), None),
        (v2(0x21, 0x41, IPV4), None),
    ] {
        for end in 0..header.len() {
            assert_eq!(parse(&header[..end]), Ok(None), "{}", header[..end].escape_ascii());
        }
        let with_more = [&header[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
        for text in [&header, &with_more] {
            let (parsed, len) = parse(text).unwrap().unwrap();
            assert_eq!((&parsed.ends, len), (&wanted, header.len()), "{}", text.escape_ascii());
        }
    }
}

#[test]
fn broken_headers_are_refused() {
    for header in [
        "GET / HTTP/1.1\r\n",
        "proxy TCP4 192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY UDP4 192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP5 192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP4\t192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\rX",
        "PROXY \r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443 more\r\n",
        "PROXY TCP4  192.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443 \r\n",
        "PROXY TCP4 g92.0.2.9 198.51.100.3 5555 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 x 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3  443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 65536 443\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 1 99999999999999999999\r\n",
        "PROXY TCP4 192.0.2.9 198.51.100.3 -1 443\r\n",
    ] {
        assert_eq!(parse(header.as_bytes()), Err(ProxyError::Broken), "{header}");
    }
    assert_eq!(parse(&v2(0x11, 0x11, IPV4)), Err(ProxyError::Version(1)));
    assert_eq!(parse(&v2(0x31, 0x11, IPV4)[..13]), Err(ProxyError::Version(3)));
    assert_eq!(parse(&v2(0x21, 0x11, &IPV4[..11])), Err(ProxyError::Broken));
    assert_eq!(parse(&v2(0x21, 0x21, IPV4)), Err(ProxyError::Broken));
}

#[test]
fn no_header_is_awaited_for_ever() {
    assert_eq!(parse(&v2(0x21, 0x11, &[0; 4081])), Err(ProxyError::TooLarge));
    assert_eq!(parse(&v2(0x21, 0x11, &[0; 60_000])[..16]), Err(ProxyError::TooLarge));
    assert_eq!(parse(&v2(0x21, 0x11, &[0; 4080])).unwrap().unwrap().1, MAX_HEADER);
    for start in ["PROXY UNKNOWN ", "PROXY TCP6 ", "PROXY TCP4 1.2.3.4 1.2.3.4 "] {
        let endless = [start.as_bytes(), &[b'1'; MAX_HEADER]].concat();
        assert_eq!(parse(&endless[..MAX_HEADER - 1]), Ok(None));
        assert_eq!(parse(&endless), Err(ProxyError::TooLarge));
    }
}

#[test]
fn further_fields_are_found_by_name_and_number() {
    let ssl = [&b"\x05\0\0\0\x12"[..], b"\x21\0\x07TLSv1.3", b"\x22\0\x02cn", b"\x24\0\x01s"].concat();
    let ssl_len = u16::try_from(ssl.len()).unwrap().to_be_bytes();
    let tlvs =
        [b"\x01\0\x02h2\x02\0\x04host\x20", &ssl_len[..], &ssl, b"\x05\0\0\xe0\0\x03abc\x30\0\xffcut off"].concat();
    let header = parse(&v2(0x21, 0x11, &[IPV4, &tlvs].concat())).unwrap().unwrap().0;
    for (name, value) in [
        ("alpn", Some(&b"h2"[..])),
        ("0x01", Some(b"h2")),
        ("0x1", Some(b"h2")),
        ("authority", Some(b"host")),
        ("unique_id", Some(b"")),
        ("0xE0", Some(b"abc")),
        ("ssl", Some(&ssl)),
        ("0x20", Some(&ssl)),
        ("ssl_verify", Some(b"18")),
        ("ssl_version", Some(b"TLSv1.3")),
        ("ssl_0x21", Some(b"TLSv1.3")),
        ("ssl_cn", Some(b"cn")),
        ("ssl_sig_alg", Some(b"s")),
        ("ssl_cipher", None),
        ("netns", None),
        ("0x30", None),
        ("0x", None),
        ("0x001", Some(b"h2")),
        ("0x000000000000000000e0", Some(b"abc")),
        ("0x101", None),
        ("0x10000000000000001", None),
        ("0x+1", None),
        ("", None),
        ("1", None),
        ("ssl_", None),
    ] {
        assert_eq!(header.tlv(name).as_deref(), value, "{name}");
    }
    let short = ProxyHeader { ends: None, tlvs: b"\x20\0\x04\0\0\0\0".to_vec() };
    assert_eq!((short.tlv("ssl_verify"), short.tlv("ssl_cn")), (None, None));
}

#[test]
fn a_datagram_has_a_whole_header_of_version_2_about_datagrams() {
    let client = "192.0.2.1:53".parse().unwrap();
    let server = "[2001:db8::1]:53".parse().unwrap();
    for ends in [Some((client, client)), Some((client, server)), None] {
        for (carrier, is_about_datagrams) in [(write::Carrier::Datagrams, true), (write::Carrier::Stream, false)] {
            let mut bytes = write::HeaderV2::new(ends, carrier).finish().unwrap();
            let len = bytes.len();
            bytes.extend_from_slice(b"question");
            let (header, read) = parse_datagram(&bytes).unwrap();
            assert_eq!((read, header.ends.is_some()), (len, ends.is_some() && is_about_datagrams));
            if let Some(ends) = header.ends {
                assert_eq!(ends.client_port, 53);
            }
            for cut in 0..len {
                assert_eq!(parse_datagram(&bytes[..cut]), Err(ProxyError::Broken), "{cut}");
            }
        }
    }
    let mut line = Vec::new();
    write::write_v1(Some((client, client)), &mut line);
    assert_eq!(parse_datagram(&line), Err(ProxyError::Broken));
}
