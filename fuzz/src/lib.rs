//! The bodies of the fuzz targets: what must hold for every input.
//!
//! They are plain functions, so that the same bodies run under libFuzzer (`targets/`) and, over damaged seeds, in an
//! ordinary test (`tests/damaged_seeds.rs`) that needs no nightly compiler.

pub mod acme_state;
pub mod caches;
pub mod certificates;
pub mod conversations;
pub mod expressions;
pub mod field_heads;
pub mod handed_over;
pub mod hellos;
pub mod hpack;
pub mod http1;
pub mod http2;
pub mod http3;
pub mod log_lines;
pub mod message_boxes;
pub mod qpack;
pub mod quic;
pub mod sessions;
pub mod target;
pub mod targets;
pub mod telemetry;
pub mod tls;
pub mod upstreams;

use std::io;
use std::net::{IpAddr, SocketAddr};

use freerun_conf::Loader;
use freerun_proto::chunked::{ChunkStep, ChunkedDecoder};
use freerun_proto::proxy_protocol::write::{Carrier, HeaderV2, TlsFields, write_v1};
use freerun_proto::uri::EscapeSet;
use freerun_proto::{
    HeadParser, HeadRules, HeaderId, Progress, RequestHead, conditional, date, host, proxy_protocol, uri,
};

/// Takes the first byte as a choice of options.
pub(crate) fn choice(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, data), |(&first, rest)| (first, rest))
}

/// Request heads: no panic, spans inside the head, and the same outcome in whatever pieces the bytes come.
pub fn request_head(data: &[u8]) {
    let (options, text) = choice(data);
    let rules = HeadRules {
        first_buffer: if options & 1 == 0 { 1024 } else { 64 },
        large_buffers: u32::from(options >> 1 & 3),
        large_buffer_size: if options & 8 == 0 { 512 } else { 100 },
        max_headers: if options & 16 == 0 { 0 } else { 4 },
        ignore_invalid_headers: options & 32 == 0,
        underscores_in_headers: options & 64 != 0,
    };
    let whole = parse_in_steps(text, &rules, text.len().max(1));
    let step = if options & 128 == 0 { 1 } else { 7 };
    let pieces = parse_in_steps(text, &rules, step);
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces),
        (Err(whole), Err(pieces)) => assert_eq!(whole.status(), pieces.status()),
        _ => panic!("{whole:?} against {pieces:?}"),
    }
    if let Ok(Some(head)) = whole {
        check_head(&head, text, &rules);
    }
}

fn parse_in_steps(
    text: &[u8],
    rules: &HeadRules,
    step: usize,
) -> Result<Option<RequestHead>, freerun_proto::RequestError> {
    let mut parser = HeadParser::new();
    let mut end = 0;
    loop {
        end = (end + step).min(text.len());
        if parser.advance(&text[..end], rules)? == Progress::Complete {
            return Ok(Some(*parser.into_head()));
        }
        assert!(end <= rules.max_len(), "a head longer than the limit is still awaited");
        if end == text.len() {
            return Ok(None);
        }
    }
}

fn check_head(head: &RequestHead, text: &[u8], rules: &HeadRules) {
    let len = head.len as usize;
    assert!(len <= text.len() && len <= rules.max_len());
    assert!(head.request_line.range().end < len);
    for field in head.fields() {
        assert!(field.name().range().end < len && field.value().range().end < len);
        assert!(!field.name().is_empty() && field.name().end <= field.value().start);
        assert!(!field.value().of(text).iter().any(|b| matches!(b, 0 | b'\r' | b'\n')));
        assert!(field.id == HeaderId::Other || head.has(field.id));
        assert!(head.named(text, field.name().of(text)).next().is_some());
    }
    if let Some(found) = head.host {
        let name = found.name(text);
        assert!(!name.is_empty() && !name.bytes().any(|b| b.is_ascii_uppercase() || b == b'/' || b == b'@'));
        assert!(host::parse(name.as_bytes()).is_some(), "a host stays one");
    }
    // What http does next with a head.
    let _ = uri::normalise(head.target.uri(text), true);
    let get = |id| head.value(text, id);
    let conditions = conditional::Conditions {
        if_match: get(HeaderId::IfMatch),
        if_none_match: get(HeaderId::IfNoneMatch),
        if_modified_since: get(HeaderId::IfModifiedSince),
        if_unmodified_since: get(HeaderId::IfUnmodifiedSince),
    };
    let _ = conditions.evaluate(Some(b"\"a-1\""), Some(0), conditional::ModifiedSinceMode::Before);
    let _ = get(HeaderId::IfRange).map(date::parse_http_date);
}

