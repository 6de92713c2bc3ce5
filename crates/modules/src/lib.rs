//! The HTTP modules, one file each, in folders by phase, and the list that registers them.

pub mod access;
pub mod acme;
pub mod content;
mod dates;
pub mod filters;
mod html;
#[cfg(test)]
mod in_process;
pub mod log;
#[cfg(test)]
mod multiplexed_tests;
pub mod otel;
pub mod postread;
pub mod preaccess;
pub mod precontent;
pub mod rewrite;
mod small_file;
#[doc(hidden)]
pub mod testing;
pub mod variables;
mod zone_sync;

use freerun_http::module::Module;
use freerun_proxy::modules as proxy;

/// All modules. Handlers of one phase run in this order.
pub static MODULES: &[&Module] = &[
    &acme::MODULE,
    &otel::MODULE,
    &postread::realip::MODULE,
    &rewrite::set_misc::MODULE,
    &access::rules::MODULE,
    &access::basic::MODULE,
    &access::jwt::MODULE,
    &access::subrequest::MODULE,
    &access::require::MODULE,
    #[cfg(debug_assertions)]
    &preaccess::debug_block::MODULE,
    &preaccess::limit_req::MODULE,
    &preaccess::limit_conn::MODULE,
    &precontent::internal_redirect::MODULE,
    &precontent::try_files::MODULE,
    &precontent::mirror::MODULE,
    &proxy::CACHES,
    &zone_sync::MODULE,
    &proxy::PROXY,
    &proxy::GRPC,
    &proxy::FASTCGI,
    &proxy::UWSGI,
    &proxy::SCGI,
    &proxy::MEMCACHED,
    &proxy::TUNNEL,
    &content::echo::MODULE,
    &content::status::MODULE,
    &content::api::MODULE,
    &content::dav_ext::MODULE,
    &content::dav::MODULE,
    &content::mp4::MODULE,
    &content::flv::MODULE,
    &content::stub_status::MODULE,
    &content::empty_gif::MODULE,
    #[cfg(debug_assertions)]
    &content::debug_sandbox::MODULE,
    &content::random_index::MODULE,
    &content::index::MODULE,
    &content::fancyindex::MODULE,
    &content::autoindex::MODULE,
    &content::precompressed::MODULE,
    &content::static_files::MODULE,
    &filters::not_modified::MODULE,
    &filters::addition::MODULE,
    &filters::slice::MODULE,
    &filters::ssi::MODULE,
    &filters::more_headers::MODULE,
    &filters::subs::MODULE,
    &filters::headers::MODULE,
    &filters::userid::MODULE,
    &filters::sub::MODULE,
    &filters::charset::MODULE,
    &filters::gunzip::MODULE,
    &filters::compress::gzip::MODULE,
    &filters::compress::brotli::MODULE,
    &filters::compress::zstd::MODULE,
    &filters::compress::MODULE,
    &filters::range::MODULE,
    &variables::browser::MODULE,
    &variables::referer::MODULE,
    &variables::secure_link::MODULE,
    &log::access::MODULE,
    &variables::keyval::MODULE,
    &variables::map::MODULE,
    &variables::num_map::MODULE,
    &variables::geo::MODULE,
    &variables::geoip2::MODULE,
    &variables::predicate::MODULE,
    &variables::split_clients::MODULE,
    &proxy::UPSTREAM,
    &proxy::HEALTH,
];
