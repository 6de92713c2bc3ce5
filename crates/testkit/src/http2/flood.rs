//! Attacks: many frames, until the server has had enough.

use super::client::Http2;
use super::frame::Frame;
use super::message::Away;
use super::names::{flag, kind};
use crate::ConnectionEnd;

/// The outcome of an attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloodOutcome {
    /// The number of frames that were sent when the end was seen: up to one batch more than the server has read.
    pub sent: usize,
    /// The GOAWAY with which the server has answered.
    pub away: Option<Away>,
    /// The end of the connection; `None` if it lasts.
    pub ending: Option<ConnectionEnd>,
}

impl FloodOutcome {
    /// Whether the server has ended the attack, by GOAWAY or by ending the connection.
    pub fn is_ended(&self) -> bool {
        self.away.is_some() || matches!(self.ending, Some(ConnectionEnd::Closed | ConnectionEnd::Reset))
    }

    /// The error code of GOAWAY.
    pub fn code(&self) -> Option<u32> {
        self.away.as_ref().map(|away| away.code)
    }
}

/// The number of frames that are sent before the server has looked at earlier ones. The server is not to blame for
/// frames that the kernel holds.
const LEAD: usize = 4096;

impl Http2 {
    /// Waits until the server has looked at everything, or has had enough.
    fn wait_for_server(&mut self) -> Result<(), ConnectionEnd> {
        let question = *b"so far?!";
        if self.try_send(&[Frame::ping(question)]).is_err() {
            // What came before the end is still to be read.
            return Err(self.ending());
        }
        while self.away().iter().all(|away| away.code == 0) {
            let frame = self.try_frame()?;
            if frame.kind == kind::PING && frame.has(flag::ACK) && frame.payload == question {
                break;
            }
        }
        Ok(())
    }

    /// Sends batches of frames until there is a GOAWAY with an error, or the connection ends, or about `most` frames
    /// were sent. `batch` gets the connection, for new streams, and the number of the batch. What comes is read
    /// meanwhile.
    #[track_caller]
    pub fn flood(&mut self, most: usize, mut batch: impl FnMut(&mut Http2, usize) -> Vec<Frame>) -> FloodOutcome {
        let (mut sent, mut seen) = (0, 0);
        let mut ending = None;
        for number in 0.. {
            if sent >= most || self.away().iter().any(|away| away.code != 0) {
                break;
            }
            let frames = batch(self, number);
            sent += frames.len();
            let gone = self.try_send(&frames).is_err();
            if let Err(how) = self.poll() {
                ending = Some(how);
                break;
            }
            if gone {
                ending = Some(self.ending());
                break;
            }
            if sent - seen >= LEAD {
                seen = sent;
                if let Err(how) = self.wait_for_server() {
                    ending = Some(how);
                    break;
                }
            }
        }
        FloodOutcome { sent, away: self.away().last().cloned(), ending }
    }
}
