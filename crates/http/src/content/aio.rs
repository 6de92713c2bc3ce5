//! The choice of threads for the file operations of a request, as `aio` says.

use freerun_conf::text_of;
use freerun_runtime::files::Aio;

use crate::log_error;
use crate::request::Request;
use crate::values::aio::AioSetting;

/// The way that file operations of this request are done. `None` if the name of the thread pool, made of variables,
/// names no pool; that is logged, and the response is 500.
pub fn resolve(request: &Request) -> Option<Aio> {
    let pools = &request.generation.pools;
    let setting = &request.settings().get::<crate::request::core_settings::CoreSettings>().aio;
    let (name, always) = match setting {
        AioSetting::Auto => return Some(Aio::Auto(pools.default().clone())),
        AioSetting::Off => return Some(Aio::Off),
        AioSetting::Threads(name) => (name.render(request), false),
        AioSetting::Always(name) => (name.render(request), true),
    };
    let name = text_of(&name);
    let Some(pool) = pools.get(&name) else {
        log_unknown(request, &name);
        return None;
    };
    Some(if always { Aio::Always(pool.clone()) } else { Aio::Threads(pool.clone()) })
}

fn log_unknown(request: &Request, name: &str) {
    log_error!(request, Error, "thread pool \"{name}\" not found");
}
