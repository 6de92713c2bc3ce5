//! The variables of upstreams: `$upstream_addr` and its kin.

use freerun_http::variables::Variable;

/// The table.
pub const VARIABLES: &[Variable] = &[];
