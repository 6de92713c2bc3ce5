//! Master and worker: signals, reloads, loops, a change of the binary.

pub mod late_loops;
pub mod loaded_loops;
pub mod loop_numbers;
pub mod processes;
pub mod reloads;
pub mod sandbox;
pub mod upgrade;
