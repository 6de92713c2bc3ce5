//! The worker's exporter, which outlives configurations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use freerun_conf::SettingsSet;
use freerun_runtime::log::Level;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::upstream::resolver_settings::ResolverSettings;
use freerun_telemetry::{Exporter, ExporterHost, ExporterSettings, MetricSource, SpanCounts};
use freerun_upstream::resolve::Resolver;

use super::exporter_block::DeclaredExporter;
use super::settings::OtelSettings;

/// The time for which the end of a worker that ends in order waits for exports.
const PATIENCE: Duration = Duration::from_secs(3);

/// The same for a worker that has to end at once.
const HASTE: Duration = Duration::from_millis(500);

/// The exporter that a configuration wants: one of the parts of its generation, if there is one.
pub(super) struct WantedExporter {
    settings: ExporterSettings,
    resolver: Option<(Arc<Resolver>, Duration)>,
}

impl WantedExporter {
    /// The exporter of the block, with the settings of `http`.
    pub(super) fn new(declared: DeclaredExporter, settings: &SettingsSet) -> WantedExporter {
        let own = settings.get::<OtelSettings>();
        let service = ("service.name".to_owned(), own.otel_service_name.clone());
        let others = own.otel_resource_attr.iter().map(|attribute| (attribute.name.clone(), attribute.value.clone()));
        let resolver = settings.get::<ResolverSettings>().resolver_and_timeout();
        WantedExporter {
            settings: ExporterSettings {
                endpoint: declared.endpoint,
                protocol: declared.protocol,
                trusted: declared.trusted,
                fields: declared.fields,
                interval: declared.interval,
                batch_size: declared.batch_size,
                batch_count: declared.batch_count,
                resource: std::iter::once(service).chain(others).collect(),
                metrics: own.otel_metrics.0,
            },
            resolver: resolver.map(|(resolver, timeout)| (resolver.clone(), timeout)),
        }
    }
}

/// The worker's exporter, which is kept over reloads: one of the parts of each generation that has an exporter, and of the next
/// one without.
#[derive(Debug, Default)]
pub struct Telemetry {
    exporter: Exporter,
    /// Whether the worker ends in order.
    drains: AtomicBool,
}

impl Telemetry {
    /// Takes an encoded span; it never waits. Returns whether there was room for it.
    pub(super) fn push(&self, span: Box<[u8]>) -> bool {
        self.exporter.push(span)
    }

    /// The counts of a generation's exporter, if it has one.
    pub fn counts(generation: &Generation) -> Option<SpanCounts> {
        generation.parts.get::<Telemetry>().map(|telemetry| telemetry.exporter.counts())
    }

    /// Goes on with the configuration that has begun.
    pub(super) fn follow(&self, generation: &Generation) {
        let Some(wanted) = generation.parts.get::<WantedExporter>() else { return self.exporter.end() };
        let host = ExporterHost {
            files: generation.files.clone(),
            pools: generation.pools.clone(),
            log: generation.error_log.clone(),
            resolver: wanted.resolver.clone(),
        };
        if let Err(error) = self.exporter.update(wanted.settings.clone(), host) {
            let line = format_args!("otel: nothing is exported: the thread for it cannot be started ({error})");
            generation.error_log.write(Level::Alert, None, line);
        }
    }

    /// Sets the source of the metrics that `otel_metrics` exports, once.
    pub fn set_metrics(&self, source: MetricSource) {
        self.exporter.set_metrics(source);
    }

    pub(super) fn drain(&self) {
        self.drains.store(true, Relaxed);
    }

    pub(super) fn stop(&self) {
        self.exporter.stop(if self.drains.load(Relaxed) { PATIENCE } else { HASTE });
    }
}
