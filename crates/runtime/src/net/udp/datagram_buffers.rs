//! The buffers for datagrams, which a loop lends to the socket that is being read from or written to.

use std::cell::RefCell;

use freerun_sys::datagrams::{Receiver, Sender};

/// Number of datagrams, or of runs that the kernel has put together, that are taken or sent with one call. More save
/// little: a call costs as much as 0.2 µs, and a datagram on its way through the kernel 1 to 3 µs.
pub const BATCH: usize = 32;

/// The room for each: the kernel puts 64 KiB together at most. The kernel gives memory only to the pages of the buffers
/// that have been used. A loop that serves short datagrams has 128 KiB, and none has more than 2 MiB.
pub const LONGEST_RUN: usize = 65_536;

thread_local! {
    static RECEIVER: RefCell<Option<Box<Receiver>>> = const { RefCell::new(None) };
    static SENDER: RefCell<Option<Box<Sender>>> = const { RefCell::new(None) };
}

/// Lends the buffers for receiving. Whoever asks for them while they are lent gets new ones, which do not stay.
pub(super) fn with_receiver<T>(use_it: impl FnOnce(&mut Receiver) -> T) -> T {
    let mut receiver = RECEIVER.take().unwrap_or_else(|| Box::new(Receiver::new(BATCH, LONGEST_RUN)));
    let answer = use_it(&mut receiver);
    RECEIVER.set(Some(receiver));
    answer
}

/// Lends the headers for sending.
pub(super) fn with_sender<T>(use_it: impl FnOnce(&mut Sender) -> T) -> T {
    let mut sender = SENDER.take().unwrap_or_else(|| Box::new(Sender::new(BATCH)));
    let answer = use_it(&mut sender);
    SENDER.set(Some(sender));
    answer
}
