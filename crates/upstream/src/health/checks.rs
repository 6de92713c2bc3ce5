//! What checks say of a server (`health_check`): how many in a row have to fail or pass until it is believed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Millis;
use crate::live::Live;

/// When a check is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CheckRules {
    /// So many failures in a row make a server unhealthy; from 1.
    pub fails: u32,
    /// So many passes in a row make it healthy again; from 1.
    pub passes: u32,
    /// Whether it is asked by nobody before the first check has ended.
    pub mandatory: bool,
}

impl Default for CheckRules {
    /// nginx's: one of each.
    fn default() -> CheckRules {
        CheckRules { fails: 1, passes: 1, mandatory: false }
    }
}

/// What a check has found out so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Nothing yet; nobody is sent to the server.
    Checking,
    /// The server is well.
    Healthy,
    /// It is not.
    Unhealthy,
}

/// One check of one server. While it is there, what it has found counts; a server is asked only if all its checks are content.
#[derive(Debug)]
pub struct Watch {
    live: Arc<Live>,
    rules: CheckRules,
    state: Checked,
    /// How many in a row said the opposite of the state.
    against: u32,
}

impl Watch {
    /// A check that begins.
    pub fn new(live: Arc<Live>, rules: CheckRules) -> Watch {
        let state = if rules.mandatory { Checked::Checking } else { Checked::Healthy };
        // A new server may be held back for this check already.
        if state == Checked::Checking && live.held.fetch_update(Relaxed, Relaxed, |held| held.checked_sub(1)).is_err() {
            live.checking.fetch_add(1, Relaxed);
        }
        Watch { live, rules, state, against: 0 }
    }

    /// The server.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// What was found so far.
    pub fn state(&self) -> Checked {
        self.state
    }

    /// A check ended. Says whether the state is another one now.
    pub fn observe(&mut self, passed: bool, now: Millis) -> bool {
        let checks = &self.live.figures.checks;
        checks.done.fetch_add(1, Relaxed);
        if !passed {
            checks.failed.fetch_add(1, Relaxed);
        }
        let next = match self.state {
            Checked::Checking if passed => Checked::Healthy,
            Checked::Checking => Checked::Unhealthy,
            Checked::Healthy if !passed && self.against + 1 >= self.rules.fails => Checked::Unhealthy,
            Checked::Unhealthy if passed && self.against + 1 >= self.rules.passes => Checked::Healthy,
            same => {
                let opposite = passed == (same == Checked::Unhealthy);
                self.against = if opposite { self.against + 1 } else { 0 };
                return false;
            }
        };
        self.become_(next, now);
        true
    }

    fn become_(&mut self, next: Checked, now: Millis) {
        self.withdraw();
        self.against = 0;
        if next == Checked::Unhealthy {
            self.live.unhealthy.fetch_add(1, Relaxed);
            self.live.figures.checks.unhealthy.fetch_add(1, Relaxed);
        } else if self.state == Checked::Unhealthy {
            // Its weight grows from nothing (`slow_start`), and failures of before are forgotten.
            self.live.recovered.store(now.max(1), Relaxed);
            self.live.fails.store(0, Relaxed);
            self.live.until.store(0, Relaxed);
        }
        self.state = next;
    }

    /// Takes back what it has said.
    fn withdraw(&self) {
        match self.state {
            Checked::Checking => self.live.checking.fetch_sub(1, Relaxed),
            Checked::Unhealthy => self.live.unhealthy.fetch_sub(1, Relaxed),
            Checked::Healthy => 0,
        };
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rules: CheckRules, answers: &str) -> String {
        let live = Arc::new(Live::default());
        let mut watch = Watch::new(live.clone(), rules);
        let states = answers.chars().map(|answer| {
            watch.observe(answer == '+', 0);
            let counted = (live.checking.load(Relaxed), live.unhealthy.load(Relaxed));
            let (letter, wanted) = match watch.state() {
                Checked::Checking => ('c', (1, 0)),
                Checked::Healthy => ('h', (0, 0)),
                Checked::Unhealthy => ('u', (0, 1)),
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
        let mut one = Watch::new(live.clone(), mandatory);
        let mut other = Watch::new(live.clone(), mandatory);
        let mut optional = Watch::new(live.clone(), CheckRules::default());
        optional.observe(true, 0);
        one.observe(true, 0);
        assert_eq!(checking(&live), 1);
        let third = Watch::new(live.clone(), mandatory);
        other.observe(true, 0);
        assert_eq!(checking(&live), 1);
        drop(third);
        assert_eq!(checking(&live), 0);
        // Checks that do not begin hold nothing.
        let live = Arc::new(Live::held(2));
        let mut one = Watch::new(live.clone(), mandatory);
        live.unhold();
        assert_eq!(checking(&live), 1);
        one.observe(true, 0);
        assert_eq!(checking(&live), 0);
    }

    #[test]
    fn one_check_that_fails_is_enough() {
        let live = Arc::new(Live::default());
        let mut one = Watch::new(live.clone(), CheckRules::default());
        let mut other = Watch::new(live.clone(), CheckRules::default());
        assert!(one.observe(false, 0));
        assert!(!other.observe(true, 0));
        assert_eq!(live.unhealthy.load(Relaxed), 1);
        drop(one);
        assert_eq!(live.unhealthy.load(Relaxed), 0);
    }
}
