//! OpenTelemetry: traces of requests (`otel_trace`) and metrics of the server (`otel_metrics`), exported to a collector.
//!
//! | file | holds |
//! |---|---|
//! | `settings.rs` | the directives, and their values |
//! | `exporter_block.rs` | the block `otel_exporter` |
//! | `context.rs` | the place of a request in its trace: identifiers, what came with it, what goes on to upstream servers |
//! | `spans.rs` | the spans of a request that has ended |
//! | `variables.rs` | `$otel_trace_id` and its kin |
//! | `telemetry.rs` | the worker's exporter |
//!
//! The crate `freerun_telemetry` encodes and exports. <https://nginx.org/en/docs/ngx_otel_module.html>

mod context;
mod exporter_block;
mod settings;
mod spans;
pub mod telemetry;
mod variables;

use std::sync::Arc;

use freerun_conf::{Cx, Problem, SettingsSet, group};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{EndHook, Handler, Outcome, Phase, Run};
use freerun_serve::build::module::ModuleBlock;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::parts::Parts;
use freerun_serve::configuration::zones::ZoneTable;
use freerun_serve::loops::shared::SharedState;

use context::TraceContext;
use exporter_block::{DeclaredExporter, ExporterDirectives};
use settings::{ContextMode, OtelSettings, TraceSwitch};
use telemetry::{Telemetry, WantedExporter};

/// The module of OpenTelemetry.
pub static MODULE: Module = Module {
    name: "otel",
    groups: &[group::<OtelSettings>(), group::<ExporterDirectives>()],
    handlers: &[
        Handler { phase: Phase::Rewrite, wanted: is_involved, run: Run::Now(begin_trace) },
        Handler { phase: Phase::Rewrite, wanted: injects, run: Run::Now(tell_upstream_servers) },
        Handler { phase: Phase::Log, wanted: is_traced, run: Run::Now(trace_unhandled) },
    ],
    variables: variables::VARIABLES,
    blocks: &[ModuleBlock { directive: exporter_block::DIRECTIVE, read: exporter_block::declare }],
    finish: Some(finish),
    begin: Some(begin),
    drain: Some(drain),
    end: Some(end),
    ..Module::EMPTY
};

/// Whether requests of a location may be traced.
fn is_traced(settings: &SettingsSet) -> bool {
    !matches!(settings.get::<OtelSettings>().otel_trace, TraceSwitch::Off)
}

/// Whether a location has anything to do with traces: it may begin spans, or looks at the fields of a trace.
fn is_involved(settings: &SettingsSet) -> bool {
    is_traced(settings) || settings.get::<OtelSettings>().otel_trace_context != ContextMode::Ignore
}

/// Whether upstream servers of a location get fields of a trace. Writing them costs more than all else that a request pays
/// which is not sampled, so locations that ask no such server are left out.
fn injects(settings: &SettingsSet) -> bool {
    settings.get::<OtelSettings>().otel_trace_context.injects() && freerun_proxy::modules::passes_on(settings)
}

/// Decides whether the request is traced.
fn begin_trace(request: &mut Request) -> Outcome {
    if TraceContext::enter(request) && !request.is_subrequest() {
        EndHook::leave(request, spans::export);
    }
    Outcome::Declined
}

/// Sets the fields for upstream servers.
fn tell_upstream_servers(request: &mut Request) -> Outcome {
    TraceContext::inject(request);
    Outcome::Declined
}

/// Traces a request that a script has answered, before [`begin_trace`] had its turn.
fn trace_unhandled(request: &mut Request) -> Outcome {
    let is_unhandled = !request.is_handled && !request.is_subrequest() && request.head.is_understood();
    if is_unhandled && TraceContext::decide(request) {
        spans::export(request);
    }
    Outcome::Declined
}

fn finish(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let declared = cx.extensions.remove::<DeclaredExporter>();
    let wanted = declared.map(|declared| WantedExporter::new(declared, settings));
    let zones = cx.extensions.get_or_default::<ZoneTable>();
    // A configuration without an exporter keeps the one of the configuration before, to end it.
    let telemetry = match wanted {
        Some(_) => Some(zones.keep("otel", Telemetry::default)),
        None => zones.running::<Telemetry>("otel"),
    };
    let parts = cx.extensions.get_or_default::<Parts>();
    if let Some(telemetry) = telemetry {
        parts.insert(telemetry);
    }
    if let Some(wanted) = wanted {
        parts.insert(Arc::new(wanted));
    }
    Ok(())
}

fn begin(generation: &Arc<Generation>, _: &Arc<SharedState>) {
    if let Some(telemetry) = generation.parts.get::<Telemetry>() {
        telemetry.follow(generation);
    }
}

/// Notes that the worker ends in order, so that the spans of its last requests are waited for.
fn drain(generation: &Generation) {
    if let Some(telemetry) = generation.parts.get::<Telemetry>() {
        telemetry.drain();
    }
}

fn end(generation: &Generation) {
    if let Some(telemetry) = generation.parts.get::<Telemetry>() {
        telemetry.stop();
    }
}
