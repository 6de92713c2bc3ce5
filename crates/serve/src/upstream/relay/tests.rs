use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::task::Waker;

use freerun_transport::Transport;

use super::*;

const LONG: Duration = Duration::from_secs(3600);

fn settings() -> RelaySettings {
    RelaySettings {
        piece: 4096,
        half_close: HalfClose::Neither,
        timeout: LONG,
        news: News::OfAnyKind,
        client_patience: None,
        server_patience: None,
    }
}

/// A relay, and those whom it connects: a client and a server.
struct Pair {
    relay: Relay,
    ends: [Transport; 2],
    client: UnixStream,
    server: UnixStream,
}

impl Pair {
    fn new(settings: RelaySettings) -> Pair {
        let end = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_nonblocking(true).unwrap();
            (Transport::plain(ours.into()), theirs)
        };
        let ((client_end, client), (server_end, server)) = (end(), end());
        Pair { relay: Relay::new(&settings), ends: [client_end, server_end], client, server }
    }

    /// Passes on what there is.
    async fn pass(&mut self) -> Poll<Over> {
        poll_fn(|context| Poll::Ready(self.relay.poll(&self.ends[0], &self.ends[1], context))).await
    }

    /// Waits for the end, while `meanwhile` is called before each poll.
    async fn over(&mut self, mut meanwhile: impl FnMut(&mut UnixStream, &mut UnixStream)) -> Over {
        let Pair { relay, ends, client, server } = self;
        poll_fn(|context| {
            meanwhile(client, server);
            relay.poll(&ends[0], &ends[1], context)
        })
        .await
    }

    fn totals(&self) -> [u64; 4] {
        let relay = &self.relay;
        let (client, server) = (RelaySide::Client, RelaySide::Upstream);
        [relay.received(client), relay.sent(server), relay.received(server), relay.sent(client)]
    }
}

/// What can be read now.
fn read(from: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 64 * 1024];
    while let Ok(n) = from.read(&mut piece) {
        if n == 0 {
            break;
        }
        all.extend_from_slice(&piece[..n]);
    }
    all
}

fn has_ended(from: &mut UnixStream) -> bool {
    matches!(from.read(&mut [0; 1]), Ok(0))
}

fn on_a_loop<T>(future: impl Future<Output = T>) -> T {
    loops::block_on(future).unwrap()
}

#[test]
fn bytes_go_both_ways_and_are_counted() {
    on_a_loop(async {
        let mut pair = Pair::new(settings());
        pair.relay.begin_with(RelaySide::Client, b"first ".to_vec());
        pair.client.write_all(b"question").unwrap();
        pair.server.write_all(b"answer").unwrap();
        assert!(pair.pass().await.is_pending());
        assert_eq!((read(&mut pair.server), read(&mut pair.client)), (b"first question".to_vec(), b"answer".to_vec()));
        // What was put before the client's bytes was not read here.
        assert_eq!(pair.totals(), [8, 14, 6, 6]);
    });
}

#[test]
fn without_half_close_the_end_of_one_side_is_the_end() {
    on_a_loop(async {
        for (side, other) in [(RelaySide::Client, RelaySide::Upstream), (RelaySide::Upstream, RelaySide::Client)] {
            let mut pair = Pair::new(settings());
            let ending = if side == RelaySide::Client { &mut pair.client } else { &mut pair.server };
            ending.write_all(b"last words").unwrap();
            ending.shutdown(Shutdown::Write).unwrap();
            let over = pair.over(|_, _| {}).await;
            assert!(matches!(over, Over::Ended(ended) if ended == side), "{over:?}");
            assert_eq!((pair.relay.received(side), pair.relay.sent(other)), (10, 10));
        }
    });
}

#[test]
fn with_half_close_an_end_is_passed_on_and_the_other_side_goes_on() {
    on_a_loop(async {
        let mut pair = Pair::new(RelaySettings { half_close: HalfClose::Both, ..settings() });
        pair.client.write_all(b"question").unwrap();
        pair.client.shutdown(Shutdown::Write).unwrap();
        assert!(pair.pass().await.is_pending());
        assert_eq!(read(&mut pair.server), b"question");
        // An event tells of the end.
        loops::after_events().await;
        assert!(pair.pass().await.is_pending());
        assert!(has_ended(&mut pair.server));
        let mut steps = 0;
        let over = pair
            .over(|client, server| {
                steps += 1;
                if steps == 1 {
                    server.write_all(b"answer").unwrap();
                    server.shutdown(Shutdown::Write).unwrap();
                    assert!(!has_ended(client));
                }
            })
            .await;
        assert!(matches!(over, Over::Ended(RelaySide::Upstream)), "{over:?}");
        assert_eq!(read(&mut pair.client), b"answer");
    });
}

