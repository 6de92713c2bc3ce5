//! `set`: gives a variable a value.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_set_module.html>

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, group, settings};
use freerun_runtime::log::Level;
use freerun_serve::Subject;
use freerun_serve::values::{SetTarget, Template, target};

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{Handler, HandlerRun, Phase, PhaseOutcome, status};

settings! {
    /// Giving variables values.
    #[module = "stream/set"]
    pub struct SetSettings {
        /// Gives a variable a value: text with variables, which is evaluated when the first bytes of the session are about to
        /// be looked at.
        ///
        /// The directives of a server run in their order. What `ssl_preread` finds out is not known to them.
        set: Sets, in STREAM_SERVER, local;
    }
}

/// The `set` directives of a server, in their order.
#[derive(Clone, Default)]
pub struct Sets(Arc<Vec<(SetTarget<Session>, Template<Session>)>>);

impl Setting for Sets {
    const SHAPE: Shape = Shape::exactly(2, "$variable value");

    fn set(previous: Option<Sets>, directive: &Node, cx: &mut Cx) -> Result<Sets, Problem> {
        let [name, value] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let set = (target(name, cx)?, Template::parse(value, cx)?);
        let mut sets = previous.unwrap_or_default();
        Arc::make_mut(&mut sets.0).push(set);
        Ok(sets)
    }
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<SetSettings>().set.0.is_empty()
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/set",
    groups: &[group::<SetSettings>()],
    handlers: &[Handler { phase: Phase::Preread, wanted, run: HandlerRun::Now(run) }],
    ..Module::EMPTY
};

fn run(session: &Session) -> PhaseOutcome {
    let settings = session.settings();
    for (target, template) in settings.get::<SetSettings>().set.0.iter() {
        let value = template.render(session).into_owned();
        let kept = match target {
            SetTarget::Slot(slot) => session.values().set(*slot, &value),
            // A session changes none of its variables itself.
            SetTarget::Call(_) => Ok(()),
        };
        if let Err(full) = kept {
            session.log(Level::Error, format_args!("{full}"));
            return PhaseOutcome::End(status::INTERNAL_SERVER_ERROR);
        }
    }
    PhaseOutcome::Declined
}
