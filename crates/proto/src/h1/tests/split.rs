//! Tests: a connection whose bytes come in pieces has the same requests, bodies and end as one whose bytes come whole.

use proptest::prelude::*;

use super::driver::{Driver, Event, Plan};
use crate::HeadRules;
use crate::h1::{CloseReason, EndStep, Persistence, ResponseFraming};

fn run(text: &[u8], ends: impl IntoIterator<Item = usize>, plans: &[Plan]) -> Vec<Event> {
    Driver::new(text, ends, HeadRules::default()).run(plans)
}

/// Compares all ways to cut the text once, and byte for byte, with the whole.
fn check(text: &[u8], plans: &[Plan]) {
    let whole = run(text, [], plans);
    assert_eq!(run(text, 0..text.len(), plans), whole, "{:?} {plans:?}", text.escape_ascii().to_string());
    for cut in 0..text.len() {
        assert_eq!(run(text, [cut], plans), whole, "{:?} at {cut}, {plans:?}", text.escape_ascii().to_string());
    }
}

/// The handler reads the whole body, and the response may have chunks.
const READS: Plan = Plan(0b0100_0010);

#[test]
fn pipelined_requests_are_served_one_after_the_other() {
    let text = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n\
                 PUT /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nok\r\n0\r\nT: v\r\n\r\n\
                 GET /c HTTP/1.0\r\n\r\nGET /d HTTP/1.1\r\nHost: a\r\n\r\n";
    let events = run(text, [], &[READS]);
    let kept = Event::Response(ResponseFraming::Chunked, Some(Persistence::Kept));
    let asked = Persistence::Closed(CloseReason::ClientAsked);
    let head = |text: &str| Event::Head(text.as_bytes().to_vec());
    assert_eq!(
        events,
        [
            head("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"),
            Event::Body(b"hello".to_vec()),
            kept.clone(),
            Event::End(EndStep::NextRequest),
            head("PUT /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Event::Body(b"ok".to_vec()),
            kept,
            Event::End(EndStep::NextRequest),
            head("GET /c HTTP/1.0\r\n\r\n"),
            Event::Body(Vec::new()),
            Event::Response(ResponseFraming::UntilEnd, Some(asked)),
            Event::End(EndStep::Linger),
        ]
    );
    for number in 0..256 {
        check(text, &[Plan(number)]);
    }
}

#[test]
fn behind_wrong_framing_there_is_no_request() {
    let text = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n4;a\x7f\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
    for number in 0..256 {
        check(text, &[Plan(number)]);
        let events = run(text, [], &[Plan(number)]);
        let heads = events.iter().filter(|event| matches!(event, Event::Head(_))).count();
        assert_eq!(heads, 1, "{number} {events:?}");
    }
}

#[test]
fn an_input_that_ends_is_cut_where_it_ends() {
    let text = b"\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n";
    for len in 0..text.len() {
        check(&text[..len], &[READS, Plan(0)]);
    }
    assert_eq!(run(&text[..2], [], &[READS]), []);
    assert_eq!(run(&text[..9], [], &[READS]), [Event::CutHead]);
    assert_eq!(run(&text[..text.len() - 17], [], &[READS]).last(), Some(&Event::CutBody));
    assert_eq!(run(text, [], &[READS]).last(), Some(&Event::CutHead));
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /\r\n", "\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "1\r\na\r\n", "0\r\nT: v\r\n\r\n",
            "PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n", "GET / HTTP/2.0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", "GET / HTTP/1.1\r\n",
        ]).prop_map(str::to_owned),
        1 => "[\\x00-\\x7f]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_connection(
        pieces in prop::collection::vec(piece(), 0..6),
        plans in prop::collection::vec(any::<u32>().prop_map(Plan), 1..4),
    ) {
        check(pieces.concat().as_bytes(), &plans);
    }
}
