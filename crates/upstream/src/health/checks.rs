//! The verdict of checks on a server (`health_check`): how many in a row have to fail or pass to change its state.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Millis;
use crate::figures::{FAILED, PASSED};
use crate::live::Live;
use crate::saved_servers;

/// Rules for the effect of checks on the state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CheckRules {
    /// Number of failures in a row that make a server unhealthy; from 1.
    pub fails: u32,
    /// Number of passes in a row that make it healthy again; from 1.
    pub passes: u32,
    /// Whether the server is not chosen before the first check has ended.
    pub mandatory: bool,
}

impl Default for CheckRules {
    /// nginx's default: one failure, one pass.
    fn default() -> CheckRules {
        CheckRules { fails: 1, passes: 1, mandatory: false }
    }
}

/// The state of a server according to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedState {
    /// The check has no result yet, and no request is sent to the server.
    Checking,
    /// The server is healthy.
    Healthy,
    /// The server is unhealthy.
    Unhealthy,
}

/// A check of a server. While it exists, its result counts; a server is chosen only if all its checks find it healthy.
#[derive(Debug)]
pub struct ServerCheck {
    live: Arc<Live>,
    rules: CheckRules,
    state: CheckedState,
    /// Number of results in a row that contradicted the state.
    against: u32,
}

impl ServerCheck {
    /// Begins a check.
    pub fn new(live: Arc<Live>, rules: CheckRules) -> ServerCheck {
        let state = match saved_servers::checked(&live, crate::clock::now()) {
            Some(true) => CheckedState::Healthy,
            Some(false) => CheckedState::Unhealthy,
            None if rules.mandatory => CheckedState::Checking,
            None => CheckedState::Healthy,
        };
        // A new server may be held back for this check already.
        let is_held = || live.held.fetch_update(Relaxed, Relaxed, |held| held.checked_sub(1)).is_ok();
        match state {
            CheckedState::Checking if !is_held() => {
                live.checking.fetch_add(1, Relaxed);
            }
            CheckedState::Healthy | CheckedState::Unhealthy if rules.mandatory && is_held() => {
                let before = live.checking.fetch_sub(1, Relaxed);
                debug_assert!(before > 0, "a server is held back for a check that is not counted");
            }
            _ => {}
        }
        if state == CheckedState::Unhealthy {
            live.unhealthy.fetch_add(1, Relaxed);
        }
        live.note_state(crate::clock::now());
        ServerCheck { live, rules, state, against: 0 }
    }

    /// The checked server.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The state found so far.
    pub fn state(&self) -> CheckedState {
        self.state
    }

    /// Takes in the result of a check that ended. Returns whether the state has changed.
    pub fn observe(&mut self, passed: bool, now: Millis) -> bool {
        let checks = &self.live.figures.checks;
        checks.done.fetch_add(1, Relaxed);
        checks.last.store(if passed { PASSED } else { FAILED }, Relaxed);
        if !passed {
            checks.failed.fetch_add(1, Relaxed);
        }
        let next = match self.state {
            CheckedState::Checking if passed => CheckedState::Healthy,
            CheckedState::Checking => CheckedState::Unhealthy,
            CheckedState::Healthy if !passed && self.against + 1 >= self.rules.fails => CheckedState::Unhealthy,
            CheckedState::Unhealthy if passed && self.against + 1 >= self.rules.passes => CheckedState::Healthy,
            same => {
                let opposite = passed == (same == CheckedState::Unhealthy);
                self.against = if opposite { self.against + 1 } else { 0 };
                debug_assert!(self.against < self.rules.fails.max(self.rules.passes), "the state should have changed");
                return false;
            }
        };
        self.become_(next, now);
        self.live.note_state(now);
        true
    }

