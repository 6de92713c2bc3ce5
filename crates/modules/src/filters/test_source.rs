//! A source for tests.

use bytes::Bytes;
use freerun_http::request::response::{BodySource, LocalBoxFuture, SourceError};

/// A source that returns the same bytes this number of times.
pub struct Repeated(pub Bytes, pub usize);

impl BodySource for Repeated {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        let left = self.1.checked_sub(1);
        self.1 = left.unwrap_or(0);
        Box::pin(std::future::ready(Ok(left.map(|_| self.0.clone()))))
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}
