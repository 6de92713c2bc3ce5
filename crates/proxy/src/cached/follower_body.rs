//! The body of a response that is being fetched for a cache, for one of the clients that follow it.

use std::io;

use bytes::Bytes;
use freerun_cache::fill::Follower;
use freerun_http::log::Detached;
use freerun_http::request::Request;
use freerun_http::request::response::{FileRange, LocalBoxFuture, Source};
use freerun_runtime::log::Level;
use freerun_runtime::loops;

use crate::client::error::Stage;
use crate::client::response::temporary;
use crate::client::spool::{MAX_READ, Place, Spool};
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
pub struct FollowerBody {
    follower: Follower,
    /// The bytes that were taken for the client but not yet by it.
    spool: Option<Spool>,
    /// The place for the temporary file, until the spool is made.
    place: Option<Place>,
    log: Detached,
}

impl FollowerBody {
    /// Makes the body for a request of this member of the family.
    pub fn new(request: &Request, family: &dyn Family, follower: Follower) -> FollowerBody {
        let max = family.shared(request.settings()).map_or(0, |shared| shared.proxy_max_temp_file_size.0);
        let place = temporary(request, family, max, MAX_READ);
        FollowerBody { follower, spool: None, place, log: Detached::of(request) }
    }

    async fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        if let Some(spool) = self.spool.as_mut().filter(|spool| !spool.is_empty()) {
            return spool.take().await.map_err(|error| {
                self.log.write(Level::Crit, format_args!("{error} while {}", Stage::ReadingBody));
                io::Error::other(error)
            });
        }
        self.follower.next().await
    }

    /// Takes the bytes that the client does not take, where other clients wait for that.
    async fn go_ahead(&mut self) {
        self.follower.unstored().await;
        if let Some(place) = self.place.take() {
            self.spool = Some(Spool::new(place));
        }
        let Some(spool) = &mut self.spool else { return };
        while spool.takes_more(READ) {
            loops::consume_budget().await;
            // Written before more is taken: this future is begun anew whenever the client takes bytes, and its wait may
            // be long.
            if spool.in_memory() >= SPOOLED {
                if !spool.is_writing() {
                    let turn = spool.turns().next().await;
                    spool.write(turn);
                }
                if let Err(error) = spool.written().await {
                    self.log.write(Level::Crit, format_args!("{error} while {}", Stage::ReadingBody));
                }
                continue;
            }
            // At the end, and after an error, the next call returns the same again.
            let Ok(Some(piece)) = self.follower.next().await else { return };
            spool.push(piece);
        }
    }
}

impl Source for FollowerBody {
    fn next(&mut self) -> LocalBoxFuture<'_, io::Result<Option<Bytes>>> {
        match self.spool {
            None => Box::pin(self.follower.next()),
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
        Some(self.follower.remaining()? + self.spool.as_ref().map_or(0, Spool::bytes))
    }

    fn narrow(&mut self, begin: u64, end: u64) -> bool {
        self.follower.narrow(begin, end);
        true
    }
}
