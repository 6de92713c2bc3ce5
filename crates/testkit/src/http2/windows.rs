//! The windows of a connection and of its streams, in both directions (RFC 9113 section 5.2).

use std::collections::HashMap;

/// The window of a connection at its beginning, in bytes.
const OF_CONNECTION: i64 = 65_535;

/// A direction: the number of bytes that may be sent before more is granted. Negative after a setting that has made
/// streams' windows smaller.
#[derive(Debug)]
struct Direction {
    initial: i64,
    connection: i64,
    streams: HashMap<u32, i64>,
}

impl Default for Direction {
    fn default() -> Direction {
        Direction { initial: OF_CONNECTION, connection: OF_CONNECTION, streams: HashMap::new() }
    }
}

impl Direction {
    fn window(&mut self, stream: u32) -> &mut i64 {
        match stream {
            0 => &mut self.connection,
            stream => self.streams.entry(stream).or_insert(self.initial),
        }
    }

    fn take(&mut self, stream: u32, length: i64) {
        self.connection -= length;
        *self.window(stream) -= length;
    }

    fn set(&mut self, initial: u32) {
        let more = i64::from(initial) - self.initial;
        self.initial += more;
        self.streams.values_mut().for_each(|window| *window += more);
    }
}

/// Both directions.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// The windows of this side's bytes.
    out: Direction,
    /// The windows of the other side's bytes.
    back: Direction,
    /// Whether the test alone opens windows.
    pub(super) by_hand: bool,
    /// The bytes that have come since the window was opened last.
    taken: HashMap<u32, u32>,
}

impl Windows {
    /// A stream begins with the windows of now.
    pub(super) fn begin(&mut self, stream: u32) {
        self.out.window(stream);
        self.back.window(stream);
    }

    /// Notes that this side has sent DATA; whether it may is not checked.
    pub(super) fn sent(&mut self, stream: u32, length: usize) {
        self.out.take(stream, length as i64);
    }

    /// The number of bytes that this side may send on a stream; 0 asks for the connection alone.
    pub(super) fn room(&self, stream: u32) -> usize {
        let own = match stream {
            0 => self.out.connection,
            stream => self.out.streams.get(&stream).copied().unwrap_or(self.out.initial),
        };
        usize::try_from(own.min(self.out.connection)).unwrap_or(0)
    }

    /// Notes that this side has opened a window.
    pub(super) fn opened(&mut self, stream: u32, more: u32) {
        *self.back.window(stream) += i64::from(more);
    }

    /// The other side has opened a window.
    pub(super) fn got_update(&mut self, stream: u32, more: u32) -> Result<(), String> {
        let window = self.out.window(stream);
        *window += i64::from(more);
        if *window >= 1 << 31 { Err(format!("a window of {window} bytes on {stream}")) } else { Ok(()) }
    }

    /// DATA has come. What windows to open by how much, if this is not the test's business.
    pub(super) fn received(&mut self, stream: u32, length: usize, open: bool) -> Result<Vec<(u32, u32)>, String> {
        self.back.take(stream, length as i64);
        let (own, whole) = (*self.back.window(stream), self.back.connection);
        if length > 0 && (own < 0 || whole < 0) {
            return Err(format!("{length} bytes on {stream} leave windows of {own} and {whole} bytes"));
        }
        let mut updates = Vec::new();
        if !self.by_hand {
            for (of, initial, open) in [(0, OF_CONNECTION, true), (stream, self.back.initial, open)] {
                let taken = self.taken.entry(of).or_insert(0);
                *taken += length as u32;
                // Half a window, so that the other side seldom waits, and there is not an update for each frame.
                if open && *taken > 0 && i64::from(*taken) * 2 >= initial {
                    updates.push((of, std::mem::take(taken)));
                }
            }
        }
        Ok(updates)
    }

    /// The window that the other side has on new streams.
    pub(super) fn set_own(&mut self, initial: u32) {
        self.back.set(initial);
    }

    /// The window that this side has on new streams.
    pub(super) fn set_theirs(&mut self, initial: u32) {
        self.out.set(initial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_open_when_half_of_them_is_used() {
        let mut windows = Windows::default();
        windows.begin(1);
        assert_eq!(windows.received(1, 30_000, true), Ok(vec![]));
        assert_eq!(windows.received(1, 10_000, true), Ok(vec![(0, 40_000), (1, 40_000)]));
        for stream in [0, 1] {
            windows.opened(stream, 40_000);
        }
        assert_eq!(windows.received(1, 65_535, false), Ok(vec![(0, 65_535)]));
        windows.opened(0, 65_535);
        assert!(windows.received(1, 1, true).is_err());
    }

    #[test]
    fn a_setting_changes_the_windows_of_all_streams() {
        let mut windows = Windows::default();
        windows.begin(1);
        windows.sent(1, 60_000);
        windows.set_theirs(1000);
        assert_eq!((windows.room(1), windows.room(3), windows.room(0)), (0, 1000, 5535));
        windows.set_theirs(100_000);
        assert_eq!((windows.room(1), windows.room(3)), (5535, 5535));
        assert!(windows.got_update(0, u32::MAX >> 1).is_err());
    }

    #[test]
    fn by_hand_nothing_is_opened() {
        let mut windows = Windows { by_hand: true, ..Windows::default() };
        windows.set_own(10);
        assert_eq!(windows.received(1, 10, true), Ok(vec![]));
        assert!(windows.received(1, 1, true).is_err());
        assert_eq!(windows.received(1, 0, true), Ok(vec![]));
    }
}
