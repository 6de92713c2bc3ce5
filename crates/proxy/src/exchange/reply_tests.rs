use super::*;

/// Reads a response in pieces of `step` bytes, with the close at the end. Returns the statuses of its heads, its body,
/// and whether the connection could be used again before the close.
fn read(reply: &mut Reply, bytes: &[u8], step: usize) -> Result<(Vec<u16>, Vec<u8>, bool), Fault> {
    let (mut input, mut statuses, mut body) = (BytesMut::new(), Vec::new(), Vec::new());
    let mut in_body = false;
    for piece in bytes.chunks(step) {
        input.extend_from_slice(piece);
        while !in_body {
            let Some(head) = reply.head(&mut input)? else { break };
            in_body = head.status >= 200;
            statuses.push(head.status);
        }
        while in_body && !reply.is_done() {
            match reply.body(&mut input)? {
                BodyStep::Data(data) => body.extend_from_slice(&data),
                BodyStep::More => break,
                BodyStep::End => assert!(reply.is_done()),
            }
        }
        if reply.is_done() && step == bytes.len() {
            return Ok((statuses, body, reply.reusable()));
        }
    }
    let reusable = reply.reusable();
    reply.closed()?;
    assert!(!reply.reusable());
    Ok((statuses, body, reusable))
}

fn http(bytes: &[u8]) -> Result<(Vec<u16>, Vec<u8>, bool), Fault> {
    let outcome = |step| read(&mut Reply::new(HeadKind::Http, RequestKind::Other, 4096), bytes, step);
    let whole = outcome(bytes.len().max(1));
    for step in [1, 2, 5] {
        assert_eq!(outcome(step).map(|(statuses, body, _)| (statuses, body)), whole.clone().map(|(s, b, _)| (s, b)));
    }
    whole
}

