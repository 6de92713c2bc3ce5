//! `autoindex`: the contents of a folder, as a page or as data.

mod render;

use bytes::Bytes;
use freerun_conf::{SettingsSet, group, keyword_enum, settings, text_of};
use freerun_http::body;
use freerun_http::content::{open, path};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};
use freerun_proto::{Method, Status, uri};
use freerun_runtime::files;
use freerun_runtime::log::clock;
use freerun_runtime::loops;

use crate::filters::charset;
use render::{Listing, Style};

keyword_enum! {
    /// The form of a listing: `autoindex_format`.
    pub enum Format {
        /// An HTML page.
        Html = "html",
        /// XML.
        Xml = "xml",
        /// JSON.
        Json = "json",
        /// JSON, or a call of the function named by the argument `callback`.
        Jsonp = "jsonp",
    }
}

settings! {
    /// Listings of folders.
    #[module = "autoindex"]
    pub struct AutoindexSettings {
        /// Lists a folder that has no index file. Names that begin with a dot are left out.
        autoindex: bool = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("a page with names in UTF-8, and without `charset`, says that it is in UTF-8; a folder with more than 262144 entries is answered with 500; when listings that are being sent take 256 MB, the next is 503");
        /// The format of the listing.
        autoindex_format: Format = "html", in HTTP | SERVER | LOCATION;
        /// Whether pages show times in local time.
        autoindex_localtime: bool = "off", in HTTP | SERVER | LOCATION;
        /// Whether pages show exact sizes, or rounded ones such as `12K`.
        autoindex_exact_size: bool = "on", in HTTP | SERVER | LOCATION;
    }
}

/// The module `autoindex`. It stands after `index`.
pub static MODULE: Module = Module {
    name: "autoindex",
    groups: &[group::<AutoindexSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(answer) }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<AutoindexSettings>().autoindex
}

/// The longest name of a callback function.
const MAX_CALLBACK: usize = 128;

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        if request.asked.path.last() != Some(&b'/') || !matches!(request.asked.method, Method::Get | Method::Head) {
            return Outcome::Declined;
        }
        if let Err(status) = body::begin_discarding(request) {
            return Outcome::Status(status);
        }
        let format = request.settings().get::<AutoindexSettings>().autoindex_format;
        let callback = match callback(request, format) {
            Ok(callback) => callback,
            Err(status) => return Outcome::Status(status),
        };
        let mut folder = path::file_name(request);
        if folder.last() != Some(&b'/') && folder != path::NO_NAME {
            // For the `alias` of a regular expression without its slash, nginx leaves the last letter out.
            let name = text_of(&folder);
            log_error!(request, Error, "\"{name}\" is no folder's name without a slash at its end");
            return Outcome::Status(Status::NOT_FOUND);
        }
        if folder.len() > 1 {
            folder.pop();
        }
        let files::Listing { entries, encoding } = match open::list(request, &folder).await {
            Ok(listing) => listing,
            Err(status) => return Outcome::Status(status),
        };
        let mut response = Response::new(Status::OK, &b"text/html"[..], Body::Empty);
        match format {
            Format::Html => {}
            Format::Xml => {
                response.content_type = Bytes::from_static(b"text/xml");
                response.charset = Some(Bytes::from_static(b"utf-8"));
            }
            Format::Json | Format::Jsonp if callback.is_none() => {
                response.content_type = Bytes::from_static(b"application/json");
            }
            Format::Json | Format::Jsonp => {
                response.content_type = Bytes::from_static(b"application/javascript");
            }
        }
        if format == Format::Html && charset::of(request, &response).is_none() {
            // Without a character set a browser guesses, and shows names with other letters than ASCII's wrongly.
            let is_utf8 = encoding.max(files::Encoding::of(&request.asked.path)) == files::Encoding::Utf8;
            response.charset = is_utf8.then_some(Bytes::from_static(b"utf-8"));
        }
        let settings = request.settings().get::<AutoindexSettings>();
        let utf8 = charset::of(request, &response).is_some_and(|name| name.eq_ignore_ascii_case(b"utf-8"));
        let style = Style {
            format,
            utf8,
            offset: if settings.autoindex_localtime { clock::utc_offset() } else { 0 },
            exact: settings.autoindex_exact_size,
            path: request.asked.path.clone(),
            callback,
        };
        response.body = Body::Source(Box::new(Pages(Listing::new(style, entries))));
        response.into()
    })
}

/// The function of `jsonp` that the client names.
fn callback(request: &Request, format: Format) -> Result<Option<Vec<u8>>, Status> {
    let named = request.asked.args.as_deref().and_then(|args| uri::argument(args, b"callback"));
    let Some(name) = named.filter(|name| format == Format::Jsonp && !name.is_empty()) else { return Ok(None) };
    let name_of_a_function = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    if name.len() > MAX_CALLBACK || !name.iter().all(name_of_a_function) {
        let what = if name.len() > MAX_CALLBACK { "too long" } else { "invalid" };
        log_error!(request, Info, "client sent {what} callback name: \"{}\"", text_of(name));
        return Err(Status::BAD_REQUEST);
    }
    Ok(Some(name.to_vec()))
}

/// A listing that is sent in pieces. As in nginx its length is not announced.
struct Pages(Listing);

impl BodySource for Pages {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            // A long listing must not starve other tasks of the loop.
            loops::consume_budget().await;
            Ok(loops::measured(|| self.0.next_piece()).map(Bytes::from))
        })
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}
