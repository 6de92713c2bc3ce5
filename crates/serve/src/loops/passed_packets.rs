//! Packets of QUIC on their way to a loop, from other loops or from the message box of the process.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The most packets on their way to a loop: a late loop loses more, as a network without room does.
const MOST: usize = 4096;

/// The number of packets on their way to a loop.
#[derive(Debug, Default)]
pub struct PassedPackets(AtomicUsize);

/// A packet on its way to a loop, until this value is dropped.
#[derive(Debug)]
pub struct PacketOnItsWay(Arc<PassedPackets>);

impl PassedPackets {
    /// Counts another packet. `None` if there is no room for it.
    pub fn leave(self: &Arc<Self>) -> Option<PacketOnItsWay> {
        let packet = PacketOnItsWay(self.clone());
        (self.0.fetch_add(1, Relaxed) < MOST).then_some(packet)
    }
}

impl Drop for PacketOnItsWay {
    fn drop(&mut self) {
        let before = self.0.0.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a packet arrives that has not left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_packets_on_their_way_is_bounded() {
        let passed = Arc::new(PassedPackets::default());
        let all: Vec<PacketOnItsWay> = std::iter::from_fn(|| passed.leave()).collect();
        assert_eq!(all.len(), MOST);
        drop(all);
        assert!(passed.leave().is_some());
        assert_eq!(passed.0.load(Relaxed), 0);
    }
}
