//! A cache: what all loops share of one `keys_zone`.

/// One `keys_zone`.
#[derive(Debug)]
pub struct Cache {}
