//! A limit of addresses (`ulimit -v`) that is too low. Memory that runs out ends a process wherever it happens to be, so what is
//! needed has to be said before.

use std::fmt::{self, Write as _};

use rustix::process::{Resource, getrlimit};

/// Kilobytes of addresses that a server with two loops needs, most of them for the stacks of its threads.
const NEEDED: u64 = 500_000;

/// With fewer kilobytes than this, the program and the first 32 MB that the allocator takes may be more than there is.
const LEAST: u64 = 100_000;

/// A limit that is lower than what is needed; its text says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowLimit {
    kilobytes: u64,
}

impl LowLimit {
    /// The limit of this process, if it is too low. Of one so low that the first allocations may fail, standard error was told
    /// before `main`: that is `None`, too.
    pub fn untold() -> Option<LowLimit> {
        LowLimit::of_process().filter(|limit| limit.kilobytes >= LEAST)
    }

    fn of_process() -> Option<LowLimit> {
        getrlimit(Resource::As).current.map(|bytes| LowLimit { kilobytes: bytes / 1024 }).filter(|limit| limit.is_low())
    }

    fn is_low(self) -> bool {
        self.kilobytes < NEEDED
    }
}

impl fmt::Display for LowLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LowLimit { kilobytes } = self;
        write!(
            f,
            "the limit of {kilobytes} KB for addresses (ulimit -v) may be too low: at least {NEEDED} KB are needed"
        )
    }
}

/// Text on the stack; what does not fit is left out.
struct MapsLine {
    bytes: [u8; 192],
    len: usize,
}

impl fmt::Write for MapsLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Tells of a limit with which even the allocations that Rust's runtime makes before `main` may fail. Allocates nothing.
extern "C" fn tell_before_main() {
    if let Some(limit) = LowLimit::of_process().filter(|limit| limit.kilobytes < LEAST) {
        let mut line = MapsLine { bytes: [0; 192], len: 0 };
        // A line that is cut, or that nobody takes, cannot be told of.
        let _ = writeln!(line, "nginx: [warn] {limit}");
        let _ = rustix::io::write(rustix::stdio::stderr(), &line.bytes[..line.len]);
    }
}

// SAFETY: the C library calls the functions of this section once, before `main` and while there is one thread; it passes
// arguments that a function of C may ignore. The function uses nothing that Rust's runtime has to prepare.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = tell_before_main;

// That the line comes before `main` is tested with the whole server, by its tests of limits.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_there_is_no_room() {
        let mut line = MapsLine { bytes: [0; 192], len: 0 };
        writeln!(line, "nginx: [warn] {}", LowLimit { kilobytes: u64::MAX }).unwrap();
        assert!(line.bytes[..line.len].ends_with(b" KB are needed\n"));
        assert!(line.write_str(&"x".repeat(192)).is_err());
    }

    #[test]
    fn what_is_needed_is_no_low_limit() {
        assert!(LowLimit { kilobytes: NEEDED - 1 }.is_low());
        assert!(!LowLimit { kilobytes: NEEDED }.is_low());
    }
}
