//! An event-driven web server that reads nginx.conf and never lets an event loop wait.

mod channel;
mod cli;
mod error;
mod paths;
mod pidfile;
mod settings;
mod version;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {}
