//! Tests of single states: their inputs and their outputs.

use crate::h1::{
    CloseReason, CutSignal, ExpectHead, HeadEnd, LengthMismatch, Persistence, RequestBody, ResponseBody, ResponseFacts,
    ResponseFraming, ReuseFacts, write_last_chunk,
};
use crate::head::{HeadRules, Progress};
use crate::{BodyFraming, ConnectionOptions, RequestError, Version};

// ---- the head ----------------------------------------------------------------------------------------------------------

#[test]
fn a_head_that_does_not_come_is_no_request() {
    let rules = HeadRules::default();
    let mut expected = ExpectHead::default();
    assert_eq!(expected.receive(b"", &rules), Ok(Progress::Partial));
    assert!(matches!(expected.end(b""), HeadEnd::Nothing));
    let mut expected = ExpectHead::default();
    assert_eq!(expected.receive(b"GET /a", &rules), Ok(Progress::Partial));
    let HeadEnd::Cut(head) = expected.end(b"GET /a") else { panic!("no request") };
    assert_eq!(head.request_line.of(b"GET /a"), b"GET /a");
}

#[test]
fn a_wrong_head_is_answered_with_a_head() {
    for (text, version) in [(&b"GET / HTTP/9x\r\n"[..], Version::Http10), (b"GET / HTTP/1.1\r\n:\r\n", Version::Http11)]
    {
        let mut expected = ExpectHead::new(None);
        assert!(expected.receive(text, &HeadRules::default()).is_err());
        assert_eq!(expected.into_faulty_head().version, version);
    }
}

#[test]
fn the_first_request_is_never_pipelined() {
    for (serial, received, is_pipelined) in [(1, 0, false), (1, 9, false), (2, 0, false), (2, 9, true)] {
        assert_eq!(ExpectHead::is_pipelined(serial, received), is_pipelined, "{serial} {received}");
    }
}

// ---- the body ----------------------------------------------------------------------------------------------------------

#[test]
fn line_ends_behind_a_body_are_no_request() {
    let mut body: RequestBody = RequestBody::new(BodyFraming::Length(2), 4, false);
    body.skip(b"headab", &mut 0).unwrap();
    for (buffer, begin) in [
        (&b"headab"[..], None),
        (b"headab\r\n", None),
        (b"headab\n\r\n", None),
        (b"headab\r\nG", Some(6)),
        (b"headabG", Some(6)),
    ] {
        assert_eq!(body.next_request(buffer), begin, "{buffer:?}");
        assert_eq!(body.unused(buffer), &buffer[6..]);
    }
}

#[test]
fn framing_counts_as_work_even_where_it_gives_no_data() {
    let mut body: RequestBody = RequestBody::new(BodyFraming::Chunked, 0, false);
    let piece = body.next(b"2;extension", usize::MAX).unwrap();
    assert_eq!((piece.data, piece.framing), (None, 11));
    let buffer = b"2;extension\r\nab\r\n1\r\n";
    let piece = body.next(buffer, usize::MAX).unwrap();
    assert_eq!((piece.data, piece.framing), (Some(13..15), 2));
    let mut framing = 0;
    assert_eq!((body.skip(buffer, &mut framing), framing), (Ok(()), 5));
}

// ---- persistence -------------------------------------------------------------------------------------------------------

/// RFC 9112 section 9.3: the wish of the head comes first.
#[test]
fn the_head_is_asked_first() {
    let (asked, gone) = (Persistence::Closed(CloseReason::ClientAsked), Persistence::Closed(CloseReason::AddressGone));
    for (version, field, still_listens, expected) in [
        (Version::Http11, "", true, Persistence::Kept),
        (Version::Http11, "upgrade", true, Persistence::Kept),
        (Version::Http11, "close", true, asked),
        (Version::Http11, "close", false, asked),
        (Version::Http11, "", false, gone),
        (Version::Http10, "", true, asked),
        (Version::Http10, "", false, asked),
        (Version::Http10, "keep-alive", true, Persistence::Kept),
        (Version::Http10, "keep-alive", false, gone),
        (Version::Http10, "keep-alive, close", true, asked),
    ] {
        let mut options = ConnectionOptions::default();
        options.add(field.as_bytes());
        let found = Persistence::asked(options.persists(version), still_listens);
        assert_eq!(found, expected, "{version:?} {field:?} {still_listens}");
    }
}

