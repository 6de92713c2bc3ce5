//! Workarounds for old browsers: error pages that are long enough to be shown (`msie_padding`), and pages that refresh
//! instead of redirects (`msie_refresh`).

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_proto::{HeaderId, Status};
use memchr::memmem;

use crate::request::Request;
use crate::request::response::{Body, Response};
use crate::settings::transfer::TransferSettings;

/// Internet Explorer shows its own page instead of an error page with less than 512 bytes.
const PADDING: &[u8] = b"<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n";
const LINES: usize = 6;

fn user_agent(request: &Request) -> Option<&[u8]> {
    let agent = request.head.value(HeaderId::UserAgent)?;
    // Old versions of Opera claim to be Internet Explorer.
    memmem::find(agent, b"Opera").is_none().then_some(agent)
}

/// Whether the `User-Agent` names Internet Explorer: as in nginx, at least three bytes have to follow the name.
fn names_msie(agent: &[u8]) -> bool {
    memmem::find(agent, b"MSIE ").is_some_and(|at| agent.len() >= at + b"MSIE ".len() + 3)
}

/// Whether the client is Internet Explorer, of any version (`$msie`).
pub fn is_msie(request: &Request) -> bool {
    user_agent(request).is_some_and(names_msie)
}

/// Pads a built-in error page, if `msie_padding` asks for that.
pub fn pad(request: &Request, status: u16, page: &mut String) {
    let settings = request.settings().get::<TransferSettings>();
    if status < 400 || !settings.msie_padding {
        return;
    }
    let concerns =
        user_agent(request).is_some_and(|agent| names_msie(agent) || memmem::find(agent, b"Chrome/").is_some());
    if concerns {
        for _ in 0..LINES {
            page.push_str(&text_of(PADDING));
        }
    }
}

/// Replaces a redirect by a page that refreshes, if `msie_refresh` asks for that.
pub fn refresh(request: &Request, response: &mut Response) {
    if !matches!(response.status, Status::MOVED_PERMANENTLY | Status::FOUND)
        || !response.special
        || !request.settings().get::<TransferSettings>().msie_refresh
        || !user_agent(request).is_some_and(names_msie)
    {
        return;
    }
    let Some(location) = response.location.take() else { return };
    let mut page = b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=".to_vec();
    for byte in &location[..] {
        match byte {
            0..=b' ' | b'"' | b'\'' | b'<' | b'>' | b'\\' | 0x7f.. => {
                page.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            byte => page.push(*byte),
        }
    }
    page.extend_from_slice(b"\"></head><body></body></html>\r\n");
    response.status = Status::OK;
    response.content_type = Bytes::from_static(b"text/html");
    response.body = Body::Bytes(page.into());
}
