//! Sources of keys: files and answers to subrequests, which are cached for a while if that is configured.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::log_error;
use freerun_http::phases::subrequest::{subrequest, target};
use freerun_http::request::Request;
use freerun_http::request::response::Body;
use freerun_proto::Status;
use freerun_runtime::loops;

use super::JwtSettings;
use super::keys::{VerificationKey, parse};
use crate::small_file;

/// The largest set of keys, in bytes.
const MAX_SET: u64 = 1 << 20;

/// The most sets that a loop keeps.
const MAX_KEPT: usize = 64;

pub(super) type Keys = Arc<Vec<VerificationKey>>;

/// The sets that a loop keeps, each with the end of its time.
#[derive(Default)]
struct KeySetCache(RefCell<HashMap<KeySetSource, (Instant, Keys)>>);

/// A source of a set of keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum KeySetSource {
    File(Vec<u8>),
    /// A URI at a location, which says what it means there.
    Uri(u64, Vec<u8>),
}

impl KeySetCache {
    fn find(&self, source: &KeySetSource) -> Option<Keys> {
        let kept = self.0.borrow();
        kept.get(source).filter(|(end, _)| *end > loops::now()).map(|(_, keys)| keys.clone())
    }

    fn keep(&self, source: KeySetSource, keys: &Keys, time: Duration) {
        let Some(end) = loops::now().checked_add(time) else { return };
        let mut kept = self.0.borrow_mut();
        if kept.len() >= MAX_KEPT && !kept.contains_key(&source) {
            let oldest = kept.iter().min_by_key(|(_, (end, _))| *end).map(|(source, _)| source.clone());
            oldest.map(|oldest| kept.remove(&oldest));
        }
        kept.insert(source, (end, keys.clone()));
    }
}

/// All keys of a location.
///
/// # Errors
/// The status of the answer; why is logged.
pub(super) async fn all(request: &mut Request, settings: &JwtSettings) -> Result<Vec<Keys>, Status> {
    let paths = request.generation.paths.clone();
    let files = settings.auth_jwt_key_file.iter();
    let mut sources: Vec<KeySetSource> =
        files.map(|path| KeySetSource::File(paths.beside_configuration(&path.render(request)))).collect();
    let place = request.place.location.identity;
    sources.extend(
        settings.auth_jwt_key_request.iter().map(|uri| KeySetSource::Uri(place, uri.render(request).into_owned())),
    );
    if sources.is_empty() {
        log_error!(request, Error, "there are no keys for \"auth_jwt\"");
        return Err(Status::INTERNAL_SERVER_ERROR);
    }
    let cache = request.client.loop_state.modules.get::<KeySetCache>();
    let time = settings.auth_jwt_key_cache;
    let mut all = Vec::with_capacity(sources.len());
    for source in sources {
        if let Some(keys) = cache.find(&source).filter(|_| !time.is_zero()) {
            all.push(keys);
            continue;
        }
        let text = match &source {
            KeySetSource::File(path) => small_file::read(request, path, MAX_SET).await,
            KeySetSource::Uri(_, uri) => ask(request, uri).await,
        };
        let keys = text.and_then(|text| parse(&text).map_err(|error| format!("{error}: {source:?}")));
        let keys = keys.map(Arc::new).map_err(|why| {
            log_error!(request, Error, "{why}");
            Status::INTERNAL_SERVER_ERROR
        })?;
        if !time.is_zero() {
            cache.keep(source, &keys, time);
        }
        all.push(keys);
    }
    Ok(all)
}

/// The body of the answer to a subrequest.
async fn ask(request: &Request, uri: &[u8]) -> Result<Bytes, String> {
    let shown = text_of(uri).into_owned();
    let (path, args) = target(b"", uri).map_err(|_| format!("unsafe URI \"{shown}\" was detected"))?;
    let asking = subrequest(request, path, args).map_err(|refused| refused.to_string())?;
    let mut answer = asking.await;
    let status = answer.status();
    let body = answer.response.as_mut().map(|response| std::mem::replace(&mut response.body, Body::Empty));
    let mut out = Vec::new();
    let mut read = Err(format!("the keys of \"{shown}\" were answered with {status}"));
    if let Some(body) = body.filter(|_| status == Status::OK) {
        let mut source = body.into_source(&answer.request);
        read = loop {
            match source.next().await {
                Ok(Some(piece)) if (out.len() + piece.len()) as u64 > MAX_SET => {
                    break Err(format!("the keys of \"{shown}\" are more than {MAX_SET} bytes"));
                }
                Ok(Some(piece)) => out.extend_from_slice(&piece),
                Ok(None) => break Ok(()),
                Err(error) => break Err(format!("reading the keys of \"{shown}\" failed: {error}")),
            }
        };
    }
    answer.finish();
    read.map(|()| out.into())
}
