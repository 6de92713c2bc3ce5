//! Number of times that a thread has waited, by `getrusage(2)`.

/// Voluntary context switches of the calling thread so far: in each it waited for something. Preemption by other
/// threads is not counted, so a slow call that did not change this number has not waited.
pub fn voluntary() -> u64 {
    // SAFETY: all fields of `rusage` are integers, for which zero is a value. The pointer is to a live local that the
    // call fills. It cannot fail with these arguments, and if it did the zeros would remain.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_nvcsw).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    /// What the kernel tells others of a thread: the same number, in proc_pid_status(5).
    fn told(thread: i32) -> u64 {
        let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        count.trim().parse().unwrap()
    }

    #[test]
    fn a_thread_that_waits_is_counted() {
        let (begun, begin) = channel();
        let (go, wait) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let id = rustix::thread::gettid().as_raw_nonzero().get();
            begun.send((id, super::voluntary())).unwrap();
            wait.recv().unwrap();
            super::voluntary()
        });
        let (id, before) = begin.recv().unwrap();
        // The thread goes on only when the kernel says that it has waited, however long it takes until it begins to.
        let waited = loop {
            let waited = told(id);
            if waited > before {
                break waited;
            }
            std::thread::yield_now();
        };
        go.send(()).unwrap();
        let after = thread.join().unwrap();
        assert!(after >= waited, "{before} before it waited, {after} after it, and others saw {waited}");
    }
}
