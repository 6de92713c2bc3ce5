//! Levels of the error log for single clients, which are set while the server runs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::ArcSwap;
use freerun_runtime::log::Level;

use crate::listen::address::Address;

/// The most clients that have a level of their own.
pub const MAX_CLIENTS: usize = 64;

/// The levels by the addresses of the clients.
pub type Levels = BTreeMap<IpAddr, Level>;

/// The clients whose lines in the error logs are written from a level of their own on, whatever `error_log` says. Any thread
/// may change or read it, without waiting.
#[derive(Debug, Default)]
pub struct ClientLevels {
    /// Whether there may be any: all that a request asks as long as there are none.
    some: AtomicBool,
    levels: ArcSwap<Levels>,
}

/// Nothing has changed: more than [`MAX_CLIENTS`] clients would have a level of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at most {MAX_CLIENTS} addresses have a level")]
pub struct TooMany;

impl ClientLevels {
    /// Whether some client may have one.
    #[inline]
    pub fn are_some(&self) -> bool {
        self.some.load(Relaxed)
    }

    /// The level of a client, if it has one of its own.
    #[inline]
    pub fn of(&self, client: &Address) -> Option<Level> {
        if self.are_some() { self.find(client) } else { None }
    }

    #[cold]
    fn find(&self, client: &Address) -> Option<Level> {
        match client {
            Address::Ip(address) => self.levels.load().get(&address.ip().to_canonical()).copied(),
            Address::Unix(_) => None,
        }
    }

    /// All of them.
    pub fn all(&self) -> Arc<Levels> {
        self.levels.load_full()
    }

    /// Gives clients levels of their own, or (`None`) takes these away.
    ///
    /// # Errors
    /// There would be too many.
    pub fn change(&self, changes: &BTreeMap<IpAddr, Option<Level>>) -> Result<(), TooMany> {
        let mut refused = false;
        self.levels.rcu(|levels| {
            let mut next = Levels::clone(levels);
            for (address, level) in changes {
                let address = address.to_canonical();
                let _ = match level {
                    Some(level) => next.insert(address, *level),
                    None => next.remove(&address),
                };
            }
            refused = next.len() > MAX_CLIENTS;
            if refused { levels.clone() } else { Arc::new(next) }
        });
        // After the change: it is not overlooked if they are all taken away at the same moment.
        self.some.store(true, Relaxed);
        if refused { Err(TooMany) } else { Ok(()) }
    }

    /// Takes the levels of all clients away.
    pub fn clear(&self) {
        self.some.store(false, Relaxed);
        self.levels.store(Arc::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Address {
        Address::Ip(text.parse().unwrap())
    }

    fn changes(all: &[(&str, Option<Level>)]) -> BTreeMap<IpAddr, Option<Level>> {
        all.iter().map(|(address, level)| (address.parse().unwrap(), *level)).collect()
    }

    #[test]
    fn clients_have_levels_until_these_are_taken_away() {
        let levels = ClientLevels::default();
        let (one, other) = (client("192.0.2.1:9"), client("[2001:db8::1]:9"));
        assert_eq!(levels.of(&one), None);
        let given = changes(&[("::ffff:192.0.2.1", Some(Level::Debug)), ("2001:db8::1", Some(Level::Crit))]);
        levels.change(&given).unwrap();
        assert_eq!((levels.of(&one), levels.of(&other)), (Some(Level::Debug), Some(Level::Crit)));
        assert_eq!((levels.of(&client("192.0.2.2:9")), levels.of(&Address::Unix("".into()))), (None, None));
        levels.change(&changes(&[("192.0.2.1", None), ("192.0.2.9", None)])).unwrap();
        assert_eq!((levels.of(&one), levels.all().len()), (None, 1));
        levels.clear();
        assert_eq!((levels.of(&other), levels.all().len()), (None, 0));
        levels.change(&given).unwrap();
        assert_eq!(levels.of(&one), Some(Level::Debug));
    }

    #[test]
    fn too_many_change_nothing() {
        let levels = ClientLevels::default();
        let all = |n: usize| (0..n).map(|n| (IpAddr::from([10, 0, 0, n as u8]), Some(Level::Info))).collect();
        levels.change(&all(MAX_CLIENTS)).unwrap();
        assert_eq!(levels.change(&changes(&[("10.0.0.1", None), ("10.1.0.1", Some(Level::Info))])), Ok(()));
        assert_eq!(
            levels.change(&changes(&[
                ("10.0.0.0", None),
                ("10.1.0.2", Some(Level::Info)),
                ("10.1.0.3", Some(Level::Info))
            ])),
            Err(TooMany)
        );
        assert_eq!(levels.all().len(), MAX_CLIENTS);
        assert_eq!(levels.of(&client("10.0.0.0:1")), Some(Level::Info));
    }
}
