//! The modules of the crate, for the one list of all modules.

use freerun_conf::{SettingsSet, group};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_http::variables::Variable;
use freerun_proto::{Method, Status};

use crate::cached::purge::by_key;
use crate::family::cgi::{self, Cgi, Script};
use crate::family::fastcgi::{FastCgiScript, FastCgiSettings, script};
use crate::family::grpc::settings::GrpcSettings;
use crate::family::grpc::{self, Calls};
use crate::family::http::settings::HttpSettings;
use crate::family::http::{self, Http};
use crate::family::memcached::{MemcachedSettings, Values};
use crate::family::scgi::{ScgiScript, ScgiSettings};
use crate::family::tunnel::TunnelSettings;
use crate::family::uwsgi::{UwsgiScript, UwsgiSettings};
use crate::pass::{open_tunnel, pass};
use crate::settings::PrefixedSettings;
use crate::settings::members::{
    self, FastCgiDirectives, GrpcDirectives, MemcachedDirectives, ProxyDirectives, ScgiDirectives, UwsgiDirectives,
};

pub use crate::caches::zones::MODULE as CACHES;
pub use crate::health::MODULE as HEALTH;
pub use crate::upstream::MODULE as UPSTREAM;

/// Whether a location with these settings passes requests on with their fields.
pub fn passes_on(settings: &SettingsSet) -> bool {
    settings.get::<HttpSettings>().proxy_pass.is_some()
        || settings.get::<GrpcSettings>().grpc_pass.is_some()
        || FastCgiScript::pass(settings).is_some()
        || ScgiScript::pass(settings).is_some()
        || UwsgiScript::pass(settings).is_some()
}

/// Requests passed on over HTTP.
pub static PROXY: Module = Module {
    name: "proxy",
    groups: &[group::<PrefixedSettings<ProxyDirectives>>(), group::<HttpSettings>()],
    handlers: &[
        Handler {
            phase: Phase::Content,
            wanted: |settings| settings.get::<PrefixedSettings<ProxyDirectives>>().proxy_cache_purge.key().is_some(),
            run: Run::Later(|request| by_key(request, &Http)),
        },
        Handler {
            phase: Phase::Content,
            wanted: |settings| settings.get::<HttpSettings>().proxy_pass.is_some(),
            run: Run::Later(|request| pass(request, &Http)),
        },
    ],
    content: &["proxy_pass"],
    variables: http::variables::VARIABLES,
    settle: Some(http::settle),
    ..Module::EMPTY
};

/// Requests answered by applications that speak FastCGI.
pub static FASTCGI: Module = Module {
    name: "fastcgi",
    groups: &[group::<PrefixedSettings<FastCgiDirectives>>(), group::<FastCgiSettings>()],
    handlers: &[
        Handler {
            phase: Phase::Content,
            wanted: |settings| settings.get::<PrefixedSettings<FastCgiDirectives>>().proxy_cache_purge.key().is_some(),
            run: Run::Later(|request| by_key(request, Cgi::<FastCgiScript>::FAMILY)),
        },
        Handler {
            phase: Phase::Content,
            wanted: |settings| FastCgiScript::pass(settings).is_some(),
            run: Run::Later(|request| pass(request, Cgi::<FastCgiScript>::FAMILY)),
        },
    ],
    content: &["fastcgi_pass"],
    variables: &[
        Variable::named(
            "fastcgi_script_name",
            "The URI of the request, with `fastcgi_index` appended if it ends with a slash; with \
             `fastcgi_split_path_info` the first part.",
            script::script_name,
        ),
        Variable::named(
            "fastcgi_path_info",
            "The second part of the URI that `fastcgi_split_path_info` finds.",
            script::path_info,
        ),
    ],
    settle: Some(cgi::settle::<FastCgiScript>),
    ..Module::EMPTY
};

/// Requests answered by applications that speak the protocol of uWSGI.
pub static UWSGI: Module = Module {
    name: "uwsgi",
    groups: &[group::<PrefixedSettings<UwsgiDirectives>>(), group::<UwsgiSettings>()],
    handlers: &[
        Handler {
            phase: Phase::Content,
            wanted: |settings| settings.get::<PrefixedSettings<UwsgiDirectives>>().proxy_cache_purge.key().is_some(),
            run: Run::Later(|request| by_key(request, Cgi::<UwsgiScript>::FAMILY)),
        },
        Handler {
            phase: Phase::Content,
            wanted: |settings| UwsgiScript::pass(settings).is_some(),
            run: Run::Later(|request| pass(request, Cgi::<UwsgiScript>::FAMILY)),
        },
    ],
    content: &["uwsgi_pass"],
    settle: Some(cgi::settle::<UwsgiScript>),
    ..Module::EMPTY
};

/// Requests answered by applications that speak SCGI.
pub static SCGI: Module = Module {
    name: "scgi",
    groups: &[group::<PrefixedSettings<ScgiDirectives>>(), group::<ScgiSettings>()],
    handlers: &[
        Handler {
            phase: Phase::Content,
            wanted: |settings| settings.get::<PrefixedSettings<ScgiDirectives>>().proxy_cache_purge.key().is_some(),
            run: Run::Later(|request| by_key(request, Cgi::<ScgiScript>::FAMILY)),
        },
        Handler {
            phase: Phase::Content,
            wanted: |settings| ScgiScript::pass(settings).is_some(),
            run: Run::Later(|request| pass(request, Cgi::<ScgiScript>::FAMILY)),
        },
    ],
    content: &["scgi_pass"],
    settle: Some(cgi::settle::<ScgiScript>),
    ..Module::EMPTY
};

/// Requests passed on over gRPC.
pub static GRPC: Module = Module {
    name: "grpc",
    groups: &[group::<PrefixedSettings<GrpcDirectives>>(), group::<GrpcSettings>()],
    handlers: &[Handler {
        phase: Phase::Content,
        wanted: |settings| settings.get::<GrpcSettings>().grpc_pass.is_some(),
        run: Run::Later(|request| pass(request, &Calls)),
    }],
    content: &["grpc_pass"],
    settle: Some(grpc::settle),
    ..Module::EMPTY
};

/// Responses taken from memcached.
pub static MEMCACHED: Module = Module {
    name: "memcached",
    groups: &[group::<PrefixedSettings<MemcachedDirectives>>(), group::<MemcachedSettings>()],
    handlers: &[Handler {
        phase: Phase::Content,
        wanted: |settings| settings.get::<MemcachedSettings>().memcached_pass.is_some(),
        run: Run::Later(pass_to_memcached),
    }],
    content: &["memcached_pass"],
    ..Module::EMPTY
};

/// Tunnels for CONNECT.
pub static TUNNEL: Module = Module {
    name: "tunnel",
    groups: &[group::<PrefixedSettings<members::TunnelDirectives>>(), group::<TunnelSettings>()],
    handlers: &[Handler {
        phase: Phase::Content,
        wanted: |settings| settings.get::<TunnelSettings>().tunnel_pass.is_some(),
        run: Run::Later(open_tunnel),
    }],
    content: &["tunnel_pass"],
    ..Module::EMPTY
};

fn pass_to_memcached(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Box::pin(async { Outcome::Status(Status::METHOD_NOT_ALLOWED) });
    }
    pass(request, &Values)
}
