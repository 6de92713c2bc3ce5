//! Panics of the threads of workers, each for the test that has the worker.

use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, ThreadId};

use freerun_runtime::log::{ErrorLog, Level};

/// The panics of a worker's threads.
pub(super) struct WorkerPanics {
    loop_thread: ThreadId,
    log: ErrorLog,
    messages: Mutex<Vec<String>>,
}

/// The workers that run: the panic hook is one for the whole process.
fn running() -> MutexGuard<'static, Vec<Arc<WorkerPanics>>> {
    static RUNNING: Mutex<Vec<Arc<WorkerPanics>>> = Mutex::new(Vec::new());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WorkerPanics {
    /// Reports panics of the worker whose loop has this thread, from now on, also to this log.
    pub(super) fn report(loop_thread: ThreadId, log: ErrorLog) -> Arc<WorkerPanics> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let of_tests = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                if !note(info) {
                    of_tests(info);
                }
            }));
        });
        let panics = Arc::new(WorkerPanics { loop_thread, log, messages: Mutex::default() });
        running().push(panics.clone());
        panics
    }

    /// Notes a panic of one of the worker's threads.
    pub(super) fn add(&self, message: String) {
        self.log.write(Level::Alert, None, format_args!("{message}"));
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    /// Ends the reports, and returns the panics that no test has asked for by `debug_panic`.
    pub(super) fn end(self: &Arc<WorkerPanics>) -> Vec<String> {
        running().retain(|panics| !Arc::ptr_eq(panics, self));
        let mut messages = std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner));
        messages.retain(|message| !message.contains("preaccess/debug_block.rs"));
        messages
    }
}

/// Notes a panic for the workers that it counts for. `false`: it is a panic of a test's thread.
fn note(info: &PanicHookInfo<'_>) -> bool {
    let thread = thread::current();
    let name = thread.name().unwrap_or("?");
    // No lock is held while a log is written.
    let workers = running().clone();
    let concerned = concerned(&workers, thread.id(), name);
    concerned.iter().for_each(|worker| worker.add(format!("thread {name} {info}")));
    !concerned.is_empty()
}

/// The workers that a panic of this thread counts for: the worker whose loop it is. Threads that serve beside loops do not know
/// their worker, so their panics count for each worker.
fn concerned<'w>(workers: &'w [Arc<WorkerPanics>], thread: ThreadId, name: &str) -> Vec<&'w Arc<WorkerPanics>> {
    let is_beside = is_beside_loops(name);
    let own = workers.iter().filter(|worker| is_beside || worker.loop_thread == thread);
    own.collect()
}

/// Whether threads of this name serve beside the loops. Threads of pools are not among them: pools count their panics.
fn is_beside_loops(name: &str) -> bool {
    let words = ["acme", "acme lookup", "log", "mounts", "names", "rescue", "unsaved states"];
    words.contains(&name) || name.starts_with("cache ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn worker(loop_thread: ThreadId) -> Arc<WorkerPanics> {
        Arc::new(WorkerPanics { loop_thread, log: ErrorLog::none(), messages: Mutex::default() })
    }

    #[test]
    fn a_panic_of_a_loop_counts_for_its_worker_and_one_beside_loops_for_all() {
        let other = thread::spawn(|| thread::current().id()).join().unwrap();
        let workers = [worker(thread::current().id()), worker(other)];
        let number = |thread, name: &str| concerned(&workers, thread, name).len();
        let nobody = thread::spawn(|| thread::current().id()).join().unwrap();
        assert!(Arc::ptr_eq(concerned(&workers, other, "loop-0")[0], &workers[1]));
        assert_eq!((number(other, "loop-0"), number(nobody, "loop-0")), (1, 0));
        for name in ["names", "cache z", "acme lookup", "log"] {
            assert_eq!(number(nobody, name), 2, "{name}");
        }
        for name in ["?", "main", "default/0", "cached::tests::names", "log::access::tests::lines::a_line"] {
            assert_eq!(number(nobody, name), 0, "{name}");
        }
    }

    #[test]
    fn a_panic_of_the_loops_thread_is_noted_until_the_worker_ends() {
        let (send, receive) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("loop-0".to_owned()).spawn(move || {
            receive.recv().unwrap();
            panic!("on purpose")
        });
        let thread = thread.unwrap();
        let panics = WorkerPanics::report(thread.thread().id(), ErrorLog::none());
        send.send(()).unwrap();
        assert!(thread.join().is_err());
        let messages = panics.end();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with("thread loop-0 panicked at ") && messages[0].ends_with("on purpose"));
    }
}
