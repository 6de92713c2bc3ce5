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

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::var_os(worker::MARKER).is_some() {
        return worker::main();
    }
    start::run()
}
