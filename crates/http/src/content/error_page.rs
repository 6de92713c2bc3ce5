//! The built-in pages for errors and redirects.

use bytes::Bytes;
use freerun_proto::h1::CloseReason;
use freerun_proto::status::{self, Status};

use crate::content::msie;
use crate::request::Request;
use crate::request::core_settings::{CoreSettings, ServerTokens};
use crate::request::response::{Body, Response};

/// The name in `Server` and under error pages.
const SERVER: &str = "freerun";
/// The server's name with its version.
pub const SERVER_AND_VERSION: &str = concat!("freerun/", env!("CARGO_PKG_VERSION"));

/// The server's name in the form that `server_tokens` asks for.
pub fn server_name(tokens: ServerTokens) -> &'static str {
    match tokens {
        ServerTokens::Off => SERVER,
        ServerTokens::On | ServerTokens::Build => SERVER_AND_VERSION,
    }
}

/// Whether nginx closes the connection after this status: the bytes that follow cannot be trusted, or the server is in
/// trouble.
fn closes(status: Status) -> bool {
    matches!(status.code(), 400 | 413 | 414 | 495..=497 | 500 | 501)
}

/// The built-in response of a status. `error_page` may replace it.
pub fn built_in(request: &mut Request, status: Status) -> Box<Response> {
    if closes(status) {
        request.answered.persistence.close(CloseReason::Response);
    }
    let code = status.code();
    let page = status::page(code).map(|page| {
        let tokens = request.settings().get::<CoreSettings>().server_tokens;
        let mut html = page.html(server_name(tokens));
        msie::pad(request, code, &mut html);
        Bytes::from(html)
    });
    let mut response = match page {
        Some(page) => Response::new(status, Bytes::from_static(b"text/html"), Body::Bytes(page)),
        None => Response::new(status, Bytes::new(), Body::Empty),
    };
    response.special = true;
    response
}
