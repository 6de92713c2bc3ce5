//! Heads of HTTP/2 and HTTP/3, made of any fields.

use freerun_proto::head::{FieldHead, FieldHeadBuilder, FieldRules, Pseudo, apply_name_rules};
use freerun_proto::{HeadRules, HeaderId, Method, RequestHead, Version, parse_request, uri};

use crate::choice;
use crate::target::Target;
use crate::targets::owned;

/// The separators between two fields, and between a name and its value.
const BETWEEN: [u8; 2] = [0xfe, 0xfd];

/// Heads that are made of fields: no panic, offsets inside the text, and the text is what the parser of HTTP/1 reads the same
/// head from.
pub fn field_head(data: &[u8]) {
    let (options, data) = choice(data);
    let rules = FieldRules {
        max_headers: if options & 1 == 0 { 0 } else { 4 },
        ignore_invalid_headers: options & 2 == 0,
        underscores_in_headers: options & 4 != 0,
        extended_connect: options & 8 != 0,
    };
    let ends = options & 16 == 0;
    let version = if options & 32 == 0 { Version::Http2 } else { Version::Http3 };
    let head = build(FieldHeadBuilder::new(Vec::new(), None), data, &rules, version, ends);
    check_spans(&head);
    if head.fault.is_none() {
        check_text(&head, &rules, version);
    }
    // The same comes out in memory that was used before, and with other rules at first.
    let FieldHead { buffer, parsed, fault, .. } = &head;
    let builder = FieldHeadBuilder::new(buffer.clone(), Some(parsed.clone()));
    let names = FieldRules { ignore_invalid_headers: !rules.ignore_invalid_headers, ..rules };
    let mut again = build(builder, data, &names, version, ends);
    assert_eq!(&again.fault, fault);
    if fault.is_none() {
        apply_name_rules(&mut again.parsed, &again.buffer, &rules);
        assert_eq!((&again.buffer, &again.parsed), (buffer, parsed));
    }
}

fn build(mut builder: FieldHeadBuilder, data: &[u8], rules: &FieldRules, version: Version, ends: bool) -> FieldHead {
    for field in data.split(|byte| *byte == BETWEEN[0]) {
        let mut parts = field.splitn(2, |byte| *byte == BETWEEN[1]);
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match Pseudo::of(name) {
            Some(Pseudo::Unknown) => builder.unknown_pseudo(name),
            Some(which) => builder.pseudo(which, value, rules),
            None => builder.field(HeaderId::of(name), name, value, rules),
        }
    }
    builder.finish(version, rules, ends)
}

fn check_spans(head: &FieldHead) {
    let FieldHead { buffer, parsed, fault, .. } = head;
    let len = parsed.len as usize;
    assert!(len <= buffer.len() && buffer[..len].ends_with(b"\r\n"));
    assert!(!parsed.version_text.of(buffer).is_empty());
    assert!(parsed.request_line.range().end < len && parsed.method_text.range().end < len);
    assert_eq!(
        parsed.method.as_str().unwrap_or_default().as_bytes(),
        match parsed.method.as_str() {
            Some(_) => parsed.method_text.of(buffer),
            None => b"",
        }
    );
    for field in parsed.fields() {
        assert!(field.name().range().end < len && field.value().range().end < len);
        assert!(!field.name().is_empty() && field.name().end + 2 == field.value().start);
        assert_eq!(HeaderId::of(field.name().of(buffer)), field.id);
        assert!(parsed.has(field.id));
    }
    if let Some(host) = parsed.host {
        assert!(!host.name(buffer).is_empty());
    }
    if let Some(fault) = fault {
        assert!((400..500).contains(&fault.status().code()) && !fault.to_string().is_empty());
    }
    let _ = uri::normalise(parsed.target.uri(buffer), true);
}

fn check_text(head: &FieldHead, rules: &FieldRules, version: Version) {
    let FieldHead { buffer, parsed, .. } = head;
    assert_eq!((parsed.version, parsed.version_text.of(buffer)), (version, version.as_str().as_bytes()));
    if parsed.method == Method::Connect {
        // In HTTP/1 its target is an authority alone; here it is refused later if it has a path.
        return;
    }
    let mut text = buffer[..parsed.len as usize].to_vec();
    text[parsed.version_text.range()].copy_from_slice(b"HTTP/1.1");
    let rules = HeadRules {
        first_buffer: 1 << 20,
        large_buffers: 4,
        large_buffer_size: 1 << 20,
        max_headers: 0,
        ignore_invalid_headers: rules.ignore_invalid_headers,
        underscores_in_headers: rules.underscores_in_headers,
    };
    let read = parse_request(&text, &rules);
    let Ok(Some(read)) = read else { panic!("{read:?}: {}", text.escape_ascii()) };
    let target = |head: &RequestHead| (head.target.form, head.target.uri, head.method, head.method_text);
    assert_eq!(target(&read), target(parsed));
    assert_eq!((read.request_line, read.len, read.fields()), (parsed.request_line, parsed.len, parsed.fields()));
    let host = |head: &RequestHead| head.host.map(|host| (host.name(&text).into_owned(), host.port));
    assert_eq!(host(&read), host(parsed));
    assert_eq!(read.keep_alive, parsed.keep_alive);
}

/// Runs [`field_head`].
pub static FIELD_HEAD: Target = Target {
    name: "field_head",
    body: field_head,
    seeds: || {
        owned(&[
            b"\x00:method\xfdGET\xfe:scheme\xfdhttps\xfe:path\xfd/a?b\xfe:authority\xfdwww.example.com:80\xfeaccept\xfd*/*",
            b"\x12:method\xfdPOST\xfe:authority\xfdh\xfe:scheme\xfdhttp\xfe:path\xfd/\xfecontent-length\xfd5\xfex_y\xfdz",
            b"\x04:path\xfd/\xfe:method\xfdGET\xfe:scheme\xfdhttp\xfecookie\xfda=1\xfehost\xfdh\xfecookie\xfdb=2\xfecookie\xfdc",
            b"\x39:method\xfdCONNECT\xfe:protocol\xfdwebsocket\xfe:scheme\xfdhttps\xfe:path\xfd/c\xfe:authority\xfdh\xfex.y\xfd 1\t",
            b"\x20:method\xfdCONNECT\xfe:authority\xfd[::1]:443\xfete\xfdtrailers\xfeexpect\xfd100-continue",
        ])
    },
    words: &[
        b"\xfe",
        b"\xfd",
        b":method\xfd",
        b":scheme\xfd",
        b":path\xfd/",
        b":authority\xfd",
        b":protocol\xfd",
        b":status\xfd",
        b"\xfehost\xfd",
        b"\xfecookie\xfd",
        b"\xfecontent-length\xfd",
        b"\xfete\xfdtrailers",
        b"\xfeconnection\xfd",
        b"\xfeauthorization\xfd",
        b"CONNECT",
        b"HTTP/2.0\r\n",
        b"_",
        b".",
        b"X",
        b"\0",
        b" ",
        b"\t",
        b":",
    ],
};
