//! Changes of the servers of a group, as requests describe them.

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{into_bytes, parse_seconds};
use freerun_runtime::log::ErrorLog;
use freerun_serve::configuration::unsaved_states;
use freerun_serve::upstream::{AnyGroup, ServerEntry, ServerSetting};
use freerun_upstream::place::{self, ServerPlace};
use freerun_upstream::{Method, PeerSettings};
use serde_json::Value;

use super::error::ApiError;
use super::upstreams::Protocol;

/// The most servers that are written in a group.
const MAX_SERVERS: usize = 4096;

/// The longest route in bytes.
const MAX_ROUTE: usize = 32;

/// A server as a body describes it: only the parameters that are there.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ServerParameters {
    server: Option<String>,
    service: Option<String>,
    weight: Option<u32>,
    max_conns: Option<u32>,
    max_fails: Option<u32>,
    fail_timeout: Option<Duration>,
    slow_start: Option<Duration>,
    route: Option<String>,
    backup: Option<bool>,
    down: Option<bool>,
    drain: Option<bool>,
}

impl ServerParameters {
    /// Reads the description of a server of this protocol.
    ///
    /// # Errors
    /// It is wrong.
    pub fn parse(body: &Value, protocol: Protocol) -> Result<ServerParameters, ApiError> {
        let format = |why: &str| ApiError::ServerFormat(why.to_owned());
        let parameters = body.as_object().ok_or_else(|| format("an object is required"))?;
        let mut told = ServerParameters::default();
        for (name, value) in parameters {
            if value.is_array() || value.is_object() {
                return Err(format("nested object or list"));
            }
            let bad = |code| ApiError::BadParameter(bad_name(code), code);
            let number = |code| count(value).ok_or_else(|| bad(code));
            let time = |code| time(value).ok_or_else(|| bad(code));
            let text = || value.as_str().map(str::to_owned);
            let wrong = || ApiError::ServerFormat(format!("invalid \"{name}\" value"));
            let switch = || value.as_bool().ok_or_else(wrong);
            let is_http = protocol == Protocol::Http;
            match name.as_str() {
                "server" => told.server = Some(text().ok_or_else(wrong)?),
                "service" => {
                    let service = text().ok_or_else(wrong)?;
                    told.service =
                        Some(Some(service).filter(|name| !name.is_empty()).ok_or_else(|| bad("UpstreamBadService"))?);
                }
                "weight" => {
                    let weight = number("UpstreamBadWeight")?;
                    told.weight =
                        Some(Some(weight).filter(|weight| *weight > 0).ok_or_else(|| bad("UpstreamBadWeight"))?);
                }
                "max_conns" => told.max_conns = Some(number("UpstreamBadMaxConns")?),
                "max_fails" => told.max_fails = Some(number("UpstreamBadMaxFails")?),
                "fail_timeout" => told.fail_timeout = Some(time("UpstreamBadFailTimeout")?),
                "slow_start" => told.slow_start = Some(time("UpstreamBadSlowStart")?),
                "route" if is_http => {
                    let route = text().ok_or_else(wrong)?;
                    // In a state file it is a word.
                    let is_good = route.len() <= MAX_ROUTE && route.bytes().all(is_plain);
                    told.route = Some(Some(route).filter(|_| is_good).ok_or_else(|| bad("UpstreamBadRoute"))?);
                }
                "backup" => told.backup = Some(switch()?),
                "down" => told.down = Some(switch()?),
                "drain" if is_http => told.drain = Some(switch()?),
                // Clients send back what they have got; these are not theirs to choose.
                "id" | "parent" | "host" => {}
                _ => return Err(ApiError::ServerFormat(format!("unknown parameter \"{name}\""))),
            }
        }
        Ok(told)
    }

    /// The settings with these changes.
    fn settings(&self, base: &PeerSettings) -> PeerSettings {
        PeerSettings {
            weight: self.weight.unwrap_or(base.weight),
            max_conns: self.max_conns.unwrap_or(base.max_conns),
            max_fails: self.max_fails.unwrap_or(base.max_fails),
            fail_timeout: self.fail_timeout.unwrap_or(base.fail_timeout),
            slow_start: self.slow_start.unwrap_or(base.slow_start),
            route: match &self.route {
                Some(route) => Some(route.as_str().into()).filter(|_| !route.is_empty()),
                None => base.route.clone(),
            },
            backup: self.backup.unwrap_or(base.backup),
            down: self.down.unwrap_or(base.down),
            drain: self.drain.unwrap_or(base.drain),
            entry: base.entry,
        }
    }
}

