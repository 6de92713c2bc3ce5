//! What goes well.

use super::*;

#[test]
fn a_request_and_its_response_are_records_on_both_sides() {
    run(async {
        let (stream, mut peer) = alone().await;
        ask(&stream);
        let slot = peer.request().await;
        peer.head(slot, 103, false);
        peer.head(slot, 200, false);
        peer.machine.data(slot, vec![b'x'; 50_000].into(), false);
        peer.machine.trailers(slot, vec![(Bytes::from_static(b"grpc-status"), Bytes::from_static(b"0"))]);
        let (got, ()) = tokio::join!(response(&stream, 1000), peer.write());
        let trailers = vec!["grpc-status: 0".to_owned()];
        let expected = Got { statuses: vec![103, 200], body: vec![b'x'; 50_000], trailers, broken: None };
        assert_eq!(got.unwrap(), expected);
        drop(stream);
        assert_eq!(peer.until(|seen| matches!(seen, Seen::Closed).then_some(())).await, ());
        assert!(!peer.seen.iter().any(|seen| matches!(seen, Seen::Reset(..))), "{:?}", peer.seen);
    });
}

#[test]
fn fields_arrive_as_they_were_written_and_a_head_may_be_the_whole_request() {
    run(async {
        let (stream, mut peer) = alone().await;
        ask(&stream);
        let fields =
            peer.until(|seen| if let Seen::Head(_, true, fields) = seen { Some(fields.clone()) } else { None });
        assert_eq!(fields.await, [":method: GET", ":scheme: http", ":authority: a", ":path: /", "x-name: x"]);
    });
}

#[test]
fn a_body_is_written_as_the_window_allows() {
    for in_pieces in [false, true] {
        run(async move {
            let (stream, mut peer) = alone().await;
            let mut out = request(false);
            // The server's window is known.
            let written = Cell::new(0);
            let body = Bytes::from(vec![7; 100_000]);
            let all = 300_000 + 3 * record::RECORD_HEAD;
            let write = async {
                assert_eq!(stream.try_write(&out, &Bytes::new()).unwrap(), out.len());
                for number in 0..3 {
                    out.clear();
                    record::body_head(&mut out, body.len(), number == 2);
                    let mut piece = body.clone();
                    if !in_pieces {
                        out.extend_from_slice(&piece);
                        piece = Bytes::new();
                    }
                    while !out.is_empty() || !piece.is_empty() {
                        match stream.try_write(&out, &piece) {
                            Ok(count) => {
                                written.set(written.get() + count);
                                let of_out = count.min(out.len());
                                out.drain(..of_out);
                                drop(piece.split_to(count - of_out));
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                                poll_fn(|context| stream.poll_writable(context)).await;
                            }
                        }
                    }
                }
            };
            let serve = async {
                let slot = peer.request().await;
                peer.until(|seen| matches!(seen, Seen::End(_)).then_some(())).await;
                slot
            };
            let ((), slot) = tokio::join!(write, serve);
            let received: usize =
                peer.seen.iter().map(|seen| if let Seen::Data(_, len) = seen { *len } else { 0 }).sum();
            assert_eq!((written.get(), received), (all, 300_000));
            peer.answer(slot, b"");
            let (got, ()) = tokio::join!(response(&stream, 1), peer.write());
            assert_eq!(got.unwrap(), Got::ok(b""));
        });
    }
}

#[test]
fn who_does_not_read_holds_up_nobody_else_and_gets_no_more_than_its_window() {
    run(async {
        let (transport, mut peer) = pair();
        let pool = sharing::Sharing::default();
        let slow = pool.begin(transport, None);
        ask(&slow);
        let first = peer.request().await;
        peer.head(first, 200, false);
        peer.machine.data(first, vec![1; 1_000_000].into(), true);
        peer.write().await;
        loops::yield_now().await;
        let quick = pool.stream();
        ask(&quick);
        let second = peer.request().await;
        peer.answer(second, b"quick");
        let (got, ()) = tokio::join!(response(&quick, 100), peer.write());
        assert_eq!(got.unwrap(), Got::ok(b"quick"));
        // Nothing more comes than the window that each stream begins with.
        let mut input = BytesMut::new();
        let held = read(&slow, &mut input, usize::MAX).await.unwrap();
        assert!(held < 70_000, "{held}");
        drop((slow, quick, pool));
    });
}

#[test]
fn a_reader_takes_no_more_than_it_wants_and_what_comes_meanwhile_follows() {
    run(async {
        let (stream, mut peer) = alone().await;
        ask(&stream);
        let slot = peer.request().await;
        peer.head(slot, 200, false);
        peer.machine.data(slot, Bytes::from_static(b"0123456789"), false);
        peer.write().await;
        let mut input = BytesMut::new();
        let head = read(&stream, &mut input, 1).await.unwrap();
        assert!(matches!(record::next_response(&mut input), Ok(Some(ResponseRecord::Head { .. }))));
        // One byte of the body came with it, if the body was there.
        let mut body = Vec::new();
        let mut left = 0;
        let mut most = 1;
        while body.len() < 15 {
            if left == 0 {
                match record::next_response(&mut input).unwrap() {
                    Some(ResponseRecord::Data(len)) => left = len,
                    None => {
                        let before = input.len();
                        let count = read(&stream, &mut input, most).await.unwrap();
                        assert!(input.len() == before + count && count <= most + record::RECORD_HEAD);
                        most += 1;
                    }
                    other => panic!("{other:?}"),
                }
            } else if input.is_empty() {
                read(&stream, &mut input, most).await.unwrap();
            }
            let part = input.split_to(left.min(input.len()));
            left -= part.len();
            body.extend_from_slice(&part);
            if body.len() == 3 {
                peer.machine.data(slot, Bytes::from_static(b"abcde"), true);
                peer.write().await;
                loops::after_events().await;
            }
        }
        assert_eq!(body, b"0123456789abcde");
        assert!(head > 0);
    });
}
