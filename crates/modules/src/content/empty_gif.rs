//! `empty_gif`: a picture of one transparent pixel.

use bytes::Bytes;
use freerun_conf::{SettingsSet, group, settings};
use freerun_http::body;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, Response};
use freerun_http::values::switch::Present;
use freerun_proto::{Method, Status};

settings! {
    /// An empty picture.
    #[module = "empty_gif"]
    pub struct EmptyGifSettings {
        /// Answers with a picture of one transparent pixel.
        empty_gif: Present<0>, in LOCATION, local;
    }
}

/// The module `empty_gif`.
pub static MODULE: Module = Module {
    name: "empty_gif",
    groups: &[group::<EmptyGifSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Now(answer) }],
    content: &["empty_gif"],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<EmptyGifSettings>().empty_gif.0
}

/// The picture: GIF89a, 1 by 1, two colours (the second is transparent), and one pixel of the second.
static PIXEL: &[u8; 43] = b"GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff\
    !\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;";

/// The value of `Last-Modified`, for conditional requests: Mon, 28 Sep 1970 06:00:00 GMT.
const MODIFIED: i64 = 23_349_600;

fn answer(request: &mut Request) -> Outcome {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Outcome::Status(Status::METHOD_NOT_ALLOWED);
    }
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let mut response = Response::new(Status::OK, &b"image/gif"[..], Body::Bytes(Bytes::from_static(PIXEL)));
    response.last_modified = Some(MODIFIED);
    response.into()
}
