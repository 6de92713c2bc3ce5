//! End-to-end tests of the built binary: a configuration, exact bytes in, what comes out. From simple to complex.

mod config_errors;
