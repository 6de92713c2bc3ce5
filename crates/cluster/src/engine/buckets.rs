//! The buckets of zones of `limit_req`, which stand in the engine.

use freerun_serve::limits::bucket::Bucket;
use freerun_serve::limits::leases::{LeaseDemand, LeaseGrant};
use redis::Value;

use super::scripts::Script;
use super::{EngineError, EngineLink, EngineNames, reply};

/// The most buckets of a call. The engine does nothing else meanwhile, which takes less than a millisecond.
pub(crate) const BUCKETS: usize = 256;

/// The bytes of the name of a bucket.
pub(crate) const BUCKET_NAME: usize = 12;

/// The most buckets of a table in the engine, so that a flood of keys does not fill it.
const MOST_BUCKETS: usize = 1_000_000;

/// The shortest window of time that a table of buckets is for, in milliseconds.
const SHORTEST_WINDOW: u64 = 1000;

/// The demand for a bucket.
pub(crate) struct BucketDemand {
    /// The name that stands for the key.
    pub(crate) name: [u8; BUCKET_NAME],
    /// The requests that are counted, and those that are wanted.
    pub(crate) demand: LeaseDemand,
}

impl EngineLink {
    /// Counts requests in the buckets of a zone, and takes some ahead of their use: an answer for each demand, in their order. There
    /// are at most [`BUCKETS`] demands.
    ///
    /// # Errors
    /// The engine is away. Nobody knows then whether it has counted them.
    pub(crate) async fn take_from_buckets(
        &mut self,
        names: &EngineNames,
        zone: &str,
        bucket: Bucket,
        demands: &[BucketDemand],
    ) -> Result<Vec<LeaseGrant>, EngineError> {
        debug_assert!(demands.len() <= BUCKETS, "the engine is not held up");
        let cost = 1e9 / bucket.rate.max(1) as f64;
        let burst = bucket.burst as f64 / 1000.0;
        // A bucket that is full, and charged with as much again, is empty after a window.
        let window = ((2.0 * (burst + 1.0) * cost / 1000.0) as u64).max(SHORTEST_WINDOW);
        // Small changes of the burst leave the window, and so the tables, as they are.
        let window = window.next_power_of_two();
        let numbers = [cost.to_string(), burst.to_string(), window.to_string(), MOST_BUCKETS.to_string()];
        let counts: Vec<[String; 2]> = demands
            .iter()
            .map(|BucketDemand { demand, .. }| [demand.used.to_string(), demand.wanted.to_string()])
            .collect();
        let mut args: Vec<&[u8]> = numbers.iter().map(String::as_bytes).collect();
        for (BucketDemand { name, .. }, [used, wanted]) in demands.iter().zip(&counts) {
            args.extend([&name[..], used.as_bytes(), wanted.as_bytes()]);
        }
        let answer = self.run(Script::Buckets, &[&names.buckets(zone, window)], &args).await?;
        let number = |value: Value| reply::number(value).and_then(|number| u64::try_from(number).ok());
        let numbers: Option<Vec<u64>> = reply::list(answer).and_then(|values| values.into_iter().map(number).collect());
        let numbers = numbers.filter(|numbers| numbers.len() == 2 * demands.len());
        let numbers = numbers.ok_or_else(|| reply::odd("the script of the buckets"))?;
        let (pairs, _) = numbers.as_chunks::<2>();
        Ok(pairs.iter().map(|[granted, before]| LeaseGrant { granted: *granted, before: *before }).collect())
    }
}
