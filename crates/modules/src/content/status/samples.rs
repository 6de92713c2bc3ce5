//! Samples in the text format of Prometheus.

use std::fmt::{self, Display, Write};

use super::histogram::{BOUNDS_US, Histogram};

/// A label of a sample.
pub(super) type Label<'a> = (&'a str, &'a dyn Display);

/// A text that samples are added to.
pub(super) struct Text(pub(super) String);

impl Text {
    /// Writes `# HELP` and `# TYPE`, once for each name.
    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, &[], value);
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.0.push_str(name);
        self.labels(labels);
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Writes labels without the brace behind them.
    fn labels(&mut self, labels: &[Label<'_>]) {
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            // Writing to a string does not fail.
            let _ = write!(EscapedText(&mut self.0), "{text}");
            self.0.push('"');
        }
    }

    /// Writes a histogram; `of` returns the labels and the values of one sample. Of thousands of zones nearly all of the text
    /// are lines of buckets, so what these have in common is made once.
    pub(super) fn histogram<'a, T: Copy + 'a>(
        &mut self,
        name: &str,
        help: &str,
        all: impl Iterator<Item = T>,
        of: fn(T) -> (Vec<Label<'a>>, &'a Histogram),
    ) {
        self.head(name, "histogram", help);
        let bounds = BOUNDS_US.iter().map(|bound| format!("le=\"{}\"}} ", Seconds(*bound)));
        let bounds: Vec<String> = bounds.chain(["le=\"+Inf\"} ".to_owned()]).collect();
        let mut begin = Text(String::new());
        for one in all {
            let (own, histogram) = of(one);
            begin.0.clear();
            begin.0.push_str(name);
            begin.0.push_str("_bucket");
            begin.labels(&own);
            begin.0.push(if own.is_empty() { '{' } else { ',' });
            let mut below = 0;
            for (count, bound) in histogram.counts.iter().zip(&bounds) {
                below += count;
                self.0.push_str(&begin.0);
                self.0.push_str(bound);
                self.number(below);
                self.0.push('\n');
            }
            self.sample(&format!("{name}_sum"), &own, Seconds(histogram.sum_us));
            self.sample(&format!("{name}_count"), &own, below);
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
        self.0.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
    }
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
        let mut text = Text(String::new());
        text.sample("a", &[("x", &"back\\slash, \"quote\" and\nline"), ("y", &7)], 1);
        assert_eq!(text.0, "a{x=\"back\\\\slash, \\\"quote\\\" and\\nline\",y=\"7\"} 1\n");
        let mut counts = HistogramSnapshot { buckets: [0; BUCKETS], sum_us: 1_000_002, max_us: 0 };
        (counts.buckets[0], counts.buckets[2]) = (90, 1_234_567_000);
        let last = counts.buckets.len() - 1;
        counts.buckets[last] = 3;
        let histogram = Histogram::from(counts);
        for (labels, inside) in [(vec![("x", &"1" as &dyn Display)], "x=\"1\","), (Vec::new(), "")] {
            let mut text = Text(String::new());
            text.histogram("h", "Help.", std::iter::once((&labels, &histogram)), |(labels, histogram)| {
                (labels.clone(), histogram)
            });
            for line in [
                format!("h_bucket{{{inside}le=\"0.000001\"}} 90"),
                format!("h_bucket{{{inside}le=\"0.000002\"}} 90"),
                format!("h_bucket{{{inside}le=\"0.000004\"}} 1234567090"),
                format!("h_bucket{{{inside}le=\"+Inf\"}} 1234567093"),
            ] {
                assert!(text.0.lines().any(|found| found == line), "{line} is not in\n{}", text.0);
            }
            assert_eq!(text.0.lines().count(), 2 + last + 1 + 2);
            assert!(text.0.contains(" 1.000002\n"), "{}", text.0);
        }
    }
}
