//! Who wants a change.

use freerun_http::request::Request;

/// Whether the request was made by a page of another server: a browser then says where the page is from (the field `Origin` of
/// the Fetch standard), and may have sent the credentials of its user, who knows nothing of it. Other programs say nothing.
pub fn is_of_other_origin(request: &Request) -> bool {
    let values = |name: &'static [u8]| request.head.values_named(name);
    if values(b"sec-fetch-site").any(|site| !matches!(site, b"same-origin" | b"none")) {
        return true;
    }
    let host = values(b"host").next().unwrap_or_default();
    let is_own = |origin: &[u8]| {
        let behind = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| origin.strip_prefix(scheme));
        behind.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
    };
    values(b"origin").any(|origin| !is_own(origin))
}
