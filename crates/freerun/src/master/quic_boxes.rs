//! The message boxes of the worker processes that serve the same sockets of QUIC (`freerun_serve::loops::message_boxes`), and
//! the numbers of these processes.
//!
//! The first master makes the boxes when a worker needs them, and hands them to a new binary. Each of two masters at a time
//! gives its workers the numbers of one half, so they need not talk about it.

use std::env;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use freerun_serve::loops::message_boxes::{BoxMessage, PROCESSES, post};
use freerun_sys::inherited::take_socket;

use super::inherited::numbers;

/// The variable with the half of the numbers that a new binary has, and the numbers of the sockets, each with a `;` behind it.
pub const QUIC_BOXES: &str = "FREERUN_QUIC_BOXES";

/// The number of numbers that a master has for its workers.
pub const HALF: u8 = PROCESSES / 2;

/// The room of each box in bytes, as far as the system allows it (`net.core.wmem_max`).
const ROOM: usize = 1 << 20;

/// The message boxes.
pub struct QuicBoxes {
    /// The ends for reading and for writing, by the numbers of the processes.
    pairs: Vec<(OwnedFd, OwnedFd)>,
    /// The first number that this master has for its workers.
    first: u8,
    /// The place of the last number that it gave, from the first one on.
    last: u8,
}

impl QuicBoxes {
    /// New ones.
    ///
    /// # Errors
    /// The error of socketpair(2).
    pub fn make() -> io::Result<QuicBoxes> {
        let pair = |_| {
            let (own, to) = UnixDatagram::pair()?;
            to.set_nonblocking(true)?;
            own.set_nonblocking(true)?;
            // With less room more is lost.
            let _ = socket2::SockRef::from(&to).set_send_buffer_size(ROOM);
            Ok((own.into(), to.into()))
        };
        let pairs = (0..PROCESSES).map(pair).collect::<io::Result<_>>()?;
        Ok(QuicBoxes { pairs, first: 0, last: HALF - 1 })
    }

    /// The boxes of the old binary, if that has any.
    pub fn take() -> Option<QuicBoxes> {
        let (numbers, wrong) = numbers(&env::var(QUIC_BOXES).ok()?);
        let (first, sockets) = numbers.split_first()?;
        let first = u8::try_from(*first).ok().filter(|first| [0, HALF].contains(first) && wrong.is_none())?;
        let mut sockets = sockets.iter().map_while(|number| take_socket(*number).ok());
        let pairs: Vec<_> = std::iter::from_fn(|| Some((sockets.next()?, sockets.next()?))).collect();
        (pairs.len() == usize::from(PROCESSES)).then_some(QuicBoxes { pairs, first, last: HALF - 1 })
    }

    /// The value of [`QUIC_BOXES`] for a new binary, and copies of the sockets that stay open in a program that this process
    /// executes.
    ///
    /// # Errors
    /// The error of dup(2).
    pub fn inheritable(&self) -> io::Result<(String, Vec<OwnedFd>)> {
        let all = self.pairs.iter().flat_map(|(own, to)| [own, to]);
        let copies = all.map(rustix::io::dup).collect::<Result<Vec<_>, _>>()?;
        let numbers: String = copies.iter().map(|copy| format!("{};", copy.as_raw_fd())).collect();
        Ok((format!("{};{numbers}", HALF - self.first), copies))
    }

    /// The next number for a worker, which no living process has; each of them has a bit in `living`. `None` if they have all
    /// numbers of this master.
    pub fn next_number(&mut self, living: u8) -> Option<u8> {
        let mut all = (1..=HALF).map(|step| (self.last + step) % HALF);
        self.last = all.find(|place| living & 1 << (self.first + place) == 0)?;
        Some(self.first + self.last)
    }

    /// The bits of the processes of the other master, whichever of them live.
    pub fn of_other_binary(&self) -> u8 {
        ((1 << HALF) - 1) << (HALF - self.first)
    }

    /// The descriptors for the process with this number.
    pub fn descriptors(&self, process: u8) -> Vec<BorrowedFd<'_>> {
        let own = self.pairs.get(usize::from(process)).map(|(own, _)| own.as_fd());
        own.into_iter().chain(self.pairs.iter().map(|(_, to)| to.as_fd())).collect()
    }

    /// Tells all processes that this one has ended.
    pub fn tell_gone(&self, process: u8) {
        self.pairs.iter().for_each(|(_, to)| {
            post(to, &BoxMessage::Gone { process });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_masters_give_different_numbers() {
        let mut old = QuicBoxes::make().unwrap();
        let mut new = QuicBoxes { first: HALF - old.first, ..QuicBoxes::make().unwrap() };
        let numbers: Vec<u8> = (0..5).filter_map(|_| old.next_number(0)).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 0]);
        assert_eq!((new.next_number(0), new.next_number(0b110_0000), new.next_number(0xf0)), (Some(4), Some(7), None));
        assert_eq!(new.next_number(0b1101_1111), Some(5));
        assert_eq!((old.of_other_binary(), new.of_other_binary()), (0xf0, 0x0f));
        assert_eq!(old.descriptors(3).len(), 9);
    }

    #[test]
    fn a_new_binary_gets_the_sockets_and_the_other_half() {
        let boxes = QuicBoxes::make().unwrap();
        let (value, copies) = boxes.inheritable().unwrap();
        let (numbers, wrong) = numbers(&value);
        assert_eq!((numbers[0], wrong), (4, None));
        let sockets: Vec<i32> = copies.iter().map(|copy| copy.as_raw_fd()).collect();
        assert_eq!((&numbers[1..], sockets.len()), (&sockets[..], 16));
    }
}