/// Chunked bodies: no panic, the same body in whatever pieces it comes, and what is encoded again decodes to the same.
pub fn chunked(data: &[u8]) {
    let (options, text) = choice(data);
    let whole = decode(text, text.len().max(1));
    assert_eq!(whole, decode(text, usize::from(options) + 1));
    let Some((body, used)) = whole else { return };
    assert!(used <= text.len() && body.len() <= used);
    let mut again = Vec::new();
    for part in body.chunks(usize::from(options) + 1) {
        again.extend_from_slice(freerun_proto::chunked::ChunkHead::new(part.len() as u64).as_bytes());
        again.extend_from_slice(part);
        again.extend_from_slice(freerun_proto::chunked::CHUNK_END);
    }
    again.extend_from_slice(freerun_proto::chunked::LAST_CHUNK);
    let len = again.len();
    assert_eq!(decode(&again, len), Some((body, len)));
}

/// The body and the bytes it took; `None` for an error or a body that goes on.
fn decode(text: &[u8], step: usize) -> Option<(Vec<u8>, usize)> {
    let mut decoder = ChunkedDecoder::new();
    let mut body = Vec::new();
    let mut at = 0;
    for piece in text.chunks(step) {
        let mut rest = piece;
        loop {
            match decoder.step(rest).ok()? {
                ChunkStep::Data(range) => {
                    assert!(!range.is_empty());
                    body.extend_from_slice(&rest[range.clone()]);
                    rest = &rest[range.end..];
                }
                ChunkStep::More => break,
                ChunkStep::Done(used) => {
                    assert!(decoder.trailers().all(|(name, _)| !name.is_empty()));
                    return Some((body, at + (piece.len() - rest.len()) + used));
                }
            }
        }
        at += piece.len();
    }
    None
}

/// Requests on one connection: no panic, the same requests with the same bodies in whatever pieces they come, and nothing
/// behind what is wrong.
pub fn requests(data: &[u8]) {
    let (options, text) = choice(data);
    let whole = read_requests(text, text.len().max(1));
    assert_eq!(whole, read_requests(text, usize::from(options) + 1));
    let bodies: usize = whole.0.iter().map(|(head, body)| head.len as usize + body.len()).sum();
    assert!(bodies <= text.len());
}

/// The end of a connection's bytes.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    /// Between two requests.
    Nothing,
    /// In a head.
    Head,
    /// In a body, whose first bytes have come.
    Body(Vec<u8>),
    /// With a head that is wrong.
    BadHead,
    /// With a body that is wrong behind this much of it.
    BadBody(Vec<u8>),
}

