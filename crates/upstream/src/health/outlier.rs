//! Outliers: servers whose answers to requests are much worse than they should be are left out for a while.
//!
//! nginx counts failures (`max_fails`) but has no limit on their share, nor on how many servers may be out. This
//! detection is freerun's own, and is off unless configured. A server is ejected when too many answers in a row were
//! errors, or when the share of errors within a window was too large. Each further ejection lasts longer than the one
//! before. Only a limited share of the group is out at a time, so that a failure common to all servers does not take
//! all of them away.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::clock::Millis;
use crate::group_state::GroupState;
use crate::live::Live;

/// Rules that make a server an outlier.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutlierRules {
    /// Number of errors in a row that eject a server; 0: no number does.
    pub consecutive: u32,
    /// The percentage of errors among the answers within `window` that ejects a server; 0: no percentage does.
    pub rate: u32,
    /// The length of a window.
    pub window: Duration,
    /// The fewest answers in a window for which the percentage is looked at.
    pub requests: u32,
    /// Duration of the first ejection. The next one lasts twice as long, the third three times.
    pub ejection: Duration,
    /// The longest duration of an ejection.
    pub max_ejection: Duration,
    /// The percentage of the group's servers that may be ejected at a time.
    pub max_ejected: u32,
}

impl Default for OutlierRules {
    fn default() -> OutlierRules {
        OutlierRules {
            consecutive: 5,
            rate: 50,
            window: Duration::from_secs(10),
            requests: 20,
            ejection: Duration::from_secs(30),
            max_ejection: Duration::from_secs(300),
            max_ejected: 50,
        }
    }
}

impl OutlierRules {
    /// Counts an answer. Returns whether the server is an outlier now.
    pub(crate) fn count(&self, live: &Live, error: bool, now: Millis) -> bool {
        let Some(tally) = live.answers.count(self.window.as_millis() as Millis, error, now) else { return false };
        let row = self.consecutive > 0 && tally.in_a_row >= self.consecutive;
        let enough = tally.all >= u64::from(self.requests);
        row || (self.rate > 0 && enough && tally.errors * 100 >= tally.all * u64::from(self.rate))
    }

    /// Ejects the server for a while, unless it is ejected already, or too many other servers of the group are. Returns
    /// whether it did.
    pub(crate) fn eject(&self, live: &Live, group: &GroupState, now: Millis) -> bool {
        if live.ejected.load(Relaxed) > now {
            return false;
        }
        group.alone(|group| {
            // Another loop may have ejected it since the look above.
            if live.ejected.load(Relaxed) > now {
                return false;
            }
            let (mut out, mut all) = (0u64, 0u64);
            group.each(|live: &Live| {
                all += 1;
                out += u64::from(live.ejected.load(Relaxed) > now);
            });
            debug_assert!(out < all, "the server is none of its group");
            if (out + 1) * 100 > all * u64::from(self.max_ejected) {
                return false;
            }
            let lasts = self.ejection.saturating_mul(live.answers.ejected()).min(self.max_ejection);
            let until = now + lasts.as_millis() as Millis;
            // The server comes back slowly, if it has a slow start.
            live.recovered.store(until, Relaxed);
            live.ejected.store(until, Relaxed);
            live.figures.ejected.fetch_add(1, Relaxed);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::failure::AttemptFailure;
    use crate::group::{Group, GroupSettings, PeerSpec};
    use crate::peer::{PeerSettings, PeerState};
    use crate::query::{Query, TriedServers};

    fn group(servers: u16, rules: OutlierRules) -> Group {
        let specs = (0..servers).map(|number| PeerSpec {
            address: crate::address::UpstreamAddress::Ip(([127, 0, 0, 1], 8000 + number).into()),
            server: format!("127.0.0.1:{}", 8000 + number).into(),
            settings: PeerSettings { max_fails: 0, ..PeerSettings::default() },
        });
        let settings = GroupSettings { outlier: Some(rules), ..GroupSettings::default() };
        Group::new("g", settings, Arc::default(), specs.collect())
    }

    /// Sends requests. Those to the servers for which `error` holds end with an error.
    fn send(group: &Group, count: usize, now: Millis, error: impl Fn(usize, usize) -> bool) {
        for number in 0..count {
            let lease = group.pick(&Query { now, ..Query::default() }, &mut TriedServers::new()).unwrap();
            let index = group.peers().peers().position(|peer| peer.id == lease.peer().id).unwrap();
            if error(index, number) {
                lease.header(503, Duration::ZERO, now);
            }
            lease.succeeded(Duration::ZERO, now);
        }
    }

    fn out(group: &Group, now: Millis) -> Vec<usize> {
        let peers = group.peers();
        let out = peers.peers().enumerate().filter(|(_, peer)| peer.state(now) == PeerState::Unavailable);
        out.map(|(index, _)| index).collect()
    }

    #[test]
    fn errors_in_a_row_eject_for_longer_each_time() {
        let rules = OutlierRules { consecutive: 3, rate: 0, ..OutlierRules::default() };
        let group = group(4, rules);
        send(&group, 8, 0, |index, _| index == 1);
        assert_eq!(out(&group, 0), [] as [usize; 0]);
        send(&group, 4, 0, |index, _| index == 1);
        assert_eq!(out(&group, 0), [1]);
        assert_eq!((out(&group, 29_999).len(), out(&group, 30_000).len()), (1, 0));
        send(&group, 12, 30_000, |index, _| index == 1);
        assert_eq!((out(&group, 89_999).len(), out(&group, 90_000).len()), (1, 0));
        // Windows that go well reduce the server's count of ejections.
        for window in 0..3 {
            send(&group, 4, 100_000 + window * 11_000, |_, _| false);
        }
        send(&group, 12, 140_000, |index, _| index == 1);
        assert_eq!((out(&group, 169_999).len(), out(&group, 170_000).len()), (1, 0));
    }

    #[test]
    fn a_share_of_errors_ejects() {
        let rules = OutlierRules { consecutive: 0, rate: 30, requests: 10, ..OutlierRules::default() };
        let group = group(2, rules);
        send(&group, 40, 0, |index, number| index == 0 && number % 10 == 0);
        assert_eq!(out(&group, 0), [] as [usize; 0]);
        send(&group, 40, 11_000, |index, number| index == 0 && number % 4 == 0);
        assert_eq!(out(&group, 11_000), [0]);
    }

    #[test]
    fn no_more_than_the_share_is_out() {
        for (servers, share, most) in [(10, 30, 3), (10, 100, 10), (3, 50, 1), (1, 100, 0), (4, 10, 0)] {
            let rules = OutlierRules { consecutive: 1, max_ejected: share, ..OutlierRules::default() };
            let group = group(servers, rules);
            for _ in 0..100 {
                if let Ok(lease) = group.pick(&Query::default(), &mut TriedServers::new()) {
                    lease.failed(AttemptFailure::Timeout, 0);
                }
            }
            assert_eq!(out(&group, 0).len(), most, "{servers} {share}");
        }
    }

    #[test]
    fn a_dead_idle_connection_is_no_error() {
        let rules = OutlierRules { consecutive: 1, ..OutlierRules::default() };
        let group = group(2, rules);
        group.pick(&Query::default(), &mut TriedServers::new()).unwrap().failed(AttemptFailure::Stale, 0);
        assert_eq!(out(&group, 0), [] as [usize; 0]);
    }
}
