//! The bytes that QUIC keeps for a peer: those that it has sent and that are not acknowledged, and those that follow.
//!
//! A connection may keep its congestion window and `AHEAD`, so that it never waits for the owners of streams that fill it.
//! Together the connections of a budget may keep `BUDGET`; connections with clients have one, and those to upstream servers
//! have another. No connection may have more than a part of what is left, so those that begin later get their part, too, and
//! the more there are, the less each has. Where nothing is left, each has `SMALLEST`: it is slower, and goes on.

use crate::connection::QuicConnection;

/// The most bytes of all connections of a budget, but for those that have the smallest window.
const BUDGET: u64 = 256 << 20;

/// The part of what is left that one connection may have: one of this number.
const PART: u64 = 4;

/// The least bytes of a connection, whatever the others have.
const SMALLEST: u64 = 64 << 10;

/// The least and the most bytes of a connection, as long as there is enough.
const LEAST: u64 = 256 << 10;
const MOST: u64 = 16 << 20;

/// The most bytes that are given to QUIC and that the congestion window does not let it send yet: as many as leave in a turn.
/// Bytes that wait longer are read from memory a second time instead of from the processor's cache.
const AHEAD: u64 = 128 << 10;

/// The step in which bytes are counted, so that small changes cost nothing.
const STEP: u64 = 16 << 10;

const _: () = assert!(SMALLEST > 0 && SMALLEST.is_multiple_of(STEP), "each connection goes on");
const _: () =
    assert!(LEAST >= SMALLEST && MOST >= LEAST && BUDGET / PART >= MOST, "one connection alone is not held up");

/// The most bytes that a connection may keep. `congestion` is its congestion window, and `others` is what all other connections
/// of the budget may keep.
fn send_window(congestion: u64, others: u64) -> u64 {
    let wanted = congestion.saturating_add(AHEAD).clamp(LEAST, MOST);
    let part = BUDGET.saturating_sub(others) / PART;
    wanted.min(part.max(SMALLEST)) / STEP * STEP
}

/// The part of the budget that is counted for a connection with this window, which has written these bytes since it had nothing
/// to send: QUIC cannot keep more.
fn part_of_budget(window: u64, written: u64) -> u64 {
    window.min(written.div_ceil(STEP).saturating_mul(STEP))
}

/// Lets the bytes that QUIC keeps for the peer follow the congestion window. `others` is what all other connections of the
/// budget may keep, and `written` is the number of bytes that were written since this one had nothing to send. Returns the bytes
/// that count for it.
pub fn follow_congestion(quic: &mut QuicConnection, others: u64, written: u64) -> u64 {
    let window = send_window(quic.look().congestion_state().window(), others);
    quic.inner().set_send_window(window);
    part_of_budget(window, written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_alone_follows_its_congestion_window() {
        let windows = [0, 14_720, 1 << 20, 5 << 20, 8 << 20, u64::MAX].map(|congestion| send_window(congestion, 0));
        assert_eq!(windows, [LEAST, LEAST, (1 << 20) + AHEAD, (5 << 20) + AHEAD, (8 << 20) + AHEAD, MOST]);
    }

    /// The windows of so many connections that all want as much as they can get, after a while.
    fn settled(count: usize) -> Vec<u64> {
        let (mut windows, mut all) = (vec![0; count], 0);
        for _ in 0..100 {
            for window in &mut windows {
                let others = all - *window;
                *window = send_window(u64::MAX, others);
                all = others + *window;
            }
        }
        windows
    }

    #[test]
    fn all_connections_together_keep_to_the_budget_and_none_is_left_out() {
        for count in [1, 2, 10, 50, 300, 2000] {
            let windows = settled(count);
            let (least, all) = (windows.iter().min().unwrap(), windows.iter().sum::<u64>());
            assert!(*least >= SMALLEST, "{count}: {least}");
            assert!(all <= BUDGET.max(count as u64 * SMALLEST), "{count}: {all}");
            assert!(all >= BUDGET / 2 || count < 10, "{count}: {all}");
        }
        assert_eq!(settled(2), [MOST, MOST]);
        assert_eq!(settled(8000), vec![SMALLEST; 8000], "nothing is left");
    }

    #[test]
    fn a_short_response_counts_little() {
        let claims = [0, 1, STEP, STEP + 1, u64::MAX].map(|written| part_of_budget(1 << 20, written));
        assert_eq!(claims, [0, STEP, STEP, 2 * STEP, 1 << 20]);
    }

    #[test]
    fn a_window_becomes_small_when_others_have_spent_the_budget() {
        assert_eq!(send_window(1 << 20, BUDGET - (4 << 20)), 1 << 20);
        assert_eq!([BUDGET, BUDGET + 1, u64::MAX].map(|others| send_window(1 << 20, others)), [SMALLEST; 3]);
    }
}
