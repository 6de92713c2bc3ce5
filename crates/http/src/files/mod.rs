//! Files that are open or known on a loop: the handlers of files look here before they ask the kernel.

pub mod hot;
pub mod known_files;
pub mod open_files;
pub mod read_error;
pub mod watches;
