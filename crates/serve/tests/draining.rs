//! The end of a worker: its loops close their sockets before any client is told to go.

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use freerun_runtime::files::FileSystem;
use freerun_runtime::log::ErrorLog;
use freerun_runtime::pool::Pools;
use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::service::{AcceptedConnection, CloseAnswer, Service};
use freerun_serve::accept::worker::{Worker, WorkerOptions};
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::parts::{Parts, Paths};
use freerun_serve::configuration::services::Services;
use freerun_serve::configuration::zones::Zones;
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::state::LoopState;

const NAME: &str = "told";

/// Where the services of all loops say that they were told to drain.
static DRAINED: Mutex<Option<Sender<usize>>> = Mutex::new(None);

/// A service that reports the loop on which it was told to drain.
struct Told {
    index: usize,
    tell: Sender<usize>,
}

impl Told {
    fn make(loop_state: &Rc<LoopState>) -> Rc<dyn Service> {
        let tell = DRAINED.lock().expect("no test has failed").clone().expect("a receiver");
        Rc::new(Told { index: loop_state.index, tell })
    }
}

impl Service for Told {
    fn name(&self) -> &'static str {
        NAME
    }

    fn accept(self: Rc<Self>, _: AcceptedConnection) {}

    fn renew(self: Rc<Self>) {}

    fn drain(self: Rc<Self>) {
        self.tell.send(self.index).expect("a receiver");
    }

    fn oldest_idle(&self) -> Option<u64> {
        None
    }

    fn close_oldest(&self) -> CloseAnswer {
        CloseAnswer::NoneIdle
    }

    fn give_back(&self) {}
}

fn generation(spec: &ListenSpec) -> Arc<Generation> {
    let pools = Pools::new().generation(&[]).expect("pools");
    let services = Services {
        paths: Paths::default(),
        zones: Zones::default(),
        parts: Parts::default(),
        logs: Vec::new(),
        error_log: ErrorLog::none(),
        files: FileSystem::new(pools.default().clone()).expect("files"),
        pools,
    };
    Arc::new(Generation { number: 1, services, listeners: vec![Arc::new(spec.clone())], loaded: Default::default() })
}

/// A client that is told to go connects anew at once. The kernel may give that connection to the socket of a loop that is
/// late, and resets it when that socket is closed.
#[test]
fn no_service_is_drained_before_the_sockets_of_all_loops_are_closed() {
    let (told, drained) = mpsc::channel();
    *DRAINED.lock().expect("no test has failed") = Some(told);
    // What the kernel does with a socket of each loop is not the subject here: two ports will do.
    let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let addresses: Vec<SocketAddr> = sockets.iter().map(|socket| socket.local_addr().expect("an address")).collect();
    let mut spec = ListenSpec::new(NAME, Some(addresses[0]), addresses[0].to_string());
    spec.reuseport = true;
    let generation = generation(&spec);
    let options = WorkerOptions { loops: 2, ..WorkerOptions::one_loop(16) };
    let mut worker = Worker::start(&options, generation.clone(), &[Told::make]).expect("two loops");
    worker.install(generation, vec![(spec, sockets.map(|socket| socket.into()).into())], || ());

    let (release, late) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    assert!(loop_listeners::tell(worker.shared(), 0, move |_| {
        begin.send(()).expect("the test waits");
        let _ = late.recv();
    }));
    begun.recv().expect("the loop begins");
    worker.drain();
    // The other loop has had its turn long before, if it does not wait.
    let early = drained.recv_timeout(Duration::from_millis(100));
    assert!(early.is_err(), "loop {early:?} was drained while the other one still listened");
    release.send(()).expect("the loop waits");
    let mut both = [drained.recv().expect("one loop"), drained.recv().expect("the other loop")];
    both.sort_unstable();
    assert_eq!(both, [0, 1]);
    worker.stop();
}
