//! Files that are open or known on a loop: what the handlers of files find before they ask the kernel.

pub mod hot;
pub mod known;
pub mod open_files;