/// Whether a byte stands for itself in a word of a configuration.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b';' | b'{' | b'}' | b'$' | b'#')
}

/// The parameter that a code is about.
fn bad_name(code: &str) -> &'static str {
    match code {
        "UpstreamBadWeight" => "weight",
        "UpstreamBadMaxConns" => "max_conns",
        "UpstreamBadMaxFails" => "max_fails",
        "UpstreamBadFailTimeout" => "fail_timeout",
        "UpstreamBadSlowStart" => "slow_start",
        "UpstreamBadRoute" => "route",
        _ => "service",
    }
}

/// A number. A number larger than the counters can hold is as good as no limit.
fn count(value: &Value) -> Option<u32> {
    value.as_u64().map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// A time as a configuration writes it, or a number of seconds. The configuration's limit applies to both, as a state
/// file is read by its rules.
fn time(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::String(text) => parse_seconds(text),
        other => parse_seconds(&other.as_u64()?.to_string()),
    };
    seconds.map(Duration::from_secs)
}

/// The server with this address or name and these settings, in this group. Names are looked up again and again.
fn server(
    group: &dyn AnyGroup,
    text: &str,
    service: Option<&str>,
    settings: PeerSettings,
) -> Result<ServerSetting, ApiError> {
    let bad = ApiError::BadAddress;
    if !text.bytes().all(is_plain) || !service.unwrap_or_default().bytes().all(is_plain) {
        return Err(bad(format!("invalid host in upstream \"{text}\"")));
    }
    let is_name = place::parse(text, Some(1)).is_ok_and(|written| matches!(written.place, ServerPlace::Name(_)));
    if is_name && !group.resolves() {
        return Err(ApiError::NoResolver(text.to_owned()));
    }
    ServerSetting::new(text, group.default_port(), service, is_name, settings).map_err(bad)
}

/// A change of the servers of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerChange {
    /// Adds a server.
    Add(ServerParameters),
    /// Changes the server with this number.
    Set(u32, ServerParameters),
    /// Removes the server with this number.
    Remove(u32),
}

/// Changes a group, and its state file. Returns the server that was added or removed, or as it is after the change. It waits for
/// the disk, so a loop never calls it.
///
/// # Errors
/// Nothing has changed. That the file cannot be written is logged.
pub fn apply(group: Arc<dyn AnyGroup>, change: &ServerChange, log: &ErrorLog) -> Result<ServerEntry, ApiError> {
    let mut done = Err(ApiError::UpstreamNotFound);
    group.clone().change(log, &mut |entries| {
        done = edit(&*group, change, entries);
        done.is_ok()
    });
    let changed = done?;
    if let Some(state) = group.state() {
        let entries = group.clone();
        let text = move || into_bytes(entries.entries().iter().map(|entry| entry.server.directive()).collect());
        unsaved_states::write(state, log, text);
    }
    Ok(changed)
}

fn edit(group: &dyn AnyGroup, change: &ServerChange, entries: &mut Vec<ServerEntry>) -> Result<ServerEntry, ApiError> {
    let name = || group.group().name.to_string();
    match change {
        ServerChange::Add(told) => {
            let text =
                told.server.as_deref().ok_or_else(|| ApiError::ServerFormat("missing \"server\" argument".into()))?;
            let settings = told.settings(&PeerSettings::default());
            if settings.backup && refuses_backup(group.group().settings.method) {
                return Err(ApiError::NoBackup(name()));
            }
            let server = server(group, text, told.service.as_deref(), settings)?;
            if entries.iter().any(|entry| entry.server.place == server.place && entry.server.service == server.service)
            {
                return Err(ApiError::EntryExists);
            }
            if entries.len() >= MAX_SERVERS {
                return Err(ApiError::NoRoom(name()));
            }
            let entry = ServerEntry::new(server);
            entries.push(entry.clone());
            Ok(entry)
        }
        ServerChange::Set(id, told) => {
            let at = find(group, entries, *id)?;
            let old = &entries[at];
            let fixed = |name: &str| Err(ApiError::ServerFormat(format!("parameter \"{name}\" cannot be changed")));
            if told.backup.is_some_and(|backup| backup != old.server.settings.backup) {
                return fixed("backup");
            }
            if told.service.as_deref().is_some_and(|service| Some(service) != old.server.asked_service()) {
                return fixed("service");
            }
            let settings = told.settings(&old.server.settings);
            let changed = match told.server.as_deref().filter(|text| *text != &*old.server.text) {
                // The addresses of a name are known only for that name.
                Some(text) => old.with_server(server(group, text, old.server.asked_service(), settings)?),
                None => {
                    let mut same = old.clone();
                    same.server.settings = settings;
                    same
                }
            };
            entries[at] = changed.clone();
            Ok(changed)
        }
        ServerChange::Remove(id) => {
            let at = find(group, entries, *id)?;
            Ok(entries.remove(at))
        }
    }
}

