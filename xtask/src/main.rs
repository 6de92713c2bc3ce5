//! Source checks and chores of the repository.

fn main() {}
