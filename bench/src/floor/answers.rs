//! The floor of a server: whatever comes on a connection is answered with the same bytes, from memory, from a file, or
//! from a file and encrypted.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::event::epoll::EventFlags;
use rustix::net::SendFlags;

use super::poll::{self, PendingBytes, Poll, Slots};
use super::records::{RECORD, Records, TAG};

/// Longest piece that is received at once, in bytes: a request.
const REQUEST: usize = 4 * 1024;

/// The number of records that are sent at a time.
const BATCH: usize = 4;

/// The manner in which an answer is produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSource {
    /// A `send` of head and body together.
    Memory,
    /// A `send` of the head, and `sendfile` of the body.
    File,
    /// The body is read, made into records of TLS 1.3 with AES-GCM, and sent. The request is decrypted.
    Sealed,
}

/// The answer to all requests.
struct FloorAnswer {
    source: AnswerSource,
    head: Vec<u8>,
    /// Head and body, where the body is in memory.
    whole: Vec<u8>,
    file: File,
    size: u64,
    records: Records,
}

/// The progress of a connection.
struct AnsweredConnection {
    stream: TcpStream,
    pending: PendingBytes,
    /// Bytes of the body that were taken; `None` between two answers.
    sent: Option<u64>,
}

/// Serves until an error of the listening socket. `file` is the body, `head` what stands before it.
pub fn serve(address: SocketAddr, source: AnswerSource, head: &[u8], file: &Path) -> io::Result<()> {
    let file = File::open(file)?;
    let size = file.metadata()?.len();
    let mut answer =
        FloorAnswer { source, head: head.to_vec(), whole: Vec::new(), file, size, records: Records::new()? };
    if source == AnswerSource::Memory {
        answer.whole = head.to_vec();
        answer.file.read_to_end(&mut answer.whole)?;
    }
    let listener = poll::listen(address)?;
    let own = poll::number(&listener);
    let (mut poll, mut connections) = (Poll::new()?, Slots::new());
    poll.watch(&listener)?;
    loop {
        for index in 0..poll.wait()? {
            let (number, flags) = poll.event(index);
            if number == own {
                if let Some(stream) = poll::accept(&listener)? {
                    poll.watch_both_ways(&stream)?;
                    let connection = AnsweredConnection { stream, pending: PendingBytes::default(), sent: None };
                    connections.put(poll::number(&connection.stream), connection);
                }
            } else if let Some(connection) = connections.get(number)
                && !answer.turn(connection, flags).unwrap_or(false)
            {
                connections.take(number);
            }
        }
    }
}

impl FloorAnswer {
    /// Goes on with a connection; returns whether it is still there.
    fn turn(&mut self, connection: &mut AnsweredConnection, flags: EventFlags) -> io::Result<bool> {
        if connection.sent.is_some() && flags.contains(EventFlags::OUT) && !self.go_on(connection)? {
            return Ok(true);
        }
        if !flags.contains(EventFlags::IN) || connection.sent.is_some() {
            return Ok(true);
        }
        let mut request = [0; REQUEST];
        let count = match connection.stream.read(&mut request) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if poll::would_wait(&error) => return Ok(true),
            Err(error) => return Err(error),
        };
        match self.source {
            AnswerSource::Memory => {
                connection.pending.send(&connection.stream, &self.whole)?;
                connection.sent = (!connection.pending.is_empty()).then_some(self.size);
            }
            AnswerSource::File => {
                let flags = SendFlags::MORE.union(SendFlags::NOSIGNAL);
                rustix::net::send(&connection.stream, &self.head, flags)?;
                connection.sent = Some(0);
                self.go_on(connection)?;
            }
            AnswerSource::Sealed => {
                self.records.seal(&mut request[..count])?;
                connection.sent = Some(0);
                self.go_on(connection)?;
            }
        }
        Ok(true)
    }

    /// Sends as much of an answer as there is room for; returns whether it is complete.
    fn go_on(&mut self, connection: &mut AnsweredConnection) -> io::Result<bool> {
        if !connection.pending.flush(&connection.stream)? {
            return Ok(false);
        }
        while let Some(mut sent) = connection.sent.filter(|sent| *sent < self.size) {
            match self.source {
                AnswerSource::Memory => break,
                AnswerSource::File => {
                    let rest = usize::try_from(self.size - sent).unwrap_or(usize::MAX);
                    match rustix::fs::sendfile(&connection.stream, &self.file, Some(&mut sent), rest) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(_) => connection.sent = Some(sent),
                        Err(rustix::io::Errno::AGAIN) => return Ok(false),
                        Err(error) => return Err(error.into()),
                    }
                }
                AnswerSource::Sealed => {
                    connection.sent = Some(self.fill(sent)?);
                    if !connection.pending.send(&connection.stream, &self.whole)? {
                        return Ok(false);
                    }
                }
            }
        }
        connection.sent = None;
        Ok(true)
    }

    /// Fills `whole` with the head, if the body begins, and the next records of the body. Returns where they end in it.
    fn fill(&mut self, mut at: u64) -> io::Result<u64> {
        self.whole.clear();
        if at == 0 {
            self.whole.extend_from_slice(&self.head);
        }
        for _ in 0..BATCH {
            let size = RECORD.min(usize::try_from(self.size - at).unwrap_or(RECORD));
            if size == 0 {
                break;
            }
            let start = self.whole.len();
            self.whole.resize(start + size, 0);
            self.file.read_exact_at(&mut self.whole[start..], at)?;
            let tag = self.records.seal(&mut self.whole[start..])?;
            self.whole.extend_from_slice(&tag);
            at += size as u64;
        }
        Ok(at)
    }
}

/// The number of bytes that a body of `size` bytes has as records, without their headers.
pub fn sealed_size(size: u64) -> u64 {
    size + size.div_ceil(RECORD as u64) * TAG as u64
}
