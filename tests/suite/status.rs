//! The status handler.
