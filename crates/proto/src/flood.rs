//! The account of the work that a peer causes on one connection: what it costs, and what it is worth.
//!
//! A peer can keep the other side busy without asking for anything: with frames that have no effect, and with streams that
//! are begun and given up. Every such frame is paid from a balance, which real payload refills in both directions, and slowly
//! the time. A peer without a balance is not served any more (RFC 9113 section 10.5).

/// The balance of a new connection, and the largest one, in bytes of payload: some thousand frames without an effect.
const MOST: i64 = 512 * 1024;

/// Cost of a frame besides its bytes.
const FRAME: i64 = 64;

/// Cost of an instruction of header compression besides its bytes.
const INSTRUCTION: i64 = 16;

/// Cost of each stream that a setting changes.
const STREAM: u32 = 32;

/// Worth of a millisecond: a frame without an effect every 64 milliseconds is free.
const PER_MILLISECOND: i64 = 1;

/// Worth of a piece of a body besides its bytes. The receiver may open two windows for it, and measure the round trip
/// with a `PING`, as gRPC does. Messages of streams may be short, and there may be many of them.
const PIECE: usize = 256;

/// Worth of a stream that was answered.
const ANSWERED: i64 = 1024;

/// Number of streams that may be torn down before they were answered. A browser gives up all that a page waits for when
/// somebody leaves it: a hundred streams each time. On the same connection there may be a download or a WebSocket.
/// nghttp2 has the same number and the same pace.
const RESETS: u32 = 1000;

/// Interval at which a torn-down stream is forgotten, in milliseconds.
const RESET_EVERY: u64 = 30;

const _: () = assert!(MOST / FRAME > 1000, "a peer that does nothing wrong has a thousand frames to begin with");
const _: () = assert!(ANSWERED > FRAME + STREAM as i64, "a stream that is answered is worth more than it costs");

/// Reason why a peer is not served any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flood {
    /// The peer has sent too many frames that have no effect.
    Frames,
    /// Too many of its streams were torn down, by whichever side.
    Resets,
    /// The peer does not read, while it requests answers that are no responses (`SETTINGS`, `PING`).
    Unread,
    /// A block of fields has too many parts, or is too large.
    Fields,
}

impl Flood {
    /// The words for a log.
    pub const fn text(self) -> &'static str {
        match self {
            Flood::Frames => "too many frames without effect",
            Flood::Resets => "too many streams that were reset",
            Flood::Unread => "too many unread control frames",
            Flood::Fields => "too large header",
        }
    }
}

/// The account of one connection.
///
/// Invariants: the balance is never above [`MOST`], so that no peer saves up for a flood. More streams may be torn down than
/// there can be at a time.
#[derive(Debug)]
pub struct Account {
    balance: i64,
    resets: u32,
    most_resets: u32,
    /// Moment of the last refill of the balance by the time, in milliseconds.
    refilled: u64,
    /// Moment at which a torn-down stream was last forgotten, in milliseconds.
    forgot: u64,
}

impl Account {
    /// The account of a new connection that may have this many streams at a time.
    pub fn new(streams: u32, now: u64) -> Account {
        let most_resets = RESETS.max(streams.saturating_mul(2));
        Account { balance: MOST, resets: 0, most_resets, refilled: now, forgot: now }
    }

    pub(crate) fn check_invariants(&self) {
        debug_assert!(self.balance <= MOST, "a peer has saved up {}", self.balance);
        debug_assert!(self.resets <= self.most_resets.saturating_add(2), "{} streams were torn down", self.resets);
        debug_assert!(self.most_resets >= RESETS, "fewer streams may be torn down than the limit says");
    }

    /// Pays for a frame without an effect; `len` is the length of its payload.
    ///
    /// # Errors
    /// Nothing is left, [`Flood::Frames`].
    pub fn pay(&mut self, len: u32, now: u64) -> Result<(), Flood> {
        let passed = now.saturating_sub(self.refilled).min(MOST as u64) as i64;
        self.refilled = self.refilled.max(now);
        self.balance = (self.balance + passed * PER_MILLISECOND).min(MOST) - FRAME - i64::from(len);
        if self.balance < 0 { Err(Flood::Frames) } else { Ok(()) }
    }

