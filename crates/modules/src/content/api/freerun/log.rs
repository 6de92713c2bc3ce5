//! The error log: what it has lately said, and levels for single clients.

use std::collections::BTreeMap;
use std::net::IpAddr;

use freerun_runtime::log::{Level, recent_lines};
use serde_json::{Value, json};

use super::endpoint_call::{EndpointAnswer, EndpointCall, EndpointFuture};
use super::refusal::{Code, Refusal};
use crate::content::api::change_log;
use crate::content::described::described;
use crate::content::described::schema::Schemas;
use crate::content::status::figures::{Log, LogThreads};

described! {
    /// The logs.
    pub struct LogState {
        /// The level of each address that has one of its own.
        pub addresses: BTreeMap<String, String>,
        /// The log files of the configuration.
        pub logs: Vec<Log>,
        pub log_threads: LogThreads,
        /// The last lines of level `warn` and above, the oldest first.
        pub last_errors: Vec<String>,
    }
}

fn state(asked: &EndpointCall<'_>) -> LogState {
    let (shared, generation) = (&asked.source.shared, &asked.source.generation);
    let levels = shared.client_levels.all();
    LogState {
        addresses: levels.iter().map(|(address, level)| (address.to_string(), level.name().to_owned())).collect(),
        logs: generation.logs.iter().map(Log::from).collect(),
        log_threads: LogThreads::of(generation),
        last_errors: recent_lines::lines(),
    }
}

/// Shows the logs.
pub(super) fn show(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move { EndpointAnswer::value(&state(&asked)) })
}

/// The schema of a change.
pub fn change_schema(_: &mut Schemas) -> Value {
    let levels: Vec<Value> = Level::ALL.iter().map(|level| level.name().into()).chain([Value::Null]).collect();
    json!({
        "type": "object",
        "properties": {
            "addresses": {
                "type": "object",
                "description": "Addresses (IPv4, IPv6), with a level each, or `null`: none of its own.",
                "additionalProperties": { "enum": levels },
                "minProperties": 1,
            },
        },
        "required": ["addresses"],
        "additionalProperties": false,
    })
}

/// Changes levels.
pub(super) fn change(mut asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let changes = changes_of(&asked.body().await?)?;
        let changed = asked.source.shared.client_levels.change(&changes);
        changed.map_err(|too_many| Refusal::new(Code::TooManyAddresses, too_many.to_string()))?;
        for (address, level) in &changes {
            match level {
                Some(level) => {
                    change_log::note(asked.request, format_args!("lines about {address} from level {level} on"))
                }
                None => change_log::note(asked.request, format_args!("lines about {address} as error_log says")),
            }
        }
        EndpointAnswer::value(&state(&asked))
    })
}

/// Takes all levels away.
pub(super) fn reset(mut asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        asked.without_body()?;
        asked.source.shared.client_levels.clear();
        change_log::note(asked.request, format_args!("lines about all addresses as error_log says"));
        EndpointAnswer::value(&state(&asked))
    })
}

/// The changes that a body requests: all of them, or none.
fn changes_of(body: &Value) -> Result<BTreeMap<IpAddr, Option<Level>>, Refusal> {
    let wrong = |text: String| Refusal::new(Code::BadBody, text);
    let members = body.as_object().filter(|members| members.len() == 1);
    let addresses = members.and_then(|members| members.get("addresses")?.as_object());
    let addresses = addresses.filter(|addresses| !addresses.is_empty());
    let addresses = addresses.ok_or_else(|| wrong("{\"addresses\": {ADDRESS: LEVEL}} is expected".to_owned()))?;
    let mut changes = BTreeMap::new();
    for (address, level) in addresses {
        let parsed: IpAddr = address.parse().map_err(|_| wrong(format!("invalid address \"{address}\"")))?;
        let level = match level {
            Value::Null => None,
            Value::String(name) => Some(name.parse().map_err(|()| wrong(format!("invalid level \"{name}\"")))?),
            _ => return Err(wrong(format!("the level of \"{address}\" is a name, or null"))),
        };
        if changes.insert(parsed.to_canonical(), level).is_some() {
            return Err(wrong(format!("\"{address}\" is named twice")));
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_given_and_taken_away() {
        let changes = changes_of(&json!({"addresses": {"192.0.2.1": "debug", "2001:DB8::1": null}})).unwrap();
        let expected = [("192.0.2.1", Some(Level::Debug)), ("2001:db8::1", None)];
        assert_eq!(changes, expected.map(|(address, level)| (address.parse().unwrap(), level)).into());
    }

    #[test]
    fn a_wrong_part_makes_all_of_it_wrong() {
        for (body, why) in [
            (json!({}), "is expected"),
            (json!({"addresses": {}}), "is expected"),
            (json!({"addresses": ["192.0.2.1"]}), "is expected"),
            (json!({"addresses": {"192.0.2.1": "debug"}, "level": "debug"}), "is expected"),
            (json!({"addresses": {"192.0.2.1": "debug", "192.0.2.0/24": "debug"}}), "invalid address"),
            (json!({"addresses": {"192.0.2.1": "debug", "192.0.2.2": "loud"}}), "invalid level"),
            (json!({"addresses": {"192.0.2.1": 8}}), "is a name"),
            (json!({"addresses": {"192.0.2.1": "debug", "::ffff:192.0.2.1": null}}), "twice"),
        ] {
            let refusal = changes_of(&body).unwrap_err();
            assert!(refusal.code == Code::BadBody && refusal.text.contains(why), "{body}: {refusal:?}");
        }
    }
}
