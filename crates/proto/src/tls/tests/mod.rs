mod build;
mod fingerprints;
mod previews;
mod samples;

use super::records::{MAX_CLIENT_HELLO, MAX_INPUT};
use super::*;
use build::*;
use samples::SAMPLES;

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What a reader says when it gets the input in pieces that end where `ends` says, and then all of it.
fn read_at(input: &[u8], ends: impl IntoIterator<Item = usize>) -> Result<HelloProgress, HelloError> {
    let mut reader = HelloReader::new();
    for end in ends.into_iter().chain([input.len()]) {
        match reader.advance(&input[..end])? {
            HelloProgress::NeedMore => {}
            whole @ HelloProgress::Hello(_) => return Ok(whole),
        }
    }
    Ok(HelloProgress::NeedMore)
}

/// A usual message.
fn usual_message() -> Vec<u8> {
    Builder::new(&usual()).message()
}

/// What a reader says, whatever pieces the input comes in: whole, byte by byte, and cut in two at each byte.
fn read(input: &[u8]) -> Result<HelloProgress, HelloError> {
    let whole = read_at(input, []);
    assert_eq!(read_at(input, 0..input.len()), whole, "byte by byte");
    for cut in 0..input.len() {
        assert_eq!(read_at(input, [cut]), whole, "cut at {cut}");
    }
    whole
}

fn hello(input: &[u8]) -> ReceivedHello {
    match read(input) {
        Ok(HelloProgress::Hello(received)) => received,
        other => panic!("{other:?}"),
    }
}

#[test]
fn hellos_of_clients_are_read_as_nginx_reads_them() {
    for sample in SAMPLES {
        let input = bytes_of(sample.hex);
        let received = hello(&input);
        let (hello, message) = (&received.hello, received.message(&input));
        assert_eq!(received.raw.input_len as usize, input.len(), "{}", sample.name);
        assert_eq!(hello.server_name(message).unwrap_or_default(), sample.server_name.as_bytes(), "{}", sample.name);
        let alpn: Vec<&[u8]> = hello.alpn(message).collect();
        assert_eq!(alpn.join(&b','), sample.alpn.as_bytes(), "{}", sample.name);
        assert_eq!(hello.group_names(message).to_string(), sample.curves, "{}", sample.name);
        assert_eq!(hello.cipher_names(message).to_string(), sample.ciphers, "{}", sample.name);
        let highest = hello.highest_version(message).and_then(preread::version_name);
        assert_eq!(highest, Some(sample.protocol), "{}", sample.name);
        assert_eq!(received.raw.span().is_none(), sample.name.contains("records"), "{}", sample.name);
        assert!(!hello.early_data && !hello.pre_shared_key);
    }
}

