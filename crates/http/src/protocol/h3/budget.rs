//! The budget of the process for bytes that QUIC keeps until clients have acknowledged them
//! ([`freerun_quic::send_window`]).

use freerun_quic::send_window::follow_congestion;

use crate::protocol::h3::client::H3Client;

impl H3Client {
    /// Lets the bytes that QUIC keeps for the client follow the congestion window, within the budget of the process.
    pub(super) fn follow_window(&self) {
        if self.has_no_streams() && self.unacknowledged.borrow().is_empty() {
            self.written.set(0);
            return self.claim(0);
        }
        let all = &self.facts.loop_state.shared.quic.unacknowledged;
        let others = all.get().saturating_sub(self.claimed.get());
        let claimed = self.with_quic(|quic| follow_congestion(quic, others, self.written.get()));
        self.claim(claimed.unwrap_or(0));
    }

    /// Notes how many bytes of the process's budget the connection has.
    pub(super) fn claim(&self, bytes: u64) {
        let before = self.claimed.replace(bytes);
        if before != bytes {
            self.facts.loop_state.shared.quic.unacknowledged.change(before, bytes);
        }
    }
}
