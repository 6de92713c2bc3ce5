//! The figures at freerun's status location.

use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::configs::STATUS_PATH;
use crate::servers::Server;
use crate::spec::Kind;

/// The figures the benchmarks use; `None` where the status does not have them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// Polls of tasks that took longer than a loop may, over all loops.
    pub stalls: Option<u64>,
    /// The longest poll of a task, in milliseconds.
    pub longest_poll_ms: Option<f64>,
    /// The longest poll over 10 ms without the time for which its thread had no processor, in milliseconds.
    pub longest_stall_of_its_own_ms: Option<f64>,
    /// Connections accepted by each loop.
    pub accepted: Vec<u64>,
    /// Entries of all caches whose indexes are there.
    pub cache_entries: Option<u64>,
    /// The state of each mount's probe, in words.
    pub mounts: Vec<String>,
}

/// Asks `server`; anything but freerun has no status.
pub fn of(server: &Server) -> Option<Status> {
    if server.spec.kind != Kind::Freerun {
        return None;
    }
    let reply = Client::connect(server.address, None, Duration::from_secs(5)).ok()?.get(STATUS_PATH).ok()?;
    let text = (reply.status == 200).then_some(reply.body)?;
    Some(read(&serde_json::from_slice(&text).ok()?))
}

/// Reads the figures of a status location.
pub fn read(status: &Value) -> Status {
    let loops: Vec<&Value> =
        status.get("loops").and_then(Value::as_array).map(|list| list.iter().collect()).unwrap_or_default();
    let number = |value: &Value, name: &str| find(value, name).and_then(Value::as_f64);
    let stalls: Vec<f64> = loops.iter().filter_map(|one| number(one, "stalls")).collect();
    let longest = loops.iter().filter_map(|one| number(find(one, "poll")?, "max_us"));
    let own = loops.iter().filter_map(|one| number(one, "longest_stall_of_its_own_us"));
    Status {
        stalls: (!stalls.is_empty()).then(|| stalls.iter().sum::<f64>() as u64),
        longest_poll_ms: longest.max_by(f64::total_cmp).map(|us| us / 1000.0),
        longest_stall_of_its_own_ms: own.max_by(f64::total_cmp).map(|us| us / 1000.0),
        accepted: loops.iter().filter_map(|one| number(one, "accepted")).map(|count| count as u64).collect(),
        cache_entries: status.get("caches").and_then(Value::as_array).map(|list| {
            let entries = list.iter().filter_map(|cache| cache.get("entries").and_then(Value::as_u64));
            entries.sum()
        }),
        mounts: status
            .get("mounts")
            .and_then(Value::as_array)
            .map(|list| list.iter().map(mount).collect())
            .unwrap_or_default(),
    }
}

/// A mount's type and figures; not its place, which is this machine's.
fn mount(mount: &Value) -> String {
    let fields = ["type", "rung", "density", "demoted", "hits", "misses", "pooled", "stalls", "demotions"];
    let values =
        fields.iter().filter_map(|name| Some(format!("{name} {}", mount.get(name)?.to_string().trim_matches('"'))));
    values.collect::<Vec<_>>().join(", ")
}

/// The first member whose name begins with `name`, in `value` or in the objects inside it.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let members = value.as_object()?;
    let own = members.iter().find(|(key, _)| key.starts_with(name)).map(|(_, value)| value);
    own.or_else(|| members.values().find_map(|inner| find(inner, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_summed_and_missing_figures_stay_missing() {
        let text = r#"{"loops":[{"connections":{"accepted":3},"stalls":1,"longest_stall_of_its_own_us":1500,"poll_us":{"max_us":2500,"buckets":[1]}},
                       {"connections":{"accepted":4},"stalls":2,"poll_us":{"max_us":500}}],"pools":[],
                       "mounts":[{"mount":"/","type":"ext4","rung":"nowait","hits":3}]}"#;
        let status = read(&serde_json::from_str(text).unwrap());
        let mounts = vec!["type ext4, rung nowait, hits 3".to_owned()];
        assert_eq!(
            status,
            Status {
                stalls: Some(3),
                longest_poll_ms: Some(2.5),
                longest_stall_of_its_own_ms: Some(1.5),
                accepted: vec![3, 4],
                cache_entries: None,
                mounts,
            }
        );
        assert_eq!(read(&Value::Null), Status::default());
    }
}
