//! A response that a cache keeps: its body goes to the fill of its object, which the client follows as all others do.

use std::io;

use bytes::Bytes;
use freerun_cache::fill::{Filling, Follower};
use freerun_cache::key::Key;
use freerun_cache::record::Head;
use freerun_http::content::aio;
use freerun_http::content::response::{Body, LocalBoxFuture, Response, Source};
use freerun_http::log::Detached;
use freerun_http::request::Request;
use freerun_http::worker::Background;
use freerun_runtime::loops;

use super::answer::{self, Front};
use super::pieces;
use super::reader::{Broken, Reader, Ready};
use crate::proxy::cache::answer::offer;

/// What one read brings at most.
const READ: usize = 128 * 1024;

/// A response that is going to be kept.
pub struct Kept {
    /// Where it goes.
    pub filling: Filling,
    /// What is kept of its head.
    pub head: Head,
    /// The key that it is kept under.
    pub key: Key,
    /// By the rules of RFC 9111.
    pub rfc9111: bool,
}

impl Kept {
    /// It is not kept after all.
    pub fn give_up(self) {
        self.filling.not_storable();
    }

    /// What a kept response offers to its clients.
    pub fn offer(&self, response: &mut Response) {
        offer(response, self.rfc9111);
    }

    /// Has the body read and kept. What the client gets of it, if it follows: `None`: nothing can be had.
    pub fn run(self, request: &Request, mut reader: Reader, follows: bool) -> Option<Body> {
        let Kept { mut filling, head, key, .. } = self;
        let length = reader.left();
        let (mut front, broken) = answer::front(request, &mut reader);
        filling.head(head, length, key);
        if reader.is_over() && !broken && front.len() <= 1 {
            let body = front.pop().unwrap_or_default();
            filling.whole(body.clone());
            return Some(if body.is_empty() { Body::Empty } else { Body::Bytes(body) });
        }
        let follower = match follows {
            true => Some(filling.follow(aio::resolve(request)?, request.client_key())?),
            false => None,
        };
        if let Some(trouble) = reader.unsaid.take() {
            trouble.log(request, super::trouble::Doing::ReadingBody);
        }
        reader.log = Some(Detached::of(request));
        reader.leave_client();
        let background = Background::new(&request.connection.home.shared);
        loops::spawn(request.connection.number, "keeping a response", async move {
            feed(reader, front, broken, filling).await;
            drop(background);
        });
        Some(follower.map_or(Body::Empty, |follower| Body::Source(Box::new(Followed(follower)))))
    }
}

/// Gives what the server sends to the fill, to its end.
async fn feed(mut reader: Reader, front: Front, broken: bool, mut filling: Filling) {
    for piece in front {
        if filling.push(piece).await.is_err() {
            return;
        }
    }
    if broken {
        return;
    }
    loop {
        tokio::task::consume_budget().await;
        match reader.ready() {
            Ok(Ready::Piece(piece)) => {
                if filling.push(pieces::own(piece)).await.is_err() {
                    return;
                }
            }
            Ok(Ready::Nothing) => {
                let room =
                    reader.left().and_then(|left| usize::try_from(left).ok()).map_or(READ, |left| left.min(READ));
                if reader.receive(room.max(1)).await.is_err() {
                    return;
                }
            }
            Ok(Ready::End) => return filling.end(),
            Err(Broken) => return,
        }
    }
}

/// The body of an object that is being fetched.
pub struct Followed(pub Follower);

impl Source for Followed {
    fn next(&mut self) -> LocalBoxFuture<'_, io::Result<Option<Bytes>>> {
        Box::pin(self.0.next())
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn remaining(&self) -> Option<u64> {
        self.0.remaining()
    }

    fn narrow(&mut self, begin: u64, end: u64) -> bool {
        self.0.narrow(begin, end);
        true
    }
}
