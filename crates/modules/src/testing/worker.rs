//! A worker with one loop, from its start to its end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, LogFile};
use freerun_runtime::pool::Pools;
use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::service::MakeService;
use freerun_serve::accept::worker::{Worker, WorkerOptions};
use freerun_serve::build::blueprint::Blueprint;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::listen::ListenSpec;

use super::panics::WorkerPanics;
use crate::MODULES;

/// The time that the loop may take to run its first job, and a worker to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The parts of a worker that a test passes.
pub struct WorkerStart {
    /// The servers.
    pub blueprint: Blueprint,
    /// The open log files of the blueprint, in its order.
    pub logs: Vec<LogFile>,
    /// The error log of the main level, which panics are reported to, too.
    pub error_log: ErrorLog,
    /// The sockets of the addresses that the worker listens on.
    pub listeners: Vec<(ListenSpec, Vec<OwnedFd>)>,
    /// The most connections.
    pub connections: usize,
    /// The services that handle connections.
    pub services: &'static [MakeService],
}

/// A worker that runs. Dropping it ends it as [`RunningWorker::stop`] does.
pub struct RunningWorker {
    worker: Option<Worker>,
    generation: Arc<Generation>,
    pools: Pools,
    files: Arc<FileSystem>,
    loop_thread: ThreadId,
    panics: Arc<WorkerPanics>,
}

impl std::fmt::Debug for RunningWorker {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "a worker on {:?}", self.loop_thread)
    }
}

impl RunningWorker {
    /// Starts a worker.
    ///
    /// # Errors
    /// A thread or a file could not be opened, or the loop does not run in time.
    pub fn start(start: WorkerStart) -> Result<RunningWorker, String> {
        let WorkerStart { blueprint, logs, error_log, listeners, connections, services } = start;
        let failed = |error: io::Error| format!("starting the worker: {error}");
        let pools = Pools::new();
        let set = pools.generation(&[]).map_err(failed)?;
        let files = FileSystem::new(set.default().clone()).map_err(failed)?;
        let generation = Arc::new(blueprint.serve(1, logs, error_log.clone(), set, files.clone()));
        let options = WorkerOptions::one_loop(connections);
        let worker = Worker::start(&options, generation.clone(), services).map_err(failed)?;
        let loop_thread = match thread_of(&worker) {
            Ok(thread) => thread,
            Err(error) => {
                stop_in_time(worker, generation)?;
                return Err(error);
            }
        };
        let panics = WorkerPanics::report(loop_thread, error_log);
        let mut started = RunningWorker { worker: Some(worker), generation, pools, files, loop_thread, panics };
        started.install(listeners);
        Ok(started)
    }

    /// Serves by another configuration from now on; the sockets stay.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn reload(&mut self, blueprint: Blueprint, logs: Vec<LogFile>) -> Result<(), String> {
        let set = self.pools.generation(&[]).map_err(|error| format!("reloading: {error}"))?;
        let number = self.generation.number + 1;
        self.generation = Arc::new(blueprint.serve(number, logs, ErrorLog::none(), set, self.files.clone()));
        self.install(Vec::new());
        Ok(())
    }

    /// Lets the worker serve by the newest generation.
    fn install(&mut self, listeners: Vec<(ListenSpec, Vec<OwnedFd>)>) {
        let Some(worker) = &mut self.worker else { return };
        for prepare in MODULES.iter().filter_map(|module| module.prepare) {
            prepare(&self.generation, worker.shared());
        }
        worker.install(self.generation.clone(), listeners, || ());
        for begin in MODULES.iter().filter_map(|module| module.begin) {
            begin(&self.generation, worker.shared());
        }
    }

    /// The worker; `None` after its end.
    pub fn worker(&self) -> Option<&Worker> {
        self.worker.as_ref()
    }

    /// The worker, to change it; `None` after its end.
    pub fn worker_mut(&mut self) -> Option<&mut Worker> {
        self.worker.as_mut()
    }

    /// The configuration that the worker serves by.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Ends the worker as a signal would, and the threads of the modules.
    ///
    /// # Panics
    /// The worker does not end in time, or one of its threads has panicked.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(worker) = self.worker.take() else { return };
        let stopped = stop_in_time(worker, self.generation.clone());
        // Threads of pools do not know whose they are; the pools count the tasks that have panicked.
        let panicked: u64 = self.generation.pools.iter().map(|pool| pool.status().panicked).sum();
        if panicked > 0 {
            self.panics.add(format!("{panicked} tasks of pools have panicked at some place"));
        }
        let mut faults = self.panics.end();
        faults.extend(stopped.err());
        if thread::panicking() {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
        } else {
            assert!(faults.is_empty(), "the worker failed:\n{}", faults.join("\n"));
        }
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends the worker and the threads of the modules.
fn stop_in_time(worker: Worker, generation: Arc<Generation>) -> Result<(), String> {
    run_in_time(PATIENCE, move || {
        worker.stop();
        for end in MODULES.iter().filter_map(|module| module.end) {
            end(&generation);
        }
    })
}

/// Ends something on a thread of its own, so that the test can give up.
fn run_in_time(patience: Duration, end: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    let spawned = thread::Builder::new().name("end of a worker".to_owned()).spawn(move || {
        end();
        // A test that has given up does not listen.
        let _ = sender.send(());
    });
    spawned.map_err(|error| format!("a thread that ends the worker: {error}"))?;
    receiver.recv_timeout(patience).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => {
            format!(
                "the worker did not end within {patience:?}: a turn of its loop, or a thread of a module, takes longer"
            )
        }
        mpsc::RecvTimeoutError::Disconnected => "the end of the worker has panicked".to_owned(),
    })
}

/// The thread of the worker's loop, when that runs.
fn thread_of(worker: &Worker) -> Result<ThreadId, String> {
    let (sender, receiver) = mpsc::channel();
    loop_listeners::tell(worker.shared(), 0, move |_| {
        // A test that has given up does not listen.
        let _ = sender.send(thread::current().id());
    });
    receiver.recv_timeout(PATIENCE).map_err(|error| format!("the loop does not run: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_does_not_come_or_panics_is_an_error() {
        let (keep, forever) = mpsc::channel::<()>();
        let late = run_in_time(Duration::from_millis(1), move || {
            let _ = forever.recv();
        });
        assert!(late.is_err_and(|error| error.starts_with("the worker did not end within 1ms: ")));
        drop(keep);
        let failed = run_in_time(PATIENCE, || panic!("on purpose"));
        assert_eq!(failed, Err("the end of the worker has panicked".to_owned()));
        assert_eq!(run_in_time(PATIENCE, || ()), Ok(()));
    }
}
