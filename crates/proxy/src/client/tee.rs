//! A response's body that goes somewhere else besides the client (a cache keeps it, for example): it is read to its end, whatever
//! the client does, and the client gets what follows from there.

use std::convert::Infallible;

use bytes::Bytes;
use freerun_http::log::Detached;
use freerun_http::request::Request;
use freerun_http::request::response::Body;
use freerun_runtime::loops;
use freerun_serve::background::Background;

use crate::client::error::Stage;
use crate::client::pieces;
use crate::client::reader::{Broken, Reader, Ready};
use crate::client::response;
use crate::client::response::Front;
use crate::exchange::family::Family;

/// What one read brings at most.
const READ: usize = 128 * 1024;

/// Where a body goes besides the client. A tee that is dropped before [`end`](BodyTee::end) or [`whole`](BodyTee::whole) has got
/// a part of a body, and no more of it comes.
pub trait BodyTee: Sized + 'static {
    /// The body does not go there after all.
    fn give_up(self);

    /// The body begins; how many bytes it has, where that is known.
    fn begin(&mut self, length: Option<u64>);

    /// All of the body is here.
    fn whole(self, body: Bytes);

    /// The body that the client gets, which follows what comes here. `None`: there is no such body to be had.
    fn follow(&self, request: &Request, family: &'static dyn Family) -> Option<Body>;

    /// The next piece of the body. Waits until more may be read, and says whether more is wanted.
    fn push(&mut self, piece: Bytes) -> impl Future<Output = bool>;

    /// The body is complete.
    fn end(self);
}

/// No tee: the body goes to the client alone.
impl BodyTee for Infallible {
    fn give_up(self) {
        match self {}
    }

    fn begin(&mut self, _: Option<u64>) {
        match *self {}
    }

    fn whole(self, _: Bytes) {
        match self {}
    }

    fn follow(&self, _: &Request, _: &'static dyn Family) -> Option<Body> {
        match *self {}
    }

    async fn push(&mut self, _: Bytes) -> bool {
        match *self {}
    }

    fn end(self) {
        match self {}
    }
}

/// Has the body read to its end. What the client gets of it, if it `follows`. `None`: nothing can be had.
pub fn run<T: BodyTee>(mut tee: T, request: &Request, mut reader: Reader, follows: bool) -> Option<Body> {
    let length = reader.left();
    let (mut front, broken) = response::front(request, &mut reader);
    tee.begin(length);
    if reader.is_complete() && !broken && front.len() <= 1 {
        let body = front.pop().unwrap_or_default();
        tee.whole(body.clone());
        return Some(if body.is_empty() { Body::Empty } else { Body::Bytes(body) });
    }
    let body = match follows {
        true => tee.follow(request, reader.plan().family)?,
        false => Body::Empty,
    };
    if let Some(error) = reader.unsaid.error.take() {
        error.log(request, Stage::ReadingBody);
    }
    reader.log = Some(Detached::of(request));
    reader.leave_client();
    let background = Background::new(&request.client.loop_state.shared.background);
    loops::spawn(request.client.number, "keeping a response", async move {
        feed(reader, front, broken, tee).await;
        drop(background);
    });
    Some(body)
}

/// Gives what the server sends to the tee, to its end.
async fn feed<T: BodyTee>(mut reader: Reader, front: Front, broken: bool, mut tee: T) {
    for piece in front {
        if !tee.push(piece).await {
            return;
        }
    }
    if broken {
        return;
    }
    loop {
        loops::consume_budget().await;
        match reader.ready() {
            Ok(Ready::Piece(piece)) => {
                if !tee.push(pieces::own(piece)).await {
                    return;
                }
            }
            Ok(Ready::Nothing) => {
                let room = reader.room(READ);
                if reader.receive(room).await.is_err() {
                    return;
                }
            }
            Ok(Ready::End) => return tee.end(),
            Err(Broken) => return,
        }
    }
}
