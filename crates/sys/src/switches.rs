//! How often a thread has waited, by `getrusage(2)`.

/// Voluntary context switches of the calling thread so far: in each it waited for something. Preemption by other
/// threads is not counted, so a slow call that did not change this number has not waited.
pub fn voluntary() -> u64 {
    // SAFETY: all fields of `rusage` are integers, for which zero is a value; the pointer is to a live local that the
    // call fills; it cannot fail with these arguments, and if it did the zeros would remain.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_nvcsw).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_waits_is_counted() {
        let (ask, asked) = channel::<()>();
        let (answer, answered) = channel();
        let thread = std::thread::spawn(move || {
            let mut counts = vec![super::voluntary()];
            while asked.recv().is_ok() {
                counts.push(super::voluntary());
                answer.send(()).unwrap();
            }
            counts
        });
        for _ in 0..100 {
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }
        drop(ask);
        let counts = thread.join().unwrap();
        assert!(counts.is_sorted());
        assert!(counts.last() > counts.first(), "a hundred times it waited to be asked, and it was never seen");
    }
}
