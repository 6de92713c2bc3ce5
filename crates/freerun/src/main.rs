//! An event-driven web server that reads nginx.conf and never lets an event loop wait.

fn main() {}
