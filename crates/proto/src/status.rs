//! Statuses, their status lines and the built-in error pages, with nginx's words.

use std::fmt::{self, Debug, Display, Formatter};

/// The status of a response or a session: a code of RFC 9110 section 15, or one of nginx's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

impl Status {
    /// The status with this code, which may be any number that a configuration or another server names.
    pub const fn new(code: u16) -> Status {
        Status(code)
    }

    /// The code.
    pub const fn code(self) -> u16 {
        self.0
    }
}

/// The codes of RFC 9110 and its extensions that this server answers with.
impl Status {
    /// Another protocol follows on the connection.
    pub const SWITCHING_PROTOCOLS: Status = Status(101);
    /// The request has succeeded.
    pub const OK: Status = Status(200);
    /// A resource was made.
    pub const CREATED: Status = Status(201);
    /// The request will be carried out, and is not yet.
    pub const ACCEPTED: Status = Status(202);
    /// The request has succeeded, and there is nothing to send.
    pub const NO_CONTENT: Status = Status(204);
    /// The body is a part of the representation, or several parts.
    pub const PARTIAL_CONTENT: Status = Status(206);
    /// The body has a status for each of several resources (RFC 4918).
    pub const MULTI_STATUS: Status = Status(207);
    /// The resource has another URI for ever.
    pub const MOVED_PERMANENTLY: Status = Status(301);
    /// The resource has another URI for now.
    pub const FOUND: Status = Status(302);
    /// The client has the representation already.
    pub const NOT_MODIFIED: Status = Status(304);
    /// The request is malformed.
    pub const BAD_REQUEST: Status = Status(400);
    /// The client has to say who it is.
    pub const UNAUTHORIZED: Status = Status(401);
    /// The client may not have this.
    pub const FORBIDDEN: Status = Status(403);
    /// There is no such resource.
    pub const NOT_FOUND: Status = Status(404);
    /// The resource has no such method.
    pub const METHOD_NOT_ALLOWED: Status = Status(405);
    /// The client has to say who it is before a tunnel is opened for it.
    pub const PROXY_AUTHENTICATION_REQUIRED: Status = Status(407);
    /// The client has not sent its request in time. The connection is closed without a response.
    pub const REQUEST_TIMEOUT: Status = Status(408);
    /// The request conflicts with the state of the resource.
    pub const CONFLICT: Status = Status(409);
    /// A condition of the request does not hold.
    pub const PRECONDITION_FAILED: Status = Status(412);
    /// The body of the request is too large.
    pub const CONTENT_TOO_LARGE: Status = Status(413);
    /// The request line is too long.
    pub const URI_TOO_LONG: Status = Status(414);
    /// The body of the request has a form that the resource does not take.
    pub const UNSUPPORTED_MEDIA_TYPE: Status = Status(415);
    /// The content has none of the ranges.
    pub const RANGE_NOT_SATISFIABLE: Status = Status(416);
    /// The connection is not for this server (RFC 9110 section 15.5.20).
    pub const MISDIRECTED_REQUEST: Status = Status(421);
    /// The resource is locked (RFC 4918).
    pub const LOCKED: Status = Status(423);
    /// An error of this server.
    pub const INTERNAL_SERVER_ERROR: Status = Status(500);
    /// A need of the request that this server cannot meet.
    pub const NOT_IMPLEMENTED: Status = Status(501);
    /// The server behind has failed.
    pub const BAD_GATEWAY: Status = Status(502);
    /// The server has no room for the request now.
    pub const SERVICE_UNAVAILABLE: Status = Status(503);
    /// The server behind has not answered in time.
    pub const GATEWAY_TIMEOUT: Status = Status(504);
    /// A version of the protocol that this server does not speak.
    pub const VERSION_NOT_SUPPORTED: Status = Status(505);
    /// There is no room for the content (RFC 4918).
    pub const INSUFFICIENT_STORAGE: Status = Status(507);
}

/// The codes of nginx's own. `error_page` and the log know them.
impl Status {
    /// The connection is closed without a response: `return 444`.
    pub const NO_RESPONSE: Status = Status(444);
    /// The head of the request is too large. It is sent as 400.
    pub const HEAD_TOO_LARGE: Status = Status(494);
    /// The client's certificate is not trusted. It is sent as 400.
    pub const CERTIFICATE_ERROR: Status = Status(495);
    /// The client has sent no certificate. It is sent as 400.
    pub const CERTIFICATE_REQUIRED: Status = Status(496);
    /// The client has sent plain HTTP to a socket with TLS. It is sent as 400.
    pub const PLAIN_HTTP_TO_TLS: Status = Status(497);
    /// The client has closed the connection. It is never sent.
    pub const CLIENT_CLOSED_REQUEST: Status = Status(499);
}

