use super::*;

type Written = fn(&Request, &To<'_>, BodyPlan, &mut RequestHead<'_>) -> Result<(), Fault>;

fn exchange(asked: RequestKind) -> Http2Exchange<Written> {
    Http2Exchange::new(asked, |_, _, _, _| Ok(()))
}

/// A record, as a stream has it.
fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &(payload.len() as u32).to_be_bytes(), payload].concat()
}

fn fields(list: &[(&str, &str)]) -> Vec<u8> {
    let field = |(name, value): &(&str, &str)| {
        let lens = [&(name.len() as u16).to_be_bytes()[..], &(value.len() as u32).to_be_bytes()].concat();
        [&lens, name.as_bytes(), value.as_bytes()].concat()
    };
    list.iter().flat_map(field).collect()
}

fn head(ends: bool, status: u16, list: &[(&str, &str)]) -> Vec<u8> {
    record(1, &[&[u8::from(ends)][..], &status.to_be_bytes(), &fields(list)].concat())
}

fn data(bytes: &[u8]) -> Vec<u8> {
    record(2, bytes)
}

fn end() -> Vec<u8> {
    record(4, b"")
}

/// What a response was read as.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    statuses: Vec<u16>,
    length: Option<u64>,
    body: Vec<u8>,
    trailers: Vec<(Bytes, Bytes)>,
    whole: bool,
}

/// Reads records, of which each arrives by itself, bodies byte by byte; or all at once.
fn read_as(asked: RequestKind, records: &[Vec<u8>], at_once: bool) -> Result<Read, Fault> {
    let (mut exchange, mut input, mut read) = (exchange(asked), BytesMut::new(), Read::default());
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for record in records {
        match record[0] {
            2 => parts.extend(record.chunks(RECORD_HEAD.max(1)).map(<[u8]>::to_vec)),
            _ => parts.push(record.clone()),
        }
    }
    if at_once {
        parts = vec![records.concat()];
    }
    for part in parts {
        input.extend_from_slice(&part);
        while read.statuses.last().is_none_or(|status| *status < 200) {
            let Some(head) = exchange.head(&mut input)? else { break };
            read.statuses.push(head.status);
            read.length = head.length;
        }
        while read.statuses.last().is_some_and(|status| *status >= 200) && !exchange.is_done() {
            match exchange.body(&mut input)? {
                BodyStep::Data(data) => read.body.extend_from_slice(&data),
                BodyStep::More => break,
                BodyStep::End => assert!(exchange.is_done()),
            }
        }
    }
    read.whole = exchange.is_done() && exchange.reusable() && input.is_empty();
    if !read.whole {
        exchange.closed()?;
    }
    read.trailers = exchange.take_trailers();
    Ok(read)
}

fn read(asked: RequestKind, records: &[Vec<u8>]) -> Result<Read, Fault> {
    let (slowly, at_once) = (read_as(asked, records, false), read_as(asked, records, true));
    assert_eq!(slowly, at_once);
    at_once
}

fn whole(statuses: &[u16], length: Option<u64>, body: &str) -> Read {
    Read { statuses: statuses.to_vec(), length, body: body.into(), whole: true, ..Read::default() }
}

#[test]
fn bodies_end_with_their_records() {
    let other = RequestKind::Other;
    let length = ("content-length", "5");
    for (asked, records, expected) in [
        (other, vec![head(true, 200, &[])], whole(&[200], Some(0), "")),
        (other, vec![head(false, 200, &[]), end()], whole(&[200], None, "")),
        (other, vec![head(false, 200, &[length]), data(b"he"), data(b"llo"), end()], whole(&[200], Some(5), "hello")),
        (
            other,
            vec![head(false, 103, &[]), head(false, 100, &[]), head(false, 200, &[]), data(b"x"), end()],
            whole(&[103, 100, 200], None, "x"),
        ),
        (RequestKind::Head, vec![head(true, 200, &[length])], whole(&[200], Some(0), "")),
        (RequestKind::Head, vec![head(false, 200, &[length]), end()], whole(&[200], Some(0), "")),
        (other, vec![head(true, 304, &[length])], whole(&[304], Some(0), "")),
        (other, vec![head(true, 204, &[])], whole(&[204], Some(0), "")),
    ] {
        assert_eq!(read(asked, &records), Ok(expected), "{records:?}");
    }
}

#[test]
fn trailers_come_behind_the_body_without_those_that_frame_it() {
    let trailers = record(5, &fields(&[("grpc-status", "0"), ("content-length", "7")]));
    let got = read(RequestKind::Other, &[head(false, 200, &[]), data(b"x"), trailers]).unwrap();
    let expected = vec![(Bytes::from_static(b"grpc-status"), Bytes::from_static(b"0"))];
    assert_eq!((got.trailers, got.body, got.whole), (expected, b"x".to_vec(), true));
}

