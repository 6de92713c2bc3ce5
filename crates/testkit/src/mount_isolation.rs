//! Tests that the mounts of other processes would disturb.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The most runs of a test.
const TIMES: u32 = 20;

/// Runs a test, and runs it again if it fails while another process has mounted or unmounted something: a server that
/// watches files takes all of them for changed then.
pub fn undisturbed(test: impl Fn()) {
    let table = File::open("/proc/self/mountinfo").expect("the mount table");
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    for left in (0..TIMES).rev() {
        let Err(failure) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        // A change since the last look, or since the table was opened (proc_pid_mountinfo(5)).
        let changed = poll(&mut [PollFd::new(&table, PollFlags::PRI)], Some(&at_once)).is_ok_and(|ready| ready > 0);
        if !changed || left == 0 {
            resume_unwind(failure);
        }
    }
}
