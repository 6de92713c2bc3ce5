//! The HTTP client of the servers of these tests: a loop that all of them share.

use std::sync::OnceLock;

use freerun_runtime::files::FileSystem;
use freerun_runtime::loops::LoopHandle;
use freerun_runtime::pool::Pools;
use freerun_serve::http_client::RemoteClient;

/// The client. Its loop runs for as long as the tests do.
pub fn http_client() -> RemoteClient {
    static CLIENT: OnceLock<RemoteClient> = OnceLock::new();
    let make = || {
        let pools = Pools::new().generation(&[]).expect("threads");
        let files = FileSystem::new(pools.default().clone()).expect("file operations");
        let handle = LoopHandle::start(0, None).expect("a loop");
        RemoteClient::new(handle.remote(), files, pools)
    };
    // Whoever asks first may be a task of a runtime, and such a thread must not wait for another one's start.
    CLIENT.get_or_init(|| std::thread::spawn(make).join().expect("no panic")).clone()
}
