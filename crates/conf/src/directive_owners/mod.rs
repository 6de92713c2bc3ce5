//! The directives that other programs have: a configuration may contain them though freerun may lack them.

mod nginx;
mod others;

use std::collections::HashMap;
use std::sync::LazyLock;

/// Owner of a directive that freerun lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// nginx, in this module.
    Nginx(&'static str),
    /// NGINX Plus, in this module.
    Plus(&'static str),
    /// A module or a program of others, with this name; what does the same here, if anything does.
    Other(&'static str, &'static str),
}

/// The owner of a directive of this name; nginx comes first.
pub(crate) fn origin(name: &str) -> Option<Origin> {
    static FREE: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| modules_by_name(nginx::FREE));
    static COMMERCIAL: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| modules_by_name(nginx::COMMERCIAL));
    let free = FREE.get(name).map(|module| Origin::Nginx(module));
    free.or_else(|| COMMERCIAL.get(name).map(|module| Origin::Plus(module)))
        .or_else(|| others::find(name).map(|other| Origin::Other(other.program, other.instead)))
}

/// The first module of a table that has each name.
fn modules_by_name(table: &'static [(&'static str, &'static str)]) -> HashMap<&'static str, &'static str> {
    let mut by_name = HashMap::new();
    for (module, names) in table {
        for name in names.split_whitespace() {
            by_name.entry(name).or_insert(*module);
        }
    }
    by_name
}

/// Every module of nginx with its directives, sorted by name; the modules in a fixed order.
pub fn modules() -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str>)> {
    nginx::FREE.iter().map(|(module, names)| (*module, names.split_whitespace()))
}

/// Every module of NGINX Plus with its directives, as [`modules`]: of a module that nginx has, those that it lacks there.
pub fn commercial() -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static str>)> {
    nginx::COMMERCIAL.iter().map(|(module, names)| (*module, names.split_whitespace()))
}

/// Directives that earlier versions of nginx had and 1.31.5 does not have, and their replacements.
pub(crate) static REMOVED: &[(&str, &str)] = &[
    ("limit_zone", "nginx removed it; write \"limit_conn_zone $variable zone=name:size;\""),
    ("spdy_chunk_size", "nginx replaced SPDY by HTTP/2; write \"http2_chunk_size\""),
    ("spdy_headers_comp", "nginx replaced SPDY by HTTP/2"),
    ("ssl", "nginx removed it in 1.25.1; write \"listen address ssl;\""),
];

/// Modules of nginx that freerun will not have, and their replacements.
pub(crate) static INSTEAD: &[(&str, &str)] = &[(
    "ngx_http_geoip_module",
    "nginx has this directive for the .dat databases, which are no longer made and which freerun does not read; write \
     \"geoip2 file.mmdb { $variable path; }\" with a database of today, \"geoip2_proxy\" and \"geoip2_proxy_recursive\"",
)];

/// Directives of nginx that freerun will not have, and the alternatives.
pub(crate) static WITHOUT: &[(&str, &str)] = &[(
    "ssl_engine",
    "nginx gives the work of TLS to an engine of OpenSSL with it, which OpenSSL 3 no longer makes and freerun has no use for; \
     remove the line",
)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        let mut all = Vec::new();
        let free = modules().map(|(module, names)| (module, names.collect::<Vec<&str>>()));
        let paid = commercial().map(|(module, names)| (module, names.collect::<Vec<&str>>()));
        for (module, names) in free.chain(paid) {
            assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{module}");
            all.extend(names);
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(all.len() > 800);
        for name in others::names() {
            assert!(all.binary_search(&name).is_err(), "{name} is nginx's");
        }
    }

    #[test]
    fn a_directive_is_found_by_the_whole_name() {
        assert_eq!(origin("sendfile"), Some(Origin::Nginx("ngx_http_core_module")));
        assert_eq!(origin("js_content"), Some(Origin::Nginx("ngx_http_js_module")));
        assert_eq!(origin("zone_sync"), Some(Origin::Plus("ngx_stream_zone_sync_module")));
        assert!(matches!(origin("content_by_lua_block"), Some(Origin::Other("lua-nginx-module (OpenResty)", _))));
        assert!(matches!(origin("lua_package_path"), Some(Origin::Other("lua-nginx-module (OpenResty)", _))));
        assert!(matches!(origin("check_status"), Some(Origin::Other(_, instead)) if instead.contains("health_check")));
        assert_eq!(origin("sendfil"), None);
        assert_eq!(origin("lua"), None);
        assert_eq!(origin(""), None);
    }
}
