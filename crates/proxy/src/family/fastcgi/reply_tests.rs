use super::*;

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, kind, 0, 1, (content.len() >> 8) as u8, content.len() as u8, 1, 0];
    bytes.extend_from_slice(content);
    bytes.push(0);
    bytes
}

fn out(text: &str) -> Vec<u8> {
    record(6, text.as_bytes())
}

fn err(text: &str) -> Vec<u8> {
    record(7, text.as_bytes())
}

fn end() -> Vec<u8> {
    record(3, &[0; 8])
}

/// The result of reading a response.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    status: u16,
    body: Vec<u8>,
    errors: Vec<Bytes>,
    /// Whether the connection can be used again; only set when all bytes come at once.
    clean: bool,
}

fn read_with(mut reply: FastCgiReply, bytes: &[u8], step: usize) -> Result<Read, Fault> {
    let (mut input, mut status, mut body, mut errors) = (BytesMut::new(), 0, Vec::new(), Vec::new());
    for piece in bytes.chunks(step) {
        input.extend_from_slice(piece);
        if status == 0
            && let Some(head) = reply.head(&mut input)?
        {
            status = head.status;
        }
        while status != 0 && !reply.is_done() {
            match reply.body(&mut input)? {
                BodyStep::Data(data) => {
                    assert!(!data.is_empty());
                    body.extend_from_slice(&data);
                }
                BodyStep::More => break,
                BodyStep::End => assert!(reply.is_done()),
            }
        }
        errors.extend(std::iter::from_fn(|| reply.take_error_output()));
    }
    let clean = reply.is_clean();
    if !reply.is_done() {
        reply.closed()?;
    }
    Ok(Read { status, body, errors, clean })
}

fn read_as(asked: RequestKind, records: &[Vec<u8>]) -> Result<Read, Fault> {
    let bytes = records.concat();
    let reply = || FastCgiReply::new(asked, 4096, vec![b"catch me".as_slice().into()]);
    let whole = read_with(reply(), &bytes, bytes.len().max(1));
    for step in 1..bytes.len() {
        let pieces = read_with(reply(), &bytes, step);
        match (&whole, pieces) {
            (Ok(whole), Ok(pieces)) => {
                assert_eq!((whole.status, &whole.body, &whole.errors), (pieces.status, &pieces.body, &pieces.errors));
            }
            (Err(whole), pieces) => assert_eq!(pieces.as_ref(), Err(whole), "in steps of {step}"),
            (whole, pieces) => panic!("{whole:?} against {pieces:?}"),
        }
    }
    whole
}

fn read(records: &[Vec<u8>]) -> Result<Read, Fault> {
    read_as(RequestKind::Other, records)
}

fn ok(status: u16, body: &str, clean: bool) -> Result<Read, Fault> {
    Ok(Read { status, body: body.as_bytes().to_vec(), errors: Vec::new(), clean })
}

const HEAD: &str = "Content-Type: text/plain\r\n\r\n";

#[test]
fn responses() {
    assert_eq!(read(&[out("A: b\r\n\r\nok"), out(""), end()]), ok(200, "ok", true));
    assert_eq!(read(&[out("A: b\r"), out("\n\r\nok"), out("more"), end()]), ok(200, "okmore", true));
    assert_eq!(read(&[out("Status: 404 N\r\n\r\n"), end(), b"x".to_vec()]), ok(404, "", false));
    assert_eq!(read(&[out("Content-Length: 2\r\n\r\nok"), end()]), ok(200, "ok", true));
    // Surplus bytes are left out; without its last record the body is complete all the same.
    assert_eq!(read(&[out("Content-Length: 2\r\n\r\nokEXTRA"), out("X"), end()]), ok(200, "ok", true));
    assert_eq!(read(&[out("Content-Length: 2\r\n\r\nok")]), ok(200, "ok", false));
    assert_eq!(read(&[out(HEAD), out("ok"), out("")]), ok(200, "ok", false));
}

#[test]
fn nothing_follows_some_heads() {
    assert_eq!(read_as(RequestKind::Head, &[out("Content-Length: 5\r\n\r\n"), end()]), ok(200, "", true));
    assert_eq!(read_as(RequestKind::Head, &[out("Content-Length: 5\r\n\r\nhello"), end()]), ok(200, "", true));
    assert_eq!(read(&[out("Status: 204 N\r\n\r\nbody"), end()]), ok(204, "", true));
    assert_eq!(read(&[out("Status: 304 N\r\n\r\n")]), ok(304, "", false));
    let endless = vec![out(&"x".repeat(60_000)); 3];
    let bytes = [out("Status: 304 N\r\n\r\n"), endless.concat()].concat();
    let reply = FastCgiReply::new(RequestKind::Other, 4096, Vec::new());
    assert_eq!(read_with(reply, &bytes, bytes.len()), ok(304, "", false));
}

