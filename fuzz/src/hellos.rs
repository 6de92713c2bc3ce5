//! The first message of TLS.

use freerun_proto::Span;
use freerun_proto::tls::records::{MAX_CLIENT_HELLO, MAX_INPUT};
use freerun_proto::tls::{
    ClientHello, HelloError, HelloProgress, HelloReader, Ja4, Preread, PrereadReader, ReceivedHello, fingerprint,
    located_extensions, message_bytes, replace_in_messages,
};

use crate::choice;

/// ClientHellos. There is no panic, and the outcome is the same in whatever pieces the bytes come and however the
/// message is cut into records. Spans are inside the message, bounds hold, and the preview agrees.
pub fn client_hello(data: &[u8]) {
    let (options, input) = choice(data);
    let step = usize::from(options & 31) + 1;
    let whole = read_in_steps(input, input.len().max(1));
    assert_eq!(whole, read_in_steps(input, step));
    let preread = preread_in_steps(input, input.len().max(1));
    assert_eq!(preread, preread_in_steps(input, step));
    match whole {
        Ok(Some(received)) => {
            check_hello(&received, input);
            check_preread(&preread.unwrap_or_default(), &received, input);
            check_reframed(&received, input);
            check_other_records(&received, input, usize::from(options >> 5) + 1);
        }
        Ok(None) => assert!(preread.is_none() || input[0] >= 0x80),
        Err(error) => assert!(error.alert().is_some() || error == HelloError::NotTls),
    }
}

fn read_in_steps(input: &[u8], step: usize) -> Result<Option<ReceivedHello>, HelloError> {
    let mut reader = HelloReader::new();
    let mut end = 0;
    loop {
        end = (end + step).min(input.len());
        match reader.advance(&input[..end])? {
            HelloProgress::Hello(received) => return Ok(Some(received)),
            HelloProgress::NeedMore => assert!(end < MAX_INPUT, "more is awaited than there may be"),
        }
        if end == input.len() {
            return Ok(None);
        }
    }
}

fn preread_in_steps(input: &[u8], step: usize) -> Option<Preread> {
    let mut reader = PrereadReader::new();
    (0..=input.len().div_ceil(step)).find_map(|number| reader.advance(&input[..(number * step).min(input.len())]))
}

fn check_hello(received: &ReceivedHello, input: &[u8]) {
    let (hello, message) = (&received.hello, received.message(input));
    assert!(message.len() <= MAX_CLIENT_HELLO && received.raw.input_len as usize <= input.len());
    assert_eq!(ClientHello::parse(message).as_ref(), Ok(hello));
    let always = [hello.random, hello.session_id, hello.cipher_suites, hello.compression_methods, hello.extensions];
    let lists = [
        hello.alpn,
        hello.supported_versions,
        hello.supported_groups,
        hello.ec_point_formats,
        hello.signature_algorithms,
        hello.signature_algorithms_cert,
    ];
    let others = [hello.server_name, hello.key_shares, hello.session_ticket];
    assert!(lists.iter().flatten().all(|list| !list.is_empty()));
    let parts = always.into_iter().chain(lists.into_iter().chain(others).flatten());
    assert!(parts.into_iter().all(|Span { start, end }| start <= end && end as usize <= message.len()));
    assert_eq!((hello.random.len(), hello.session_id.len() <= 32), (32, true));
    assert_eq!(hello.cipher_suites(message).len() * 2, hello.cipher_suites.len());
    assert_eq!(hello.extensions(message).map(|(_, content)| 4 + content.len()).sum::<usize>(), hello.extensions.len());
    let names = hello.alpn(message).map(|name| {
        assert!(!name.is_empty());
        1 + name.len()
    });
    assert_eq!(names.sum::<usize>(), hello.alpn.unwrap_or_default().len());
    assert!(hello.key_share_groups(message).count() * 5 <= hello.key_shares.unwrap_or_default().len());
    let name = hello.server_name(message).unwrap_or_default();
    assert!(name.len() <= 255 && !name.contains(&0));
    let _ = (hello.wants_resumption(message), hello.highest_version(message), hello.is_fallback(message));
    let located = located_extensions(message).map(|(at, kind, content)| {
        assert_eq!(message[at..at + 2], kind.to_be_bytes());
        (kind, content)
    });
    assert!(located.eq(hello.extensions(message)));
    // What is printed of it has an entry for each.
    let entries = |names: String| names.split(':').filter(|name| !name.is_empty()).count();
    assert_eq!(entries(hello.cipher_names(message).to_string()), hello.cipher_suites(message).len());
    assert_eq!(entries(hello.group_names(message).to_string()), hello.groups(message).len());
    assert_eq!(entries(hello.signature_names(message).to_string()), hello.signature_algorithms(message).len());
    assert_eq!(fingerprint::ja3(hello, message).split(',').count(), 5);
    assert_eq!(Ja4::of(hello, message).a.chars().count(), 10);
}

/// The preview forgives more, and does not know other things.
fn check_preread(preread: &Preread, received: &ReceivedHello, input: &[u8]) {
    let (hello, message) = (&received.hello, received.message(input));
    assert_eq!(preread.server_name(input), hello.server_name(message).unwrap_or_default());
    assert!(preread.alpn(input).eq(hello.alpn(message)));
}

/// The message is the same in as few records as possible, and its bytes are found there.
fn check_reframed(received: &ReceivedHello, input: &[u8]) {
    let message = received.message(input);
    let mut reframed = received.reframed(input.to_vec());
    assert!(message_bytes(&reframed).starts_with(message) && message_bytes(input).starts_with(message));
    let read = read_in_steps(&reframed, reframed.len());
    assert!(read.is_ok_and(|read| read.is_some_and(|read| read.message(&reframed) == message)));
    let (at, byte) = (message.len() / 2, message[message.len() / 2]);
    replace_in_messages(&mut reframed, at, &[!byte]);
    assert_eq!(message_bytes(&reframed)[at], !byte);
}

/// The message says the same in records of another size.
fn check_other_records(received: &ReceivedHello, input: &[u8], size: usize) {
    let message = received.message(input);
    let mut again = Vec::new();
    for part in message.chunks(size) {
        again.extend_from_slice(&[22, 3, 3, 0, part.len() as u8]);
        again.extend_from_slice(part);
    }
    let read = read_in_steps(&again, again.len());
    if again.len() <= MAX_INPUT {
        assert!(read.is_ok_and(|read| read.is_some_and(|read| read.hello == received.hello)));
    } else {
        assert_eq!(read, Err(HelloError::TooLong));
    }
}
