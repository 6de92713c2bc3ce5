//! The last important lines of the error logs, kept in memory for `status`.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;

use super::Level;

/// How many lines are kept. Each has at most [`MAX_LINE`](super::MAX_LINE) bytes.
pub const MAX_RECENT: usize = 50;

/// The least important level whose lines are kept.
pub(super) const LEAST: Level = Level::Warn;

/// The last lines, the oldest first. There is one list for the process, as there is one worker: it outlives the logs of a
/// configuration.
static LINES: Mutex<VecDeque<Bytes>> = Mutex::new(VecDeque::new());

/// Keeps a line. A loop never waits here: while another thread keeps or reads lines, the line is only in the logs.
pub(super) fn keep(line: &Bytes) {
    let Ok(mut lines) = LINES.try_lock() else { return };
    if lines.len() == MAX_RECENT {
        lines.pop_front();
    }
    lines.push_back(line.clone());
}

/// The last lines of level `warn` and above, the oldest first, without the newline at their ends. Empty while another thread
/// keeps one.
pub fn lines() -> Vec<String> {
    let Ok(lines) = LINES.try_lock() else { return Vec::new() };
    lines.iter().map(|line| String::from_utf8_lossy(line.trim_ascii_end()).into_owned()).collect()
}