    fn become_(&mut self, next: CheckedState, now: Millis) {
        self.withdraw();
        self.against = 0;
        if next == CheckedState::Unhealthy {
            self.live.unhealthy.fetch_add(1, Relaxed);
            self.live.figures.checks.unhealthy.fetch_add(1, Relaxed);
        } else if self.state == CheckedState::Unhealthy {
            // The weight grows from nothing (`slow_start`), and earlier failures are forgotten.
            self.live.recovered.store(now.max(1), Relaxed);
            self.live.fails.store(0, Relaxed);
            self.live.until.store(0, Relaxed);
        }
        self.state = next;
    }

    /// Withdraws the result of this check.
    fn withdraw(&self) {
        let counted = match self.state {
            CheckedState::Checking => self.live.checking.fetch_sub(1, Relaxed),
            CheckedState::Unhealthy => self.live.unhealthy.fetch_sub(1, Relaxed),
            CheckedState::Healthy => return,
        };
        debug_assert!(counted > 0, "a result is withdrawn that does not count");
    }
}

impl Drop for ServerCheck {
    fn drop(&mut self) {
        self.withdraw();
        self.live.note_state(crate::clock::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rules: CheckRules, answers: &str) -> String {
        let live = Arc::new(Live::default());
        let mut watch = ServerCheck::new(live.clone(), rules);
        let states = answers.chars().map(|answer| {
            watch.observe(answer == '+', 0);
            let counted = (live.checking.load(Relaxed), live.unhealthy.load(Relaxed));
            let (letter, wanted) = match watch.state() {
                CheckedState::Checking => ('c', (1, 0)),
                CheckedState::Healthy => ('h', (0, 0)),
                CheckedState::Unhealthy => ('u', (0, 1)),
            };
            assert_eq!(counted, wanted);
            letter
        });
        let states = states.collect();
        drop(watch);
        assert_eq!((live.checking.load(Relaxed), live.unhealthy.load(Relaxed)), (0, 0));
        states
    }

    #[test]
    fn several_in_a_row_have_to_agree() {
        let rules = |fails, passes, mandatory| CheckRules { fails, passes, mandatory };
        assert_eq!(said(rules(1, 1, false), "+-+"), "huh");
        assert_eq!(said(rules(3, 2, false), "--+---+-++"), "hhhhhuuuuh");
        assert_eq!(said(rules(3, 2, true), "-+++"), "uuhh");
        assert_eq!(said(rules(3, 2, true), "+-+"), "hhh");
    }

    #[test]
    fn a_new_server_is_held_back_until_its_checks_have_spoken() {
        let checking = |live: &Live| live.checking.load(Relaxed);
        let mandatory = CheckRules { mandatory: true, ..CheckRules::default() };
        let live = Arc::new(Live::held(2));
        let mut one = ServerCheck::new(live.clone(), mandatory);
        let mut other = ServerCheck::new(live.clone(), mandatory);
        let mut optional = ServerCheck::new(live.clone(), CheckRules::default());
        optional.observe(true, 0);
        one.observe(true, 0);
        assert_eq!(checking(&live), 1);
        let third = ServerCheck::new(live.clone(), mandatory);
        other.observe(true, 0);
        assert_eq!(checking(&live), 1);
        drop(third);
        assert_eq!(checking(&live), 0);
        // Checks that do not begin hold back no server.
        let live = Arc::new(Live::held(2));
        let mut one = ServerCheck::new(live.clone(), mandatory);
        live.unhold();
        assert_eq!(checking(&live), 1);
        one.observe(true, 0);
        assert_eq!(checking(&live), 0);
        let live = Live::held(1);
        live.note_state(1);
        live.unhold();
        assert_eq!(live.down_since(), None);
    }

    #[test]
    fn one_check_that_fails_is_enough() {
        let live = Arc::new(Live::default());
        let mut one = ServerCheck::new(live.clone(), CheckRules::default());
        let mut other = ServerCheck::new(live.clone(), CheckRules::default());
        assert!(one.observe(false, 0));
        assert!(!other.observe(true, 0));
        assert_eq!(live.unhealthy.load(Relaxed), 1);
        assert!(live.down_since().is_some());
        drop(one);
        assert_eq!((live.unhealthy.load(Relaxed), live.down_since()), (0, None));
    }
}
