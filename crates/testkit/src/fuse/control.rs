//! The faults of the fixture's file system: rules that can change while it is mounted.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An operation of the file system that a rule can hold up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A path component is looked up (path walk of `open`, `stat`).
    Lookup,
    /// Attributes are asked for (`fstat`, `stat` of a known inode).
    Getattr,
    /// A file is opened.
    Open,
    /// A page range is read.
    Read,
    /// A directory is read.
    Readdir,
    /// A file or folder is made.
    Create,
    /// Bytes are written.
    Write,
    /// A name is given or changed.
    Rename,
    /// A name is removed.
    Unlink,
    /// Written bytes are synced.
    Sync,
}

impl Op {
    const ALL: [(&'static str, Op); 10] = [
        ("lookup", Op::Lookup),
        ("getattr", Op::Getattr),
        ("open", Op::Open),
        ("read", Op::Read),
        ("readdir", Op::Readdir),
        ("create", Op::Create),
        ("write", Op::Write),
        ("rename", Op::Rename),
        ("unlink", Op::Unlink),
        ("sync", Op::Sync),
    ];
}

/// The effect of a rule on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The operation is answered after this time.
    Delay(Duration),
    /// The operation is answered when the rule is removed.
    Hang,
    /// The operation fails with EIO.
    Fail,
}

#[derive(Clone, Debug)]
struct Rule {
    op: Op,
    action: Action,
    prefix: String,
}

#[derive(Debug, Default)]
struct ControlState {
    rules: Vec<Rule>,
    fail_after: Vec<(String, u64)>,
    ttl: Duration,
    waiting: usize,
    counts: [u64; Op::ALL.len()],
}

impl ControlState {
    /// The rule for an operation: the last matching one counts.
    fn find(&self, op: Op, path: &str) -> Option<Action> {
        self.rules.iter().rev().find(|rule| rule.op == op && path.starts_with(&rule.prefix)).map(|rule| rule.action)
    }
}

/// The rules of one mounted fixture; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Control {
    shared: Arc<(Mutex<ControlState>, Condvar)>,
}

/// The operation has to fail with EIO.
#[derive(Debug, PartialEq, Eq)]
pub struct DiskFault;

