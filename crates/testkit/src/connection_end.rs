//! The ways in which a connection ends.

/// The end of a connection, as far as the client can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The server closed it.
    Closed,
    /// The server reset it.
    Reset,
    /// No byte came for the whole timeout.
    Silent,
}
