//! The thread on which names are looked up.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// Most threads that make the system's lookups, which wait; more lookups wait for one of them.
const LOOKUPS: usize = 16;

/// How long such a thread stays without work.
const IDLE: Duration = Duration::from_secs(10);

type Task = Box<dyn FnOnce() + Send>;

/// What sends tasks to the thread, or that there is none.
static TASKS: OnceLock<io::Result<mpsc::UnboundedSender<Task>>> = OnceLock::new();

/// Runs `task` on the thread, which is started by the first call; `tokio::task::spawn_local` goes on from there. How many
/// tasks there are is bounded by those who send them: questions by [`MAX_WAITING`](super::MAX_WAITING), watched names by the
/// configuration.
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
                // In a task of its own: what panics in it ends it alone.
                tokio::task::spawn_local(async move { task() });
            }
        });
    })?;
    Ok(sender)
}
