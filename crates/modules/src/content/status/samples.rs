//! Samples in the text format of Prometheus.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use crate::content::described::histogram::{BOUNDS_US, Histogram, ZoneExemplar};
use crate::content::described::metric::{Figure, HasMetrics, Metric};

/// A label of a sample.
pub(super) type Label<'a> = (&'a str, &'a dyn Display);

/// An object with the labels of its samples.
pub(super) struct MetricRow<'a, T> {
    pub(super) labels: Vec<Label<'a>>,
    pub(super) object: &'a T,
}

impl<'a, T> MetricRow<'a, T> {
    /// The object with one label.
    pub(super) fn new(label: &'a str, value: &'a dyn Display, object: &'a T) -> MetricRow<'a, T> {
        MetricRow { labels: vec![(label, value)], object }
    }
}

/// The words that stand for `{…}` in the names and helps of a family's metrics.
pub(super) type FamilyWords = [(&'static str, &'static str)];

/// The format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0. It names counters without `_total` in their descriptions, and has exemplars.
    OpenMetrics,
}

/// A text that samples are added to.
pub(super) struct Text {
    pub(super) text: String,
    format: TextFormat,
}

impl Text {
    /// An empty text.
    pub(super) fn new(format: TextFormat) -> Text {
        Text { text: String::with_capacity(16 * 1024), format }
    }

