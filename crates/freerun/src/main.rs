//! An event-driven web server that reads nginx.conf and never lets an event loop wait.

mod bundle;
mod channel;
mod check;
mod cli;
mod configuration;
mod console;
#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod defaults_tests;
mod error;
mod explain;
mod hosts;
mod loader;
mod logs;
mod master;
mod migrate;
mod order;
mod paths;
mod patient_file;
mod pidfile;
mod reference;
mod serve;
mod settings;
mod start;
mod state_files;
mod temp_folders;
mod version;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::var_os(worker::MARKER).is_some() {
        return worker::main();
    }
    start::run()
}