/// The heads and bodies of the requests that come one after the other, and how that ends.
fn read_requests(text: &[u8], step: usize) -> (Vec<(RequestHead, Vec<u8>)>, Rest) {
    let rules = HeadRules::default();
    let (mut requests, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        let mut parser = HeadParser::new();
        let head = loop {
            match parser.advance(&text[start..end], &rules) {
                Err(_) => return (requests, Rest::BadHead),
                Ok(Progress::Complete) => break parser.into_head(),
                Ok(_) if end == text.len() => {
                    let rest = if start == end { Rest::Nothing } else { Rest::Head };
                    return (requests, rest);
                }
                Ok(_) => end = (end + step).min(text.len()),
            }
        };
        start += head.len as usize;
        let (mut decoder, mut body) = (head.body.decoder(), Vec::new());
        loop {
            match decoder.step(&text[start..end]) {
                Err(_) => {
                    assert!(decoder.step(&text[start..]).is_err() && !decoder.is_done_when_closed());
                    return (requests, Rest::BadBody(body));
                }
                Ok(ChunkStep::Data(range)) => {
                    assert!(!range.is_empty());
                    body.extend_from_slice(&text[start + range.start..start + range.end]);
                    start += range.end;
                }
                Ok(ChunkStep::Done(used)) => {
                    start += used;
                    break;
                }
                Ok(ChunkStep::More) if end == text.len() => {
                    assert!(!decoder.is_done_when_closed());
                    return (requests, Rest::Body(body));
                }
                Ok(ChunkStep::More) => (start, end) = (end, (end + step).min(text.len())),
            }
        }
        assert!(decoder.is_done());
        requests.push((*head, body));
    }
}

/// Request targets: no panic, no way out of the root, and a normal path stays as it is.
pub fn uri(data: &[u8]) {
    let (options, target) = choice(data);
    let merge = options & 1 == 0;
    let Ok(found) = uri::normalise(target, merge) else { return };
    assert_eq!(found.path.first(), Some(&b'/'));
    assert!(!found.path.contains(&0));
    assert!(!found.path.split(|&b| b == b'/').any(|segment| segment == b"." || segment == b".."));
    assert!(!merge || !found.path.windows(2).any(|pair| pair == b"//"));
    let escaped = uri::escape(EscapeSet::Uri, &found.path);
    assert_eq!(uri::normalise(&escaped, merge).map(|u| u.path), Ok(found.path.clone()));
    assert_eq!(&*uri::unescape(&escaped), &*found.path);
    assert!(!uri::extension(&found.path).contains(&b'/'));
    if let Some(args) = found.args {
        let _ = uri::argument(args, b"a");
    }
}

/// Ranges: no panic, and parts that lie inside and add up to no more than the whole.
pub fn range(data: &[u8]) {
    use freerun_proto::range::{Multipart, Ranges, parse};
    let Some((options, value)) = data.split_first_chunk::<9>() else { return };
    let size = u64::from_le_bytes([
        options[0], options[1], options[2], options[3], options[4], options[5], options[6], options[7],
    ]);
    let max = if options[8] & 1 == 0 { None } else { Some(u32::from(options[8] >> 1)) };
    let Ranges::Parts(parts) = parse(value, size, max) else { return };
    assert!(!parts.is_empty() && max.is_none_or(|max| parts.len() <= max as usize));
    let mut sum = 0u64;
    for part in &parts {
        assert!(part.start < part.end && part.end <= size);
        sum = sum.saturating_add(part.len());
    }
    assert!(sum <= size);
    let multipart = Multipart::new(size, Some("text/plain"), size, &parts);
    assert!(multipart.total_len() >= sum && multipart.len() == parts.len());
}

/// Files of a configuration, by number.
struct Files<'a>(Vec<&'a [u8]>);

impl Loader for Files<'_> {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let file = name.parse().ok().and_then(|n: usize| self.0.get(n));
        file.map(|text| text.to_vec()).ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn glob(&mut self, _pattern: &str) -> io::Result<Vec<String>> {
        Ok((0..self.0.len()).map(|n| format!("/conf/{n}")).collect())
    }
}

/// Configurations: no panic and no hang; the files are parted by 0xff bytes, named `0`, `1` and so on, and `0` is the main
/// one.
pub fn configuration(data: &[u8]) {
    let files: Vec<&[u8]> = data.split(|&b| b == 0xff).take(5).collect();
    let tree = freerun_conf::parse("/conf/0", None, "/conf", &mut Files(files));
    for problem in tree.error.iter() {
        assert!(!problem.first_line(&tree.sources).is_empty());
        let _ = problem.render(&tree.sources);
    }
    let _ = freerun_conf::dump(&tree.sources);
}