    /// Writes the metrics of objects.
    pub(super) fn objects<T: HasMetrics>(&mut self, rows: &[MetricRow<'_, T>]) {
        self.family(rows, &[]);
    }

    /// Writes the metrics of objects whose descriptions have words of the family. Metrics of the same name that follow
    /// each other are one with several labels.
    pub(super) fn family<T: HasMetrics>(&mut self, rows: &[MetricRow<'_, T>], words: &FamilyWords) {
        self.chosen(rows, words, |_| true);
    }

    /// Writes the chosen metrics of objects.
    pub(super) fn chosen<T: HasMetrics>(
        &mut self,
        rows: &[MetricRow<'_, T>],
        words: &FamilyWords,
        is_chosen: fn(&Metric) -> bool,
    ) {
        let mut last = "";
        T::each_metric(&mut |metric, value| {
            if !is_chosen(metric) {
                return;
            }
            let name = in_words(metric.name, words);
            if last != metric.name {
                self.head(&name, metric.kind, &in_words(metric.help.trim(), words));
                last = metric.name;
            }
            let mut buckets = None;
            for MetricRow { labels, object } in rows {
                match value(object) {
                    Figure::Missing => {}
                    Figure::Number(number) => self.labelled(&name, labels, metric, number),
                    Figure::Signed(number) => self.labelled(&name, labels, metric, number),
                    Figure::Decimal(number) => self.labelled(&name, labels, metric, number),
                    Figure::Duration(us) => self.labelled(&name, labels, metric, Seconds(us)),
                    Figure::Counts(counts) => {
                        for (of, count) in counts {
                            let own = metric.label.map(|label| (label, &of as &dyn Display));
                            self.sample_with(&name, labels, own, count);
                        }
                    }
                    Figure::Histogram(histogram) => {
                        let buckets = buckets.get_or_insert_with(|| Buckets::new(self.format));
                        self.buckets(&name, labels, (histogram, &[]), buckets);
                    }
                    Figure::WithExemplars(histogram, exemplars) => {
                        let buckets = buckets.get_or_insert_with(|| Buckets::new(self.format));
                        self.buckets(&name, labels, (histogram, exemplars), buckets);
                    }
                }
            }
        });
    }

    /// Writes a sample, with the metric's own label if that has one value.
    fn labelled(&mut self, name: &str, labels: &[Label<'_>], metric: &Metric, value: impl Display) {
        let own = metric.label.zip(metric.label_value.as_ref()).map(|(label, of)| (label, of as &dyn Display));
        self.sample_with(name, labels, own, value);
    }

    /// Writes `# HELP` and `# TYPE`, once for each name.
    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        let name = match self.format {
            TextFormat::OpenMetrics if kind == "counter" => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.sample_with(name, labels, None, value);
    }

    /// Writes a sample; `own` is a label behind the others.
    fn sample_with(&mut self, name: &str, labels: &[Label<'_>], own: Option<Label<'_>>, value: impl Display) {
        self.text.push_str(name);
        let is_labelled = !labels.is_empty() || own.is_some();
        self.labels(labels.iter().chain(&own));
        if is_labelled {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Writes labels without the brace behind them.
    fn labels<'l>(&mut self, labels: impl IntoIterator<Item = &'l Label<'l>>) {
        for (index, (label, text)) in labels.into_iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            // Writing to a string does not fail.
            let _ = write!(EscapedText(&mut self.text), "{text}");
            self.text.push('"');
        }
    }

    /// Writes the samples of a histogram. Of thousands of zones nearly all of the text are lines of buckets, so what these
    /// have in common is made once.
    fn buckets(
        &mut self,
        name: &str,
        own: &[Label<'_>],
        (histogram, exemplars): (&Histogram, &[ZoneExemplar]),
        Buckets { bounds, begin }: &mut Buckets,
    ) {
        begin.text.clear();
        begin.text.push_str(name);
        begin.text.push_str("_bucket");
        begin.labels(own);
        begin.text.push(if own.is_empty() { '{' } else { ',' });
        let mut below = 0;
        let mut exemplars = exemplars.iter().peekable();
        for (index, (count, bound)) in histogram.counts.iter().zip(bounds).enumerate() {
            below += count;
            self.text.push_str(&begin.text);
            self.text.push_str(bound);
            self.number(below);
            while let Some(exemplar) = exemplars.next_if(|one| one.is_below(index)) {
                self.exemplar(exemplar);
            }
            self.text.push('\n');
        }
        self.sample(&format!("{name}_sum"), own, Seconds(histogram.sum_us));
        self.sample(&format!("{name}_count"), own, below);
    }

    /// Writes an exemplar behind the sample of its bucket, where the format has a place for it.
    fn exemplar(&mut self, exemplar: &ZoneExemplar) {
        if self.format == TextFormat::OpenMetrics {
            let ZoneExemplar { trace_id, span_id, took_us, time } = exemplar;
            let took = Seconds(*took_us);
            let _ = write!(self.text, " # {{trace_id=\"{trace_id}\",span_id=\"{span_id}\"}} {took} {time:.3}");
        }
    }

    /// Writes a number; the library's way takes several times as long.
    fn number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.text.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
    }
}

/// The parts that the lines of all buckets have in common.
struct Buckets {
    /// The ends of the lines before the number: the label `le` of each bucket.
    bounds: Vec<String>,
    /// The beginning of the lines of one object.
    begin: Text,
}

impl Buckets {
    fn new(format: TextFormat) -> Buckets {
        let bounds = BOUNDS_US.iter().map(|bound| match (format, bound) {
            // OpenMetrics has one way to write a power of ten.
            (TextFormat::OpenMetrics, 1) => "le=\"1e-06\"} ".to_owned(),
            _ => format!("le=\"{}\"}} ", Seconds(*bound)),
        });
        Buckets { bounds: bounds.chain(["le=\"+Inf\"} ".to_owned()]).collect(), begin: Text::new(format) }
    }
}

/// A text with the family's words.
fn in_words(text: &'static str, words: &FamilyWords) -> Cow<'static, str> {
    if words.is_empty() {
        return text.into();
    }
    words.iter().fold(text.to_owned(), |text, (name, word)| text.replace(name, word)).into()
}

/// A number of microseconds, printed as seconds exactly.
pub(super) struct Seconds(pub(super) u64);

impl Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Writes the value of a label: backslash, quote and line feed are escaped.
struct EscapedText<'a>(&'a mut String);

impl Write for EscapedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
            self.0.push_str(&rest[..at]);
            self.0.push_str(match rest.as_bytes()[at] {
                b'\\' => "\\\\",
                b'"' => "\\\"",
                _ => "\\n",
            });
            rest = &rest[at + 1..];
        }
        self.0.push_str(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use freerun_runtime::stats::{BUCKETS, HistogramSnapshot};

    use super::*;

    #[test]
    fn labels_are_escaped_and_buckets_add_up() {
        let mut text = Text::new(TextFormat::Prometheus);
        text.sample("a", &[("x", &"back\\slash, \"quote\" and\nline"), ("y", &7)], 1);
        assert_eq!(text.text, "a{x=\"back\\\\slash, \\\"quote\\\" and\\nline\",y=\"7\"} 1\n");
        let mut counts = HistogramSnapshot { buckets: [0; BUCKETS], sum_us: 1_000_002, max_us: 0 };
        (counts.buckets[0], counts.buckets[2]) = (90, 1_234_567_000);
        let last = counts.buckets.len() - 1;
        counts.buckets[last] = 3;
        let histogram = Histogram::from(counts);
        for (labels, inside) in [(vec![("x", &"1" as &dyn Display)], "x=\"1\","), (Vec::new(), "")] {
            let mut text = Text::new(TextFormat::Prometheus);
            text.buckets("h", &labels, (&histogram, &[]), &mut Buckets::new(TextFormat::Prometheus));
            for line in [
                format!("h_bucket{{{inside}le=\"0.000001\"}} 90"),
                format!("h_bucket{{{inside}le=\"0.000002\"}} 90"),
                format!("h_bucket{{{inside}le=\"0.000004\"}} 1234567090"),
                format!("h_bucket{{{inside}le=\"+Inf\"}} 1234567093"),
            ] {
                assert!(text.text.lines().any(|found| found == line), "{line} is not in\n{}", text.text);
            }
            assert_eq!(text.text.lines().count(), last + 1 + 2);
            assert!(text.text.contains(" 1.000002\n"), "{}", text.text);
        }
    }
}
