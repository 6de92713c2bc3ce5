//! The parts of a fill that can be seen without following it.

use bytes::Bytes;

use super::state::End;
use super::table::Fill;

impl Fill {
    /// Whether all of the body has come.
    pub fn is_whole(&self) -> bool {
        self.with(|state, _| state.end == Some(End::Whole))
    }

    /// All of the body, if it has come and is in memory in one piece.
    pub fn body(&self) -> Option<Bytes> {
        self.with(|state, _| {
            let (window, whole) = (&state.window, state.end == Some(End::Whole));
            if whole && window.end() == 0 {
                return Some(Bytes::new());
            }
            window.get(0).filter(|piece| whole && piece.len() as u64 == window.end())
        })
    }

    /// Waits until the fill cannot be found any more: its object is stored, or will not be.
    pub async fn closed(&self) {
        loop {
            let mut closed = std::pin::pin!(self.closed.notified());
            closed.as_mut().enable();
            if self.with(|state, _| state.closed) {
                return;
            }
            closed.await;
        }
    }
}
