//! The body of a response that is being fetched for a cache, for one of the clients that follow it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use freerun_cache::fill::{FollowError, Follower};
use freerun_http::log::DetachedLog;
use freerun_http::request::Request;
use freerun_http::request::response::{BodySource, FileRange, LocalBoxFuture, SourceError};
use freerun_runtime::log::Level;
use freerun_runtime::loops;

use crate::cached::own_fetch::{BodyRest, OwnFetch};
use crate::client::error::TryStage;
use crate::client::response::temporary;
use crate::client::spool::{MAX_READ, Spool, SpoolPlace};
use crate::exchange::family::Family;

/// The most bytes that are taken ahead of the client at a time.
const READ: usize = 128 * 1024;
/// The least bytes that are written to the temporary file of a slow client at a time.
const SPOOLED: usize = 64 * 1024;

/// The body of an object that is being fetched.
///
/// Where it is not stored, the clients that follow it share the part in memory, and the server is not read beyond that
/// before all have taken it. The bytes that a client does not take go to a temporary file, so that the others need not
/// wait for it.
///
/// If a response comes to a halt, or breaks off, the server is asked anew ([`OwnFetch`]), if that is possible.
pub struct FollowerBody {
    /// `None` once the server was asked anew.
    follower: Option<Follower>,
    /// The fetch that asks the server anew, until it begins.
    again: Option<OwnFetch>,
    /// The server is being asked anew.
    asking: Option<LocalBoxFuture<'static, Result<BodyRest, SourceError>>>,
    /// The rest of the body, from the server that was asked anew.
    rest: Option<BodyRest>,
    /// The first byte that is wanted, and the end of the wanted bytes.
    part: (u64, u64),
    /// The bytes that were taken for the client but not yet by it.
    spool: Option<Spool>,
    /// The place for the temporary file, until the spool is made.
    place: Option<SpoolPlace>,
    log: DetachedLog,
}

/// The first of two events: the rest from an own request, or the next piece of the response that is followed.
enum Earlier {
    Rest(Result<BodyRest, SourceError>),
    Piece(Result<Option<Bytes>, FollowError>),
}

/// Converts the error of a follower to the error of a body.
#[cold]
fn source_error(error: FollowError) -> SourceError {
    match error {
        FollowError::BrokenOff => SourceError::BrokenOff,
        FollowError::Truncated => SourceError::Short,
        FollowError::File(error) => error.into(),
        FollowError::Lost | FollowError::SlowDisk => io::Error::other(error).into(),
    }
}

async fn earlier(
    asking: &mut LocalBoxFuture<'static, Result<BodyRest, SourceError>>,
    follower: &mut Option<Follower>,
) -> Earlier {
    let mut next = pin!(async {
        match follower {
            Some(follower) => follower.next().await,
            None => std::future::pending().await,
        }
    });
    poll_fn(|context| match next.as_mut().poll(context) {
        Poll::Ready(piece) => Poll::Ready(Earlier::Piece(piece)),
        Poll::Pending => asking.as_mut().poll(context).map(Earlier::Rest),
    })
    .await
}

impl FollowerBody {
    /// Makes the body for a request of this member of the family. `again`: how the server is asked if the response comes to
    /// a halt; the request that leads the response asks nobody.
    pub fn new(request: &Request, family: &dyn Family, follower: Follower, again: Option<OwnFetch>) -> FollowerBody {
        let max = family.shared(request.settings()).map_or(0, |shared| shared.proxy_max_temp_file_size.0);
        let place = temporary(request, family, max, MAX_READ);
        let (follower, part) = (Some(follower), (0, u64::MAX));
        FollowerBody {
            follower,
            again,
            asking: None,
            rest: None,
            part,
            spool: None,
            place,
            log: DetachedLog::of(request),
        }
    }