impl Display for Status {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, out)
    }
}

impl Debug for Status {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, out)
    }
}

/// The text of a status line after the version (`404 Not Found`) for the codes that nginx has words for. Other codes
/// are printed as the bare number and a space.
pub const fn status_text(code: u16) -> Option<&'static str> {
    Some(match code {
        200 => "200 OK",
        201 => "201 Created",
        202 => "202 Accepted",
        204 => "204 No Content",
        206 => "206 Partial Content",
        301 => "301 Moved Permanently",
        302 => "302 Moved Temporarily",
        303 => "303 See Other",
        304 => "304 Not Modified",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Unauthorized",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        407 => "407 Proxy Authentication Required",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}

/// The reason phrase alone (`Not Found`); empty for codes without one.
pub fn reason(code: u16) -> &'static str {
    status_text(code).map_or("", |text| &text[4..])
}

/// The code that a client is sent for nginx's own codes: 494 to 497 become 400.
pub const fn sent_code(code: u16) -> u16 {
    match code {
        494..=497 => 400,
        other => other,
    }
}

/// A built-in error page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// The title of the page, which is not always the status line's text.
    pub title: &'static str,
    /// A line between the heading and the rule, or an empty text.
    detail: &'static str,
    heading: &'static str,
}

/// The built-in page of a code; `None` if nginx has none and answers without a body.
pub const fn page(code: u16) -> Option<Page> {
    let (title, heading, detail) = match code {
        302 => ("302 Found", "302 Found", ""),
        401 => ("401 Authorization Required", "401 Authorization Required", ""),
        494 => ("400 Request Header Or Cookie Too Large", "400 Bad Request", "Request Header Or Cookie Too Large"),
        495 => ("400 The SSL certificate error", "400 Bad Request", "The SSL certificate error"),
        496 => ("400 No required SSL certificate was sent", "400 Bad Request", "No required SSL certificate was sent"),
        497 => (
            "400 The plain HTTP request was sent to HTTPS port",
            "400 Bad Request",
            "The plain HTTP request was sent to HTTPS port",
        ),
        301 | 303 | 307 | 308 | 400..=599 => match status_text(code) {
            Some(text) => (text, text, ""),
            None => return None,
        },
        _ => return None,
    };
    Some(Page { title, detail, heading })
}

/// The text after a page of status 400 or more, for browsers that would show their own page instead: `msie_padding`.
pub const MSIE_PADDING: &str = "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n\
<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n\
<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n\
<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n\
<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n\
<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n";

impl Page {
    /// The page's HTML; `server` is the text under the rule (`freerun/1.0`, or without the version).
    pub fn html(&self, server: &str) -> String {
        let Page { title, heading, detail } = self;
        let detail = if detail.is_empty() { String::new() } else { format!("<center>{detail}</center>\r\n") };
        format!(
            "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{heading}</h1></center>\r\n\
             {detail}<hr><center>{server}</center>\r\n</body>\r\n</html>\r\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_as_its_code() {
        assert_eq!(Status::NOT_FOUND.to_string(), "404");
        assert_eq!(Status::new(599).code(), 599);
        assert_eq!(Status::new(404), Status::NOT_FOUND);
    }

    #[test]
    fn texts_begin_with_their_code() {
        for code in 100..600 {
            if let Some(text) = status_text(code) {
                assert!(text.starts_with(&format!("{code} ")), "{text}");
                assert_eq!(format!("{code} {}", reason(code)), text);
            }
        }
        assert_eq!(reason(418), "");
    }

    /// Lengths of nginx 1.22.1's pages, whose name is 12 bytes long.
    #[test]
    fn pages_have_nginx_lengths() {
        for (code, length) in [
            (302, 145),
            (400, 157),
            (401, 179),
            (404, 153),
            (416, 197),
            (494, 233),
            (495, 215),
            (496, 237),
            (497, 255),
            (503, 197),
            (308, 171),
        ] {
            assert_eq!(page(code).unwrap().html("nginx/1.22.1").len(), length, "{code}");
        }
        assert_eq!(MSIE_PADDING.len() + 153, 555);
        for code in [200, 204, 206, 304, 418, 431, 511] {
            assert_eq!(page(code), None);
        }
        assert_eq!(sent_code(494), 400);
    }
}