#[test]
fn each_part_is_where_it_was_put() {
    let extensions = [
        server_names(&[b"example.com"]),
        extension(11, &[2, 0, 1]),
        extension(50, &list16(&[0x0807])),
        extension(35, b"ticket"),
        extension(42, b""),
        alpn(&[b"h2", b"\xff"]),
    ];
    let key = [&[0x11, 0xec][..], &vector16(&[1; 100]), &[0, 29], &vector16(&[2; 32])].concat();
    let last = [extension(51, &vector16(&key)), extension(45, &[1, 1]), extension(41, b"anything")];
    let lists = [groups(&[0x0a0a, 29, 0x6399]), signatures(&[0x0804, 0x1a1a, 0x0603]), versions(&[0x2a2a, 0x0304])];
    let mut builder = Builder::new(&[&extensions[..], &lists, &last].concat());
    builder.session_id = b"session".to_vec();
    builder.compression = vec![1, 0];
    builder.ciphers = list16(&[0x3a3a, 0x1301, 0x00ff, 0x1234]);
    let input = [records(&builder.message(), usize::MAX), b"more".to_vec()].concat();
    let received = hello(&input);
    let (hello, message) = (&received.hello, received.message(&input));
    assert_eq!(message, builder.message());
    assert_eq!(received.raw.input_len as usize, input.len() - 4);
    assert_eq!(hello.legacy_version, 0x0303);
    assert_eq!(hello.random.of(message), (0..32).collect::<Vec<u8>>());
    assert_eq!(hello.session_id.of(message), b"session");
    assert_eq!(hello.compression_methods.of(message), [1, 0]);
    assert_eq!(hello.server_name(message), Some(&b"example.com"[..]));
    assert_eq!(hello.alpn(message).collect::<Vec<_>>(), [&b"h2"[..], b"\xff"]);
    assert_eq!(hello.ec_point_formats.unwrap().of(message), [0, 1]);
    assert_eq!(hello.signature_algorithms_cert.unwrap().of(message), [8, 7]);
    assert_eq!(hello.session_ticket.unwrap().of(message), b"ticket");
    assert_eq!(hello.key_share_groups(message).collect::<Vec<_>>(), [0x11ec, 29]);
    assert_eq!(hello.extension(message, ExtensionType::PRE_SHARED_KEY), Some(&b"anything"[..]));
    assert_eq!(hello.extension(message, ExtensionType::STATUS_REQUEST), None);
    assert_eq!(hello.extensions(message).count(), 12);
    assert!(hello.early_data && hello.pre_shared_key && hello.wants_resumption(message));
    assert_eq!(
        hello.cipher_names(message).to_string(),
        "0x3a3a:TLS_AES_128_GCM_SHA256:TLS_EMPTY_RENEGOTIATION_INFO_SCSV:0x1234"
    );
    assert_eq!(hello.group_names(message).to_string(), "0x0a0a:X25519:0x6399");
    assert_eq!(hello.signature_names(message).to_string(), "rsa_pss_rsae_sha256:0x1a1a:ecdsa_secp521r1_sha512");
    assert_eq!(hello.highest_version(message), Some(TLS_1_3));
    assert!(hello.offers_version(message, TLS_1_3) && !hello.offers_version(message, TLS_1_2));
}

#[test]
fn an_old_hello_has_no_extensions() {
    let builder = Builder { extensions: None, version: 0x0305, session_id: vec![7; 32], ..Builder::new(&[]) };
    let message = builder.message();
    let hello = ClientHello::parse(&message).unwrap();
    assert_eq!(hello.extensions(&message).count(), 0);
    assert_eq!((hello.server_name(&message), hello.alpn(&message).count()), (None, 0));
    assert_eq!(hello.group_names(&message).to_string(), "");
    // TLS 1.3 is only spoken by those who say so in supported_versions.
    assert_eq!(hello.highest_version(&message), Some(TLS_1_2));
    assert!(hello.offers_version(&message, TLS_1_2) && !hello.offers_version(&message, TLS_1_3));
    assert!(hello.wants_resumption(&message));
}

#[test]
fn a_message_may_come_in_records_of_any_size() {
    let message = Builder::new(&[server_names(&[b"example.com"])]).message();
    for size in 1..=message.len() {
        let input = [records(&message, size), b"behind".to_vec()].concat();
        let received = hello(&input);
        assert_eq!(received.message(&input), message, "{size}");
        assert_eq!(received.raw.input_len as usize, input.len() - 6);
    }
    // What comes behind the message in its record is not looked at.
    let longer = [&message[..], &[1, 2, 3]].concat();
    let input = records(&longer, usize::MAX);
    assert_eq!(hello(&input).message(&input), message);
}

#[test]
fn the_longest_hello_and_one_that_is_longer() {
    let with_padding = |len: usize| Builder::new(&[extension(21, &vec![0; len])]).message();
    let room = MAX_CLIENT_HELLO - with_padding(0).len();
    let longest = with_padding(room);
    for size in [usize::MAX, 9000, 6] {
        let input = records(&longest, size);
        let steps = (0..input.len()).step_by(1000);
        for answer in [read_at(&input, []), read_at(&input, steps)] {
            assert!(matches!(answer, Ok(HelloProgress::Hello(_))), "{size}");
        }
    }
    let longer = records(&with_padding(room + 1), usize::MAX);
    assert_eq!(read_at(&longer, (0..longer.len()).step_by(1000)), Err(HelloError::TooLong));
    // It is known with the first nine bytes.
    assert_eq!(read_at(&longer[..8], []), Ok(HelloProgress::NeedMore));
    assert_eq!(read_at(&longer[..9], []), Err(HelloError::TooLong));
}

