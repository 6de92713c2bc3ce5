//! The program itself: its options, what it prints, its own commands.

pub mod bytes_in_names;
pub mod command_line;
pub mod explain;
pub mod lint;
pub mod migrate;
pub mod migrate_run;
pub mod serve;
