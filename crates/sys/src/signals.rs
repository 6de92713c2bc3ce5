//! Signal masks of threads.

/// Blocks every signal that can be blocked in the calling thread, so that it goes to a thread that waits for it.
///
/// `SIGSYS` stays: a thread that blocks it and makes a system call that a filter refuses would end the process.
pub fn block_all() {
    // SAFETY: `sigdelset` changes the set that `sigfillset` has initialised. `sigfillset` initialises the set it is given, which is a live local. `pthread_sigmask` only reads it, and
    // takes a null pointer because the old set is not asked for. Neither can fail with these arguments.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&mut set);
        libc::sigdelset(&mut set, libc::SIGSYS);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// Blocks no signal in the calling thread: a process has the mask of the process that executed it, and nginx blocks the
/// signals that it waits for.
pub fn unblock_all() {
    // SAFETY: as in `block_all`.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_that_blocked_all_signals_has_them_in_its_mask() {
        let mask = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(blocked.trim(), 16).unwrap()
        };
        let masks = std::thread::spawn(move || {
            super::block_all();
            let blocked = mask();
            super::unblock_all();
            (blocked, mask())
        });
        let (blocked, unblocked) = masks.join().unwrap();
        assert_eq!(unblocked, 0);
        for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGUSR1, libc::SIGCHLD, libc::SIGWINCH] {
            assert_ne!(blocked & (1 << (signal - 1)), 0, "signal {signal}");
        }
    }
}