#[test]
fn a_message_in_many_records_is_put_into_few() {
    let message = Builder::new(&[extension(21, &vec![7; 40_000])]).message();
    for size in [1000, usize::MAX] {
        let input = [records(&message, size), b"behind".to_vec()].concat();
        let Ok(HelloProgress::Hello(received)) = read_at(&input, []) else { panic!("no hello") };
        let reframed = received.reframed(input);
        assert_eq!(reframed.len(), message.len() + 3 * records::RECORD_HEAD + b"behind".len());
        assert_eq!((message_bytes(&reframed), reframed.ends_with(b"behind")), (message.clone(), true));
    }
    let input = records(&usual_message(), usize::MAX);
    let Ok(HelloProgress::Hello(received)) = read_at(&input, []) else { panic!("no hello") };
    assert_eq!(received.reframed(input.clone()), input);
}

#[test]
fn what_the_last_record_has_behind_a_message_keeps_a_head() {
    let message = usual_message();
    let (first, last) = message.split_at(9);
    let next = record(22, 0x0303, b"a record of its own");
    for behind in [&b""[..], b"the next message"] {
        let whole = [record(22, 0x0301, first), record(22, 0x0303, &[last, behind].concat()), next.clone()].concat();
        let wanted = match behind {
            [] => [record(22, 0x0301, &message), next.clone()].concat(),
            _ => [record(22, 0x0301, &message), record(22, 0x0301, behind), next.clone()].concat(),
        };
        // With all of what is behind, and as soon as the message is whole.
        let message_end = whole.len() - next.len() - behind.len();
        for received in message_end..=whole.len() {
            let input = whole[..received].to_vec();
            let Ok(HelloProgress::Hello(hello)) = read_at(&input, []) else { panic!("no hello in {received} bytes") };
            let missing = whole.len() - received;
            assert_eq!(hello.reframed(input), wanted[..wanted.len() - missing], "{received}");
        }
    }
}

#[test]
fn bytes_of_a_message_are_replaced_wherever_records_begin() {
    let message: Vec<u8> = (0..60).collect();
    for size in [1, 2, 7, usize::MAX] {
        let mut input = [record(20, 0x0303, &[1]), records(&message, size)].concat();
        let before = input.len();
        replace_in_messages(&mut input, 13, b"new");
        let wanted = [&message[..13], b"new", &message[16..]].concat();
        assert_eq!((message_bytes(&input), input.len()), (wanted, before), "{size}");
    }
}

#[test]
fn a_message_may_be_whole_before_its_record() {
    let message = usual_message();
    let mut input = record(22, 0x0303, &[&message[..], b"the next message"].concat());
    input.truncate(records::RECORD_HEAD + message.len());
    let Ok(HelloProgress::Hello(received)) = read_at(&input, []) else { panic!("no hello") };
    assert_eq!((received.message(&input), message_bytes(&input)), (&message[..], message.clone()));
    replace_in_messages(&mut input, message.len() - 3, b"new");
    assert!(input.ends_with(b"new"));
}

#[test]
fn extensions_are_found_in_a_message_without_its_end() {
    let message = usual_message();
    let all: Vec<_> = located_extensions(&message).collect();
    assert_eq!(all.len(), usual().len());
    for (at, kind, content) in &all {
        let whole = [&kind.to_be_bytes()[..], &(content.len() as u16).to_be_bytes(), content].concat();
        assert!(message[*at..].starts_with(&whole), "{kind}");
    }
    assert!(located_extensions(&message[..message.len() - 1]).eq(all[..all.len() - 1].iter().copied()));
    assert_eq!(located_extensions(&message[..40]).count(), 0);
}

#[test]
fn what_is_awaited_is_bounded() {
    // Records of a byte each, for the longest message there may be.
    let message = [&[1, 0, 0xff, 0xff][..], &[0; 0xffff]].concat();
    let input = records(&message, 1);
    let mut reader = HelloReader::new();
    let failed = (0..input.len()).find(|&end| reader.advance(&input[..end]).is_err()).unwrap();
    assert!(failed <= MAX_INPUT, "{failed}");
}