    /// The next bytes of the response, from wherever they come. Nothing is lost if the future is dropped.
    async fn take(&mut self) -> Result<Option<Bytes>, SourceError> {
        loop {
            if let Some(rest) = &mut self.rest {
                return rest.next().await;
            }
            if let Some(asking) = &mut self.asking {
                match earlier(asking, &mut self.follower).await {
                    Earlier::Rest(Ok(rest)) => (self.asking, self.rest, self.follower) = (None, Some(rest), None),
                    Earlier::Rest(Err(error)) => {
                        self.asking = None;
                        // What has come to a halt may go on all the same.
                        if self.follower.is_none() {
                            return Err(error);
                        }
                    }
                    Earlier::Piece(Ok(piece)) => {
                        self.asking = None;
                        return Ok(piece);
                    }
                    Earlier::Piece(Err(_)) => self.follower = None,
                }
                continue;
            }
            let Some(follower) = &mut self.follower else { return Err(SourceError::BrokenOff) };
            let Some(again) = &mut self.again else { return follower.next().await.map_err(source_error) };
            let patience = again.patience();
            let mut is_broken = false;
            match freerun_runtime::timer::timeout(patience, follower.next()).await {
                Ok(Ok(piece)) => {
                    if let Some(piece) = &piece {
                        again.note(piece);
                    }
                    return Ok(piece);
                }
                Ok(Err(FollowError::BrokenOff)) => is_broken = true,
                Ok(Err(error)) => return Err(source_error(error)),
                Err(_) if !follower.fill().has_stalled(patience) => continue,
                Err(_) => {}
            }
            let length = follower.length();
            if is_broken {
                self.follower = None;
            }
            let (begin, until) = self.part;
            if let Some(again) = self.again.take() {
                self.asking = Some(Box::pin(again.run(begin, until, length)));
            }
        }
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, SourceError> {
        if let Some(spool) = self.spool.as_mut().filter(|spool| !spool.is_empty()) {
            return spool.take().await.map_err(|error| {
                self.log.write(Level::Crit, format_args!("{error} while {}", TryStage::ReadingBody));
                error.into()
            });
        }
        self.take().await
    }

    /// Takes the bytes that the client does not take, where other clients wait for that.
    async fn go_ahead(&mut self) {
        match &self.follower {
            Some(follower) => follower.unstored().await,
            None => std::future::pending().await,
        }
        if let Some(place) = self.place.take() {
            self.spool = Some(Spool::new(place));
        }
        while let Some(spool) = self.spool.as_mut().filter(|spool| spool.takes_more(READ)) {
            loops::consume_budget().await;
            // Written before more is taken: this future is begun anew whenever the client takes bytes, and its wait may
            // be long.
            if spool.in_memory() >= SPOOLED {
                if !spool.is_writing() {
                    let turn = spool.turns().next().await;
                    spool.write(turn);
                }
                if let Err(error) = spool.written().await {
                    self.log.write(Level::Crit, format_args!("{error} while {}", TryStage::ReadingBody));
                }
                continue;
            }
            // At the end, and after an error, the next call returns the same again.
            let Ok(Some(piece)) = self.take().await else { return };
            let Some(spool) = &mut self.spool else { return };
            spool.push(piece);
        }
    }
}

impl BodySource for FollowerBody {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        match self.spool {
            None => Box::pin(self.take()),
            Some(_) => Box::pin(self.next_piece()),
        }
    }

    fn next_in_file(&mut self) -> Option<FileRange> {
        self.spool.as_mut()?.take_in_file()
    }

    fn ahead(&mut self) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.go_ahead())
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn remaining(&self) -> Option<u64> {
        let left = match (&self.follower, &self.rest) {
            (_, Some(rest)) => rest.remaining(),
            (Some(follower), None) => follower.remaining(),
            (None, None) => None,
        };
        Some(left? + self.spool.as_ref().map_or(0, Spool::bytes))
    }

    fn narrow(&mut self, begin: u64, end: u64) -> bool {
        self.part = (begin, end);
        if let Some(follower) = &mut self.follower {
            follower.narrow(begin, end);
        }
        true
    }
}
