//! Benchmarks against other servers, side by side in one run.

fn main() {}