    /// Pays for a frame that changes this many streams, besides its own price.
    ///
    /// # Errors
    /// Nothing is left, [`Flood::Frames`].
    pub fn pay_for_streams(&mut self, streams: usize, now: u64) -> Result<(), Flood> {
        self.pay(u32::try_from(streams).unwrap_or(u32::MAX).saturating_mul(STREAM), now)
    }

    /// Pays for an instruction of header compression that has caused this number of bytes to be received and copied. A
    /// request has several of them, and is worth more when it is answered.
    ///
    /// # Errors
    /// Nothing is left, [`Flood::Frames`].
    pub fn pay_for_work(&mut self, bytes: u32, now: u64) -> Result<(), Flood> {
        self.balance += FRAME - INSTRUCTION;
        self.pay(bytes, now)
    }

    /// Notes the number of bytes of payload that were received or sent.
    #[inline]
    pub fn earn(&mut self, bytes: usize) {
        self.balance = self.balance.saturating_add(bytes as i64).min(MOST);
    }

    /// Notes that a piece of a body was received or sent, with its bytes. A piece is whole if the window has not cut
    /// it: small pieces of a cut one are worth no more than their bytes.
    #[inline]
    pub fn passed(&mut self, bytes: usize, is_whole: bool) {
        self.earn(if is_whole { bytes + PIECE } else { bytes });
    }

    /// Notes that a stream was answered.
    #[inline]
    pub fn answered(&mut self) {
        self.balance = self.balance.saturating_add(ANSWERED).min(MOST);
        self.resets = self.resets.saturating_sub(1);
    }

    /// Takes back what was noted for a stream that was [answered](Account::answered), because it is torn down all the same.
    pub fn take_back_answer(&mut self) {
        self.balance -= ANSWERED;
        self.resets += 1;
    }

    /// Notes that a stream was torn down before it was answered, no matter by whom (CVE-2023-44487, CVE-2025-8671).
    ///
    /// # Errors
    /// There were too many, [`Flood::Resets`].
    pub fn torn_down(&mut self, now: u64) -> Result<(), Flood> {
        let forgotten = now.saturating_sub(self.forgot) / RESET_EVERY;
        self.forgot += forgotten * RESET_EVERY;
        self.resets = self.resets.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX)) + 1;
        if self.resets > self.most_resets { Err(Flood::Resets) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_without_effect_end_it_and_payload_pays_for_them() {
        let mut account = Account::new(128, 0);
        let paid = (0..).take_while(|_| account.pay(8, 0).is_ok()).count();
        assert!((5000..10_000).contains(&paid), "{paid}");
        let mut account = Account::new(128, 0);
        for _ in 0..100_000 {
            account.earn(100);
            assert_eq!(account.pay(4, 0), Ok(()));
        }
        // Short messages, the windows that are opened for them, and a question for each.
        for _ in 0..100_000 {
            account.passed(1, true);
            let frames = [4, 4, 8].map(|len| account.pay(len, 0));
            assert_eq!(frames, [Ok(()); 3]);
        }
        // Each second of an idle connection pays for some.
        for second in 0..100_000 {
            assert_eq!(account.pay(8, second * 1000), Ok(()));
        }
    }

    #[test]
    fn streams_that_are_torn_down_end_it_and_answered_ones_make_good() {
        let mut account = Account::new(10, 0);
        for _ in 0..RESETS {
            assert_eq!(account.torn_down(0), Ok(()));
        }
        account.answered();
        assert_eq!(account.torn_down(RESET_EVERY / 2), Ok(()));
        assert_eq!(account.torn_down(RESET_EVERY - 1), Err(Flood::Resets));
        let mut account = Account::new(10, 0);
        for step in 0..10_000 {
            assert_eq!(
                account.torn_down(step * RESET_EVERY),
                Ok(()),
                "one each time is a client that changes its mind"
            );
        }
        // Pages of a hundred pictures that are left one after the other.
        let mut account = Account::new(128, 0);
        assert!((0..9).all(|page| (0..100).all(|_| account.torn_down(page * 300).is_ok())));
        assert_eq!(Account::new(1000, 0).most_resets, 2000);
    }
}
