//! Streams and connections that end before they should.

use freerun_proto::h2::frame::{self, kind};

use super::*;

/// What becomes of a request when the server does this to it.
fn broken(act: impl AsyncFnOnce(&mut Peer, h2::Slot)) -> io::Result<Got> {
    let result = Rc::new(Cell::new(None));
    let told = result.clone();
    run(async move {
        let (stream, mut peer) = alone().await;
        ask(&stream);
        let slot = peer.request().await;
        act(&mut peer, slot).await;
        peer.write().await;
        told.set(Some(response(&stream, 100).await));
    });
    result.take().unwrap()
}

fn only(how: ExchangeFault) -> Got {
    Got { broken: Some(how), ..Got::default() }
}

#[test]
fn a_reset_stream_says_how_far_it_came() {
    let reset = |code| {
        broken(async |peer: &mut Peer, slot| {
            peer.machine.reset(slot, code, 0).unwrap();
        })
    };
    assert_eq!(reset(ErrorCode::REFUSED_STREAM).unwrap(), only(ExchangeFault::Refused(7)));
    assert_eq!(reset(ErrorCode::INTERNAL_ERROR).unwrap(), only(ExchangeFault::Reset(2)));
    let late = broken(async |peer: &mut Peer, slot| {
        peer.head(slot, 200, false);
        peer.machine.data(slot, Bytes::from_static(b"some"), false);
        peer.write().await;
        peer.machine.reset(slot, ErrorCode::CANCEL, 0).unwrap();
    });
    assert_eq!(late.unwrap(), Got { broken: Some(ExchangeFault::Reset(8)), ..Got::ok(b"some") });
}

#[test]
fn a_goaway_breaks_off_what_was_not_looked_at_and_nothing_else() {
    let goaway = |last: u32, code: u32| [last.to_be_bytes(), code.to_be_bytes()].concat();
    let unprocessed = broken(async |peer: &mut Peer, _| {
        let mut bytes = Vec::new();
        frame::write(kind::GOAWAY, 0, 0, &goaway(0, 0), &mut bytes);
        peer.write_raw(&bytes).await;
    });
    assert_eq!(unprocessed.unwrap(), only(ExchangeFault::GoneAway(0)));
    let processed = broken(async |peer: &mut Peer, slot| {
        peer.machine.finish(ErrorCode::NO_ERROR);
        peer.write().await;
        loops::after_events().await;
        peer.answer(slot, b"whole");
    });
    assert_eq!(processed.unwrap(), Got::ok(b"whole"));
}

