//! The directives of the main and `events` levels: the settings of the processes themselves.

pub mod affinity;
pub mod events;
pub mod load_module;
pub mod main;
pub mod user;

use freerun_conf::{Contexts, Directive, Shape};

/// The structural directives that the binary handles itself.
pub static STRUCTURE: &[Directive] = &[Directive::structural(
    "events",
    Contexts::MAIN,
    Shape::exactly(0, "").with_block(Contexts::EVENTS),
    "Holds the directives that concern how connections are accepted and processed.\n\nIt must be there, even if empty.",
)];
