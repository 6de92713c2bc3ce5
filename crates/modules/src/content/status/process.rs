//! Figures of the worker's process, with the names that exporters of Prometheus have for them.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use freerun_serve::loops::shared::SharedState;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::content::described::described;

/// The state of the process, with its memory in KiB. See proc_pid_status(5).
const STATE: &str = "/proc/self/status";

/// The folder of the open descriptors. Since Linux 6.2 its size is their number.
const DESCRIPTORS: &str = "/proc/self/fd";

described! {
    /// The process of the worker. What the kernel does not say is missing.
    pub struct Process {
        /// Time on processors, of all threads.
        #[metric(counter "process_cpu_seconds_total")]
        pub cpu_seconds: f64,
        /// Memory that is resident.
        #[metric(gauge "process_resident_memory_bytes")]
        pub resident_bytes: Option<u64>,
        /// Memory that is mapped.
        #[metric(gauge "process_virtual_memory_bytes")]
        pub virtual_bytes: Option<u64>,
        /// Open descriptors; missing before Linux 6.2.
        #[metric(gauge "process_open_fds")]
        pub open_fds: Option<u64>,
        /// Limit of open descriptors; missing if there is none.
        #[metric(gauge "process_max_fds")]
        pub max_fds: Option<u64>,
        /// Start of the worker, in seconds since 1970.
        #[metric(gauge "process_start_time_seconds")]
        pub start_time_seconds: f64,
    }
}

impl Process {
    /// The present figures. Nothing here waits: the files of /proc are made of what the kernel has in memory.
    pub(super) fn now(shared: &SharedState) -> Process {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let state = fs::read_to_string(STATE).unwrap_or_default();
        Process {
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            resident_bytes: memory(&state, "VmRSS:"),
            virtual_bytes: memory(&state, "VmSize:"),
            open_fds: fs::metadata(DESCRIPTORS).ok().map(|folder| folder.len()).filter(|number| *number > 0),
            max_fds: getrlimit(Resource::Nofile).current,
            start_time_seconds: start_time(shared),
        }
    }
}

/// The bytes in the line of this name.
fn memory(state: &str, name: &str) -> Option<u64> {
    let line = state.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The start of the worker in seconds since 1970, to the millisecond. It is computed once, so that a clock that is set does
/// not change it.
fn start_time(shared: &SharedState) -> f64 {
    static START: OnceLock<f64> = OnceLock::new();
    *START.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(shared.started.elapsed()).as_millis() as f64 / 1000.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kibibytes() {
        let state = "Name:\tfreerun\nVmSize:\t  123456 kB\nVmRSS:\t     789 kB\n";
        assert_eq!((memory(state, "VmSize:"), memory(state, "VmRSS:")), (Some(123_456 << 10), Some(789 << 10)));
        assert_eq!((memory(state, "VmSwap:"), memory("VmRSS: many kB", "VmRSS:")), (None, None));
        let own = fs::read_to_string(STATE).unwrap();
        assert!(memory(&own, "VmRSS:") > Some(0));
    }
}
