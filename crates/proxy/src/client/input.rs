//! The bytes that have come from an upstream server and were not parsed yet, and the buffers for them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use freerun_runtime::loops;
use freerun_upstream::link::Link;

/// The initial size of a buffer. With `proxy_buffers` as they usually are, reads after the head go into the same
/// buffer, which leaves no hole of another size in the allocator's memory.
const FIRST: usize = 32 * 1024;

/// The number of unused buffers that a loop keeps.
const KEPT: usize = 64;

thread_local! {
    /// Buffers of [`FIRST`] bytes each, which may still be in use.
    static UNUSED: RefCell<VecDeque<BytesMut>> = const { RefCell::new(VecDeque::new()) };
}

/// Bytes that have come. There is a buffer only once the first of them are ready to be read.
///
/// While many connections wait for their servers, one buffer serves them all in turn; it stays in the processor's
/// cache.
#[derive(Default)]
pub struct Input {
    /// The bytes.
    pub bytes: BytesMut,
    /// The capacity that the buffer was made with; 0: there is no buffer.
    size: usize,
    /// Whether the buffer is a shared one, to be used again.
    is_common: bool,
    /// Whether further buffers are no larger than what is read.
    is_exact: bool,
}

impl Input {
    /// Reads the available bytes, at most `most`, and appends them. Returns how many have come, 0 at the end of the
    /// stream.
    ///
    /// # Errors
    /// The error that broke the connection.
    pub fn poll_read(&mut self, link: &Link, context: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
        let transport = match link {
            Link::Own(connection) => &connection.transport,
            // It has a buffer of its own, which is handed over.
            Link::Stream(stream) => return stream.poll_read(context, &mut self.bytes, most),
        };
        transport.poll_read_by(context, || {
            let had_none = self.size == 0;
            self.make_room(most);
            let room = most.min(self.bytes.capacity() - self.bytes.len());
            debug_assert!(room > 0, "no room would look like the end of the stream");
            let read = transport.try_read_bytes(&mut self.bytes, room);
            if had_none && read.is_err() {
                // A new socket is tried before the loop has reported it readable.
                self.release();
            }
            Ok((read?, room))
        })
    }

    /// Reads as [`Input::poll_read`] does, for a task that waits for nothing else.
    ///
    /// # Errors
    /// The error that broke the connection.
    pub async fn read(&mut self, link: &Link, most: usize) -> io::Result<usize> {
        loops::consume_budget().await;
        poll_fn(|context| self.poll_read(link, context, most)).await
    }

    fn make_room(&mut self, room: usize) {
        if self.size == 0 && !self.is_exact && room <= FIRST {
            (self.bytes, self.size, self.is_common) = (unused(), FIRST, true);
        }
        // A larger buffer is not used for less: a piece that waits for the client keeps the whole buffer that it is in.
        if self.size > (self.bytes.len() + room).max(FIRST) || !self.bytes.try_reclaim(room) {
            // Exactly this size: `reserve` would take as much as was wanted before.
            let size = self.bytes.len() + room;
            let mut other = BytesMut::with_capacity(size);
            other.extend_from_slice(&self.bytes);
            self.release();
            (self.bytes, self.size) = (other, size);
        }
    }

    /// Prepares for bytes that are kept for a while: from the next buffer on, each is no larger than what is read.
    pub fn be_exact(&mut self) {
        if self.bytes.is_empty() {
            self.release();
        }
        self.is_exact = true;
    }

    /// Drops the contents; nothing more is to come.
    pub fn clear(&mut self) {
        self.release();
        self.is_exact = false;
    }

