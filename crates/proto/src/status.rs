//! Status lines and the built-in error pages, with nginx's words.

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