#[test]
fn what_is_too_much_is_told() {
    let told = |asked, records: &[Vec<u8>]| {
        let mut input = BytesMut::from(&records.concat()[..]);
        let mut reply = FastCgiReply::new(asked, 4096, Vec::new());
        reply.head(&mut input).unwrap().unwrap();
        while matches!(reply.body(&mut input), Ok(BodyStep::Data(_))) {}
        (reply.has_surplus(), reply.is_done(), reply.is_clean())
    };
    let long = out("Content-Length: 2\r\n\r\nokEXTRA");
    assert_eq!(told(RequestKind::Other, &[long.clone(), end()]), (true, true, true));
    // The end of the surplus is not waited for.
    assert_eq!(told(RequestKind::Other, std::slice::from_ref(&long)), (true, true, false));
    assert_eq!(told(RequestKind::Other, &[out("Content-Length: 2\r\n\r\nok"), out("X")]), (true, true, false));
    assert_eq!(told(RequestKind::Other, &[out("Status: 204 N\r\n\r\nbody"), end()]), (true, true, true));
    assert_eq!(told(RequestKind::Other, &[out("Status: 304 N\r\n\r\n"), end()]), (false, true, true));
    assert_eq!(told(RequestKind::Other, &[out("Content-Length: 2\r\n\r\nok")]), (false, false, false));
    assert_eq!(told(RequestKind::Head, &[long.clone(), end()]), (false, true, true));
    assert_eq!(told(RequestKind::Head, &[long]), (false, false, false));
}

#[test]
fn cut_and_wrong_responses() {
    let invalid = |text: &'static str| Err(Fault::invalid(text));
    assert_eq!(read(&[]), Err(Fault::Cut));
    assert_eq!(read(&[out("A: b\r\n")]), Err(Fault::Cut));
    assert_eq!(read(&[out(HEAD), out("cut")]), Err(Fault::Cut));
    assert_eq!(read(&[out("Content-Length: 5\r\n\r\nok")]), Err(Fault::Cut));
    assert_eq!(
        read(&[out("Content-Length: 5\r\n\r\nok"), end()]),
        invalid("upstream prematurely closed FastCGI stdout")
    );
    assert_eq!(read(&[out("A: b\r\n"), end()]), invalid("upstream prematurely closed FastCGI stdout"));
    assert_eq!(read(&[out(""), end()]), invalid("upstream prematurely closed FastCGI stdout"));
    assert_eq!(read(&[end()]), invalid("upstream sent unexpected FastCGI record: 3"));
    assert_eq!(read(&[b"HTTP/1.1".to_vec()]), invalid("upstream sent unsupported FastCGI protocol version: 72"));
    assert_eq!(read(&[out("A b: c\r\n\r\n")]), invalid("upstream sent invalid header: \"A\\x20...\""));
    assert_eq!(read(&[out(HEAD), record(9, b"x")]), invalid("upstream sent invalid FastCGI record type: 9"));
    let long = vec![out(&"x".repeat(3000)); 2];
    assert_eq!(read(&long), Err(Fault::TooBig));
}

#[test]
fn error_output() {
    let read = read(&[err("PHP oops. \n"), err("\n"), out(HEAD), err("late\r\n"), out("ok"), end()]).unwrap();
    let expected: [&[u8]; 3] = [b"PHP oops", b"", b"late"];
    assert_eq!(read.errors, expected);
    assert_eq!(read.body, b"ok");
}

#[test]
fn caught_error_output_makes_a_response_invalid() {
    let caught = Err(Fault::invalid("FastCGI sent in stderr: \"do catch me\""));
    assert_eq!(read(&[err("do catch me\n"), out(HEAD), end()]), caught);
    // The text is also found in the part of a record that is not logged, and across records.
    for before in [4085, 4090, MAX_ERROR_LINE, 20_000] {
        let records = [err(&format!("{}catch me", "x".repeat(before))), out(HEAD), end()].concat();
        for step in [7, 1000, records.len()] {
            let reply = FastCgiReply::new(
                RequestKind::Other,
                4096,
                vec![b"other".as_slice().into(), b"catch me".as_slice().into()],
            );
            assert!(matches!(read_with(reply, &records, step), Err(Fault::Invalid(_))), "{before} {step}");
        }
    }
    assert_eq!(
        read(&[err("do cat"), err("ch "), err("me"), out(HEAD), end()]),
        Err(Fault::invalid("FastCGI sent in stderr: \"me\""))
    );
    assert!(read(&[err("catch"), err("me catch m"), out(HEAD), end()]).is_ok());
    // Behind the head it is too late.
    assert_eq!(read(&[out(HEAD), err("do catch me\n"), end()]).unwrap().errors, [&b"do catch me"[..]]);
}

#[test]
fn error_output_is_bounded() {
    let mut records = vec![err(&"e".repeat(2 * MAX_ERROR_LINE))];
    records.extend(vec![err("x"); 2 * MAX_ERROR_LINES]);
    records.push(out("\r\n"));
    let bytes = records.concat();
    let mut reply = FastCgiReply::new(RequestKind::Other, 4096, Vec::new());
    assert!(reply.head(&mut BytesMut::from(&bytes[..])).unwrap().is_some());
    let errors: Vec<_> = std::iter::from_fn(|| reply.take_error_output()).collect();
    assert_eq!((errors.len(), errors[0].len()), (MAX_ERROR_LINES + 1, MAX_ERROR_LINE));
    assert_eq!(errors[MAX_ERROR_LINES], format!("({} more records, which are not logged)", MAX_ERROR_LINES + 1));
}

#[test]
fn a_body_is_slices_of_what_was_read() {
    let bytes = [out("A: b\r\n\r\n"), out("hello"), end()].concat();
    let mut input = BytesMut::from(&bytes[..]);
    let place = input.as_ptr() as usize;
    let mut reply = FastCgiReply::new(RequestKind::Other, 4096, Vec::new());
    let head = reply.head(&mut input).unwrap().unwrap();
    assert_eq!(head.fields.iter().next().unwrap().keep_name().as_ptr() as usize, place + 8);
    let BodyStep::Data(data) = reply.body(&mut input).unwrap() else { panic!("no data") };
    assert_eq!((&data[..], data.as_ptr() as usize), (&b"hello"[..], place + 8 + 8 + 1 + 8));
}
