//! `keyval`: variables whose values are changed while the server runs.
//!
//! <https://nginx.org/en/docs/http/ngx_http_keyval_module.html>

use std::sync::Arc;

use freerun_conf::{Cx, Problem, SettingsSet, group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::shared::SharedState;
use freerun_serve::values::keyvals::{self, AllKeyvals, KeyvalVariables, KeyvalZones};

settings! {
    /// Variables whose values are changed while the server runs.
    #[module = "keyval"]
    pub struct KeyvalSettings {
        /// Defines a zone of key-value pairs, which `api` shows and, with `write=on`, changes.
        ///
        /// The size is the most that pairs may take: each its value, twice its key, and 160 bytes. What would be beyond is
        /// answered with 413. A key has at most 1023 bytes. The pairs stay over a reload if name, size and type of the zone do.
        ///
        /// | parameter | |
        /// |---|---|
        /// | `type=string` | a key is found if it is the same text: the default |
        /// | `type=ip` | keys are addresses or networks; the smallest network that the address is in is found |
        /// | `type=prefix` | keys are beginnings of texts; the longest is found |
        /// | `timeout=T` | a pair is removed after this time, unless the API has given it another one |
        /// | `sync` | other machines have the same pairs, through `zone_sync_engine`. A change is made for all at once, and none is made while the engine is away |
        /// | `sync alone=local` | while the engine is away, changes are made on this machine, and told to the others later; a restart before that loses them |
        /// | `state=file` | a file that keeps the pairs over restarts, as JSON. It is replaced by the user whom the worker runs as, who has to be allowed to make files in its folder. A file that is no such JSON is kept beside it as `file.unused` |
        keyval_zone: KeyvalZones, in HTTP,
            fidelity = Differs("sync is by zone_sync_engine, and deletes reach all machines; the state file is JSON");
        /// Defines a variable: the value for this key in the zone. It is looked up once for each request, and has no value if
        /// there is no such key.
        keyval: KeyvalVariables<Request>, in HTTP;
    }
}

/// The module `keyval`.
pub static MODULE: Module = Module {
    name: "keyval",
    groups: &[group::<KeyvalSettings>()],
    finish: Some(finish),
    prepare: Some(prepare),
    ..Module::EMPTY
};

fn finish(_http: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    keyvals::finish(cx);
    Ok(())
}

fn prepare(generation: &Arc<Generation>, _shared: &Arc<SharedState>) {
    if let Some(zones) = generation.parts.get::<AllKeyvals>() {
        keyvals::load(&zones.http, &generation.error_log);
    }
}
