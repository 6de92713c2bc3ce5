//! Tests of all steps from text to settings, with a small set of directives that nginx has too.

mod corpus;
mod diagnostics;
mod errors;
mod mutation;
mod reference;
mod settings;
mod support;
mod tree;
