//! Addresses of directives in the public documentation of nginx, or of a module by others.

use crate::contexts::Contexts;
use crate::directive::{Directive, Fidelity};
use crate::directive_owners::{self, Origin};

/// The page of a directive in somebody's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manual {
    /// The module that has the directive, as its authors call it.
    pub module: &'static str,
    /// The address of the page; of nginx's, with the directive's place on it.
    pub url: String,
}

/// The beginning of the addresses of nginx's documentation.
const NGINX: &str = "https://nginx.org/en/docs/";

/// The module of directives at the main level and in `events`.
const CORE: &str = "ngx_core_module";

/// Modules by others whose directives freerun has: how the names of these begin, the module, its page.
static OTHERS: &[(&str, &str, &str)] = &[
    ("brotli", "ngx_brotli", "https://github.com/google/ngx_brotli"),
    ("dav_ext_", "nginx-dav-ext-module", "https://github.com/arut/nginx-dav-ext-module"),
    ("echo", "echo-nginx-module", "https://github.com/openresty/echo-nginx-module"),
    ("fancyindex", "ngx-fancyindex", "https://github.com/aperezdc/ngx-fancyindex"),
    ("geoip2", "ngx_http_geoip2_module", "https://github.com/leev/ngx_http_geoip2_module"),
    ("more_", "headers-more-nginx-module", "https://github.com/openresty/headers-more-nginx-module"),
    ("set_", "set-misc-nginx-module", "https://github.com/openresty/set-misc-nginx-module"),
    ("upstream_list", "set-misc-nginx-module", "https://github.com/openresty/set-misc-nginx-module"),
    (
        "subs_",
        "ngx_http_substitutions_filter_module",
        "https://github.com/yaoweibin/ngx_http_substitutions_filter_module",
    ),
    ("zstd", "zstd-nginx-module", "https://github.com/tokers/zstd-nginx-module"),
];

/// The contexts of `stream`.
const STREAM: Contexts = Contexts::STREAM.union(Contexts::STREAM_SERVER).union(Contexts::STREAM_UPSTREAM);

/// The module, or the program of others, that has a directive of this name; of several that share it, the most common one.
/// `None`: nobody documents it.
pub fn module_of(name: &str) -> Option<&'static str> {
    match directive_owners::origin(name)? {
        Origin::Nginx(module) | Origin::Plus(module) | Origin::Other(module, _) => Some(main_module(module)),
    }
}

/// The name of the module for the main level and for `events`, which have none of their own in the tables.
fn main_module(module: &'static str) -> &'static str {
    if matches!(module, "core" | "events") { CORE } else { module }
}

/// The page of a directive of the tables; none for freerun's own and for what nginx does not document.
pub fn manual(directive: &Directive) -> Option<Manual> {
    if directive.fidelity == Fidelity::Own {
        return None;
    }
    if let Some(module) = nginx_module(directive) {
        return Some(Manual { module, url: format!("{}#{}", page(module), directive.name) });
    }
    let (_, module, url) = OTHERS.iter().find(|(begin, ..)| directive.name.starts_with(begin))?;
    Some(Manual { module, url: (*url).to_owned() })
}

/// The page of a module of nginx.
pub fn page(module: &str) -> String {
    let folder = match module {
        module if module.starts_with("ngx_http_") => "http/",
        module if module.starts_with("ngx_stream_") => "stream/",
        module if module.starts_with("ngx_mail_") => "mail/",
        _ => "",
    };
    format!("{NGINX}{folder}{module}.html")
}

/// The module of nginx; of several that share the name, the one with the directive's contexts.
fn nginx_module(directive: &Directive) -> Option<&'static str> {
    let module = match directive_owners::origin(directive.name)? {
        Origin::Nginx(module) | Origin::Plus(module) => main_module(module),
        Origin::Other(..) => return None,
    };
    let only = |contexts: Contexts| contexts.contains(directive.contexts);
    Some(match directive.name {
        _ if only(Contexts::UPSTREAM) => "ngx_http_upstream_module",
        _ if only(Contexts::STREAM_UPSTREAM) => "ngx_stream_upstream_module",
        _ if only(Contexts::ACME_ISSUER) => "ngx_http_acme_module",
        _ if only(Contexts::OTEL_EXPORTER) => "ngx_otel_module",
        "return" if only(STREAM) => "ngx_stream_return_module",
        "set" if only(STREAM) => "ngx_stream_set_module",
        _ if only(STREAM) => in_stream(module),
        _ => module,
    })
}

