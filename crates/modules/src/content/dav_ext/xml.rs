//! The bodies of PROPFIND and LOCK.

use quick_xml::NsReader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};

/// The namespace of WebDAV.
const DAV: &str = "DAV:";

/// The deepest nesting of elements.
const MAX_DEPTH: usize = 32;

/// The most properties that a request may name.
const MAX_PROPERTIES: usize = 256;

/// The longest text about the owner of a lock, in bytes.
const MAX_OWNER: usize = 512;

/// A property that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    DisplayName,
    ContentLength,
    LastModified,
    ResourceType,
    LockDiscovery,
    SupportedLock,
    Etag,
    ContentType,
}

impl Property {
    /// Properties for a client that names none, in their order.
    pub(super) const USUAL: [Property; 6] = [
        Property::DisplayName,
        Property::ContentLength,
        Property::LastModified,
        Property::ResourceType,
        Property::LockDiscovery,
        Property::SupportedLock,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Property::DisplayName => "displayname",
            Property::ContentLength => "getcontentlength",
            Property::LastModified => "getlastmodified",
            Property::ResourceType => "resourcetype",
            Property::LockDiscovery => "lockdiscovery",
            Property::SupportedLock => "supportedlock",
            Property::Etag => "getetag",
            Property::ContentType => "getcontenttype",
        }
    }

    fn of(name: &str) -> Option<Property> {
        let all = Property::USUAL.into_iter().chain([Property::Etag, Property::ContentType]);
        all.into_iter().find(|property| property.name() == name)
    }
}

/// The properties that a PROPFIND asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PropfindRequest {
    /// The values of all.
    All,
    /// The names of all.
    Names,
    /// These; others are named with their namespaces.
    These(Vec<Property>, Vec<(String, String)>),
}

/// The lock that a LOCK asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LockInfo {
    pub(super) shared: bool,
    pub(super) owner: String,
}

/// Walks through the elements: `enter` gets each with the local names of those around it, `text` the text in them.
fn walk(
    body: &[u8],
    mut enter: impl FnMut(&[String], Option<&str>, &str) -> Option<()>,
    mut text: impl FnMut(&[String], &str),
) -> Option<()> {
    let mut reader = NsReader::from_str(std::str::from_utf8(body).ok()?);
    let mut path: Vec<String> = Vec::new();
    let mut has_root = false;
    loop {
        let (resolved, event) = reader.read_resolved_event().ok()?;
        match event {
            Event::Start(element) => {
                begin(&mut path, &mut has_root, resolved, &element, &mut enter)?;
                if path.len() >= MAX_DEPTH {
                    return None;
                }
                path.push(element.local_name().as_ref().to_owned());
            }
            Event::Empty(element) => begin(&mut path, &mut has_root, resolved, &element, &mut enter)?,
            Event::End(_) => drop(path.pop()?),
            Event::Text(content) => {
                if path.is_empty() && !content.trim().is_empty() {
                    return None;
                }
                text(&path, &content);
            }
            Event::CData(content) => text(&path, &content),
            // A reference to a character; to anything else there is no declaration.
            Event::GeneralRef(name) => match name.resolve_char_ref().ok()? {
                Some(letter) => text(&path, letter.encode_utf8(&mut [0; 4])),
                None => match &*name {
                    "lt" => text(&path, "<"),
                    "gt" => text(&path, ">"),
                    "amp" => text(&path, "&"),
                    "quot" => text(&path, "\""),
                    "apos" => text(&path, "'"),
                    _ => return None,
                },
            },
            Event::DocType(_) => return None,
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => return (has_root && path.is_empty()).then_some(()),
        }
    }
}

fn begin(
    path: &mut [String],
    has_root: &mut bool,
    resolved: ResolveResult<'_>,
    element: &BytesStart<'_>,
    enter: &mut impl FnMut(&[String], Option<&str>, &str) -> Option<()>,
) -> Option<()> {
    if path.is_empty() && std::mem::replace(has_root, true) {
        return None;
    }
    for attribute in element.attributes() {
        let attribute = attribute.ok()?;
        // A prefix cannot stand for no namespace.
        if attribute.key.as_ref().starts_with("xmlns:") && attribute.value.is_empty() {
            return None;
        }
    }
    let namespace = match resolved {
        ResolveResult::Bound(Namespace(namespace)) => Some(namespace),
        ResolveResult::Unbound => None,
        ResolveResult::Unknown(_) => return None,
    };
    enter(path, namespace, element.local_name().as_ref())
}

