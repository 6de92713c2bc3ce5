//! Tests of directives and lines, compared with nginx's messages and output.

mod lines;
mod settings;
