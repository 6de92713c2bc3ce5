//! The keys of session tickets, which stand in the engine encrypted.

use std::time::Duration;

use redis::Value;

use super::scripts::Script;
use super::{EngineError, EngineLink, EngineNames, reply};

/// The most keys of a period that the engine keeps. A key is of use for two periods and a little more.
const MOST_KEYS: usize = 4;

/// The ticket keys of the engine.
pub(crate) struct StoredTicketKeys {
    /// The engine's clock, in milliseconds since 1970.
    pub(crate) now: u64,
    /// The keys as they were sealed, each with the engine's time at which it was put there, the newest first.
    pub(crate) keys: Vec<(u64, Vec<u8>)>,
}

impl StoredTicketKeys {
    /// Whether there has to be a new key.
    pub(crate) fn are_old(&self, period: Duration) -> bool {
        let age = self.keys.first().map(|(made, _)| self.now.saturating_sub(*made));
        age.is_none_or(|age| u128::from(age) >= period.as_millis())
    }
}

impl EngineLink {
    /// The ticket keys of a period. A new key is put before them if they are old: of several nodes with a new one the first has its
    /// key taken.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn ticket_keys(
        &mut self,
        names: &EngineNames,
        period: Duration,
        new: &[u8],
    ) -> Result<StoredTicketKeys, EngineError> {
        let (age, most) = (period.as_millis().to_string(), MOST_KEYS.to_string());
        let args = [age.as_bytes(), most.as_bytes(), new];
        let answer = self.run(Script::Tickets, &[&names.tickets(period.as_secs())], &args).await?;
        let odd = || reply::odd("the script of ticket keys");
        let [now, keys]: [Value; 2] = reply::list(answer).and_then(|parts| parts.try_into().ok()).ok_or_else(odd)?;
        let each = |value| {
            let bytes = reply::bytes(value)?;
            let bar = bytes.iter().position(|byte| *byte == b'|')?;
            let made = std::str::from_utf8(&bytes[..bar]).ok()?.parse().ok()?;
            Some((made, bytes[bar + 1..].to_vec()))
        };
        let now = reply::number(now).and_then(|now| u64::try_from(now).ok()).ok_or_else(odd)?;
        let keys = reply::list(keys).and_then(|keys| keys.into_iter().map(each).collect()).ok_or_else(odd)?;
        Ok(StoredTicketKeys { now, keys })
    }
}