/// The place of the entry with this number.
fn find(group: &dyn AnyGroup, entries: &[ServerEntry], id: u32) -> Result<usize, ApiError> {
    if let Some(at) = entries.iter().position(|entry| entry.number == id) {
        return Ok(at);
    }
    let is_resolved = group.group().peers().peers().any(|peer| peer.id == id);
    Err(if is_resolved { ApiError::ServerImmutable(id) } else { ApiError::ServerNotFound(id) })
}

/// Whether the method knows no backup servers.
fn refuses_backup(method: Method) -> bool {
    match method {
        Method::IpHash | Method::Hash | Method::ConsistentHash | Method::Random | Method::RandomTwo(_) => true,
        Method::RoundRobin | Method::LeastConn | Method::LeastTime { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_read() {
        let body = json!({
            "server": "10.0.0.1:80", "weight": 2, "max_conns": 5_000_000_000u64, "fail_timeout": "1m", "slow_start": 3,
            "route": "", "down": true, "id": 7
        });
        let told = ServerParameters::parse(&body, Protocol::Http).unwrap();
        let base = PeerSettings { route: Some("r".into()), max_fails: 9, ..PeerSettings::default() };
        let expected = PeerSettings {
            weight: 2,
            max_conns: u32::MAX,
            max_fails: 9,
            fail_timeout: Duration::from_secs(60),
            slow_start: Duration::from_secs(3),
            down: true,
            ..PeerSettings::default()
        };
        assert_eq!((told.settings(&base), told.server.as_deref()), (expected, Some("10.0.0.1:80")));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_code() {
        let long = "r".repeat(MAX_ROUTE + 1);
        for (body, code) in [
            (json!([]), "UpstreamConfFormatError"),
            (json!({"server": 1}), "UpstreamConfFormatError"),
            (json!({"server": ["a"]}), "UpstreamConfFormatError"),
            (json!({"wieght": 1}), "UpstreamConfFormatError"),
            (json!({"down": 1}), "UpstreamConfFormatError"),
            (json!({"weight": 0}), "UpstreamBadWeight"),
            (json!({"weight": "1"}), "UpstreamBadWeight"),
            (json!({"max_conns": -1}), "UpstreamBadMaxConns"),
            (json!({"max_fails": 1.5}), "UpstreamBadMaxFails"),
            (json!({"fail_timeout": "1x"}), "UpstreamBadFailTimeout"),
            (json!({"fail_timeout": u64::MAX}), "UpstreamBadFailTimeout"),
            (json!({"slow_start": true}), "UpstreamBadSlowStart"),
            (json!({"slow_start": 1u64 << 63}), "UpstreamBadSlowStart"),
            (json!({"route": long}), "UpstreamBadRoute"),
            (json!({"route": "a b"}), "UpstreamBadRoute"),
            (json!({"service": ""}), "UpstreamBadService"),
        ] {
            let error = ServerParameters::parse(&body, Protocol::Http).unwrap_err();
            assert_eq!(error.status_and_code(), (400, code), "{body}: {error}");
        }
        for body in [json!({"route": "a"}), json!({"drain": true})] {
            assert!(ServerParameters::parse(&body, Protocol::Stream).is_err(), "{body}");
        }
    }
}
