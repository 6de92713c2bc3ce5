//! Priorities of responses (RFC 9218).

/// The priority of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// The urgency, from 0, which comes first, to 7.
    pub urgency: u8,
    /// Whether the client can use parts of it, so that it takes turns with others of the same urgency; otherwise it is sent as a
    /// whole before the next one.
    pub incremental: bool,
}

/// The number of urgencies.
pub const URGENCIES: usize = 8;

/// The urgency of a response for which none is given (RFC 9218 section 4.1).
const USUAL_URGENCY: u8 = 3;

impl Priority {
    /// The priority of a response about which the client has said nothing. RFC 9218 section 4.2 would send such
    /// responses one after the other. But a client that knows no priorities may wait for the end of one stream until
    /// another one has moved, as with calls of gRPC. So they take turns.
    pub const UNKNOWN: Priority = Priority { urgency: USUAL_URGENCY, incremental: true };

    /// Reads a `Priority` field (RFC 9218 section 5), a dictionary of structured fields (RFC 9651). Only its `u` and
    /// `i` have a meaning. Parameters of members are skipped; a value that is not understood counts as missing.
    pub fn parse(text: &[u8]) -> Priority {
        let mut priority = Priority { urgency: USUAL_URGENCY, incremental: false };
        for member in text.split(|byte| *byte == b',') {
            let member = member.trim_ascii();
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        for (text, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i;x=1 , u=2;y", 2, true),
            ("i=?1,i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1, i=1", 3, false),
            ("u=1,u=5", 5, false),
            ("U=1,\tfoo=\"u\"", 3, false),
        ] {
            assert_eq!(Priority::parse(text.as_bytes()), Priority { urgency, incremental }, "{text}");
        }
    }
}