    /// Gives up the buffer, with all that is in it.
    fn release(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        self.size = 0;
        if std::mem::take(&mut self.is_common) {
            bytes.clear();
            // At the end of the thread the list may be gone.
            let _ = UNUSED.try_with(|unused| {
                let mut unused = unused.borrow_mut();
                if unused.len() == KEPT {
                    unused.pop_front();
                }
                unused.push_back(bytes);
            });
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.release();
    }
}

/// The buffer that was used last or, if its bytes are still to be sent, a buffer that was used long before.
fn unused() -> BytesMut {
    UNUSED.with_borrow_mut(reclaim).unwrap_or_else(|| BytesMut::with_capacity(FIRST))
}

/// Buffers in use gather at the front, and leave from there: their memory is freed with the pieces that hold it.
fn reclaim(unused: &mut VecDeque<BytesMut>) -> Option<BytesMut> {
    let mut last = unused.pop_back()?;
    if last.try_reclaim(FIRST) {
        return Some(last);
    }
    let mut first = unused.pop_front();
    unused.push_front(last);
    first.take_if(|first| first.try_reclaim(FIRST))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use freerun_transport::Transport;
    use freerun_upstream::pool::{Exclusive, Scope};

    use super::*;

    /// Makes room for `room` bytes and fills in `text`.
    fn filled(input: &mut Input, room: usize, text: &[u8]) -> usize {
        input.make_room(room);
        let place = input.bytes.spare_capacity_mut().as_ptr() as usize;
        input.bytes.extend_from_slice(text);
        place
    }

    #[test]
    fn connections_that_are_read_in_turn_share_a_buffer() {
        let mut places = Vec::new();
        for _ in 0..100 {
            let mut waiting = [Input::default(), Input::default()];
            for input in &mut waiting {
                places.push(filled(input, 4096, b"response"));
                let piece = input.bytes.split().freeze();
                input.clear();
                drop(piece);
            }
        }
        places.dedup();
        assert_eq!(places.len(), 1);
    }

    #[test]
    fn bytes_on_their_way_are_not_written_over() {
        let mut held = Vec::new();
        for number in 0..200u8 {
            let mut input = Input::default();
            filled(&mut input, 4096, &[number; 4096]);
            held.push(input.bytes.split().freeze());
            input.clear();
            if number % 3 == 0 {
                held.remove(usize::from(number) / 2);
            }
            assert!(UNUSED.with_borrow(VecDeque::len) <= KEPT);
        }
        assert!(held.iter().all(|piece| piece.iter().all(|byte| *byte == piece[0])));
        held.windows(2).for_each(|two| assert!(two[0][0] < two[1][0]));
    }

    #[test]
    fn what_is_kept_for_a_while_has_buffers_no_larger_than_it() {
        let mut input = Input::default();
        filled(&mut input, 100, b"head");
        input.be_exact();
        assert_eq!(input.bytes, "head");
        input.bytes.clear();
        input.be_exact();
        filled(&mut input, 5000, b"body");
        assert_eq!(input.bytes.capacity(), 5000);
        input.clear();
        assert_eq!(UNUSED.with_borrow(VecDeque::len), 1, "the first one");
    }

    #[test]
    fn who_waits_has_no_buffer_on_a_new_connection_either() {
        loops::block_on(async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let transport = Transport::plain(ours.into());
            let (link, mut input) = (Link::Own(Exclusive::new(transport, Scope::SHARED)), Input::default());
            let waits = poll_fn(|context| Poll::Ready(input.poll_read(&link, context, 100).is_pending())).await;
            assert!(waits);
            assert_eq!((input.size, input.bytes.capacity()), (0, 0));
            theirs.write_all(b"response").unwrap();
            assert_eq!(input.read(&link, 100).await.unwrap(), 8);
            assert_eq!((input.size, &*input.bytes), (FIRST, &b"response"[..]));
        })
        .unwrap();
    }

    #[test]
    fn a_connection_that_is_closed_leaves_its_buffer_and_buffers_in_use_do_not_keep_others_out() {
        let mut held = Vec::new();
        for number in 0..2 * KEPT {
            let mut input = Input::default();
            filled(&mut input, 100, b"piece");
            if number < KEPT {
                held.push(input.bytes.split().freeze());
            }
        }
        let mut places: Vec<usize> = (0..KEPT).map(|_| filled(&mut Input::default(), 100, b"")).collect();
        places.dedup();
        assert_eq!(places.len(), 1);
        assert!(held.iter().all(|piece| piece == "piece"));
    }

    #[test]
    fn a_head_that_comes_in_small_parts_stays_where_it_is() {
        let mut input = Input::default();
        filled(&mut input, 2 * FIRST, b"a part");
        let place = input.bytes.as_ptr();
        for part in 2..100 {
            let room = 2 * FIRST - input.bytes.len();
            filled(&mut input, room, b"a part");
            assert_eq!((input.bytes.as_ptr(), input.bytes.len()), (place, part * 6));
        }
    }

    #[test]
    fn a_buffer_that_is_full_is_followed_by_one_for_what_is_asked() {
        let mut input = Input::default();
        filled(&mut input, FIRST, &vec![b'x'; FIRST]);
        let piece = input.bytes.split().freeze();
        filled(&mut input, 2 * FIRST, b"more");
        assert_eq!(input.bytes.capacity(), 2 * FIRST);
        drop(piece);
        input.bytes.clear();
        filled(&mut input, 100, b"");
        assert_eq!(input.bytes.capacity(), 100, "one that was made for more is not used for less");
    }
}
