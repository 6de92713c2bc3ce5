//! PROPFIND: the properties of a file, or of a folder and what is in it.

use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::content::{media_type, open, path};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};
use freerun_proto::uri::{EscapeSet, escape};
use freerun_proto::{HeaderId, Status, conditional, date};
use freerun_runtime::files::{Entries, Meta};
use freerun_runtime::loops;

use super::lock::{push_active, read_body};
use super::locks::{Lock, Locks};
use super::xml::{self, Property, PropfindRequest};
use super::{key, xml_response, zone};
use crate::html;

/// The most entries of a folder whose answer has a length.
const FEW: usize = 256;

/// The approximate size of a piece of a longer answer.
const PIECE: usize = 32 * 1024;

/// The most locks of a resource that an answer shows. A client that has one of them knows it.
const MOST_SHOWN: usize = 64;

/// Answers PROPFIND.
pub(super) async fn answer(request: &mut Request) -> Outcome {
    match properties(request).await {
        Ok(response) => response.into(),
        Err(status) => Outcome::Status(status),
    }
}

async fn properties(request: &mut Request) -> Result<Box<Response>, Status> {
    let lists = match request.head.value(HeaderId::Depth) {
        None | Some(b"0") => false,
        Some(b"1") => true,
        Some(b"infinity") => {
            log_error!(request, Error, "PROPFIND with infinite depth is not allowed");
            return Err(Status::FORBIDDEN);
        }
        Some(other) => {
            log_error!(request, Error, "client sent invalid \"Depth\" header: \"{}\"", text_of(other));
            return Err(Status::BAD_REQUEST);
        }
    };
    let text = read_body(request).await?;
    let asked = xml::propfind(&text).ok_or(Status::BAD_REQUEST)?;
    let file = path::file_name(request);
    let meta = open::stat(request, &file).await.map_err(|error| {
        let status = error.status();
        if !error.is_missing() {
            log_error!(request, Error, "the attributes of \"{}\" cannot be read", text_of(&file));
        }
        status
    })?;
    let entries = if lists && meta.is_dir() {
        let folder = if file.len() > 1 { key(file.clone()) } else { file.clone() };
        open::list(request, &folder).await?.entries
    } else {
        Entries::default()
    };
    let is_long = entries.len() > FEW;
    let mut answer = MultiStatus {
        asked,
        locks: zone(request).map(|zone| zone.locks.clone()),
        own: Some(meta),
        path: request.asked.path.clone(),
        file: key(file),
        request: request.fork(),
        entries,
        ended: false,
    };
    if !is_long {
        let mut out = Vec::new();
        while let Some(piece) = loops::measured(|| answer.next_piece()) {
            out.extend_from_slice(&piece);
            // Few entries may have much to say.
            loops::consume_budget().await;
        }
        return Ok(xml_response(Status::MULTI_STATUS, out));
    }
    let mut response = xml_response(Status::MULTI_STATUS, Vec::new());
    response.body = Body::Source(Box::new(answer));
    Ok(response)
}

/// An answer that is being written.
struct MultiStatus {
    asked: PropfindRequest,
    locks: Option<Arc<Locks>>,
    /// The attributes of what was asked for, until it is written.
    own: Option<Meta>,
    /// The path of the URI.
    path: Vec<u8>,
    /// The path of the file, without a slash at its end.
    file: Vec<u8>,
    request: Box<Request>,
    entries: Entries,
    ended: bool,
}

/// The resource that an answer is about.
struct Resource<'r> {
    meta: Meta,
    name: &'r [u8],
    /// The path of the URI.
    path: &'r [u8],
    /// The path of the file.
    file: &'r [u8],
    /// The locks that its folder has for what is in it; `None` if they are not known.
    above: Option<&'r [Arc<Lock>]>,
}

