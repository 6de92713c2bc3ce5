//! The limit of the bytes that are handed to the kernel before the client has room for them. Bytes in the kernel cannot
//! be overtaken by more urgent ones (RFC 9218 section 10); bytes that are not there have to be asked for again.

/// For how long the bytes in the kernel last that were not sent yet, in milliseconds.
const MILLIS: u64 = 4;

/// The least bytes of them, however slow the client is.
const LEAST: u64 = 8 * 1024;

/// The bound until the rate is known.
const FIRST: u32 = 128 * 1024;

/// With more than this, the kernel's own bounds will do.
const MOST: u64 = 1024 * 1024;

/// The time that a rate is taken over at least, in milliseconds.
const LEAST_TIME: u64 = 20;

/// The bound of one connection, by the rate at which its client takes bytes.
#[derive(Debug)]
pub(super) struct Unsent {
    /// Number of bytes that the kernel has taken since `since`, in milliseconds.
    written: u64,
    since: u64,
    /// The limit that the kernel has.
    limit: u64,
}

impl Unsent {
    /// The state of a connection, and the bound that the kernel is to be told of at first.
    pub(super) fn new(now: u64) -> (Unsent, u32) {
        (Unsent { written: 0, since: now, limit: FIRST.into() }, FIRST)
    }

    /// Notes that the kernel has taken bytes.
    pub(super) fn wrote(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// Notes that nothing is to be sent: a rate begins with the next bytes.
    pub(super) fn idle(&mut self, now: u64) {
        (self.written, self.since) = (0, now);
    }

    /// Notes that the kernel takes nothing for now. Returns the new bound, if it is to be told of one.
    pub(super) fn is_full(&mut self, now: u64) -> Option<u32> {
        let time = now.saturating_sub(self.since);
        // What the kernel takes at first fills its buffers, and says nothing of the client.
        if time < LEAST_TIME {
            return None;
        }
        let wanted = (self.written * MILLIS / time).clamp(LEAST, MOST);
        self.idle(now);
        // Small changes are not worth a system call.
        if wanted * 2 > self.limit && wanted < self.limit * 2 {
            return None;
        }
        self.limit = wanted;
        u32::try_from(wanted).ok()
    }

    /// Number of bytes that are brought into their final order before each write.
    pub(super) fn ahead(&self, most: usize) -> usize {
        usize::try_from(self.limit).unwrap_or(most).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_client_has_little_in_the_kernel_and_a_fast_one_much() {
        let (mut unsent, first) = Unsent::new(1000);
        assert_eq!(unsent.ahead(1 << 20), first as usize);
        unsent.wrote(4_000_000);
        assert_eq!(unsent.is_full(1001), None, "the buffers are full, which says nothing");
        unsent.idle(1001);
        unsent.wrote(250_000);
        assert_eq!(unsent.is_full(1101), Some(10_000));
        assert_eq!(unsent.ahead(128 * 1024), 10_000);
        unsent.wrote(1000);
        assert_eq!(unsent.is_full(1151), None, "no less than a frame");
        // 20 MB a second.
        unsent.wrote(2_000_000);
        assert_eq!(unsent.is_full(1251), Some(80_000));
        unsent.wrote(2_200_000);
        assert_eq!(unsent.is_full(1351), None, "about the same");
        unsent.wrote(200_000_000);
        assert_eq!(unsent.is_full(1451), Some(1024 * 1024));
    }
}
