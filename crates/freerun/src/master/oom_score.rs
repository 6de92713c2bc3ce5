//! Memory that runs out must not cost the master its life: it is small, and without it nobody starts another worker.

use std::fs;
use std::sync::OnceLock;

/// The score of the master, unless it was started with a lower one. Of all processes that may be killed it comes last; -1000
/// would say that it must not be killed at all (proc_pid_oom_score_adj(5)).
const PROTECTED: i32 = -900;

/// The score that this process was started with, if it has another one now.
static STARTED_WITH: OnceLock<i32> = OnceLock::new();

/// Has the kernel prefer other processes when memory runs out. Without the right to do so (`CAP_SYS_RESOURCE`) nothing changes.
pub(super) fn protect() {
    let path = "/proc/self/oom_score_adj";
    let Some(score) = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i32>().ok()) else { return };
    if score > PROTECTED && fs::write(path, PROTECTED.to_string()).is_ok() {
        let _ = STARTED_WITH.set(score);
    }
}

/// Gives a process that was started from here the score that this one was started with. A worker may be killed, as
/// there will be another one; a new binary decides for itself.
pub(super) fn give_up(process: u32) {
    if let Some(score) = STARTED_WITH.get() {
        // If the process has just ended, there is nothing to do.
        let _ = fs::write(format!("/proc/{process}/oom_score_adj"), score.to_string());
    }
}