impl MultiStatus {
    fn next_piece(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let mut out = Vec::with_capacity(1024);
        if let Some(meta) = self.own.take() {
            out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"utf-8\" ?>\n<D:multistatus xmlns:D=\"DAV:\">\n");
            let name = key(self.path.clone());
            let name = name.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty()).unwrap_or(b"/");
            self.push(&Resource { meta, name, path: &self.path, file: &self.file, above: None }, &mut out);
        }
        let mut above = self.locks.as_ref().map(|locks| locks.covering(&self.file, loops::now())).unwrap_or_default();
        above.retain(|lock| lock.deep);
        while out.len() < PIECE {
            let Some(entry) = self.entries.next() else {
                self.ended = true;
                out.extend_from_slice(b"</D:multistatus>\n");
                break;
            };
            let slash: &[u8] = if self.path.ends_with(b"/") { b"" } else { b"/" };
            let end: &[u8] = if entry.meta.is_dir() { b"/" } else { b"" };
            let path = [&self.path, slash, &entry.name, end].concat();
            let file = [&self.file[..], b"/", &entry.name].concat();
            let above = Some(&above[..]);
            self.push(&Resource { meta: entry.meta, name: &entry.name, path: &path, file: &file, above }, &mut out);
        }
        Some(out)
    }

    fn push(&self, resource: &Resource<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<D:response>\n<D:href>");
        html::escape(&escape(EscapeSet::Uri, resource.path), out);
        out.extend_from_slice(b"</D:href>\n<D:propstat>\n<D:prop>\n");
        let mut missing = Vec::new();
        match &self.asked {
            PropfindRequest::All => {
                for property in Property::USUAL {
                    self.push_value(property, resource, out);
                }
            }
            PropfindRequest::Names => {
                for property in Property::USUAL {
                    out.extend_from_slice(format!("<D:{}/>\n", property.name()).as_bytes());
                }
            }
            PropfindRequest::These(properties, others) => {
                for property in properties {
                    if !self.push_value(*property, resource, out) {
                        missing.push(("DAV:", property.name()));
                    }
                }
                missing.extend(others.iter().map(|(namespace, name)| (namespace.as_str(), name.as_str())));
            }
        }
        out.extend_from_slice(b"</D:prop>\n<D:status>HTTP/1.1 200 OK</D:status>\n</D:propstat>\n");
        if !missing.is_empty() {
            out.extend_from_slice(b"<D:propstat>\n<D:prop>\n");
            for (namespace, name) in missing {
                out.push(b'<');
                html::escape(name.as_bytes(), out);
                out.extend_from_slice(b" xmlns=\"");
                html::escape(namespace.as_bytes(), out);
                out.extend_from_slice(b"\"/>\n");
            }
            out.extend_from_slice(b"</D:prop>\n<D:status>HTTP/1.1 404 Not Found</D:status>\n</D:propstat>\n");
        }
        out.extend_from_slice(b"</D:response>\n");
    }

    /// Appends a property; whether the resource has it.
    fn push_value(&self, property: Property, resource: &Resource<'_>, out: &mut Vec<u8>) -> bool {
        let is_folder = resource.meta.is_dir();
        let begin = out.len();
        out.extend_from_slice(format!("<D:{}>", property.name()).as_bytes());
        match property {
            Property::DisplayName => html::escape(resource.name, out),
            Property::ContentLength | Property::Etag | Property::ContentType if is_folder => {
                out.truncate(begin);
                return false;
            }
            Property::ContentLength => out.extend_from_slice(resource.meta.size.to_string().as_bytes()),
            Property::LastModified => out.extend_from_slice(&date::imf_fixdate(resource.meta.mtime)),
            Property::ResourceType if is_folder => out.extend_from_slice(b"<D:collection/>"),
            Property::ResourceType => {}
            Property::Etag => {
                let tag = conditional::etag(resource.meta.mtime, resource.meta.size);
                html::escape(tag.as_bytes(), out);
            }
            Property::ContentType => html::escape(&media_type(&self.request, resource.path), out),
            Property::SupportedLock => {
                if self.locks.is_some() {
                    out.push(b'\n');
                    for scope in ["exclusive", "shared"] {
                        let entry = format!(
                            "<D:lockentry>\n<D:lockscope><D:{scope}/></D:lockscope>\n<D:locktype><D:write/></D:locktype>\n</D:lockentry>\n"
                        );
                        out.extend_from_slice(entry.as_bytes());
                    }
                }
            }
            Property::LockDiscovery => {
                let now = loops::now();
                let found = |locks: &Arc<Locks>| match resource.above {
                    Some(above) => [&locks.exact(resource.file, now)[..], above].concat(),
                    None => locks.covering(resource.file, now),
                };
                let locks = self.locks.as_ref().map(found).unwrap_or_default();
                if locks.is_empty() {
                    out.truncate(begin);
                    out.extend_from_slice(b"<D:lockdiscovery/>\n");
                    return true;
                }
                out.push(b'\n');
                locks.iter().take(MOST_SHOWN).for_each(|lock| push_active(lock, out));
            }
        }
        out.extend_from_slice(format!("</D:{}>\n", property.name()).as_bytes());
        true
    }
}

impl BodySource for MultiStatus {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            // A long folder must not starve other tasks of the loop.
            loops::consume_budget().await;
            Ok(loops::measured(|| self.next_piece()).map(Bytes::from))
        })
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}
