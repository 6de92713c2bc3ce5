//! Scheduling parameters of a thread: `sched_setattr(2)`, which std, rustix and libc have no function for.

use std::io;

use libc::sched_attr;

const SIZE: u32 = size_of::<sched_attr>() as u32;

fn attributes() -> io::Result<sched_attr> {
    // SAFETY: the structure consists of integers, for which zeroes are valid.
    let mut attributes = unsafe { std::mem::zeroed::<sched_attr>() };
    // SAFETY: the kernel writes at most `SIZE` bytes, which is the size of the structure. 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    if answer == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Sets how long the calling thread runs at a time while other threads want the processor, in nanoseconds; the kernel
/// keeps it between 0.1 and 100 ms. The thread's share of the processor does not change, and no privilege is needed:
/// short turns come sooner. Threads that it starts inherit this. Linux before 6.12 ignores it.
///
/// # Errors
/// The error of `sched_setattr(2)`.
pub fn set_slice(nanos: u64) -> io::Result<()> {
    set(&sched_attr { sched_runtime: nanos, ..attributes()? })
}

/// Makes the calling thread run as soon as it is woken, before all threads of normal policies (`SCHED_FIFO` in
/// sched(7), its lowest priority). It is for code that measures how long others take. Threads that it starts inherit
/// this.
///
/// # Errors
/// The error of `sched_setattr(2)`: `EPERM` without the permission.
pub fn set_first() -> io::Result<()> {
    set(&sched_attr { sched_policy: libc::SCHED_FIFO as u32, sched_priority: 1, sched_runtime: 0, ..attributes()? })
}

fn set(attributes: &sched_attr) -> io::Result<()> {
    let attributes = sched_attr { size: SIZE, ..*attributes };
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
            // Linux before 6.12 does not report the value.
            assert!(after.sched_runtime == 300_000 || before.sched_runtime == 0, "{}", after.sched_runtime);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_comes_first_where_it_may() {
        std::thread::spawn(|| {
            let before = attributes().unwrap();
            let answer = set_first();
            let after = attributes().unwrap();
            match answer {
                Ok(()) => assert_eq!((after.sched_policy, after.sched_priority), (libc::SCHED_FIFO as u32, 1)),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
                    assert_eq!(after.sched_policy, before.sched_policy);
                }
            }
        })
        .join()
        .unwrap();
    }
}
