//! rustls's connections of both sides, as one kind of thing.

use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ReadEarlyData, UnbufferedStatus};

/// A connection of either side.
pub(super) trait LibraryConnection {
    /// The library's data for this side.
    type Data;

    /// Goes on with what was received, as far as it reaches.
    fn process<'c, 'i>(&'c mut self, received: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// The state that both sides have in common.
    fn common(&self) -> &CommonState;

    /// Gives all early data that is there, a record at a time.
    fn early_data(early: ReadEarlyData<'_, '_, Self::Data>, take: impl FnMut(&[u8]));
}

impl LibraryConnection for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, received: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(received)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn early_data(mut early: ReadEarlyData<'_, '_, Self::Data>, mut take: impl FnMut(&[u8])) {
        while let Some(Ok(record)) = early.next_record() {
            take(record.payload);
        }
    }
}

impl LibraryConnection for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, received: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(received)
    }

    fn common(&self) -> &CommonState {
        self
    }

    /// Servers send none.
    fn early_data(_: ReadEarlyData<'_, '_, Self::Data>, _: impl FnMut(&[u8])) {}
}
