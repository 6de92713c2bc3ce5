//! Puts small pieces of a body together. An application that writes line by line sends a chunk, or a record, for each
//! line. Each would cost as much on its way to the client as a large piece does.

use bytes::{Bytes, BytesMut};
use freerun_runtime::loops;

use crate::exchange::{BodyStep, Fault};

/// Pieces from this length on are passed on without copying.
pub const LARGE: usize = 2048;
/// The length up to which pieces are put together.
pub const GATHERED: usize = 16 * 1024;

/// The result that was found after the pieces that were put together; it comes next.
#[derive(Debug, Default)]
pub struct HeldResult(Option<Result<Bytes, Fault>>);

impl HeldResult {
    /// Whether there is a held result.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The next step of a body: the held result, or else the result of `step`, with the small pieces after it in
    /// `input`. `step` takes the next piece out of `input`, or reports that there is none.
    ///
    /// # Errors
    /// The errors of `step`, after the pieces that came before.
    pub fn step<S>(
        &mut self,
        reader: &mut S,
        input: &mut BytesMut,
        step: impl FnMut(&mut S, &mut BytesMut) -> Result<BodyStep, Fault>,
    ) -> Result<BodyStep, Fault> {
        if let Some(held) = self.0.take() {
            return held.map(BodyStep::Data);
        }
        let had = input.len();
        let found = self.gather(reader, input, step);
        let given = match &found {
            Ok(BodyStep::Data(piece)) => piece.len(),
            _ => 0,
        };
        let held = self.0.as_ref().and_then(|held| held.as_ref().ok()).map_or(0, Bytes::len);
        // A read may bring more chunks, or records, than should be processed while other tasks wait.
        loops::spend((had - input.len()).saturating_sub(given + held));
        found
    }

    fn gather<S>(
        &mut self,
        reader: &mut S,
        input: &mut BytesMut,
        mut step: impl FnMut(&mut S, &mut BytesMut) -> Result<BodyStep, Fault>,
    ) -> Result<BodyStep, Fault> {
        let first = match step(reader, input)? {
            BodyStep::Data(first) if first.len() < LARGE && !input.is_empty() => first,
            other => return Ok(other),
        };
        let mut gathered = BytesMut::new();
        while gathered.len() < GATHERED && !input.is_empty() {
            match step(reader, input) {
                Ok(BodyStep::Data(piece)) if piece.len() < LARGE => {
                    if gathered.is_empty() {
                        gathered.reserve(GATHERED + LARGE);
                        gathered.extend_from_slice(&first);
                    }
                    gathered.extend_from_slice(&piece);
                }
                Ok(BodyStep::Data(piece)) => {
                    self.0 = Some(Ok(piece));
                    break;
                }
                // If it is called again, it returns the same.
                Ok(BodyStep::More | BodyStep::End) => break,
                Err(fault) => {
                    self.0 = Some(Err(fault));
                    break;
                }
            }
        }
        Ok(BodyStep::Data(if gathered.is_empty() { first } else { gathered.freeze() }))
    }
}
