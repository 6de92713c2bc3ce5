//! The peer's control stream: its settings, its end, and the priorities of requests (RFC 9114 section 6.2.1).

use super::connection::{H3Connection, H3ConnectionError};
use super::frame::{H3ErrorCode, LARGEST_VARINT, read_varint};
use super::reader::{FrameKind, FrameReader, FrameStage};
use super::receive::H3Event;
use super::settings::H3Settings;
use super::stream::StreamId;
use crate::flood::Flood;
use crate::priority::Priority;
use crate::role::Role;

/// The longest payload of a frame with settings or with a priority, in bytes.
const LONGEST_PAYLOAD: u64 = 4096;

/// The number of priorities of streams that have not begun that are kept.
pub(super) const EARLY: usize = 32;

/// The state of reading the control stream.
#[derive(Debug)]
pub(super) struct ControlReader {
    frames: FrameReader,
    /// The part of a payload that has come.
    payload: Vec<u8>,
    has_settings: bool,
    /// The peer's last `MAX_PUSH_ID`.
    max_push_id: u64,
}

impl Default for ControlReader {
    fn default() -> ControlReader {
        ControlReader { frames: FrameReader::new(), payload: Vec::new(), has_settings: false, max_push_id: 0 }
    }
}

impl ControlReader {
    /// Whether the settings have come.
    pub(super) fn has_settings(&self) -> bool {
        self.has_settings
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.payload.capacity()
    }
}

/// A frame that no control stream may have.
const UNEXPECTED: H3ConnectionError =
    H3ConnectionError::new(H3ErrorCode::H3_FRAME_UNEXPECTED, "a frame that a control stream may not have");

impl H3Connection {
    /// Takes bytes of the control stream.
    pub(super) fn receive_control<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        now: u64,
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        loop {
            match self.control.frames.stage {
                FrameStage::Type | FrameStage::Length(_) => {
                    let Some((kind, len)) = self.control.frames.head(bytes) else { return Ok(None) };
                    self.begin_control_frame(kind, len, now)?;
                }
                FrameStage::Payload(FrameKind::Unknown, left) => {
                    if bytes.is_empty() && left > 0 {
                        return Ok(None);
                    }
                    self.control.frames.payload(bytes);
                }
                FrameStage::Payload(kind, left) => {
                    if bytes.is_empty() && left > 0 {
                        return Ok(None);
                    }
                    let payload = self.control.frames.payload(bytes);
                    let is_whole = payload.len() as u64 == left;
                    let event = if is_whole && self.control.payload.is_empty() {
                        self.control_frame(kind, payload)?
                    } else {
                        self.control.payload.extend_from_slice(payload);
                        if !is_whole {
                            return Ok(None);
                        }
                        let payload = std::mem::take(&mut self.control.payload);
                        self.control_frame(kind, &payload)?
                    };
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Looks at the head of a frame.
    fn begin_control_frame(&mut self, kind: FrameKind, len: u64, now: u64) -> Result<(), H3ConnectionError> {
        if kind == FrameKind::Settings {
            if std::mem::replace(&mut self.control.has_settings, true) {
                return Err(H3ConnectionError::new(H3ErrorCode::H3_FRAME_UNEXPECTED, "second settings"));
            }
        } else {
            if !self.control.has_settings {
                return Err(H3ConnectionError::new(
                    H3ErrorCode::H3_MISSING_SETTINGS,
                    "a control stream without settings",
                ));
            }
            self.account.pay(u32::try_from(len).unwrap_or(u32::MAX), now)?;
        }
        let is_server = self.role == Role::Server;
        let is_right = match kind {
            FrameKind::Data | FrameKind::Headers | FrameKind::PushPromise | FrameKind::OfHttp2 => {
                return Err(UNEXPECTED);
            }
            FrameKind::MaxPushId | FrameKind::PriorityUpdate | FrameKind::PriorityUpdatePush if !is_server => {
                return Err(UNEXPECTED);
            }
            FrameKind::CancelPush | FrameKind::GoAway | FrameKind::MaxPushId => matches!(len, 1 | 2 | 4 | 8),
            FrameKind::Settings | FrameKind::PriorityUpdate | FrameKind::PriorityUpdatePush => {
                if len > LONGEST_PAYLOAD {
                    return Err(Flood::Frames.into());
                }
                true
            }
            FrameKind::Unknown => true,
        };
        if is_right {
            Ok(())
        } else {
            Err(H3ConnectionError::new(H3ErrorCode::H3_FRAME_ERROR, "a frame of a wrong size"))
        }
    }

    /// Takes the whole payload of a frame.
    fn control_frame<'b>(
        &mut self,
        kind: FrameKind,
        mut payload: &[u8],
    ) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        const NO_ID: H3ConnectionError =
            H3ConnectionError::new(H3ErrorCode::H3_FRAME_ERROR, "a frame without a number");
        if kind == FrameKind::Settings {
            let settings = H3Settings::parse(payload);
            let wrong = |code| H3ConnectionError::new(code, "invalid settings");
            self.take_settings(settings.map_err(wrong)?);
            return Ok(Some(H3Event::Settings));
        }
        let id = read_varint(&mut payload).ok_or(NO_ID)?;
        let has_rest = !payload.is_empty();
        match kind {
            FrameKind::PriorityUpdate => return self.priority_update(StreamId(id), payload),
            FrameKind::PriorityUpdatePush => return Err(wrong_id("a priority for a response that was not pushed")),
            _ if has_rest => {
                return Err(H3ConnectionError::new(H3ErrorCode::H3_FRAME_ERROR, "a frame of a wrong size"));
            }
            FrameKind::GoAway => {
                let is_right = self.role == Role::Server || StreamId(id).is_of_request();
                if !is_right || self.peer_last.is_some_and(|before| id > before) {
                    return Err(wrong_id("GOAWAY with a wrong number"));
                }
                self.peer_last = Some(id);
                return Ok(Some(H3Event::GoneAway { id }));
            }
            FrameKind::MaxPushId => {
                if id < self.control.max_push_id {
                    return Err(wrong_id("MAX_PUSH_ID is lowered"));
                }
                self.control.max_push_id = id;
            }
            // Nothing was ever pushed or promised, so there is nothing to be cancelled.
            FrameKind::CancelPush => return Err(wrong_id("a response is cancelled that was not pushed")),
            _ => {}
        }
        Ok(None)
    }

    /// A priority for the response of a request (RFC 9218 section 7.2).
    fn priority_update<'b>(&mut self, id: StreamId, text: &[u8]) -> Result<Option<H3Event<'b>>, H3ConnectionError> {
        if !id.is_of_request() || id.0 > LARGEST_VARINT {
            return Err(wrong_id("a priority for a wrong stream"));
        }
        let priority = Priority::parse(text);
        if let Some(stream) = self.streams.get_mut(id) {
            (stream.priority, stream.has_priority) = (priority, true);
            return Ok(Some(H3Event::Priority { stream: id, priority }));
        }
        // A lower number is mostly of a stream that is closed.
        if self.is_not_begun(id) {
            self.lists.early.retain(|(of, _)| *of != id);
            if self.lists.early.len() < EARLY {
                self.lists.early.push((id, priority));
            }
        }
        Ok(None)
    }
}

/// A stream or a push was named by a wrong number.
fn wrong_id(what: &'static str) -> H3ConnectionError {
    H3ConnectionError::new(H3ErrorCode::H3_ID_ERROR, what)
}
