//! Writing what the requests of a connection have left in its machine.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use freerun_proto::h2::Elsewhere;
use freerun_runtime::loops;
use freerun_transport::FileSending;

use crate::files::read_error::ReadError;
use crate::protocol::h2::files::{self, FileSendOutcome, WriteFailure};
use crate::protocol::h2::serve::Serve;

/// Number of bytes that are brought into their final order before each write, while the client takes everything.
const AHEAD: usize = 128 * 1024;

/// Number of parts that are written at once.
const PARTS: usize = 64;

impl Serve {
    /// Writes as much as the client takes.
    pub(super) fn write(&mut self, context: &mut Context<'_>) -> Result<(), WriteFailure> {
        let now = loops::millis();
        let mut wrote = false;
        let mut is_held_back = false;
        while !is_held_back {
            let ahead = self.unsent.ahead(AHEAD);
            let next = self.shared.look(|machine| {
                is_held_back = machine.fill(ahead);
                machine.elsewhere().cloned()
            });
            let result = match next {
                None => self.write_from_memory(context),
                Some(range) => match self.write_from_file(&range, context) {
                    Ok(Some(result)) => Some(result),
                    // The bytes are being read.
                    Ok(None) => break,
                    Err(error) => {
                        // The length of the frame was sent: only the end of the connection tells that it is not whole.
                        self.shared.log_unreadable(&error);
                        self.shared.connection.transport.cut_on_close();
                        return Err(WriteFailure::File(error));
                    }
                },
            };
            match result {
                None => {
                    self.is_slow = false;
                    self.unsent.idle(now);
                    break;
                }
                Some(Ok(count)) => {
                    self.shared.look(|machine| machine.wrote(count));
                    self.unsent.wrote(count);
                    wrote = true;
                }
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_slow = true;
                    if let Some(most) = self.unsent.is_full(now) {
                        self.shared.connection.transport.set_unsent_limit(most);
                    }
                    break;
                }
                Some(Err(error)) => return Err(error.into()),
            }
        }
        if wrote || !self.is_slow {
            self.progress = now;
        }
        if wrote {
            self.shared.wake_streams();
        }
        if is_held_back {
            // The requests of urgent streams come first.
            context.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Writes bytes that are in memory, and returns how many were taken. `None` if there are none.
    fn write_from_memory(&self, context: &mut Context<'_>) -> Option<io::Result<usize>> {
        let transport = &self.shared.connection.transport;
        self.shared.look(|machine| {
            let pending = machine.pending();
            if pending == 0 {
                return None;
            }
            let mut parts = [IoSlice::new(&[]); PARTS];
            let count = machine.parts(&mut parts);
            let offered: usize = parts[..count].iter().map(|part| part.len()).sum();
            // The head of a frame goes with the bytes of a file that follow it.
            let more = offered < pending && matches!(transport.file_sending(), FileSending::Sendfile(_));
            Some(match transport.try_write(&parts[..count], more) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match transport.poll_write(context, &parts[0]) {
                        Poll::Ready(result) => result,
                        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                    }
                }
                result => result,
            })
        })
    }

    /// Writes bytes of a file, and returns how many were taken. `None` while they are being read.
    ///
    /// # Errors
    /// The file cannot be read.
    fn write_from_file(
        &mut self,
        range: &Elsewhere,
        context: &mut Context<'_>,
    ) -> Result<Option<io::Result<usize>>, ReadError> {
        let moved = match self.reading.take() {
            Some(reading) => Ok(FileSendOutcome::Reads(*reading)),
            None => files::send(&self.shared.connection.transport, range, context),
        };
        Ok(match moved {
            Ok(FileSendOutcome::Bytes(count)) => Some(Ok(count)),
            Ok(FileSendOutcome::SocketFull) => Some(Err(io::ErrorKind::WouldBlock.into())),
            Ok(FileSendOutcome::Reads(mut reading)) => match reading.as_mut().poll(context) {
                Poll::Pending => {
                    self.reading = Some(Box::new(reading));
                    None
                }
                Poll::Ready(bytes) => {
                    let bytes = bytes?;
                    self.shared.look(|machine| machine.supply(bytes));
                    self.write_from_memory(context)
                }
            },
            Err(WriteFailure::Socket(error)) => Some(Err(error)),
            Err(WriteFailure::File(error)) => return Err(error),
        })
    }
}