#[test]
fn responses() {
    let ok = |status: u16, body: &str, reusable| Ok((vec![status], body.as_bytes().to_vec(), reusable));
    assert_eq!(http(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), ok(200, "ok", true));
    assert_eq!(http(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokX"), ok(200, "ok", false));
    assert_eq!(http(b"HTTP/1.1 204 No\r\n\r\n"), ok(204, "", true));
    assert_eq!(http(b"HTTP/1.1 204 No\r\n\r\nX"), ok(204, "", false));
    assert_eq!(http(b"HTTP/1.1 200 OK\r\n\r\nall of it"), ok(200, "all of it", false));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n";
    assert_eq!(http(chunked), ok(200, "ok!", true));
    let early = b"HTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(http(early), Ok((vec![103, 100, 404], Vec::new(), true)));
}

#[test]
fn a_body_behind_an_answer_to_head_is_nobody_s() {
    for (asked, left) in [(RequestKind::Head, 0), (RequestKind::Other, 5)] {
        let mut input = BytesMut::from(&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA"[..]);
        let mut reply = Reply::new(HeadKind::Http, asked, 4096);
        reply.head(&mut input).unwrap().unwrap();
        while matches!(reply.body(&mut input), Ok(BodyStep::Data(_))) {}
        assert_eq!((input.len(), reply.is_done(), reply.reusable()), (left, true, false), "{asked:?}");
    }
}

#[test]
fn cut_and_wrong_responses() {
    assert_eq!(http(b""), Err(Fault::Cut));
    assert_eq!(http(b"HTTP/1.1 200 OK\r\n"), Err(Fault::Cut));
    assert_eq!(http(b"HTTP/1.1 100 Continue\r\n\r\n"), Err(Fault::Cut));
    assert_eq!(http(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"), Err(Fault::Cut));
    assert_eq!(http(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"), Err(Fault::Cut));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokk";
    assert_eq!(http(chunked), Err(Fault::invalid("upstream sent invalid chunked response")));
    assert_eq!(http(b"garbage"), Err(Fault::invalid("upstream sent no valid HTTP/1.0 header")));
    assert_eq!(http(&[b"HTTP/1.1 200 OK\r\nX: ", &[b'x'; 5000][..]].concat()), Err(Fault::TooBig));
}

#[test]
fn a_body_is_slices_of_what_was_read() {
    let mut reply = Reply::new(HeadKind::Http, RequestKind::Other, 4096);
    let mut input =
        BytesMut::from(&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: v\r\n\r\n"[..]);
    let place = input.as_ptr() as usize;
    let head = reply.head(&mut input).unwrap().unwrap();
    let value = head.fields.iter().next().unwrap().keep_value();
    assert_eq!(value.as_ptr() as usize, place + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: ".len());
    let BodyStep::Data(data) = reply.body(&mut input).unwrap() else { panic!("no data") };
    assert_eq!((&data[..], data.as_ptr() as usize), (&b"hello"[..], place + head.bytes + 3));
    assert_eq!(reply.body(&mut input), Ok(BodyStep::End));
    assert_eq!(reply.take_trailers(), [(Bytes::from_static(b"T"), Bytes::from_static(b"v"))]);
    assert!(reply.reusable());
}

#[test]
fn trailers_say_nothing_about_the_message() {
    let mut reply = Reply::new(HeadKind::Http, RequestKind::Other, 4096);
    let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\nA: b\r\nConnection: close\r\n\r\n";
    read(&mut reply, text, text.len()).unwrap();
    assert_eq!(reply.take_trailers().len(), 1);
}

#[test]
fn what_was_asked_decides() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let mut reply = Reply::new(HeadKind::Http, RequestKind::Head, 4096);
    let mut input = BytesMut::from(&text[..]);
    let head = reply.head(&mut input).unwrap().unwrap();
    assert_eq!((head.length, reply.is_done(), reply.reusable()), (Some(0), true, true));
    let mut reply = Reply::new(HeadKind::Http, RequestKind::Connect, 4096);
    let mut input = BytesMut::from(&text[..]);
    let head = reply.head(&mut input).unwrap().unwrap();
    assert_eq!((head.length, reply.is_done(), reply.reusable()), (None, false, false));
    // The connection of a CGI response ends with it, whatever its fields say.
    let mut reply = Reply::new(HeadKind::HttpOrCgi, RequestKind::Other, 4096);
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(read(&mut reply, text, text.len()), Ok((vec![200], Vec::new(), false)));
}

#[test]
fn small_chunks_are_put_together() {
    let mut text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let mut body = Vec::new();
    let sizes = [1, 100, 2047, 5, 4000, 3, 3, 2048, 1].into_iter().chain([700; 60]);
    for (number, size) in sizes.enumerate() {
        let chunk = vec![number as u8; size];
        text.extend_from_slice(format!("{size:x}\r\n").as_bytes());
        text.extend_from_slice(&chunk);
        text.extend_from_slice(b"\r\n");
        body.extend_from_slice(&chunk);
    }
    let pieces = |end: &[u8]| {
        let mut input = BytesMut::from(&[&text[..], end].concat()[..]);
        let mut reply = Reply::new(HeadKind::Http, RequestKind::Other, 4096);
        reply.head(&mut input).unwrap();
        let mut pieces = Vec::new();
        loop {
            match reply.body(&mut input) {
                Ok(BodyStep::Data(piece)) => pieces.push(piece),
                other => return (pieces, other, reply.is_done()),
            }
        }
    };
    let (found, end, done) = pieces(b"0\r\n\r\n");
    let lengths: Vec<_> = found.iter().map(Bytes::len).collect();
    assert_eq!((found.concat(), end, done), (body.clone(), Ok(BodyStep::End), true));
    assert_eq!(lengths, [2153, 4000, 6, 2048, 16_801, 16_800, 8400]);
    // The error comes after the pieces before it.
    let (found, end, _) = pieces(b"x");
    assert_eq!((found.concat(), end), (body.clone(), Err(Fault::invalid("upstream sent invalid chunked response"))));
    let (found, end, _) = pieces(b"");
    assert_eq!((found.concat(), end), (body, Ok(BodyStep::More)));
}
