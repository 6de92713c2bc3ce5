//! Datagrams that go from one loop to another.

use std::net::{IpAddr, SocketAddr};

use freerun_runtime::net::udp::{Ecn, ReceivedDatagrams};

/// Received datagrams in memory of their own.
#[derive(Debug, PartialEq, Eq)]
pub struct CopiedDatagrams {
    bytes: Box<[u8]>,
    from: Option<SocketAddr>,
    to: Option<IpAddr>,
    ecn: Ecn,
    segment: Option<usize>,
    is_truncated: bool,
}

impl CopiedDatagrams {
    /// A copy.
    pub fn of(received: &ReceivedDatagrams<'_>) -> CopiedDatagrams {
        let ReceivedDatagrams { bytes, from, to, ecn, segment, is_truncated } = *received;
        CopiedDatagrams { bytes: bytes.into(), from, to, ecn, segment, is_truncated }
    }

    /// The received datagrams.
    pub fn received(&self) -> ReceivedDatagrams<'_> {
        let CopiedDatagrams { bytes, from, to, ecn, segment, is_truncated } = self;
        let (from, to, ecn, segment, is_truncated) = (*from, *to, *ecn, *segment, *is_truncated);
        ReceivedDatagrams { bytes, from, to, ecn, segment, is_truncated }
    }

    /// Number of these datagrams.
    pub fn datagrams(copies: &[CopiedDatagrams]) -> u64 {
        let count = |one: &CopiedDatagrams| match one.segment {
            Some(segment) if segment > 0 => one.bytes.len().div_ceil(segment).max(1) as u64,
            _ => 1,
        };
        copies.iter().map(count).sum()
    }

    /// The number of its bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}