#[test]
fn the_first_reason_counts_and_none_is_taken_back() {
    let mut persistence = Persistence::Kept;
    assert!(persistence.is_kept());
    persistence.close(CloseReason::BadBody);
    persistence.close(CloseReason::Draining);
    persistence.apply_location(true, 1, 1000);
    persistence.apply_connection(ReuseFacts::default());
    assert_eq!(persistence, Persistence::Closed(CloseReason::BadBody));
}

#[test]
fn each_fact_has_its_reason() {
    let none = ReuseFacts::default();
    for (facts, reason) in [
        (ReuseFacts { is_unwanted: true, is_old: true, ..none }, CloseReason::Settings),
        (ReuseFacts { is_spent: true, is_old: true, ..none }, CloseReason::Settings),
        (ReuseFacts { is_old: true, is_draining: true, ..none }, CloseReason::Age),
        (ReuseFacts { is_draining: true, makes_room: true, ..none }, CloseReason::Draining),
        (ReuseFacts { makes_room: true, ..none }, CloseReason::MakesRoom),
    ] {
        let mut persistence = Persistence::Kept;
        persistence.apply_connection(facts);
        assert_eq!(persistence, Persistence::Closed(reason));
        assert!(!facts.keep(), "{facts:?}");
    }
    assert!(none.keep());
    for (is_wanted, serial, is_kept) in [(true, 1, true), (true, 2, true), (true, 3, false), (false, 1, false)] {
        let mut persistence = Persistence::Kept;
        persistence.apply_location(is_wanted, serial, 3);
        assert_eq!(persistence.is_kept(), is_kept, "request {serial} of 3, {is_wanted}");
    }
    for (is_success, has_early_bytes) in [(true, false), (false, true), (false, false)] {
        let mut persistence = Persistence::Kept;
        persistence.apply_refused_tunnel(is_success, has_early_bytes);
        assert_eq!(persistence.is_kept(), !is_success && !has_early_bytes);
    }
}

// ---- the response ------------------------------------------------------------------------------------------------------

const FACTS: ResponseFacts = ResponseFacts {
    version: Version::Http11,
    status: 200,
    is_head: false,
    upgrades: false,
    has_length: false,
    has_trailers: false,
    may_chunk: true,
    closes: false,
};

#[test]
fn the_framing_follows_from_the_facts() {
    use ResponseFraming::{Chunked, Length, None, UntilEnd};
    let ends_body = Persistence::Closed(CloseReason::EndsBody);
    let kept = Persistence::Kept;
    let known = ResponseFacts { has_length: true, ..FACTS };
    let old = ResponseFacts { version: Version::Http10, ..FACTS };
    let rows = [
        (FACTS, Chunked, kept),
        (known, Length, kept),
        (ResponseFacts { has_trailers: true, ..known }, Chunked, kept),
        (ResponseFacts { has_trailers: true, may_chunk: false, ..known }, Length, kept),
        (ResponseFacts { may_chunk: false, ..FACTS }, UntilEnd, ends_body),
        (old, UntilEnd, ends_body),
        (ResponseFacts { has_length: true, has_trailers: true, ..old }, Length, kept),
        (ResponseFacts { is_head: true, ..FACTS }, None, kept),
        (ResponseFacts { is_head: true, ..old }, None, kept),
        (ResponseFacts { status: 204, ..FACTS }, None, kept),
        (ResponseFacts { status: 304, ..known }, None, kept),
        (ResponseFacts { status: 199, ..known }, Length, kept),
        (ResponseFacts { status: 101, upgrades: true, ..FACTS }, None, kept),
        (ResponseFacts { closes: true, ..known }, Length, Persistence::Closed(CloseReason::Response)),
        (
            ResponseFacts { closes: true, may_chunk: false, ..FACTS },
            UntilEnd,
            Persistence::Closed(CloseReason::Response),
        ),
        (ResponseFacts { version: Version::Http09, ..known }, Length, Persistence::Closed(CloseReason::Version09)),
    ];
    for (facts, framing, expected) in rows {
        let mut persistence = Persistence::Kept;
        assert_eq!((facts.frame(&mut persistence), persistence), (framing, expected), "{facts:?}");
    }
}

