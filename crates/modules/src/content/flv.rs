//! `flv`: a Flash video from a given byte offset on.

use bytes::Bytes;
use freerun_conf::{SettingsSet, group, settings};
use freerun_http::body;
use freerun_http::content::aio;
use freerun_http::content::open;
use freerun_http::content::path;
use freerun_http::files::hot::Content;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{FileRange, LocalBoxFuture, Part};
use freerun_http::values::switch::Switch;
use freerun_proto::{Method, Status, uri};

use crate::content::mp4::pieces;
use crate::content::static_files::log_open_error;

settings! {
    /// Flash videos.
    #[module = "flv"]
    pub struct FlvSettings {
        /// Serves FLV files; with the argument `start=`, from that byte on, after the header of such a file.
        flv: Switch, in LOCATION, local;
    }
}

/// The head of an FLV file with sound and pictures, and the length of the tag before the first one.
const HEAD: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<FlvSettings>().flv.0
}

/// The module `flv`.
pub static MODULE: Module = Module {
    name: "flv",
    groups: &[group::<FlvSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(answer) }],
    content: &["flv"],
    ..Module::EMPTY
};

/// The requested offset; `None` for the beginning.
fn start(request: &Request) -> Option<u64> {
    let start = uri::argument(request.asked.args.as_deref()?, b"start")?;
    if start.is_empty() || !start.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(start).ok()?.parse().ok().filter(|start| *start > 0)
}

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Box::pin(std::future::ready(Outcome::Status(Status::METHOD_NOT_ALLOWED)));
    }
    let Some(start) = start(request).filter(|_| request.asked.path.last() != Some(&b'/')) else {
        // A complete video is served like any other file.
        return Box::pin(std::future::ready(Outcome::Declined));
    };
    Box::pin(async move {
        let name = path::file_name(request);
        let file = match open::open(request, &name).await {
            Ok(file) if file.meta.is_file() && start < file.meta.size => file,
            Ok(_) => return Outcome::Declined,
            Err(error) => return Outcome::Status(log_open_error(request, &name, &error)),
        };
        if let Err(status) = body::begin_discarding(request) {
            return Outcome::Status(status);
        }
        let len = file.meta.size - start;
        let rest = match &file.content {
            Content::Open(_) if aio::resolve(request).is_none() => {
                return Outcome::Status(Status::INTERNAL_SERVER_ERROR);
            }
            Content::Open(file) => Part::File(FileRange { file: file.clone(), offset: start, len }),
            Content::Bytes(bytes) => match usize::try_from(start) {
                Ok(start) => Part::Bytes(bytes.slice(start..)),
                Err(_) => return Outcome::Declined,
            },
        };
        let head = Part::Bytes(Bytes::from_static(HEAD));
        pieces(request, &file, vec![head, rest], HEAD.len() as u64 + len)
    })
}
