//! Values of the directives of TLS that listeners and upstream servers share.

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Value, Word, keyword_enum, parse_size};
use freerun_tls::openssl::conf_command::{self, Command};
use freerun_tls::openssl::protocols::Protocols;
use freerun_tls::openssl::{Level, Remark};

use super::files::full_path;

keyword_enum! {
    /// The value of `ssl_verify_client`.
    pub enum VerifyClient {
        /// No certificate is requested.
        Off = "off",
        /// A valid certificate is required.
        On = "on",
        /// A certificate is verified if there is one.
        Optional = "optional",
        /// A certificate is not verified here, but by a service behind this server.
        OptionalNoCa = "optional_no_ca",
    }
}

keyword_enum! {
    /// The value of `ssl_ocsp`.
    pub enum Ocsp {
        /// No certificate is checked.
        Off = "off",
        /// All certificates of the client's chain are checked.
        On = "on",
        /// Only the client's own certificate is checked.
        Leaf = "leaf",
    }
}

/// The versions that `ssl_protocols` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolSet(pub Protocols);

impl Setting for ProtocolSet {
    const SHAPE: Shape = Shape::at_least(1, "[SSLv2] [SSLv3] [TLSv1] [TLSv1.1] [TLSv1.2] [TLSv1.3]");

    fn set(previous: Option<ProtocolSet>, directive: &Node, cx: &mut Cx) -> Result<ProtocolSet, Problem> {
        let mut set = previous.map_or(Protocols::NONE, |previous| previous.0);
        for word in &directive.args {
            let named = Protocols::parse([word.text.as_str()]).map_err(|_| Problem::invalid_value(directive, word))?;
            let both = freerun_tls::openssl::protocols::Protocol::ALL.into_iter().filter(|one| named.0.has(*one));
            for protocol in both {
                if set.has(protocol) {
                    cx.warn(Problem::warning(format!("duplicate value \"{}\"", word.text)).at(word.place));
                }
                set = set.with(protocol);
            }
        }
        Ok(ProtocolSet(set))
    }
}

/// The name of a file that is read with the configuration, or the contents themselves (`data:`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName {
    /// The full path of the file, or `data:` with the contents.
    pub path: String,
}

impl FileName {
    /// The name that a word gives.
    pub fn of(word: &Word, cx: &mut Cx) -> FileName {
        let is_data = word.text.starts_with("data:") || word.text.is_empty();
        FileName { path: if is_data { word.text.clone() } else { full_path(&word.text, cx) } }
    }
}

impl Value for FileName {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<FileName, Problem> {
        Ok(FileName::of(&directive.args[0], cx))
    }
}

/// The smallest size of a shared cache in nginx: 8 pages.
const SMALLEST_CACHE: u64 = 8 * 4096;

/// The value of `ssl_session_cache`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionCacheValue {
    /// Sessions are not kept, and clients are told so.
    Off,
    /// Sessions are not kept, and clients are told otherwise.
    None,
    /// Sessions are kept for this server: about so many.
    Builtin(usize),
    /// Sessions are kept in a zone of this name and size in bytes.
    Shared(String, u64),
}

/// How many sessions OpenSSL's own cache has unless it is told otherwise.
const BUILTIN: usize = 20 * 1024;

impl Value for SessionCacheValue {
    const SHAPE: Shape = Shape::between(1, 2, "off | none | [builtin[:size]] [shared:name:size]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<SessionCacheValue, Problem> {
        let mut value = SessionCacheValue::None;
        for word in &directive.args {
            let text = word.text.as_str();
            let builtin = |size: usize| SessionCacheValue::Builtin(size);
            value = match text {
                "off" => SessionCacheValue::Off,
                "none" => SessionCacheValue::None,
                // A zone serves all workers, so it is at least as good.
                "builtin" if matches!(value, SessionCacheValue::Shared(..)) => value,
                "builtin" => builtin(BUILTIN),
                _ => match (text.strip_prefix("builtin:"), text.strip_prefix("shared:")) {
                    (Some(size), _) => builtin(size.parse().map_err(|_| invalid("session", word))?),
                    (_, Some(zone)) => {
                        let (name, size) = zone_of(zone, "session", word)?;
                        SessionCacheValue::Shared(name, size)
                    }
                    _ => return Err(invalid("session", word)),
                },
            };
        }
        Ok(value)
    }
}

fn invalid(what: &str, word: &Word) -> Problem {
    Problem::new(format!("invalid {what} cache \"{}\"", word.text)).at(word.place)
}

/// The name and the size of `shared:name:size`.
fn zone_of(zone: &str, what: &str, word: &Word) -> Result<(String, u64), Problem> {
    let (name, size) = zone.split_once(':').filter(|(name, _)| !name.is_empty()).ok_or_else(|| invalid(what, word))?;
    let size = parse_size(size).ok_or_else(|| invalid(what, word))?;
    if size < SMALLEST_CACHE {
        return Err(Problem::new(format!("{what} cache \"{}\" is too small", word.text)).at(word.place));
    }
    Ok((name.to_owned(), size))
}

/// The value of `ssl_ocsp_cache`: the name and the size of a zone, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OcspCache(pub Option<(String, u64)>);

impl Value for OcspCache {
    const SHAPE: Shape = Shape::exactly(1, "off | shared:name:size");

    fn parse(directive: &Node, _: &mut Cx) -> Result<OcspCache, Problem> {
        let word = &directive.args[0];
        if word.text == "off" {
            return Ok(OcspCache(None));
        }
        let zone = word.text.strip_prefix("shared:").ok_or_else(|| invalid("OCSP", word))?;
        zone_of(zone, "OCSP", word).map(|zone| OcspCache(Some(zone)))
    }
}

/// The value of `ssl_conf_command`: a pair that OpenSSL's configuration could have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfCommand(pub Command);

impl Value for ConfCommand {
    const SHAPE: Shape = Shape::exactly(2, "name value");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ConfCommand, Problem> {
        let [name, value] = [&directive.args[0], &directive.args[1]];
        let parsed = conf_command::parse(&name.text, &value.text);
        let (command, remarks) = parsed.map_err(|refused| Problem::new(refused.to_string()).at(name.place))?;
        for remark in remarks {
            tell(remark, directive, cx);
        }
        Ok(ConfCommand(command))
    }
}

/// Warns of what a value asks for in vain; what loses nothing that matters is not told.
fn tell(remark: Remark, directive: &Node, cx: &mut Cx) {
    if remark.level == Level::Warn {
        cx.warn(Problem::warning(remark.text).at_node(directive));
    }
}

/// The value of `ssl_certificate_cache` and `proxy_ssl_certificate_cache`.
#[derive(Debug, Clone, Copy)]
pub struct CertificateCache;

impl Value for CertificateCache {
    const SHAPE: Shape = Shape::between(1, 3, "off | max=number [inactive=time] [valid=time]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<CertificateCache, Problem> {
        for word in &directive.args {
            let good = match word.text.split_once('=') {
                None => word.text == "off",
                Some(("max", number)) => number.parse::<u32>().is_ok_and(|number| number > 0),
                Some(("inactive" | "valid", time)) => freerun_conf::parse_seconds(time).is_some(),
                Some(_) => false,
            };
            if !good {
                return Err(Problem::invalid_parameter(directive, word));
            }
        }
        Ok(CertificateCache)
    }
}
