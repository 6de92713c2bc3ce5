//! Passes a response's body to a second consumer besides the client, such as a cache. The body is read to its end,
//! whatever the client does, and the client follows the second consumer.

use std::convert::Infallible;

use bytes::Bytes;
use freerun_http::log::DetachedLog;
use freerun_http::request::Request;
use freerun_http::request::response::Body;
use freerun_runtime::loops;
use freerun_serve::loops::background::Background;

use crate::client::error::TryStage;
use crate::client::pieces;
use crate::client::reader::{BodyReader, BrokenBody, ReadReadiness};
use crate::client::response;
use crate::client::response::Front;
use crate::exchange::family::Family;

/// The most bytes of one read.
const READ: usize = 128 * 1024;

/// A consumer of a body besides the client. A tee that is dropped before [`end`](BodyTee::end) or
/// [`whole`](BodyTee::whole) has received a part of a body, and no more of it comes.
pub trait BodyTee: Sized + 'static {
    /// The body will not be passed here after all.
    fn give_up(self);

    /// The body begins. `length`: the number of its bytes, if known.
    fn begin(&mut self, length: Option<u64>);

    /// Takes the whole body at once.
    fn whole(self, body: Bytes);

    /// The client's body, which follows the pieces that come here. `None`: there is no such body.
    fn follow(&self, request: &Request, family: &'static dyn Family) -> Option<Body>;

    /// Takes the next piece of the body. Waits until more may be read, and returns whether more is wanted.
    fn push(&mut self, piece: Bytes) -> impl Future<Output = bool>;

    /// Ends the body, which is complete.
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

/// Starts the task that reads the body to its end. Returns the client's body, if it `follows`. `None`: there is none.
pub fn run<T: BodyTee>(mut tee: T, request: &Request, mut reader: BodyReader, follows: bool) -> Option<Body> {
    let length = reader.left();
    let (mut front, broken) = response::front(request, &mut reader);
    tee.begin(length);
    if reader.is_complete() && !broken && front.len() <= 1 {
        let body = front.pop().unwrap_or_default();
        tee.whole(body.clone());
        return Some(if body.is_empty() { Body::Empty } else { Body::Bytes(body) });
    }
    let body = if follows { tee.follow(request, reader.plan().family)? } else { Body::Empty };
    if let Some(error) = reader.unsaid.error.take() {
        error.log(request, TryStage::ReadingBody);
    }
    reader.log = Some(DetachedLog::of(request));
    reader.leave_client();
    let background = Background::new(&request.client.loop_state.shared.background);
    loops::spawn(request.client.number, "keeping a response", async move {
        feed(reader, front, broken, tee).await;
        drop(background);
    });
    Some(body)
}

/// Passes the body from the server to the tee, to its end.
async fn feed<T: BodyTee>(mut reader: BodyReader, front: Front, broken: bool, mut tee: T) {
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
            Ok(ReadReadiness::Piece(piece)) => {
                if !tee.push(pieces::own(piece)).await {
                    return;
                }
            }
            Ok(ReadReadiness::Nothing) => {
                let room = reader.room(READ);
                if reader.receive(room).await.is_err() {
                    return;
                }
            }
            Ok(ReadReadiness::End) => return tee.end(),
            Err(BrokenBody) => return,
        }
    }
}
