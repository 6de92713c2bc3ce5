//! Metrics (`opentelemetry/proto/metrics/v1/metrics.proto`), made of the text that Prometheus gets: so both have the same
//! names, labels and figures.

use super::protobuf::MessageWriter;
use super::{attributes, of_resource};

/// The most bytes of metrics in a message: collectors take messages of 4 MiB by default.
const MAX_MESSAGE: usize = 3 << 20;

/// Counts and sums since the start of the server (`AGGREGATION_TEMPORALITY_CUMULATIVE`).
const CUMULATIVE: u64 = 2;

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// Labels with their values.
type Labels = Vec<(String, String)>;

/// A point of a metric.
#[derive(Debug, Clone, PartialEq)]
enum Point {
    Number(Labels, f64),
    Histogram { labels: Labels, bounds: Vec<f64>, counts: Vec<u64>, sum: f64 },
}

/// A metric with its points.
#[derive(Debug, Clone, PartialEq)]
struct MetricFamily {
    name: String,
    help: String,
    kind: MetricKind,
    points: Vec<Point>,
}

/// The metrics of one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricPoints {
    families: Vec<MetricFamily>,
    /// The start of the process, in nanoseconds since 1970, if the metrics say it.
    started: u64,
}

impl MetricPoints {
    /// Reads the server's own text in the format of Prometheus 0.0.4. Lines that it does not have are passed over.
    pub fn parse(text: &str) -> MetricPoints {
        let mut points = MetricPoints::default();
        let (mut help_name, mut help) = ("", "");
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                (help_name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                let kind = match kind {
                    "counter" => MetricKind::Counter,
                    "histogram" => MetricKind::Histogram,
                    _ => MetricKind::Gauge,
                };
                let help = if help_name == name { help } else { "" };
                let family = MetricFamily { name: name.to_owned(), help: help.to_owned(), kind, points: Vec::new() };
                points.families.push(family);
            } else if let Some((name, labels, value)) = sample(line) {
                if name == "process_start_time_seconds" {
                    points.started = (value * 1e9) as u64;
                }
                if let Some(family) = points.families.last_mut() {
                    family.take(name, labels, value);
                }
            }
        }
        points.families.retain(|family| !family.points.is_empty());
        points
    }
}

impl MetricFamily {
    fn take(&mut self, name: &str, mut labels: Labels, value: f64) {
        let Some(part) = name.strip_prefix(self.name.as_str()) else { return };
        if self.kind != MetricKind::Histogram {
            return self.points.push(Point::Number(labels, value));
        }
        let bound = labels.iter().position(|(label, _)| label == "le").map(|at| labels.remove(at).1);
        let is_open = matches!(self.points.last(), Some(Point::Histogram { labels: own, .. }) if *own == labels);
        if !is_open {
            self.points.push(Point::Histogram { labels, bounds: Vec::new(), counts: Vec::new(), sum: 0.0 });
        }
        let Some(Point::Histogram { bounds, counts, sum, .. }) = self.points.last_mut() else { return };
        match (part, bound) {
            ("_bucket", Some(bound)) => {
                // Counts of buckets are cumulative in Prometheus, and not in OTLP.
                let below: u64 = counts.iter().sum();
                counts.push((value as u64).saturating_sub(below));
                bounds.extend(Some(bound).filter(|bound| bound != "+Inf").and_then(|bound| bound.parse::<f64>().ok()));
            }
            ("_sum", None) => *sum = value,
            _ => {}
        }
    }

    /// The unit in the words of UCUM, as the name says it.
    fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(&self.name);
        match () {
            () if name.ends_with("_seconds") => "s",
            () if name.ends_with("_bytes") => "By",
            () => "",
        }
    }

    fn encode(&self, started: u64, now: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 * self.points.len());
        let mut metric = MessageWriter::new(&mut out);
        metric.bytes(1, self.name.as_bytes());
        metric.bytes(2, self.help.as_bytes());
        metric.bytes(3, self.unit().as_bytes());
        let data = match self.kind {
            MetricKind::Gauge => 5,
            MetricKind::Counter => 7,
            MetricKind::Histogram => 9,
        };
        metric.message(data, |data| {
            for point in &self.points {
                data.message(1, |message| {
                    point.encode(message, if self.kind == MetricKind::Gauge { 0 } else { started }, now)
                });
            }
            if self.kind != MetricKind::Gauge {
                data.uint(2, CUMULATIVE);
            }
            if self.kind == MetricKind::Counter {
                data.uint(3, 1);
            }
        });
        out
    }
}

impl Point {
    fn encode(&self, message: &mut MessageWriter<'_>, started: u64, now: u64) {
        if started > 0 {
            message.fixed64(2, started);
        }
        message.fixed64(3, now);
        match self {
            Point::Number(labels, value) => {
                labels.iter().for_each(|(name, value)| attributes::text(message, 7, name, value.as_bytes()));
                message.double(4, *value);
            }
            Point::Histogram { labels, bounds, counts, sum } => {
                labels.iter().for_each(|(name, value)| attributes::text(message, 9, name, value.as_bytes()));
                message.fixed64(4, counts.iter().sum());
                message.double(5, *sum);
                message.packed64(6, counts.iter().copied());
                message.packed64(7, bounds.iter().map(|bound| bound.to_bits()));
            }
        }
    }
}

