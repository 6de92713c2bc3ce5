//! `keyval`: variables of sessions whose values are changed while the server runs.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_keyval_module.html>

use std::sync::Arc;

use freerun_conf::{Cx, Problem, SettingsSet, group, settings};
use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::shared::SharedState;
use freerun_serve::values::keyvals::{self, AllKeyvals, KeyvalVariables, KeyvalZones};

use crate::module::Module;
use crate::session::Session;

settings! {
    /// Variables of sessions whose values are changed while the server runs.
    #[module = "stream/keyval"]
    pub struct KeyvalSettings {
        /// Defines a zone of key-value pairs, as `keyval_zone` in `http`.
        keyval_zone: KeyvalZones, in STREAM,
            fidelity = Differs("sync is by zone_sync_engine, and deletes reach all machines; the state file is JSON");
        /// Defines a variable: the value for this key in the zone. It is looked up once for each session, and has no value if
        /// there is no such key.
        keyval: KeyvalVariables<Session>, in STREAM;
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/keyval",
    groups: &[group::<KeyvalSettings>()],
    finish: Some(finish),
    prepare: Some(prepare),
    ..Module::EMPTY
};

fn finish(_stream: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    keyvals::finish(cx);
    Ok(())
}

fn prepare(generation: &Arc<Generation>, _shared: &Arc<SharedState>) {
    if let Some(zones) = generation.parts.get::<AllKeyvals>() {
        keyvals::load(&zones.stream, &generation.error_log);
    }
}
