//! Harness for end-to-end, differential and fault tests.