/// What nginx 1.22.1 on OpenSSL 3.0.22 answered, with TLS 1.3 on, unless something else is said.
#[test]
fn what_is_wrong_is_answered_with_the_alert_of_nginx() {
    use Alert::*;
    let builder = || Builder::new(&usual());
    let right = builder().message();
    let whole = |builder: Builder| records(&builder.message(), usize::MAX);
    let cut = |len: usize| records(&message(&right[4..right.len() - len]), usize::MAX);
    let empty = |count: usize| [record(22, 0x0301, b"").repeat(count), records(&right, usize::MAX)].concat();
    let versions_of =
        |first: u16, then: u16| [record(22, first, &right[..50]), record(22, then, &right[50..])].concat();
    let between = |kind: u8| [record(22, 0x0301, &right[..50]), record(kind, 0x0303, &[1, 0])].concat();
    let cases: &[(&str, Vec<u8>, Option<Alert>)] = &[
        ("right", whole(builder()), None),
        ("no extensions", whole(Builder { extensions: None, ..builder() }), None),
        ("no cipher suites", whole(Builder { ciphers: vec![0, 0], ..builder() }), Some(IllegalParameter)),
        ("half a cipher suite", whole(Builder { ciphers: vec![0, 3, 0x13, 1, 0], ..builder() }), Some(DecodeError)),
        ("no compression method", whole(Builder { compression: vec![], ..builder() }), Some(DecodeError)),
        ("compression", whole(Builder { compression: vec![1], ..builder() }), Some(DecodeError)),
        ("session id", whole(Builder { session_id: vec![0; 33], ..builder() }), Some(DecodeError)),
        ("version 2", whole(Builder { version: 0x0200, ..builder() }), Some(ProtocolVersion)),
        ("version 0xffff", whole(Builder { version: 0xffff, ..builder() }), None),
        ("one byte short", cut(1), Some(DecodeError)),
        ("ten bytes short", cut(10), Some(DecodeError)),
        ("forty bytes", cut(right.len() - 44), Some(DecodeError)),
        ("no body", records(&message(b""), usize::MAX), Some(DecodeError)),
        ("too long", records(&message(&[&right[4..], b"\0\0\0"].concat()), usize::MAX), Some(DecodeError)),
        ("extension twice", usual_then(&[groups(&[29])]), Some(IllegalParameter)),
        ("unknown extension twice", usual_then(&[extension(0x1234, b""), extension(0x1234, b"")]), None),
        ("name: nothing", with(&[extension(0, b"")]), Some(DecodeError)),
        ("name: no names", with(&[extension(0, b"\0\0")]), Some(DecodeError)),
        ("name: empty", with(&[server_names(&[b""])]), None),
        ("name: two", with(&[server_names(&[b"a.b", b"c.d"])]), Some(DecodeError)),
        ("name: other type", with(&[extension(0, b"\0\x04\x01\0\x01a")]), Some(DecodeError)),
        ("name: NUL", with(&[server_names(&[b"a\0b"])]), Some(UnrecognizedName)),
        ("name: longest", with(&[server_names(&[&[b'a'; 255]])]), None),
        ("name: too long", with(&[server_names(&[&[b'a'; 256]])]), Some(UnrecognizedName)),
        ("name: no host", with(&[server_names(&[b"a b/../c"])]), None),
        ("name: address", with(&[server_names(&[b"127.0.0.1"])]), None),
        ("name: longer content", with(&[extension(0, b"\0\x04\0\0\x01ax")]), Some(DecodeError)),
        ("name: longer list", with(&[extension(0, b"\0\x09\0\0\x01a")]), Some(DecodeError)),
        ("ALPN: nothing", with(&[extension(16, b"")]), Some(DecodeError)),
        ("ALPN: no protocols", with(&[extension(16, b"\0\0")]), Some(DecodeError)),
        ("ALPN: empty name", with(&[extension(16, b"\0\x03\0\x01a")]), Some(DecodeError)),
        ("ALPN: longer content", with(&[extension(16, b"\0\x02\x01ax")]), Some(DecodeError)),
        ("ALPN: longer name", with(&[extension(16, b"\0\x02\x02a")]), Some(DecodeError)),
        ("groups: half", instead(0, extension(10, b"\0\x03\0\x1d\0")), Some(DecodeError)),
        ("groups: none", instead(0, extension(10, b"\0\0")), Some(DecodeError)),
        ("groups: longer content", instead(0, extension(10, b"\0\x02\0\x1dx")), Some(DecodeError)),
        // OpenSSL does not look at these where it speaks TLS 1.3.
        ("formats: none", with(&[extension(11, b"\0")]), Some(DecodeError)),
        ("formats: nothing", with(&[extension(11, b"")]), Some(DecodeError)),
        ("signatures: half", instead(1, extension(13, b"\0\x03\x04\x03\x04")), Some(DecodeError)),
        ("signatures: none", instead(1, extension(13, b"\0\0")), Some(DecodeError)),
        ("versions: none", instead(2, extension(43, b"\0")), Some(ProtocolVersion)),
        ("versions: half", instead(2, extension(43, b"\x03\x03\x04\x03")), Some(ProtocolVersion)),
        ("versions: longer content", instead(2, extension(43, b"\x02\x03\x04x")), Some(ProtocolVersion)),
        ("versions: nothing", instead(2, extension(43, b"")), Some(ProtocolVersion)),
        ("shares: none", instead(3, extension(51, b"\0\0")), None),
        ("shares: longer list", instead(3, extension(51, b"\0\x05\0\x1d\0\x01axx")), Some(DecodeError)),
        ("shares: longer key", instead(3, extension(51, b"\0\x05\0\x1d\0\x03a")), Some(DecodeError)),
        ("shares: empty key", instead(3, extension(51, b"\0\x04\0\x1d\0\0")), Some(DecodeError)),
        ("modes: none", with(&[extension(45, b"\0")]), Some(DecodeError)),
        ("early data with content", with(&[extension(42, b"x")]), Some(DecodeError)),
        ("key known beforehand not last", with(&[extension(41, b"x")]), Some(IllegalParameter)),
        ("another message", records(&[&[2], &right[1..]].concat(), usize::MAX), Some(UnexpectedMessage)),
        ("an empty record", empty(1), None),
        ("32 empty records", empty(32), None),
        ("40 empty records", empty(40), Some(UnexpectedMessage)),
        ("a record too long", [&b"\x16\x03\x01\x40\x01"[..], &right].concat(), Some(RecordOverflow)),
        ("record version 3.0", versions_of(0x0300, 0x0304), None),
        ("record version 3.255", versions_of(0x0301, 0x03ff), None),
        ("record version 4.0 later", versions_of(0x0301, 0x0400), Some(ProtocolVersion)),
        ("alert", record(21, 0x0301, &[2, 40]), Some(UnexpectedMessage)),
        ("data", record(23, 0x0301, b"x"), Some(UnexpectedMessage)),
        ("unknown record", record(24, 0x0301, b"x"), Some(UnexpectedMessage)),
        ("alert in the middle", between(21), Some(UnexpectedMessage)),
        ("change of cipher spec in the middle", between(20), Some(UnexpectedMessage)),
        ("data in the middle", between(23), Some(UnexpectedMessage)),
        ("a message of 200 KB", b"\x16\x03\x01\0\x04\x01\x03\0\0".to_vec(), Some(IllegalParameter)),
        // OpenSSL understands these, and goes on where it speaks such a version.
        ("SSLv2", b"\x80\x2e\x01\x03\x01".to_vec(), Some(ProtocolVersion)),
    ];
    for (name, input, alert) in cases {
        match (read(input), alert) {
            (Ok(HelloProgress::Hello(_)), None) => {}
            (Err(error), Some(alert)) => assert_eq!(error.alert(), Some(*alert), "{name}: {error}"),
            (answer, _) => panic!("{name}: {answer:?}"),
        }
    }
}

#[test]
fn what_is_not_tls_gets_no_alert() {
    for input in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x02\0\0\x01a", b"\x16\x04\0\0\x01a", b"\xff\x2e\x02\x03\x03"] {
        let error = read(input).unwrap_err();
        assert_eq!((error, error.alert()), (HelloError::NotTls, None), "{}", input.escape_ascii());
    }
}

#[test]
fn the_first_byte_tells_tls_from_http() {
    for byte in 0..=255 {
        assert_eq!(is_tls(byte), byte == 0x16 || byte >= 0x80, "{byte:#x}");
    }
}

#[test]
fn an_alert_is_a_record() {
    assert_eq!(Alert::UnrecognizedName.record(), [21, 3, 3, 0, 2, 2, 112]);
}