/// The module of `stream` that has the directives of a module of `http`.
fn in_stream(module: &'static str) -> &'static str {
    match module {
        "ngx_http_access_module" => "ngx_stream_access_module",
        "ngx_http_core_module" => "ngx_stream_core_module",
        "ngx_http_geo_module" => "ngx_stream_geo_module",
        "ngx_http_limit_conn_module" => "ngx_stream_limit_conn_module",
        "ngx_http_log_module" => "ngx_stream_log_module",
        "ngx_http_map_module" => "ngx_stream_map_module",
        "ngx_http_num_map_module" => "ngx_stream_num_map_module",
        "ngx_http_proxy_module" => "ngx_stream_proxy_module",
        "ngx_http_realip_module" => "ngx_stream_realip_module",
        "ngx_http_split_clients_module" => "ngx_stream_split_clients_module",
        "ngx_http_ssl_module" => "ngx_stream_ssl_module",
        "ngx_http_upstream_module" => "ngx_stream_upstream_module",
        module => module,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::Shape;

    fn of(name: &'static str, contexts: Contexts) -> Option<(&'static str, String)> {
        let directive = Directive::structural(name, contexts, Shape::exactly(0, ""), "");
        manual(&directive).map(|manual| (manual.module, manual.url))
    }

    #[test]
    fn the_page_is_that_of_the_contexts() {
        let url = |module, url: &str| Some((module, url.to_owned()));
        let core = "https://nginx.org/en/docs/http/ngx_http_core_module.html";
        assert_eq!(of("root", Contexts::HTTP), url("ngx_http_core_module", &format!("{core}#root")));
        let core = "https://nginx.org/en/docs/stream/ngx_stream_core_module.html";
        assert_eq!(of("listen", Contexts::STREAM_SERVER), url("ngx_stream_core_module", &format!("{core}#listen")));
        let core = "https://nginx.org/en/docs/ngx_core_module.html";
        assert_eq!(of("worker_connections", Contexts::EVENTS), url(CORE, &format!("{core}#worker_connections")));
        let module = |name, contexts| of(name, contexts).map(|(module, _)| module);
        assert_eq!(module("server", Contexts::UPSTREAM), Some("ngx_http_upstream_module"));
        assert_eq!(module("server", Contexts::STREAM_UPSTREAM), Some("ngx_stream_upstream_module"));
        assert_eq!(module("server", Contexts::STREAM), Some("ngx_stream_core_module"));
        assert_eq!(module("return", Contexts::STREAM_SERVER), Some("ngx_stream_return_module"));
        assert_eq!(module("return", Contexts::SERVER), Some("ngx_http_rewrite_module"));
        assert_eq!(module("set", Contexts::STREAM_SERVER), Some("ngx_stream_set_module"));
        assert_eq!(module("ssl_trusted_certificate", Contexts::ACME_ISSUER), Some("ngx_http_acme_module"));
    }

    #[test]
    fn a_module_by_others_has_its_own_page() {
        let url = "https://github.com/openresty/set-misc-nginx-module";
        assert_eq!(of("set_md5", Contexts::SERVER), Some(("set-misc-nginx-module", url.to_owned())));
        assert_eq!(of("set_real_ip_from", Contexts::SERVER).unwrap().0, "ngx_http_realip_module");
        assert_eq!(of("nobody_has_this", Contexts::SERVER), None);
        let own = Directive::structural("root", Contexts::HTTP, Shape::exactly(0, ""), "");
        assert_eq!(manual(&own.fidelity(Fidelity::Own)), None);
    }
}