#[test]
fn trailers_may_come_until_the_response_has_ended() {
    for (ends, fields, want) in
        [(false, &[][..], true), (false, &[("content-length", "5")], true), (true, &[("grpc-status", "0")], false)]
    {
        let mut exchange = exchange(RequestKind::Other);
        exchange.head(&mut BytesMut::from(&head(ends, 200, fields)[..])).unwrap().unwrap();
        assert_eq!(exchange.may_have_trailers(), want, "{fields:?}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let other = RequestKind::Other;
    let (length, long) = (("content-length", "5"), "upstream sent response body larger than indicated content length");
    let short = "upstream prematurely closed stream";
    for (asked, records, expected) in [
        (other, vec![head(true, 200, &[length])], short),
        (other, vec![head(false, 200, &[length]), data(b"abc"), end()], short),
        (other, vec![head(false, 200, &[length]), data(b"abcdef"), end()], long),
        (other, vec![head(false, 200, &[length]), data(b"abc"), data(b"def"), end()], long),
        (RequestKind::Head, vec![head(false, 200, &[length]), data(b"abcde"), end()], long),
        (other, vec![head(false, 304, &[length]), data(b"a"), end()], long),
        (other, vec![head(true, 103, &[("link", "a")])], short),
        (other, vec![head(true, 101, &[])], "upstream sent unexpected :status \"101\""),
        (
            other,
            vec![head(true, 200, &[length, length])],
            "upstream sent duplicate header line: \"content-length: 5\", previous value: \"content-length: 5\"",
        ),
        (
            other,
            vec![head(true, 200, &[("content-length", "x")])],
            "upstream sent invalid \"Content-Length\" header: \"x\"",
        ),
        (other, vec![data(b"abc")], "upstream sent no head"),
        (other, vec![b"no record at all".to_vec()], "there is no record where one has to be"),
        (other, vec![record(6, b"\x03\0\0\0\0upstream sent nonsense")], "upstream sent nonsense"),
        (other, vec![record(6, &[0, 0, 0, 0, 2])], "upstream rejected request with error 2"),
        (other, vec![head(false, 200, &[]), record(6, &[0, 0, 0, 0, 2])], "upstream rejected request with error 2"),
        (other, vec![record(6, &[1, 0, 0, 0, 7])], "upstream rejected request with error 7"),
        (other, vec![record(6, &[2, 0, 0, 0, 0])], "upstream sent goaway with error 0"),
        (other, vec![], "upstream prematurely closed connection"),
        (other, vec![head(false, 200, &[])], "upstream prematurely closed connection"),
    ] {
        // How much of a body comes before the fault depends on how it arrives.
        for at_once in [false, true] {
            assert_eq!(read_as(asked, &records, at_once).unwrap_err().to_string(), expected, "{records:?}");
        }
    }
}

#[test]
fn fields_are_where_the_record_has_them() {
    let mut input =
        BytesMut::from(&head(true, 404, &[("content-type", "text/plain"), ("x-a", ""), ("etag", "\"a\"")])[..]);
    let head = exchange(RequestKind::Other).head(&mut input).unwrap().unwrap();
    assert_eq!((head.status, &head.reason[..], head.length), (404, &b"Not Found"[..], Some(0)));
    let got: Vec<_> =
        head.fields.iter().map(|field| (field.id, field.name().to_vec(), field.value().to_vec())).collect();
    let field = |id, name: &str, value: &str| (id, name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let expected = [
        field(HeaderId::ContentType, "content-type", "text/plain"),
        field(HeaderId::Other, "x-a", ""),
        field(HeaderId::Etag, "etag", "\"a\""),
    ];
    assert_eq!(got, expected);
}

#[test]
fn small_pieces_are_put_together() {
    let mut records = vec![head(false, 200, &[])];
    records.extend((0..100).map(|_| data(b"0123456789")));
    records.push(end());
    let mut input = BytesMut::from(&records.concat()[..]);
    let mut exchange = exchange(RequestKind::Other);
    exchange.head(&mut input).unwrap().unwrap();
    let BodyStep::Data(piece) = exchange.body(&mut input).unwrap() else { panic!() };
    assert_eq!(piece.len(), 1000);
    assert_eq!(exchange.body(&mut input), Ok(BodyStep::End));
}

#[test]
fn the_last_piece_of_an_announced_body_ends_the_request() {
    let mut exchange = exchange(RequestKind::Other);
    let kinds = |out: &[u8]| -> Vec<u8> { out.chunks(RECORD_HEAD).map(|record| record[0]).collect() };
    let mut out = Vec::new();
    exchange.to_send = Some(10);
    exchange.before_piece(6, &mut out);
    exchange.before_piece(4, &mut out);
    exchange.body_end(&mut out);
    assert_eq!(kinds(&out), [2, 3], "the last one says that it is");
    let mut exchange = self::exchange(RequestKind::Other);
    out.clear();
    exchange.before_piece(6, &mut out);
    exchange.body_end(&mut out);
    assert_eq!(kinds(&out), [2, 4], "the end is not known before");
    let mut exchange = self::exchange(RequestKind::Other);
    out.clear();
    exchange.to_send = Some(10);
    exchange.before_piece(6, &mut out);
    exchange.body_end(&mut out);
    assert_eq!(kinds(&out), [2, 4], "a body that is shorter than announced");
}