/// A sample: its name, its labels and its value.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, behind) = rest.split_once("=\"")?;
            let (value, behind) = label_value(behind)?;
            labels.push((label.to_owned(), value));
            rest = behind.strip_prefix(',').unwrap_or(behind);
        }
        rest = &rest[1..];
    }
    let value = rest.trim().parse().ok()?;
    (!name.is_empty() && !name.starts_with('#')).then_some((name, labels, value))
}

/// The value of a label without its escapes, and the text behind its quote.
fn label_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

/// The messages `ExportMetricsServiceRequest` with these metrics of one resource. There are several where one would be too
/// long for a collector.
pub fn metrics_requests(resource: &[(String, String)], points: &MetricPoints, now: u64) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    let mut metrics: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    let mut finish = |metrics: &mut Vec<Vec<u8>>| {
        let mut out = Vec::new();
        of_resource(&mut out, resource, |of_scope| metrics.iter().for_each(|metric| of_scope.bytes(2, metric)));
        metrics.clear();
        requests.push(out);
    };
    for family in &points.families {
        let metric = family.encode(points.started, now);
        if bytes + metric.len() > MAX_MESSAGE && !metrics.is_empty() {
            finish(&mut metrics);
            bytes = 0;
        }
        bytes += metric.len();
        metrics.push(metric);
    }
    if !metrics.is_empty() {
        finish(&mut metrics);
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a_total How many.\n# TYPE a_total counter\na_total{x=\"1\",y=\"q\\\"\\\\\\n\"} 5\n\
        # HELP b_seconds When.\n# TYPE b_seconds gauge\nb_seconds 1.5\n\
        # TYPE h_seconds histogram\n\
        h_seconds_bucket{l=\"0\",le=\"0.001\"} 1\nh_seconds_bucket{l=\"0\",le=\"0.002\"} 4\n\
        h_seconds_bucket{l=\"0\",le=\"+Inf\"} 4\nh_seconds_sum{l=\"0\"} 0.006\nh_seconds_count{l=\"0\"} 4\n\
        h_seconds_bucket{l=\"1\",le=\"0.001\"} 0\nh_seconds_bucket{l=\"1\",le=\"+Inf\"} 2\nh_seconds_sum{l=\"1\"} 9\n\
        h_seconds_count{l=\"1\"} 2\n# TYPE none gauge\n\
        # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1700000000.5\n";

    fn labels(of: &[(&str, &str)]) -> Labels {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_text_of_prometheus_becomes_points() {
        let MetricPoints { families, started } = MetricPoints::parse(TEXT);
        assert_eq!(started, 1_700_000_000_500_000_000);
        let names: Vec<_> = families.iter().map(|family| (family.name.as_str(), family.kind, family.unit())).collect();
        assert_eq!(
            names[..3],
            [
                ("a_total", MetricKind::Counter, ""),
                ("b_seconds", MetricKind::Gauge, "s"),
                ("h_seconds", MetricKind::Histogram, "s"),
            ]
        );
        assert_eq!(families[0].points, [Point::Number(labels(&[("x", "1"), ("y", "q\"\\\n")]), 5.0)]);
        assert_eq!(
            families[2].points,
            [
                Point::Histogram {
                    labels: labels(&[("l", "0")]),
                    bounds: vec![0.001, 0.002],
                    counts: vec![1, 3, 0],
                    sum: 0.006
                },
                Point::Histogram { labels: labels(&[("l", "1")]), bounds: vec![0.001], counts: vec![0, 2], sum: 9.0 },
            ]
        );
    }

    #[test]
    fn lines_that_are_no_samples_are_passed_over() {
        let text = "# TYPE a gauge\na\na{\na{x\na{x=\"\na{x=\"1\"\na{} x\n\na 1\n";
        let points = MetricPoints::parse(text);
        assert_eq!(points.families[0].points, [Point::Number(Vec::new(), 1.0)]);
    }

    #[test]
    fn many_points_are_several_messages() {
        assert_eq!(metrics_requests(&[], &MetricPoints::default(), 1).len(), 0);
        assert_eq!(metrics_requests(&[], &MetricPoints::parse(TEXT), 1).len(), 1);
        let mut text = String::new();
        for metric in 0..4 {
            text += &format!("# TYPE m{metric} gauge\n");
            (0..20_000).for_each(|point| text += &format!("m{metric}{{zone=\"a rather long name of {point}\"}} 1\n"));
        }
        let requests = metrics_requests(&[], &MetricPoints::parse(&text), 1);
        assert!(requests.len() > 1 && requests.iter().all(|request| request.len() < 4 << 20));
    }
}
