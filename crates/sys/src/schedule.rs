//! How the scheduler treats a thread: `sched_setattr(2)`, which std, rustix and libc have no function for.

use std::io;

use libc::sched_attr;

const SIZE: u32 = size_of::<sched_attr>() as u32;

fn attributes() -> io::Result<sched_attr> {
    // SAFETY: it consists of integers, which zeroes are valid for.
    let mut attributes = unsafe { std::mem::zeroed::<sched_attr>() };
    // SAFETY: the kernel writes at most `SIZE` bytes, which is the size of the structure. 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    if answer == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Sets for how long the calling thread runs at a time while others want the processor, in nanoseconds; the kernel keeps it between 0.1 and
/// 100 ms. The thread's share of the processor stays what it is, and no privilege is needed: short turns come sooner. Threads that it
/// starts have the same. Linux before 6.12 takes no notice.
///
/// # Errors
/// What `sched_setattr(2)` answers.
pub fn set_slice(nanos: u64) -> io::Result<()> {
    let attributes = sched_attr { size: SIZE, sched_runtime: nanos, ..attributes()? };
    // SAFETY: the kernel reads the structure, whose size is in it. 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_slice_that_it_asked_for_and_nothing_else_of_it_changes() {
        std::thread::spawn(|| {
            let before = attributes().unwrap();
            set_slice(300_000).unwrap();
            let after = attributes().unwrap();
            assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, before.sched_nice));
            // Linux before 6.12 tells none.
            assert!(after.sched_runtime == 300_000 || before.sched_runtime == 0, "{}", after.sched_runtime);
        })
        .join()
        .unwrap();
    }
}
