//! Random bytes that nobody can guess, from the generator that sessions use, too.

use std::sync::Once;

use aws_lc_rs::rand;

/// The generator gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are no random bytes")]
pub struct NoRandomness;

/// Makes the process's generator ready. The first bytes of a process cost 20 ms of a processor, in which the library gathers what
/// cannot be guessed; afterwards a thread's first bytes cost microseconds. Whatever will need random bytes on a loop calls this
/// while a configuration is read.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Who needs bytes gets the error.
        let _ = fill(&mut [0]);
    });
}

/// Fills `bytes`.
///
/// # Errors
/// The generator gives nothing.
pub fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    rand::fill(bytes).map_err(|_| NoRandomness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_filled_and_differ() {
        prepare();
        let (mut one, mut other) = ([0; 32], [0; 32]);
        fill(&mut one).unwrap();
        fill(&mut other).unwrap();
        assert_ne!(one, other);
    }
}