#[test]
fn a_stream_frames_its_content_itself() {
    use ResponseFraming::{Length, None, UntilEnd};
    let known = ResponseFacts { version: Version::Http2, has_length: true, ..FACTS };
    for (facts, framing) in [
        (known, Length),
        (ResponseFacts { has_trailers: true, ..known }, UntilEnd),
        (ResponseFacts { has_length: false, ..known }, UntilEnd),
        (ResponseFacts { status: 304, ..known }, None),
        (ResponseFacts { is_head: true, has_trailers: true, ..known }, None),
    ] {
        let mut persistence = Persistence::Kept;
        assert_eq!((facts.frame_on_stream(&mut persistence), persistence), (framing, Persistence::Kept), "{facts:?}");
    }
}

#[test]
fn a_response_that_is_cut_does_not_look_whole() {
    assert_eq!(ResponseFraming::UntilEnd.cut(Version::Http11), CutSignal::Reset);
    for framing in [ResponseFraming::None, ResponseFraming::Length, ResponseFraming::Chunked] {
        assert_eq!(framing.cut(Version::Http10), CutSignal::Close);
        assert_eq!(framing.cut(Version::Http09), CutSignal::Reset, "no head has said where it ends");
    }
    let mut body = ResponseBody::new(ResponseFraming::Chunked, None);
    assert_eq!(body.of_cut(b"head\r\n\r\n"), b"head\r\n\r\n");
    let mut out = Vec::new();
    body.begin_piece(10, &mut out).unwrap();
    body.end_piece(&mut out);
    assert_eq!(out, b"a\r\n\r\n");
    assert_eq!(body.of_cut(b"0123456789\r\n"), b"0123456789");
}

#[test]
fn an_announced_length_is_kept() {
    let mut out = Vec::new();
    let mut body = ResponseBody::new(ResponseFraming::Length, Some(5));
    assert_eq!((body.begin_piece(3, &mut out), body.end()), (Ok(()), Err(LengthMismatch)));
    assert_eq!(body.clone().begin_piece(3, &mut out), Err(LengthMismatch));
    assert_eq!((body.begin_piece(2, &mut out), body.end(), body.is_complete()), (Ok(()), Ok(()), true));
    let mut body = ResponseBody::new(ResponseFraming::UntilEnd, Some(5));
    assert_eq!((body.begin_piece(9, &mut out), body.end(), body.is_complete()), (Ok(()), Ok(()), false));
    assert_eq!(out, b"", "only chunks have bytes around them");
}

#[test]
fn trailers_stand_behind_the_last_chunk() {
    let mut out = Vec::new();
    write_last_chunk([], &mut out);
    write_last_chunk([(&b"A"[..], &b"1"[..]), (b"B", b"2")], &mut out);
    assert_eq!(out, b"0\r\n\r\n0\r\nA: 1\r\nB: 2\r\n\r\n");
}

/// Each byte behind an error in the framing could be anything.
#[test]
fn wrong_framing_stays_wrong() {
    let mut body: RequestBody = RequestBody::new(BodyFraming::Chunked, 0, false);
    for _ in 0..3 {
        assert_eq!(body.skip(b"x\r\n0\r\n\r\n", &mut 0), Err(RequestError::Chunked));
        assert!(!body.is_done());
    }
    // What came before it was work all the same.
    let (mut body, mut framing) = (RequestBody::<()>::new(BodyFraming::Chunked, 0, false), 0);
    assert_eq!((body.skip(b"1\r\na\r\nx", &mut framing), framing), (Err(RequestError::Chunked), 3));
}
