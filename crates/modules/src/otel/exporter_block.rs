//! The block `otel_exporter`.

use std::time::Duration;

use freerun_conf::{Contexts, Cx, Directive, Many, Node, Problem, SettingsSet, Shape, Value, keyword_enum, settings};
use freerun_runtime::log::Errno;
use freerun_serve::http_client::trust;
use freerun_serve::tls::files::{ConfigurationFiles, full_path};
use freerun_telemetry::{Endpoint, ExportProtocol};
use freerun_tls::verify::TrustStore;

/// The largest number of spans of a batch, and the largest number of batches: with both the queue has a million spans, and
/// far fewer for their bytes.
const MOST: usize = 1 << 10;

keyword_enum! {
    /// The protocol of exports, in the words of OpenTelemetry.
    pub enum ProtocolName {
        /// OTLP/gRPC.
        Grpc = "grpc",
        /// OTLP/HTTP.
        HttpProtobuf = "http/protobuf",
    }
}

/// The block.
pub(super) const DIRECTIVE: Directive = Directive::structural(
    "otel_exporter",
    Contexts::HTTP,
    Shape::exactly(0, "").with_block(Contexts::OTEL_EXPORTER),
    "The collector that spans (`otel_trace`) and metrics (`otel_metrics`) are exported to.\n\
     \n\
     A thread of its own exports in batches. Requests never wait for it: what finds the queue full is dropped and counted. A batch \
     that the collector cannot take at the moment is sent again after 1, 2, 4 and 8 seconds, and then given up. A reload keeps \
     the spans that wait; a worker that ends in order exports them within three seconds.",
);

settings! {
    /// The directives in `otel_exporter`.
    #[module = "otel_exporter"]
    pub struct ExporterDirectives {
        /// The address of the collector: `[(http|https)://]host:port`. With `https` it is reached by TLS. With
        /// `otlp_protocol http/protobuf` a path may follow, which `/v1/traces` and `/v1/metrics` are appended to.
        ///
        /// The name is looked up for each connection, by the `resolver` of `http` or by the system.
        endpoint: Option<EndpointSetting>, in OTEL_EXPORTER;
        /// The protocol of exports: OTLP over gRPC as nginx has it, or over HTTP/1.1, mostly on port 4318.
        otlp_protocol: ProtocolName = "grpc", in OTEL_EXPORTER, fidelity = Own;
        /// A file with the certificates of the authorities that verify the collector. By default these are the system's.
        trusted_certificate: Option<TrustedCertificate>, in OTEL_EXPORTER;
        /// Adds a field to each export, such as a key for the collector.
        header: Many<ExportField>, in OTEL_EXPORTER;
        /// The longest time between two exports of spans.
        interval: Duration = "5s", in OTEL_EXPORTER;
        /// The most spans of a batch, 1024 at most. A batch that is full is exported at once.
        batch_size: usize = "512", in OTEL_EXPORTER,
            fidelity = Differs("the event loops fill one batch together; a batch has 3 MiB at most");
        /// The number of batches that may wait, 1024 at most; spans beyond are dropped.
        batch_count: usize = "4", in OTEL_EXPORTER,
            fidelity = Differs("the event loops have one queue together, of 16 MiB at most");
    }
}

/// The value of `endpoint`.
#[derive(Debug, Clone)]
pub struct EndpointSetting(Endpoint);

impl Value for EndpointSetting {
    const SHAPE: Shape = Shape::exactly(1, "[(http|https)://]host:port[/path]");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<EndpointSetting, Problem> {
        let word = &directive.args[0];
        let problem = |error| {
            let problem = Problem::new(format!("{error} \"{}\"", word.text)).at(word.place);
            problem.hint("it is host:port, such as localhost:4317, or https://host:port")
        };
        Endpoint::parse(&word.text).map(EndpointSetting).map_err(problem)
    }
}

/// The value of `trusted_certificate`.
#[derive(Debug, Clone)]
pub struct TrustedCertificate(TrustStore);

