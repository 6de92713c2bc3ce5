//! Samples in the text format of Prometheus.

use std::fmt::{self, Display, Write};

use super::histogram::Histogram;

/// One label of a sample.
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
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            // Writing to a string does not fail.
            let _ = write!(Escaped(&mut self.0), "{text}");
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Writes a histogram; `of` returns the labels and the values of one sample.
    pub(super) fn histogram<'a, T: Copy + 'a>(
        &mut self,
        name: &str,
        help: &str,
        all: impl Iterator<Item = T>,
        of: fn(T) -> (Vec<Label<'a>>, &'a Histogram),
    ) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for one in all {
            let (own, histogram) = of(one);
            let mut below = 0;
            for (index, count) in histogram.counts.iter().enumerate() {
                below += count;
                let bound = histogram.bounds_us.get(index).map(|bound| Seconds(*bound));
                let mut labels = own.clone();
                labels.push(("le", bound.as_ref().map_or(&"+Inf" as &dyn Display, |bound| bound)));
                self.sample(&bucket, &labels, below);
            }
            self.sample(&format!("{name}_sum"), &own, Seconds(histogram.sum_us));
            self.sample(&format!("{name}_count"), &own, below);
        }
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
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}