#[test]
fn a_connection_that_goes_away_takes_no_further_request() {
    run(async {
        let pool = sharing::Sharing::default();
        let (transport, mut peer) = pair();
        let first = pool.begin(transport, None);
        ask(&first);
        let slot = peer.request().await;
        let late = pool.stream();
        peer.machine.announce_end();
        peer.write().await;
        while !first.is_over() {
            loops::after_events().await;
        }
        assert!(!pool.has_room());
        // It has its slot already, but its request is not sent.
        assert_eq!(late.try_write(&request(true), &Bytes::new()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(response(&late, 1).await.unwrap(), only(ExchangeFault::Refused(7)));
        peer.answer(slot, b"whole");
        let (got, ()) = tokio::join!(response(&first, 100), peer.write());
        assert_eq!(got.unwrap(), Got::ok(b"whole"));
        drop((first, late));
        peer.until(|seen| matches!(seen, Seen::Closed).then_some(())).await;
    });
}

#[test]
fn a_closed_connection_is_the_end_and_wrong_bytes_are_told() {
    let closed = broken(async |peer: &mut Peer, slot| {
        peer.head(slot, 200, false);
        peer.write().await;
        peer.transport.end();
    });
    assert_eq!(closed.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let wrong = broken(async |peer: &mut Peer, _| peer.write_raw(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
    let text = "upstream broke the rules of HTTP/2: too large frame (FRAME_SIZE_ERROR)";
    assert_eq!(wrong.unwrap(), only(ExchangeFault::Invalid(text.to_owned())));
}

#[test]
fn a_wrong_head_ends_its_stream_alone() {
    run(async {
        let pool = sharing::Sharing::default();
        let (transport, mut peer) = pair();
        let (first, second) = (pool.begin(transport, None), Cell::new(None));
        ask(&first);
        let slot = peer.request().await;
        peer.machine.head(slot, true, |encoder, out| {
            encoder.status(200, out);
            encoder.field(b"transfer-encoding", b"chunked", out);
        });
        peer.write().await;
        let text = "upstream sent invalid header: \"transfer-encoding: chunked\"";
        assert_eq!(response(&first, 1).await.unwrap(), only(ExchangeFault::Invalid(text.to_owned())));
        second.set(Some(pool.stream()));
        let second = second.take().unwrap();
        ask(&second);
        let slot = peer.request().await;
        peer.answer(slot, b"good");
        let (got, ()) = tokio::join!(response(&second, 100), peer.write());
        assert_eq!(got.unwrap(), Got::ok(b"good"));
    });
}

#[test]
fn a_request_that_is_given_up_is_cancelled_and_the_others_go_on() {
    run(async {
        let pool = sharing::Sharing::default();
        let (transport, mut peer) = pair();
        let given_up = pool.begin(transport, None);
        ask(&given_up);
        let slot = peer.request().await;
        peer.head(slot, 200, false);
        peer.write().await;
        loops::after_events().await;
        let other = pool.stream();
        drop(given_up);
        ask(&other);
        let reset =
            peer.until(|seen| if let Seen::Reset(slot, code) = seen { Some((*slot, *code)) } else { None }).await;
        assert_eq!(reset, (slot, ErrorCode::CANCEL));
        let slot = peer.request().await;
        peer.answer(slot, b"good");
        let (got, ()) = tokio::join!(response(&other, 100), peer.write());
        assert_eq!(got.unwrap(), Got::ok(b"good"));
    });
}

#[test]
fn a_response_that_comes_before_the_request_was_sent_is_whole() {
    run(async {
        let (stream, mut peer) = alone().await;
        let head = request(false);
        assert_eq!(stream.try_write(&head, &Bytes::new()).unwrap(), head.len());
        let slot = peer.request().await;
        peer.answer(slot, b"no more, please");
        // The server does not wait for the rest: the stream is reset with NO_ERROR.
        peer.machine.cut_off_until(u64::MAX);
        peer.write().await;
        peer.machine.reset(slot, ErrorCode::NO_ERROR, 0).unwrap();
        peer.write().await;
        assert_eq!(response(&stream, 100).await.unwrap(), Got::ok(b"no more, please"));
        let mut piece = Vec::new();
        record::body_head(&mut piece, 3, false);
        let write = || stream.try_write(&piece, &Bytes::from_static(b"abc"));
        while write().is_ok() {
            loops::after_events().await;
        }
        assert_eq!(write().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(poll_fn(|context| Poll::Ready(stream.poll_writable(context).is_ready())).await);
    });
}

#[test]
fn a_silent_server_is_asked_and_all_streams_end_if_it_does_not_answer() {
    run(async {
        let pool = sharing::Sharing::default();
        let (transport, mut peer) = pair();
        let first = pool.begin(transport, None);
        ask(&first);
        peer.request().await;
        let second = pool.stream();
        ask(&second);
        peer.request().await;
        first.shorten_patience(20);
        // As long as it answers, it may take as long as it likes.
        let before = first.heard();
        while first.heard() < before + 100 {
            peer.step().await;
        }
        // From here on nobody answers.
        let (one, two) = tokio::join!(response(&first, 1), response(&second, 1));
        assert_eq!(one.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(two.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(!pool.has_room());
    });
}
