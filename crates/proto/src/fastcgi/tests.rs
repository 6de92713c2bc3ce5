use super::*;

fn record(kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
    let mut bytes = vec![1, kind, 0, 1, (content.len() >> 8) as u8, content.len() as u8, padding as u8, 0];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + padding, b'p');
    bytes
}

/// The content of a response, from pieces of `step` bytes: output, error output, whether the output was closed, and how
/// many bytes were left over (`None`: it is not complete).
type Outcome = Result<(Vec<u8>, Vec<u8>, bool, Option<usize>), ReplyError>;

fn read(bytes: &[u8], step: usize) -> Outcome {
    let mut records = Records::new();
    let (mut stdout, mut stderr, mut closed) = (Vec::new(), Vec::new(), false);
    let mut before = 0;
    for piece in bytes.chunks(step) {
        let mut rest = piece;
        loop {
            match records.step(rest)? {
                Piece::Stdout(range) => {
                    assert!(!range.is_empty());
                    stdout.extend_from_slice(&rest[range.clone()]);
                    rest = &rest[range.end..];
                }
                Piece::Stderr(range) => {
                    assert!(!range.is_empty());
                    stderr.extend_from_slice(&rest[range.clone()]);
                    if records.left_in_record() == 0 {
                        stderr.push(b'|');
                    }
                    rest = &rest[range.end..];
                }
                Piece::StdoutEnd(used) => {
                    closed = true;
                    rest = &rest[used..];
                }
                Piece::More => break,
                Piece::End(used) => {
                    assert!(records.is_done());
                    let position = before + piece.len() - rest.len() + used;
                    return Ok((stdout, stderr, closed, Some(bytes.len() - position)));
                }
            }
        }
        before += piece.len();
    }
    Ok((stdout, stderr, closed, None))
}

#[test]
fn a_request() {
    let mut out = Vec::new();
    begin(true, &mut out);
    let mut params = Params::begin(&mut out);
    params.pair(b"A", b"bc", &mut out).unwrap();
    params.pair(b"LONG", &[b'x'; 128], &mut out).unwrap();
    params.end(&mut out);
    stdin_begin(3, &mut out);
    out.extend_from_slice(b"abc");
    stdin_end(3, &mut out);
    stdin_done(&mut out);
    let mut expected = b"\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0".to_vec();
    let mut pairs = b"\x01\x02Abc\x04\x80\0\0\x80LONG".to_vec();
    pairs.extend_from_slice(&[b'x'; 128]);
    assert_eq!(pairs.len(), 142);
    expected.extend_from_slice(b"\x01\x04\0\x01\0\x8e\x02\0");
    expected.extend_from_slice(&pairs);
    expected.extend_from_slice(b"\0\0\x01\x04\0\x01\0\0\0\0");
    expected.extend_from_slice(b"\x01\x05\0\x01\0\x03\x05\0abc\0\0\0\0\0\x01\x05\0\x01\0\0\0\0");
    assert_eq!(out, expected);
}

#[test]
fn parameters_are_split_between_pairs() {
    let mut out = Vec::new();
    let mut params = Params::begin(&mut out);
    for value in [40_000, 25_523, 1, 65_522] {
        params.pair(b"N", &vec![b'v'; value], &mut out).unwrap();
    }
    assert_eq!(params.pair(b"N", &vec![b'v'; 65_523], &mut out), Err(TooBig(65_529)));
    assert_eq!(TooBig(65_529).to_string(), "fastcgi request record is too big: 65529");
    params.end(&mut out);
    let (mut rest, mut lengths) = (&out[..], Vec::new());
    while !rest.is_empty() {
        let len = usize::from(u16::from_be_bytes([rest[4], rest[5]]));
        lengths.push(len);
        rest = &rest[RECORD_HEAD + len + usize::from(rest[6])..];
    }
    // 40006 and 25529 are 7 too many for one record.
    assert_eq!(lengths, [40_006, 25_529 + 4, 65_528, 0]);
    let mut out = Vec::new();
    Params::begin(&mut out).end(&mut out);
    assert_eq!(out, b"\x01\x04\0\x01\0\0\0\0");
}

#[test]
fn a_response_in_all_pieces() {
    let mut bytes = record(STDERR, b"PHP says", 3);
    bytes.extend(record(STDERR, b"", 0));
    bytes.extend(record(STDOUT, b"Status: 200\r\n\r\nbo", 255));
    bytes.extend(record(STDERR, b"more", 0));
    bytes.extend(record(STDOUT, b"dy", 1));
    bytes.extend(record(STDOUT, b"", 2));
    bytes.extend(record(END_REQUEST, &[0; 8], 2));
    bytes.extend_from_slice(b"next");
    for step in 1..=bytes.len() {
        let (stdout, stderr, closed, left) = read(&bytes, step).unwrap();
        assert_eq!(stdout, b"Status: 200\r\n\r\nbody", "{step}");
        assert_eq!(stderr, b"PHP says|more|", "{step}");
        assert!(closed, "{step}");
        assert_eq!(left, Some(4), "{step}");
    }
    for end in 0..bytes.len() - 4 {
        assert_eq!(read(&bytes[..end], bytes.len()).unwrap().3, None, "{end}");
    }
}

#[test]
fn what_is_not_fastcgi() {
    let text = |bytes: &[u8]| {
        let errors: Vec<_> = (1..=bytes.len()).map(|step| read(bytes, step).unwrap_err().to_string()).collect();
        assert!(errors.iter().all(|error| *error == errors[0]));
        errors[0].clone()
    };
    assert_eq!(text(b"HTTP/1.1 200"), "upstream sent unsupported FastCGI protocol version: 72");
    assert_eq!(text(b"\x01\x05"), "upstream sent invalid FastCGI record type: 5");
    assert_eq!(text(b"\x01\x0b\0\0"), "upstream sent invalid FastCGI record type: 11");
    assert_eq!(text(b"\x01\x06\0\x02"), "upstream sent unexpected FastCGI request id low byte: 2");
    assert_eq!(text(b"\x01\x06\x01\x01"), "upstream sent unexpected FastCGI request id high byte: 1");
}

#[test]
fn an_end_of_any_length_is_one() {
    for len in [0, 4, 8, 20] {
        let mut bytes = record(END_REQUEST, &vec![7; len], 0);
        bytes.push(b'x');
        assert_eq!(read(&bytes, 1), Ok((Vec::new(), Vec::new(), false, Some(1))));
    }
}

#[test]
fn the_largest_record() {
    let content = vec![b'c'; 65_535];
    let mut bytes = record(STDOUT, &content, 255);
    bytes.extend(record(END_REQUEST, &[0; 8], 0));
    for step in [1, 4096, bytes.len()] {
        let (stdout, .., left) = read(&bytes, step).unwrap();
        assert_eq!((stdout.len(), left), (65_535, Some(0)));
    }
}
