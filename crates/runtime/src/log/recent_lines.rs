//! The last important lines of the error logs, kept in memory for `status`.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use freerun_conf::{display_only, text_of};

use super::Level;

/// Number of lines that are kept. Each has at most [`MAX_LINE`](super::MAX_LINE) bytes.
pub const MAX_RECENT: usize = 50;

/// The least important level whose lines are kept.
pub(super) const LEAST: Level = Level::Warn;

/// The last lines, the oldest first. There is one list for the process, as there is one worker: it outlives the logs of a
/// configuration.
static LINES: Mutex<VecDeque<Bytes>> = Mutex::new(VecDeque::new());

/// Number of lines that were not kept.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Keeps a line. A loop never waits here: while another thread keeps or reads lines, the line is only in the logs, and
/// counted.
pub(super) fn keep(line: &Bytes) {
    let Ok(mut lines) = LINES.try_lock() else {
        MISSED.fetch_add(1, Relaxed);
        return;
    };
    if lines.len() == MAX_RECENT {
        lines.pop_front();
    }
    lines.push_back(line.clone());
}

/// The last lines of level `warn` and above, the oldest first, without the newline at their ends. A last line says how
/// many more are only in the logs, if there are such lines. While another thread keeps a line,
/// no lines but this one are returned.
pub fn lines() -> Vec<String> {
    // The lock is held for the references alone, so that few lines come meanwhile.
    let lines: Vec<Bytes> = LINES.try_lock().map(|lines| lines.iter().cloned().collect()).unwrap_or_default();
    shown(&lines, MISSED.load(Relaxed))
}

fn shown(lines: &[Bytes], missed: u64) -> Vec<String> {
    let kept = lines.iter().map(|line| display_only(&text_of(line.trim_ascii_end())).into_owned());
    kept.chain((missed > 0).then(|| format!("(further lines that are only in the logs: {missed})"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_kept_are_counted() {
        let lines = [Bytes::from_static(b"one\n"), Bytes::from_static(b"two\n")];
        assert_eq!(shown(&lines, 0), ["one", "two"]);
        assert_eq!(shown(&lines, 3), ["one", "two", "(further lines that are only in the logs: 3)"]);
    }
}
