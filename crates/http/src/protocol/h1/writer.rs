//! Writing to a client: in pieces, at its pace.

use std::io::{self, IoSlice};
use std::time::Duration;

use freerun_runtime::loops;
use freerun_runtime::tasks::LongWork;
use freerun_runtime::timer::Timer;

use crate::request::ClientConnection;
use crate::request::response::BodySource;
use crate::write::WriteError;
use crate::write::pace::Pace;
use crate::write::source_progress::meanwhile;

/// The bytes that follow one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// More bytes of the response, at once: the kernel may hold a partial segment back for them.
    AtOnce,
    /// More bytes of the response, later.
    Later,
    /// Nothing: the response ends with these bytes.
    Nothing,
}

/// The end of a response that is not split. The places of its request in the counts of limits are freed before it is
/// sent, though the client may not take all of it at once.
const UNSPLIT_END: u64 = 1024;

/// Number of the last `left` bytes of a response that may be sent now. A client that has all of them must not find the
/// place of its request still taken (`limit_conn`). So the place is freed before the last of them; bytes that the
/// socket has no room for count until it has.
pub fn before_end(connection: &ClientConnection, left: u64) -> u64 {
    if !connection.has_places() {
        return left;
    }
    if left > UNSPLIT_END && left > connection.transport.certain_room() as u64 {
        return left - UNSPLIT_END;
    }
    connection.free_places();
    left
}

/// The state that writing one response needs throughout.
pub struct Writer<'r> {
    /// The connection of the client.
    pub connection: &'r ClientConnection,
    /// The timer of the current wait.
    pub timer: Timer,
    /// The longest time for which the client may take no bytes.
    pub send_timeout: Duration,
    /// The pace of `limit_rate`.
    pub pace: Pace,
    /// The number of bytes sent.
    pub bytes: u64,
    /// The mark of long work, from the first time that the client had to be waited for.
    pub long: Option<LongWork>,
}

impl Writer<'_> {
    /// Writes all of `first` and `second`.
    ///
    /// # Errors
    /// The client went away, or took no bytes for `send_timeout`.
    pub async fn all(&mut self, first: &[u8], second: &[u8], follows: Follows) -> Result<(), WriteError> {
        self.all_from(None, first, second, follows).await
    }

    /// Writes all of `first` and `second`, which came from `source` in part: the source may go on while the client is
    /// waited for.
    pub async fn all_from(
        &mut self,
        mut source: Option<&mut Box<dyn BodySource>>,
        mut first: &[u8],
        mut second: &[u8],
        follows: Follows,
    ) -> Result<(), WriteError> {
        while !first.is_empty() || !second.is_empty() {
            let left = first.len() + second.len();
            let mut room = if self.pace.is_free() {
                left
            } else {
                usize::try_from(meanwhile(&mut source, self.room(left as u64)).await).unwrap_or(left)
            };
            if follows == Follows::Nothing && room == left {
                room = usize::try_from(before_end(self.connection, left as u64)).unwrap_or(left);
            }
            let now = &first[..first.len().min(room)];
            let then = &second[..second.len().min(room - now.len())];
            let more = follows == Follows::AtOnce && room == left;
            let answer = match (now.is_empty(), then.is_empty()) {
                (false, false) => self.connection.transport.try_write(&[IoSlice::new(now), IoSlice::new(then)], more),
                (false, true) => self.connection.transport.try_write(&[IoSlice::new(now)], more),
                _ => self.connection.transport.try_write(&[IoSlice::new(then)], more),
            };
            match answer {
                Ok(sent) => {
                    let is_full = sent < now.len() + then.len();
                    self.bytes += sent as u64;
                    let from_first = sent.min(first.len());
                    first = &first[from_first..];
                    second = &second[sent - from_first..];
                    if is_full {
                        // The kernel has taken as much as it has room for, and reports when there is more; trying again
                        // now would fail.
                        meanwhile(&mut source, self.wait()).await?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => meanwhile(&mut source, self.wait()).await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns how many of `wanted` bytes may be sent now by `limit_rate`; waits until it is at least one.
    pub async fn room(&mut self, wanted: u64) -> u64 {
        loop {
            match self.pace.room(self.bytes, wanted, loops::now()) {
                Ok(room) => return room,
                // `send_timeout` uses the same timer: only one of the two is waited for at a time.
                Err(wait) => drop(self.timer.within(wait, std::future::pending::<()>()).await),
            }
        }
    }

    /// Waits for room in the socket, after a write of this task has filled it.
    pub async fn wait(&mut self) -> Result<(), WriteError> {
        self.long.get_or_insert_with(LongWork::begin);
        match self.timer.within(self.send_timeout, self.connection.transport.writable_after_full()).await {
            Some(answer) => Ok(answer?),
            None => Err(WriteError::TimedOut),
        }
    }

    /// Waits for room in the socket, after a pool thread has found it full.
    pub async fn wait_after_pool(&mut self) -> Result<(), WriteError> {
        self.long.get_or_insert_with(LongWork::begin);
        match self.timer.within(self.send_timeout, self.connection.transport.writable()).await {
            Some(answer) => Ok(answer?),
            None => Err(WriteError::TimedOut),
        }
    }
}