/// Reads the body of a PROPFIND; `None` if it is invalid.
pub(super) fn propfind(body: &[u8]) -> Option<PropfindRequest> {
    if body.is_empty() {
        return Some(PropfindRequest::All);
    }
    let mut asked = None;
    let (mut known, mut others) = (Vec::new(), Vec::new());
    walk(
        body,
        |path, namespace, name| {
            let is_dav = namespace == Some(DAV);
            match path.len() {
                0 if is_dav && name == "propfind" => {}
                0 => return None,
                1 if is_dav => match name {
                    "allprop" => asked = Some(PropfindRequest::All),
                    "propname" => asked = Some(PropfindRequest::Names),
                    "prop" => asked = Some(PropfindRequest::These(Vec::new(), Vec::new())),
                    _ => {}
                },
                2 if path[1] == "prop" => {
                    if known.len() + others.len() >= MAX_PROPERTIES {
                        return None;
                    }
                    match Property::of(name).filter(|_| is_dav) {
                        Some(property) if known.contains(&property) => {}
                        Some(property) => known.push(property),
                        None => {
                            let namespace = unescape(namespace.unwrap_or_default()).ok()?;
                            others.push((namespace.into_owned(), name.to_owned()));
                        }
                    }
                }
                _ => {}
            }
            Some(())
        },
        |_, _| {},
    )?;
    match asked? {
        PropfindRequest::These(..) => Some(PropfindRequest::These(known, others)),
        asked => Some(asked),
    }
}

/// Reads the body of a LOCK; `None` if it is invalid, or asks for no lock for writing.
pub(super) fn lock_info(body: &[u8]) -> Option<LockInfo> {
    let (mut shared, mut writes, mut owner) = (None, false, String::new());
    walk(
        body,
        |path, namespace, name| {
            let is_dav = namespace == Some(DAV);
            match (path.len(), name) {
                (0, "lockinfo") if is_dav => {}
                (0, _) => return None,
                (2, "exclusive") if path[1] == "lockscope" && is_dav => shared = Some(false),
                (2, "shared") if path[1] == "lockscope" && is_dav => shared = Some(true),
                (2, "write") if path[1] == "locktype" && is_dav => writes = true,
                _ => {}
            }
            Some(())
        },
        |path, text| {
            if path.get(1).is_some_and(|name| name == "owner") && owner.len() + text.len() <= MAX_OWNER {
                owner.push_str(text);
            }
        },
    )?;
    Some(LockInfo { shared: shared.filter(|_| writes)?, owner: owner.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_asked_for() {
        let asked = |inside: &str| {
            propfind(format!("<?xml version=\"1.0\"?><x:propfind xmlns:x='DAV:'>{inside}</x:propfind>").as_bytes())
        };
        assert_eq!(propfind(b""), Some(PropfindRequest::All));
        assert_eq!(asked("<x:allprop/>"), Some(PropfindRequest::All));
        assert_eq!(asked("<x:propname/>"), Some(PropfindRequest::Names));
        let other = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        assert_eq!(
            asked("<x:prop><x:getetag/><x:new/><y:getetag xmlns:y='urn:y'></y:getetag><z xmlns=''/></x:prop>"),
            Some(PropfindRequest::These(
                vec![Property::Etag],
                vec![other("DAV:", "new"), other("urn:y", "getetag"), other("", "z")]
            ))
        );
    }

    #[test]
    fn what_is_no_such_body_is_refused() {
        for text in [
            "garbage",
            "<a/>",
            "<propfind/>",
            "<D:propfind xmlns:D='DAV:'/>",
            "<D:propfind xmlns:D='DAV:'><D:allprop/>",
            "<D:propfind xmlns:D='DAV:'><D:allprop></D:propfind>",
            "<D:propfind><D:allprop/></D:propfind>",
            "<D:propfind xmlns:D='DAV:'><D:prop><b:c xmlns:b=''/></D:prop></D:propfind>",
            "<!DOCTYPE x [<!ENTITY a 'b'>]><D:propfind xmlns:D='DAV:'><D:allprop/></D:propfind>",
            "<D:propfind xmlns:D='DAV:'><D:allprop/></D:propfind><x/>",
        ] {
            assert_eq!(propfind(text.as_bytes()), None, "{text}");
        }
        let deep = format!("<D:propfind xmlns:D='DAV:'>{}", "<a>".repeat(100_000));
        assert_eq!(propfind(deep.as_bytes()), None);
    }

    #[test]
    fn locks_are_asked_for() {
        let info = |scope: &str, owner: &str| {
            let text = format!(
                "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>{owner}</D:lockinfo>"
            );
            lock_info(text.as_bytes())
        };
        let wanted = |shared, owner: &str| Some(LockInfo { shared, owner: owner.to_owned() });
        assert_eq!(info("exclusive", "<D:owner> me &amp; &#65; </D:owner>"), wanted(false, "me & A"));
        assert_eq!(info("shared", "<D:owner><D:href>http://me/</D:href></D:owner>"), wanted(true, "http://me/"));
        assert_eq!(info("other", ""), None);
        assert_eq!(lock_info(b"<D:lockinfo xmlns:D='DAV:'/>"), None);
        assert_eq!(lock_info(b""), None);
        assert_eq!(info("shared", "<D:owner>&nothing;</D:owner>"), None);
    }
}
