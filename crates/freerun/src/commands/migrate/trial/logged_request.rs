//! The request that a line of an access log describes.

use std::collections::BTreeMap;

use freerun_serve::logs::access_log::LineFormat;

/// Fields of the client that are not sent: they are about its connection, or about a body that is not there.
const OWN_FIELDS: [&str; 8] =
    ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// The field that is added to requests that do not have it. Answers with this coding can be compared.
pub const ACCEPTED: (&str, &str) = ("accept-encoding", "gzip");

/// The request that a line describes.
#[derive(Debug, Default)]
pub struct LoggedRequest {
    /// The method.
    pub method: String,
    /// The target.
    pub target: String,
    /// The host.
    pub host: Option<String>,
    /// Whether it came over TLS, if the line says it.
    pub is_secure: Option<bool>,
    /// The port of the server.
    pub port: Option<u16>,
    /// Further fields.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// The values of a line by the names of variables: by the first format that fits, or as an object of JSON whose keys are such names.
pub fn values(formats: &[LineFormat], line: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    if let Some(values) = formats.iter().find_map(|format| format.read(line)) {
        return Some(values.into_iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect());
    }
    if line.first() != Some(&b'{') {
        return None;
    }
    let object: BTreeMap<String, serde_json::Value> = serde_json::from_slice(line).ok()?;
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) if text.is_empty() || text == "-" => None,
        serde_json::Value::String(text) => Some(text.into_bytes()),
        serde_json::Value::Number(number) => Some(number.to_string().into_bytes()),
        _ => None,
    };
    let values = object.into_iter().filter_map(|(key, value)| Some((key, text(value)?)));
    // Freerun's own format has shorter names for these.
    let named = |key: String| match key.as_str() {
        "method" => "request_method".to_owned(),
        "referer" | "user_agent" => format!("http_{key}"),
        _ => key,
    };
    Some(values.map(|(key, value)| (named(key), value)).collect())
}

/// The request that the values of a line describe; `knows` says which variables the format has. `None`: it is no request.
pub fn logged(values: &BTreeMap<String, Vec<u8>>, knows: impl Fn(&str) -> bool) -> Option<LoggedRequest> {
    let text = |name: &str| values.get(name).and_then(|value| std::str::from_utf8(value).ok());
    let (method, target) = match text("request") {
        Some(line) => {
            let mut words = line.split(' ');
            let (method, target, version) = (words.next()?, words.next()?, words.next()?);
            if words.next().is_some() || !version.starts_with("HTTP/") {
                return None;
            }
            (method, target.to_owned())
        }
        None => {
            let method = text("request_method").unwrap_or("GET");
            let target = match (text("request_uri"), text("uri")) {
                (Some(target), _) => target.to_owned(),
                (None, Some(path)) => match text("args").or_else(|| text("query_string")) {
                    Some(args) => format!("{}?{args}", escaped_path(path)),
                    None if path.contains('?') => path.to_owned(),
                    None => escaped_path(path),
                },
                (None, None) => return None,
            };
            (method, target)
        }
    };
    // A target as proxies get it has the host in front.
    let target = match target.strip_prefix("http://").or_else(|| target.strip_prefix("https://")) {
        Some(rest) => rest.find('/').map_or_else(|| "/".to_owned(), |slash| rest[slash..].to_owned()),
        None => target,
    };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_target = target.starts_with('/') && target.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    if !is_method || !is_target {
        return None;
    }
    let is_secure = match (text("scheme"), text("https"), text("ssl_protocol")) {
        (Some(scheme), ..) => Some(scheme == "https"),
        (_, Some(https), _) => Some(https == "on"),
        (.., Some(_)) => Some(true),
        _ if knows("https") || knows("ssl_protocol") => Some(false),
        _ => None,
    };
    let is_host =
        |host: &&str| !host.is_empty() && host.bytes().all(|byte| byte > b' ' && byte != b'/' && byte != 0x7f);
    let host = ["http_host", "host", "server_name"].into_iter().find_map(|name| text(name).filter(is_host));
    let field = |(name, value): (&String, &Vec<u8>)| {
        let name = name.strip_prefix("http_")?.replace('_', "-");
        if name == ACCEPTED.0 {
            let is_accepted = value.windows(ACCEPTED.1.len()).any(|word| word == ACCEPTED.1.as_bytes());
            return Some((name, if is_accepted { ACCEPTED.1 } else { "identity" }.into()));
        }
        let is_sent =
            !OWN_FIELDS.contains(&name.as_str()) && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        is_sent.then(|| (name, value.clone()))
    };
    Some(LoggedRequest {
        method: method.to_owned(),
        host: host.map(str::to_owned),
        is_secure,
        port: text("server_port").and_then(|port| port.parse().ok()),
        fields: values.iter().filter_map(field).collect(),
        target,
    })
}

/// A path as a target has it. `$uri` is the path after its escapes were read.
fn escaped_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'?' | b'#' | b'%' | 0..=b' ' | 0x7f.. => escaped += &format!("%{byte:02X}"),
            byte => escaped.push(char::from(byte)),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use freerun_serve::logs::access_log::Escape;

    use super::*;

    #[test]
    fn fields_that_a_log_has_are_sent() {
        let format = LineFormat::new(Escape::Default, "$http_user_agent|$http_te|$http_accept_encoding|$uri|$args");
        let of = |line: &[u8]| {
            let values = values(std::slice::from_ref(&format), line).expect("the format");
            logged(&values, |_| false).expect("a request")
        };
        let logged = of(b"me \\x22|1|br, gzip|/a b|c=d");
        assert_eq!(logged.target, "/a%20b?c=d");
        let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        assert_eq!(logged.fields, [field("accept-encoding", "gzip"), field("user-agent", "me \"")]);
        assert_eq!(of(b"-|-|br|/|-").fields, [field("accept-encoding", "identity")]);
    }
}
