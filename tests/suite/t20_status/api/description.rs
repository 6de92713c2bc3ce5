//! What the API answers, held against its public description: `description.json` has of nginx's OpenAPI document for version 9
//! the paths and, of the objects, the names and types of fields.

use std::collections::{BTreeMap, BTreeSet};

use freerun_testkit::{Dns, DnsReply, TestClient, Tls};

use super::*;

const DESCRIPTION: &str = include_str!("description.json");

/// Fields that are not in every object: of servers that have them, have been used, or have failed; of zones with TLS; of groups
/// with a `queue`; of caches with `max_size`.
const OPTIONAL: [&str; 15] = [
    "NginxHTTPServerZone.ssl",
    "NginxStreamServerZone.ssl",
    "NginxHTTPCache.max_size",
    "NginxHTTPUpstream.queue",
    "*.service",
    "*.max_conns",
    "*.ssl",
    "*.header_time",
    "*.response_time",
    "*.connect_time",
    "*.first_byte_time",
    "*.health_checks.last_passed",
    "*.selected",
    "*.downstart",
    "*.drain",
];

/// As those, of servers that a name stands for.
const OF_NAMES: [&str; 2] = ["*.parent", "*.host"];

/// What no answer has: handshakes are counted for all upstream servers together, and their responses by class; there are no
/// slabs, no licence is needed, and nothing is synchronised with other machines.
const NEVER: [&str; 6] = [
    "*Peer.ssl",
    "NginxHTTPUpstreamPeer.responses.codes.codeNumber",
    "NginxSlabZone",
    "NginxSlabZoneSlot",
    "NginxLicenseObject",
    "NginxStreamZoneSync",
];

/// Whether a pattern with at most one star stands for this field.
fn matches(pattern: &str, field: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == field,
        Some((before, behind)) => field.starts_with(before) && field.ends_with(behind),
    }
}