impl Value for TrustedCertificate {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<TrustedCertificate, Problem> {
        let word = &directive.args[0];
        let path = full_path(&word.text, cx);
        let pem = cx.extensions.get_or_default::<ConfigurationFiles>().get_whole(&path);
        let pem = pem.map_err(|(call, error)| {
            Problem::new(format!("{call} \"{path}\" failed ({})", Errno(&error))).at(word.place)
        })?;
        trust::of_pem(pem.bytes(), &path).map(TrustedCertificate).map_err(|error| Problem::new(error).at(word.place))
    }
}

/// The value of `header`.
#[derive(Debug, Clone)]
pub struct ExportField {
    name: String,
    value: String,
}

/// Fields that exports have anyway.
const OWN_FIELDS: [&str; 7] =
    ["connection", "content-length", "content-type", "host", "te", "transfer-encoding", "user-agent"];

impl Value for ExportField {
    const SHAPE: Shape = Shape::exactly(2, "name value");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<ExportField, Problem> {
        let [name, value] = &directive.args[..] else { return Err(Problem::wrong_count(directive)) };
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.text.is_empty() || !name.text.bytes().all(is_token) {
            return Err(Problem::new(format!("invalid name of a field \"{}\"", name.text)).at(name.place));
        }
        let lower = name.text.to_ascii_lowercase();
        if OWN_FIELDS.contains(&lower.as_str()) {
            return Err(Problem::new(format!("the field \"{}\" is the exporter's own", name.text)).at(name.place));
        }
        if value.text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(Problem::new(format!("invalid value of the field \"{}\"", name.text)).at(value.place));
        }
        Ok(ExportField { name: lower, value: value.text.clone() })
    }
}

/// The exporter of the configuration that is being read; lives in its context.
#[derive(Debug, Clone)]
pub(super) struct DeclaredExporter {
    /// The collector.
    pub(super) endpoint: Endpoint,
    /// The protocol.
    pub(super) protocol: ExportProtocol,
    /// The authorities that verify the collector.
    pub(super) trusted: Option<TrustStore>,
    /// Fields of each export.
    pub(super) fields: Vec<(String, String)>,
    /// The longest time between two exports.
    pub(super) interval: Duration,
    /// The most spans of a batch.
    pub(super) batch_size: usize,
    /// The number of batches that may wait.
    pub(super) batch_count: usize,
}

/// Takes the block.
pub(super) fn declare(node: &Node, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let own = settings.get::<ExporterDirectives>();
    if cx.extensions.get::<DeclaredExporter>().is_some() {
        return Err(Problem::duplicate(node));
    }
    let culprit = |name: &str| node.children().iter().find(|child| child.name.text == name).unwrap_or(node);
    let Some(EndpointSetting(endpoint)) = &own.endpoint else {
        // An `endpoint` that is there and wrong has its message already.
        if culprit("endpoint").name.text == "endpoint" {
            return Ok(());
        }
        return Err(Problem::new("\"otel_exporter\" requires \"endpoint\"").at_node(node).reported_at(node.close));
    };
    let protocol = match own.otlp_protocol {
        ProtocolName::Grpc => ExportProtocol::Grpc,
        ProtocolName::HttpProtobuf => ExportProtocol::HttpProtobuf,
    };
    if protocol == ExportProtocol::Grpc && !endpoint.path.is_empty() {
        let problem = Problem::new("\"endpoint\" has a path, which gRPC has not").at_node(culprit("endpoint"));
        return Err(problem.hint("write \"otlp_protocol http/protobuf;\", or leave the path out"));
    }
    for (name, number) in [("batch_size", own.batch_size), ("batch_count", own.batch_count)] {
        if !(1..=MOST).contains(&number) {
            return Err(Problem::new(format!("\"{name}\" must be between 1 and {MOST}")).at_node(culprit(name)));
        }
    }
    if own.interval.is_zero() {
        return Err(Problem::new("\"interval\" must not be 0").at_node(culprit("interval")));
    }
    cx.extensions.insert(DeclaredExporter {
        endpoint: endpoint.clone(),
        protocol,
        trusted: own.trusted_certificate.as_ref().map(|trusted| trusted.0.clone()),
        fields: own.header.iter().map(|field| (field.name.clone(), field.value.clone())).collect(),
        interval: own.interval,
        batch_size: own.batch_size,
        batch_count: own.batch_count,
    });
    Ok(())
}
