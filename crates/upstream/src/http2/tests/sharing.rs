//! Connections in a pool.

use std::sync::Arc;

use freerun_transport::Transport;

use super::*;
use crate::exchange::LossReason;
use crate::pool::new_connection::{JoinResult, NewConnection};
use crate::pool::{IdleCount, KeepAlive, Pool, Scope};

/// A pool of connections.
#[derive(Default)]
pub struct Sharing {
    pub pool: Pool,
    pub settings: KeepAlive,
    pub count: Arc<IdleCount>,
}

pub fn scope() -> Scope {
    Scope::of("h2")
}

impl Sharing {
    /// Begins a connection; its first stream.
    pub fn begin(&self, transport: Transport, making: Option<NewConnection>) -> Http2Stream {
        let connection = Http2Connection::begin(transport, making);
        Http2Stream::of(self.pool.share(connection, scope(), &self.settings, &self.count)).unwrap()
    }

    /// A further stream.
    pub fn stream(&self) -> Http2Stream {
        match self.pool.find(scope()) {
            JoinResult::Slot(slot) => Http2Stream::of(slot).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub fn making(&self) -> NewConnection {
        match self.pool.find(scope()) {
            JoinResult::Make(making) => making,
            other => panic!("{other:?}"),
        }
    }

    pub fn has_room(&self) -> bool {
        matches!(self.pool.find(scope()), JoinResult::Slot(_))
    }
}

#[test]
fn nothing_but_the_first_request_is_sent_before_the_settings_have_come() {
    run(async {
        let pool = Sharing::default();
        let (transport, mut peer) = pair();
        let first = pool.begin(transport, Some(pool.making()));
        ask(&first);
        let JoinResult::Wait(waiting) = pool.pool.find(scope()) else { panic!() };
        let waiting = async {
            let crate::pool::new_connection::WakeReason::Slot(slot) = waiting.await else { panic!() };
            let stream = Http2Stream::of(slot).unwrap();
            ask(&stream);
            stream
        };
        let mut waiting = std::pin::pin!(waiting);
        for _ in 0..10 {
            loops::after_events().await;
            assert!(poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await);
        }
        let served = async {
            let one = peer.request().await;
            let two = peer.request().await;
            [one, two].into_iter().for_each(|slot| peer.answer(slot, b"x"));
            peer.write().await;
        };
        let (second, ()) = tokio::join!(waiting, served);
        assert_eq!(response(&first, 10).await.unwrap(), Got::ok(b"x"));
        assert_eq!(response(&second, 10).await.unwrap(), Got::ok(b"x"));
    });
}

#[test]
fn it_carries_as_many_as_the_server_allows_and_no_more_than_the_bound() {
    for (allowed, expected) in [(3, 3), (1000, 100)] {
        run(async move {
            let pool = Sharing::default();
            let (transport, mut peer) = peer::pair_with(allowed);
            let mut streams = vec![pool.begin(transport, Some(pool.making()))];
            ask(&streams[0]);
            peer.request().await;
            loops::after_events().await;
            while let JoinResult::Slot(slot) = pool.pool.find(scope()) {
                streams.push(Http2Stream::of(slot).unwrap());
                ask(streams.last().unwrap());
            }
            assert_eq!(streams.len(), expected);
            for _ in 1..expected {
                peer.request().await;
            }
            assert_eq!(peer.machine.open_streams(), expected);
            streams.pop();
            assert!(pool.has_room());
        });
    }
}

#[test]
fn a_connection_that_nobody_needs_is_closed_in_order() {
    run(async {
        let pool = Sharing::default();
        let (transport, mut peer) = pair();
        let stream = pool.begin(transport, None);
        ask(&stream);
        let slot = peer.request().await;
        peer.answer(slot, b"whole");
        drop(pool);
        let (got, ()) = tokio::join!(response(&stream, 100), peer.write());
        assert_eq!(got.unwrap(), Got::ok(b"whole"));
        drop(stream);
        peer.until(|seen| matches!(seen, Seen::Closed).then_some(())).await;
        assert!(peer.seen.contains(&Seen::GoneAway(ErrorCode::NO_ERROR)));
    });
}

#[test]
fn a_handle_may_be_dropped_on_another_thread() {
    run(async {
        let (transport, mut peer) = pair();
        let connection = Http2Connection::begin(transport, None);
        loops::yield_now().await;
        std::thread::spawn(move || {
            assert!(connection.inner().is_none(), "it is used on its loop alone");
            drop(connection);
        })
        .join()
        .unwrap();
        peer.until(|seen| matches!(seen, Seen::Closed).then_some(())).await;
    });
}

#[test]
fn those_who_wait_learn_that_the_connection_has_ended() {
    run(async {
        let pool = Sharing::default();
        let (transport, peer) = pair();
        let first = pool.begin(transport, Some(pool.making()));
        ask(&first);
        let JoinResult::Wait(waiting) = pool.pool.find(scope()) else { panic!() };
        drop(peer);
        let crate::pool::new_connection::WakeReason::Failed(why) = waiting.await else { panic!() };
        assert_eq!(why.downcast_ref(), Some(&LossReason::Closed));
        assert!(matches!(pool.pool.find(scope()), JoinResult::Make(_)));
        assert_eq!(response(&first, 1).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    });
}