#[test]
fn with_half_close_of_the_client_the_end_of_the_server_is_the_end() {
    on_a_loop(async {
        let settings = RelaySettings { half_close: HalfClose::Client, ..settings() };
        let mut pair = Pair::new(settings);
        pair.client.write_all(b"question").unwrap();
        pair.client.shutdown(Shutdown::Write).unwrap();
        assert!(pair.pass().await.is_pending());
        assert_eq!(read(&mut pair.server), b"question");
        // An event tells of the end.
        loops::after_events().await;
        assert!(pair.pass().await.is_pending());
        assert!(has_ended(&mut pair.server));
        pair.server.write_all(b"answer").unwrap();
        pair.server.shutdown(Shutdown::Write).unwrap();
        let over = pair.over(|_, _| {}).await;
        assert!(matches!(over, Over::Ended(RelaySide::Upstream)), "{over:?}");
        assert_eq!(read(&mut pair.client), b"answer");

        let mut pair = Pair::new(settings);
        pair.server.shutdown(Shutdown::Write).unwrap();
        let over = pair.over(|_, _| {}).await;
        assert!(matches!(over, Over::Ended(RelaySide::Upstream)), "{over:?}");
    });
}

#[test]
fn a_slow_reader_costs_one_piece_and_gets_everything() {
    on_a_loop(async {
        let mut pair = Pair::new(settings());
        let whole: Vec<u8> = (0..4_000_000u32).map(|n| (n % 251) as u8).collect();
        let (mut sent, mut got) = (0, Vec::new());
        let mut largest = 0;
        while got.len() < whole.len() {
            if let Ok(n) = pair.server.write(&whole[sent..]) {
                sent += n;
            }
            // The client reads nothing until no more comes from the server.
            loops::after_events().await;
            let before = pair.relay.received(RelaySide::Upstream);
            assert!(pair.pass().await.is_pending());
            let held = pair.relay.received(RelaySide::Upstream) - pair.relay.sent(RelaySide::Client);
            largest = largest.max(held);
            if pair.relay.received(RelaySide::Upstream) == before {
                got.extend(read(&mut pair.client));
            }
        }
        assert!(got == whole);
        assert!((1..=4096).contains(&largest), "{largest}");
    });
}

#[test]
fn rates_are_kept_in_each_direction() {
    on_a_loop(async {
        let mut pair = Pair::new(settings());
        pair.relay.limit(RelaySide::Upstream, 1000, 0);
        pair.relay.limit(RelaySide::Client, 100, 0);
        pair.server.write_all(&[b'x'; 2500]).unwrap();
        pair.client.write_all(&[b'y'; 50]).unwrap();
        let began = loops::millis();
        assert!(pair.pass().await.is_pending());
        assert_eq!(pair.totals(), [50, 50, 1000, 1000]);
        pair.server.shutdown(Shutdown::Write).unwrap();
        let over = pair.over(|_, _| {}).await;
        assert!(matches!(over, Over::Ended(RelaySide::Upstream)), "{over:?}");
        assert_eq!(pair.relay.sent(RelaySide::Client), 2500);
        // The last 500 bytes are those of the third second.
        assert!(loops::millis() - began >= 2000);
    });
}

#[test]
fn silence_ends_it() {
    on_a_loop(async {
        let mut pair = Pair::new(RelaySettings { timeout: Duration::from_millis(30), ..settings() });
        let began = loops::millis();
        let over = pair.over(|_, _| {}).await;
        assert!(matches!(over, Over::Silent), "{over:?}");
        assert!(loops::millis() - began >= 30);
    });
}

#[test]
fn what_counts_as_news_puts_the_end_off() {
    on_a_loop(async {
        for (news, side, counts) in [
            (News::OfServer, RelaySide::Upstream, true),
            (News::OfServer, RelaySide::Client, false),
            (News::OfBoth, RelaySide::Upstream, true),
            (News::OfBoth, RelaySide::Client, true),
            (News::OfAnyKind, RelaySide::Client, true),
        ] {
            let mut pair = Pair::new(RelaySettings { news, ..settings() });
            pair.relay.until = 7;
            let from = if side == RelaySide::Client { &mut pair.client } else { &mut pair.server };
            from.write_all(b"x").unwrap();
            let mut context = Context::from_waker(Waker::noop());
            assert!(pair.relay.pass(&pair.ends[0], &pair.ends[1], &mut context).is_none());
            assert_eq!(pair.relay.until != 7, counts, "{news:?} {side:?}");
        }
    });
}

#[test]
fn who_takes_nothing_is_late() {
    on_a_loop(async {
        let patience = Some(Duration::from_millis(30));
        let mut pair = Pair::new(RelaySettings { client_patience: patience, ..settings() });
        loop {
            while pair.server.write(&[0; 4096]).is_ok() {}
            let before = pair.relay.received(RelaySide::Upstream);
            assert!(pair.pass().await.is_pending());
            loops::after_events().await;
            if pair.relay.received(RelaySide::Upstream) == before {
                break;
            }
        }
        let over = pair.over(|_, _| {}).await;
        assert!(matches!(over, Over::Blocked(RelaySide::Client)), "{over:?}");
    });
}

#[test]
fn a_side_that_has_gone_is_named() {
    on_a_loop(async {
        let mut pair = Pair::new(settings());
        let (gone, _) = UnixStream::pair().unwrap();
        drop(std::mem::replace(&mut pair.client, gone));
        pair.server.write_all(b"answer").unwrap();
        let over = pair.over(|_, _| {}).await;
        assert!(matches!(over, Over::Send(RelaySide::Client, _)), "{over:?}");
    });
}