/// PROXY protocol headers: no panic, the same outcome in whatever pieces the bytes come, and none that is awaited for ever.
pub fn proxy_header(data: &[u8]) {
    if let Ok((header, len)) = proxy_protocol::parse_datagram(data) {
        assert!(len <= data.len() && len <= proxy_protocol::MAX_HEADER && header.tlvs.len() < len);
    }
    let whole = proxy_protocol::parse(data);
    let mut pieces = Ok(None);
    for end in 0..=data.len() {
        pieces = proxy_protocol::parse(&data[..end]);
        if pieces != Ok(None) {
            break;
        }
        assert!(end < proxy_protocol::MAX_HEADER, "a header longer than the limit is still awaited");
    }
    assert_eq!(whole, pieces);
    if let Ok(Some((header, len))) = whole {
        assert!(len <= data.len() && len <= proxy_protocol::MAX_HEADER && header.tlvs.len() < len);
        for name in [
            "alpn",
            "authority",
            "unique_id",
            "netns",
            "ssl",
            "ssl_verify",
            "ssl_version",
            "ssl_cn",
            "ssl_cipher",
            "ssl_sig_alg",
            "ssl_key_alg",
            "0x04",
            "ssl_0x21",
        ] {
            let _ = header.tlv(name);
        }
        written_again(&header);
    }
}

/// Writes a header that was read, in both versions, and reads it again: nothing is lost or changed.
fn written_again(header: &proxy_protocol::ProxyHeader) {
    let address = |text: &str, port| Some(SocketAddr::new(text.parse::<IpAddr>().ok()?.to_canonical(), port));
    let ends = header
        .ends
        .as_ref()
        .and_then(|ends| Some((address(&ends.client, ends.client_port)?, address(&ends.server, ends.server_port)?)));
    let mut line = Vec::new();
    write_v1(ends, &mut line);
    let mut whole = HeaderV2::new(ends, Carrier::Stream);
    let alpn = header.tlv("alpn").unwrap_or_default();
    let common_name = header.tlv("ssl_cn");
    whole.field(0x01, &alpn).expect("a field of a header that was read fits");
    let [cipher, signature, key] = ["ssl_cipher", "ssl_sig_alg", "ssl_key_alg"].map(|name| header.tlv(name));
    let tls = TlsFields {
        version: b"TLSv1.3",
        common_name: common_name.as_deref(),
        cipher: cipher.as_deref(),
        signature: signature.as_deref(),
        key: key.as_deref(),
        ..TlsFields::default()
    };
    whole.tls(&tls).expect("fields of a header that was read fit");
    let bytes = whole.finish().expect("fields of a header that was read fit");
    if bytes.len() > proxy_protocol::MAX_HEADER {
        return;
    }
    for (version, text) in [(1, &line), (2, &bytes)] {
        let (read, len) = proxy_protocol::parse(text).expect("a header").expect("all of a header");
        assert_eq!(len, text.len());
        assert_eq!(read.ends.is_some(), ends.is_some());
        if let (Some(read), Some((client, server))) = (&read.ends, ends) {
            assert_eq!((read.client_port, read.server_port), (client.port(), server.port()));
            let is =
                |text: &str, wanted: SocketAddr| text.parse().map(|ip: IpAddr| ip.to_canonical()) == Ok(wanted.ip());
            assert!(is(&read.client, client) && is(&read.server, server));
        }
        if version == 2 && ends.is_some() {
            assert_eq!(read.tlv("alpn").as_deref(), Some(&*alpn));
            assert_eq!(read.tlv("ssl_cn"), common_name);
            let again = ["ssl_cipher", "ssl_sig_alg", "ssl_key_alg"].map(|name| read.tlv(name));
            assert_eq!(again, [cipher.clone(), signature.clone(), key.clone()]);
        }
    }
}