/// What was found of the description.
struct Found {
    definitions: Value,
    /// The fields that have occurred: the name of the object and the path in it.
    seen: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Found {
    /// Compares a value with its description; `place` is the name of the object and the path in it.
    fn compare(&mut self, value: &Value, described: &Value, place: &str) {
        if let Some(reference) = described["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or_default().to_owned();
            let described = self.definitions[&name].clone();
            assert!(described.is_object(), "{name} is described");
            // It is a list where the API is in use; the description has a map of names.
            let is_list = name == "NginxWorkersMap" && value.is_array();
            match value {
                Value::Array(all) if is_list => {
                    self.seen.insert(name.clone());
                    all.iter().for_each(|one| self.compare(one, &described["additionalProperties"], &name));
                }
                _ => self.compare(value, &described, &name),
            }
            return;
        }
        self.seen.insert(place.to_owned());
        let is_right = match described["type"].as_str() {
            Some("integer") => value.is_u64(),
            Some("boolean") => value.is_boolean(),
            Some("string") => value.as_str().is_some_and(|text| is_text(text, described)),
            Some("array") => value.is_array(),
            _ => value.is_object(),
        };
        if !is_right {
            self.wrong.push(format!("{place} is {value}"));
        }
        if let Value::Array(all) = value {
            all.iter().for_each(|one| self.compare(one, &described["items"], &format!("{place}[]")));
        }
        let (Value::Object(fields), Some(properties)) = (value, described["properties"].as_object()) else {
            if let (Value::Object(all), Some(_)) = (value, described.get("additionalProperties")) {
                all.values().for_each(|one| self.compare(one, &described["additionalProperties"], place));
            }
            return;
        };
        // The counters of single statuses have the statuses' names.
        if let Some(one) = properties.get("codeNumber") {
            fields.values().for_each(|count| self.compare(count, one, &format!("{place}.codeNumber")));
            return;
        }
        for (name, value) in fields {
            match properties.get(name) {
                Some(described) => self.compare(value, described, &format!("{place}.{name}")),
                None => self.wrong.push(format!("{place}.{name} is not described")),
            }
        }
        for name in properties.keys().filter(|name| !fields.contains_key(*name)) {
            let field = format!("{place}.{name}");
            if !OPTIONAL.iter().chain(&OF_NAMES).any(|pattern| matches(pattern, &field)) {
                self.wrong.push(format!("{field} is missing"));
            }
        }
    }

    /// The fields of this object that have not occurred.
    fn unseen(&self, described: &Value, place: &str) -> Vec<String> {
        if described.get("$ref").is_some() {
            return Vec::new();
        }
        if !self.seen.contains(place) {
            return vec![place.to_owned()];
        }
        let properties = described["properties"].as_object().into_iter().flatten();
        properties.flat_map(|(name, inside)| self.unseen(inside, &format!("{place}.{name}"))).collect()
    }
}

fn is_text(text: &str, described: &Value) -> bool {
    let is_time = || text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
    let is_allowed = |all: &Vec<Value>| all.iter().any(|one| one == text);
    described["enum"].as_array().is_none_or(is_allowed) && (described["format"] != "date-time" || is_time())
}

/// A server with something of each kind, all of which has been used.
fn used(behind: &AnsweringUpstream, names: &Dns) -> TestServer {
    let port = behind.address().rsplit_once(':').expect("a port").1.to_owned();
    let target = port.parse().expect("a number");
    names.set("_http._tcp.services.test", DnsReply::Services(vec![(0, 1, target, "app.test".to_owned())], 60));
    names.set("app.test", DnsReply::address([127, 0, 0, 1].into(), 60));
    let address = behind.address();
    let group = format!(
        "upstream g {{ zone g 64k; server {address} max_conns=9; server 127.0.0.1:9 max_fails=1 fail_timeout=1h;
             server services.test service=http resolve; server app.test:{port} resolve; @QUEUE@ }}"
    );
    let http = format!(
        "resolver {names} ipv6=off status_zone=dns; proxy_cache_path @DIR@/cache keys_zone=c:1m max_size=10m;
         limit_req_zone $arg_k zone=r:1m rate=100r/s; limit_conn_zone $arg_k zone=l:1m;
         keyval_zone zone=k:64k; keyval $arg_k $pair zone=k; {group}
         server {{ listen 127.0.0.1:@PORT2@ ssl; status_zone secure; ssl_certificate @CERTS@/ec.crt;
             ssl_certificate_key @CERTS@/ec.key; return 200 yes; }}",
        names = names.address(),
        group = group.replace("@QUEUE@", "queue 10;"),
    );
    let lines =
        "location /g { proxy_pass http://g; proxy_cache c; proxy_cache_valid 1m; status_zone l; limit_req zone=r;
             limit_conn l 9; health_check interval=1; proxy_next_upstream_tries 3; }";
    let stream = format!(
        "resolver {names} ipv6=off; limit_conn_zone $remote_addr zone=sl:1m; keyval_zone zone=sk:64k;
         keyval $remote_addr $pair zone=sk; {group}
         server {{ listen 127.0.0.1:@PORT3@; status_zone plain; limit_conn sl 9; proxy_pass g; health_check interval=1; }}
         server {{ listen 127.0.0.1:@PORT4@ ssl; status_zone secure; ssl_certificate @CERTS@/ec.crt;
             ssl_certificate_key @CERTS@/ec.key; return yes; }}",
        names = names.address(),
        group = group.replace("@QUEUE@", ""),
    );
    let server = setup(&http, lines).stream(&stream).freerun();
    let servers = "/http/upstreams/g/servers";
    let (status, drained) =
        change(&server, "POST", servers, Some(json!({"server": "127.0.0.1:10", "drain": true, "down": true})));
    assert_eq!(status, 201, "{drained}");
    for protocol in ["http", "stream"] {
        let zone = if protocol == "http" { "k" } else { "sk" };
        change(&server, "POST", &format!("/{protocol}/keyvals/{zone}"), Some(json!({"a": "b"})));
        let peers = || get(&server, &format!("/{protocol}/upstreams/g"))["peers"].clone();
        let all =
            |holds: fn(&Value) -> bool| peers().as_array().expect("a list").iter().filter(|peer| holds(peer)).count();
        eventually("names have addresses", || all(|peer| peer["service"].is_string()) == 1);
        eventually("servers have passed a check", || all(|peer| peer["health_checks"]["last_passed"] == true) >= 3);
        eventually("a server is down and others have answered", || {
            let mut client = TestClient::connect(server.address_number(if protocol == "http" { 1 } else { 3 }));
            let answer = client.get("/g/x");
            assert_eq!(answer.status, 200, "{}", answer.text());
            server.get("/g/y");
            all(|peer| peer["downstart"].is_string()) >= 1 && all(|peer| peer["response_time"].is_u64()) >= 1
        });
    }
    for (port, expected) in [(2, "yes"), (4, "yes")] {
        let mut client = server_tls(&server, port);
        if port == 2 {
            assert_eq!(client.get("/").text(), expected);
        } else {
            assert_eq!(client.rest().0, expected.as_bytes());
        }
    }
    server
}

