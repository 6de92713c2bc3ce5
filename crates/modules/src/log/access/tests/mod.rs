//! Directives and lines, compared with what nginx says and writes.

mod lines;
mod settings;
