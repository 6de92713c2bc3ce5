//! The thread on which names are looked up.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// The most threads that make the system's lookups, which block; more lookups wait for a free thread.
const LOOKUPS: usize = 16;

/// Time for which such a thread stays without work.
const IDLE: Duration = Duration::from_secs(10);

type Task = Box<dyn FnOnce() + Send>;

/// The channel that sends tasks to the thread, or the error that stopped its start.
static TASKS: OnceLock<io::Result<mpsc::UnboundedSender<Task>>> = OnceLock::new();

/// Runs `task` on the thread, which is started by the first call; the task can continue with
/// `tokio::task::spawn_local`. The number of tasks is bounded by their senders: questions by
/// [`MAX_WAITING`](super::MAX_WAITING), watched names by the configuration.
///
/// # Errors
/// The thread could not be started.
pub fn run(task: impl FnOnce() + Send + 'static) -> io::Result<()> {
    match TASKS.get_or_init(start) {
        Ok(tasks) => tasks.send(Box::new(task)).map_err(|_| io::ErrorKind::BrokenPipe.into()),
        Err(error) => Err(error.kind().into()),
    }
}

fn start() -> io::Result<mpsc::UnboundedSender<Task>> {
    let (sender, mut tasks) = mpsc::unbounded_channel::<Task>();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(LOOKUPS)
        .thread_keep_alive(IDLE)
        .thread_name("lookup")
        .build()?;
    std::thread::Builder::new().name("names".into()).spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            while let Some(task) = tasks.recv().await {
                // It runs in a task of its own, so that a panic ends only that task.
                tokio::task::spawn_local(async move { task() });
            }
        });
    })?;
    Ok(sender)
}
