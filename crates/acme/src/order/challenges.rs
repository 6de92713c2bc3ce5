//! Answers to challenges, while the CA looks at them.

use std::sync::Arc;

use super::Failure;
use crate::host::{Challenge, Host};

/// Answers that the host has; they are taken back when this is dropped, however an order ends.
pub(super) struct PublishedChallenges {
    host: Arc<dyn Host>,
    challenges: Vec<Challenge>,
}

impl PublishedChallenges {
    pub(super) fn new(host: Arc<dyn Host>) -> PublishedChallenges {
        PublishedChallenges { host, challenges: Vec::new() }
    }

    pub(super) fn add(&mut self, challenge: Challenge) -> Result<(), Failure> {
        let published = self.host.publish(&challenge);
        published.map_err(|why| Failure::new(format!("the challenge cannot be answered: {why}")))?;
        self.challenges.push(challenge);
        Ok(())
    }
}

impl Drop for PublishedChallenges {
    fn drop(&mut self) {
        for challenge in &self.challenges {
            self.host.withdraw(challenge);
        }
    }
}
