//! An event-driven web server that reads nginx.conf and never lets an event loop wait.

mod bundle;
mod channel;
mod cli;
mod commands;
mod configuration;
mod console;
#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod defaults_tests;
mod error;
mod kernel_limits;
mod logs;
mod master;
mod paths;
mod pidfile;
mod quoting;
mod settings;
mod signals;
mod source;
mod temp_folders;
mod version;
mod worker;
mod writable;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::var_os(worker::MARKER).is_some() {
        return worker::main();
    }
    commands::run()
}