fn server_tls(server: &TestServer, port: usize) -> TestClient {
    TestClient::connect(server.address_number(port)).tls(&Tls::new())
}

#[test]
fn every_answer_is_as_it_is_described() {
    if !require::freerun() {
        return;
    }
    let (behind, names) = (named("here"), Dns::start());
    let server = used(&behind, &names);
    let description: Value = serde_json::from_str(DESCRIPTION).expect("JSON");
    let mut found = Found { definitions: description["definitions"].clone(), seen: BTreeSet::new(), wrong: Vec::new() };
    let of = |path: &str| get(&server, path)[0]["id"].to_string();
    let values = BTreeMap::from([
        ("httpServerZoneName", "main".to_owned()),
        ("streamServerZoneName", "secure".to_owned()),
        ("httpLocationZoneName", "l".to_owned()),
        ("httpCacheZoneName", "c".to_owned()),
        ("httpLimitConnZoneName", "l".to_owned()),
        ("httpLimitReqZoneName", "r".to_owned()),
        ("streamLimitConnZoneName", "sl".to_owned()),
        ("httpUpstreamName", "g".to_owned()),
        ("httpUpstreamServerId", of("/http/upstreams/g/servers")),
        ("streamUpstreamName", "g".to_owned()),
        ("streamUpstreamServerId", of("/stream/upstreams/g/servers")),
        ("httpKeyvalZoneName", "k".to_owned()),
        ("streamKeyvalZoneName", "sk".to_owned()),
        ("resolverZoneName", "dns".to_owned()),
        ("workerId", "0".to_owned()),
    ]);
    for (path, object) in description["paths"].as_object().expect("paths") {
        let mut filled = path.clone();
        for (name, value) in &values {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        let response = server.get(&format!("/api/9{filled}"));
        let is_never = NEVER.iter().any(|never| object == never);
        assert_eq!(response.status, if is_never { 404 } else { 200 }, "{filled}: {}", response.text());
        let described = if is_never { "NginxError" } else { object.as_str().expect("a name") };
        found.compare(&parsed(&response), &json!({ "$ref": format!("#/definitions/{described}") }), path);
    }
    assert!(found.wrong.is_empty(), "{:#?}", found.wrong);
    // Each field was looked at.
    let definitions = found.definitions.clone();
    let all = definitions.as_object().expect("objects").iter().filter(|(name, _)| !name.ends_with("PostPatch"));
    let unseen: Vec<String> = all.flat_map(|(name, described)| found.unseen(described, name)).collect();
    let expected = |field: &String| NEVER.iter().any(|never| matches(never, field) || field.starts_with(never));
    let unseen: Vec<_> = unseen.into_iter().filter(|field| !expected(field)).collect();
    assert!(unseen.is_empty(), "{unseen:#?}");
}