impl Control {
    fn state(&self) -> MutexGuard<'_, ControlState> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a rule from now on for `op` on paths that start with `prefix` (`""`: all; the mount's root is `""`).
    pub fn rule(&self, op: Op, action: Action, prefix: &str) {
        self.state().rules.push(Rule { op, action, prefix: prefix.to_owned() });
    }

    /// Shorthand for a [`rule`](Self::rule) with [`Action::Delay`].
    pub fn delay(&self, op: Op, time: Duration, prefix: &str) {
        self.rule(op, Action::Delay(time), prefix);
    }

    /// Shorthand for a [`rule`](Self::rule) with [`Action::Hang`]; [`clear`](Self::clear) releases the operations.
    pub fn hang(&self, op: Op, prefix: &str) {
        self.rule(op, Action::Hang, prefix);
    }

    /// Makes reads of bytes at or after `offset` of files below `prefix` fail with EIO.
    pub fn fail_after(&self, offset: u64, prefix: &str) {
        self.state().fail_after.push((prefix.to_owned(), offset));
    }

    /// Sets how long the kernel may keep names and attributes; with zero, the default, every use asks again.
    pub fn set_ttl(&self, ttl: Duration) {
        self.state().ttl = ttl;
    }

    /// Removes all rules; waiting operations are answered at once.
    pub fn clear(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.fail_after.clear();
        self.shared.1.notify_all();
    }

    /// The number of operations that are held up at the moment.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// The number of operations of this kind so far.
    pub fn count(&self, op: Op) -> u64 {
        self.state().counts[op as usize]
    }

    pub(super) fn ttl(&self) -> Duration {
        self.state().ttl
    }

    pub(super) fn begin(&self, op: Op, path: &str) -> bool {
        let mut state = self.state();
        state.counts[op as usize] += 1;
        state.find(op, path).is_some()
    }

    /// The offset from which reads of this file fail.
    pub(super) fn fails_at(&self, path: &str) -> Option<u64> {
        self.state().fail_after.iter().filter(|(prefix, _)| path.starts_with(prefix)).map(|(_, at)| *at).min()
    }

    /// Waits as the rules demand.
    pub(super) fn hold(&self, op: Op, path: &str) -> Result<(), DiskFault> {
        let start = Instant::now();
        let mut state = self.state();
        loop {
            let left = match state.find(op, path) {
                None => return Ok(()),
                Some(Action::Fail) => return Err(DiskFault),
                Some(Action::Hang) => Duration::from_secs(3600),
                Some(Action::Delay(time)) => match time.checked_sub(start.elapsed()) {
                    None | Some(Duration::ZERO) => return Ok(()),
                    Some(left) => left,
                },
            };
            state.waiting += 1;
            state = self.shared.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }

    /// Executes a command, given as words, for the fixture's binary; the answer is a line to print.
    ///
    /// A command of the table: `delay OP MS [PREFIX]`, `hang OP [PREFIX]`, `fail OP [PREFIX]`, `eio-after BYTES
    /// [PREFIX]`, `ttl MS`, `clear`, `stats`. OP is one of `lookup getattr open read readdir create write rename unlink
    /// sync`. `None`: not a command of this table.
    pub fn command(&self, words: &[&str]) -> Option<Result<String, String>> {
        let done = Ok("ok".to_owned());
        let op = |name: &str| {
            Op::ALL
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, op)| *op)
                .ok_or(format!("no operation \"{name}\""))
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("\"{text}\" is not a number"));
        let with = |kind: &str, action: Result<Action, String>, prefix: &str| {
            self.rule(op(kind)?, action?, prefix);
            Ok("ok".to_owned())
        };
        let prefix = |at: usize| words.get(at).copied().unwrap_or("");
        Some(match *words {
            ["delay", kind, time] | ["delay", kind, time, _] => {
                with(kind, number(time).map(|ms| Action::Delay(Duration::from_millis(ms))), prefix(3))
            }
            ["hang", kind] | ["hang", kind, _] => with(kind, Ok(Action::Hang), prefix(2)),
            ["fail", kind] | ["fail", kind, _] => with(kind, Ok(Action::Fail), prefix(2)),
            ["eio-after", at] | ["eio-after", at, _] => number(at).and_then(|at| {
                self.fail_after(at, prefix(2));
                done
            }),
            ["ttl", time] => number(time).and_then(|ms| {
                self.set_ttl(Duration::from_millis(ms));
                done
            }),
            ["clear"] => {
                self.clear();
                done
            }
            ["stats"] => {
                let counts = Op::ALL.map(|(name, op)| format!("{name}={}", self.count(op)));
                Ok(format!("{} waiting={}", counts.join(" "), self.waiting()))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matching_rule_wins_and_clear_lets_go() {
        let control = Control::default();
        control.hang(Op::Open, "");
        control.rule(Op::Open, Action::Fail, "bad/");
        assert_eq!(control.hold(Op::Open, "bad/x"), Err(DiskFault));
        assert_eq!(control.hold(Op::Read, "x"), Ok(()));
        let other = control.clone();
        let held = std::thread::spawn(move || other.hold(Op::Open, "x"));
        while control.waiting() == 0 {
            std::thread::yield_now();
        }
        control.clear();
        assert_eq!(held.join().ok(), Some(Ok(())));
    }

    #[test]
    fn commands_are_checked() {
        let control = Control::default();
        assert_eq!(control.command(&["delay", "open", "5", "slow/"]), Some(Ok("ok".into())));
        assert!(control.begin(Op::Open, "slow/a") && !control.begin(Op::Open, "a"));
        assert_eq!(control.command(&["delay", "sneeze", "5"]), Some(Err("no operation \"sneeze\"".into())));
        assert_eq!(control.command(&["delay", "open", "x"]), Some(Err("\"x\" is not a number".into())));
        assert_eq!(control.command(&["dance"]), None);
        assert_eq!(
            control.command(&["stats"]),
            Some(Ok(
                "lookup=0 getattr=0 open=2 read=0 readdir=0 create=0 write=0 rename=0 unlink=0 sync=0 waiting=0".into()
            ))
        );
    }
}
