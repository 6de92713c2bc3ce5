//! What only clients do: they give up requests.

use super::*;

/// The fields of a response.
fn response_block(encoder: &mut Encoder) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    encoder.status(200, &mut block);
    block
}

fn response(encoder: &mut Encoder, id: u32, ends: bool) -> Vec<u8> {
    let flags = flag::END_HEADERS | if ends { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flags, id, &response_block(encoder))
}

/// A client that has the server's settings, with an encoder for responses.
fn client() -> (Connection, Encoder) {
    let mut client = Connection::new(&config(Role::Client));
    assert_eq!(feed(&mut client, &frame(kind::SETTINGS, 0, 0, &[])), Ok(vec![Seen::Settings]));
    written(&mut client);
    (client, Encoder::new())
}

/// Begins a request; its stream.
fn ask(client: &mut Connection) -> Slot {
    let slot = client.open().unwrap();
    client.head(slot, true, |encoder, out| encoder.pseudo(Pseudo::Method, b"GET", out));
    slot
}

#[test]
fn what_is_left_of_a_frame_is_not_for_the_stream_that_gets_the_place() {
    let data = frame(kind::DATA, flag::END_STREAM | flag::PADDED, 1, b"\x02for the first one\0\0");
    for split in [FRAME_HEAD, FRAME_HEAD + 1, FRAME_HEAD + 5, data.len() - 2, data.len() - 1] {
        let (mut client, mut encoder) = client();
        let given_up = ask(&mut client);
        feed(&mut client, &response(&mut encoder, 1, false)).unwrap();
        feed(&mut client, &data[..split]).unwrap();
        client.reset(given_up, ErrorCode::CANCEL, 0).unwrap();
        client.release(given_up);
        let second = ask(&mut client);
        assert_eq!(second, given_up, "the place is used again");
        assert_eq!(feed(&mut client, &data[split..]), Ok(vec![]), "{split}");
        let seen = feed(&mut client, &response(&mut encoder, 3, true)).unwrap();
        assert!(matches!(seen[..], [Seen::Head(slot, true, _)] if slot == second), "{seen:?}");
    }
}

#[test]
fn responses_to_requests_that_were_given_up_may_come_late() {
    let (mut client, mut encoder) = client();
    let given_up = ask(&mut client);
    client.reset(given_up, ErrorCode::CANCEL, 0).unwrap();
    client.release(given_up);
    for number in 0..100 {
        let slot = ask(&mut client);
        let seen = feed(&mut client, &response(&mut encoder, 3 + 2 * number, true)).unwrap();
        assert!(matches!(seen[..], [Seen::Head(of, true, _)] if of == slot));
        client.release(slot);
    }
    written(&mut client);
    let late =
        [response(&mut encoder, 1, false), frame(kind::DATA, 0, 1, b"late"), frame(kind::DATA, 1, 1, b"")].concat();
    assert_eq!(feed(&mut client, &late), Ok(vec![]));
    assert!(written(&mut client).is_empty());
}

#[test]
fn windows_grow_no_further_than_they_may() {
    let (mut client, mut encoder) = client();
    client.limit_windows(100_000);
    let slot = ask(&mut client);
    feed(&mut client, &response(&mut encoder, 1, false)).unwrap();
    let (mut granted, mut read) = (65_535, 0);
    for _ in 0..50 {
        feed(&mut client, &frame(kind::DATA, 0, 1, &[0; 16_000])).unwrap();
        client.consumed(slot, 16_000);
        read += 16_000;
        for (head, payload) in frames(&written(&mut client)) {
            if head.kind == kind::WINDOW_UPDATE && head.stream == 1 {
                granted += u32::from_be_bytes(payload.try_into().unwrap()) as i64;
            }
        }
        assert!(granted - read <= 100_000, "{granted} {read}");
    }
    assert!(granted - read > 65_535, "it has grown");
}
