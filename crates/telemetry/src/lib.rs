//! OpenTelemetry: spans of requests and metrics of the server, on their way to a collector.
//!
//! | module | holds |
//! |---|---|
//! | `otlp` | the messages of OTLP in protobuf, encoded, and what a collector answers |
//! | `identifiers` | random identifiers of traces and spans |
//! | `figures` | counts of what became of spans |
//! | `queue` | spans on their way from the loops to the exporter, within bounds |
//! | `host` | the parts of the server that exports use |
//! | `settings` | the collector, and how it is sent to |
//! | `export` | one export over gRPC or HTTP |
//! | `exporter` | the thread that exports, and its handle |
//!
//! A loop encodes a span that has ended and puts it into the queue, which never waits: a span that finds the queue full is
//! dropped and counted. The exporter has a thread of its own, on which a private event loop sends batches; no connection of a
//! client is there. See docs/design/0049-telemetry.md.

mod export;
mod exporter;
mod figures;
mod host;
mod identifiers;
pub mod otlp;
mod queue;
mod settings;

pub use exporter::{Exporter, MetricSource};
pub use figures::{SpanCounts, TelemetryFigures};
pub use host::ExporterHost;
pub use identifiers::{new_span_id, new_trace_id};
pub use settings::{Endpoint, EndpointError, ExportProtocol, ExporterSettings, MetricsInterval};
