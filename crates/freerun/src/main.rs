//! An event-driven web server that reads nginx.conf and never lets an event loop wait.

mod bundle;
mod channel;
mod check;
mod cli;
mod configuration;
mod console;
mod error;
mod loader;
mod logs;
mod master;
mod order;
mod paths;
mod pidfile;
mod reference;
mod serve;
mod settings;
mod start;
mod version;
mod worker;

use std::process::ExitCode;

// The system's allocator stays: with mimalloc (0.1.52) the idle worker was 10 MB larger and an idle keep-alive connection
// 1.3 KB, and a request allocates too little to win that back.
fn main() -> ExitCode {
    if std::env::var_os(worker::MARKER).is_some() {
        return worker::main();
    }
    start::run()
}
