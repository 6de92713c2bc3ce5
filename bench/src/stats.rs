//! Figures of several runs, and percentiles of one.

use std::fmt;
use std::time::Duration;

/// A figure measured in several runs; runs that gave none are not in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series(Vec<f64>);

impl Series {
    /// Adds the figure of one run.
    pub fn push(&mut self, value: f64) {
        if value.is_finite() {
            self.0.push(value);
        }
    }

    /// The middle figure (the mean of the two middle ones of an even number).
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            n if n % 2 == 1 => Some(sorted[middle]),
            _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        }
    }

    /// The largest figure.
    pub fn max(&self) -> Option<f64> {
        self.0.iter().copied().max_by(f64::total_cmp)
    }

    /// The smallest figure.
    pub fn min(&self) -> Option<f64> {
        self.0.iter().copied().min_by(f64::total_cmp)
    }

    /// `median`, or `median (min–max)` where there are several runs, with three significant digits.
    pub fn cell(&self) -> String {
        match (self.median(), self.min(), self.max()) {
            (Some(median), Some(min), Some(max)) if self.0.len() > 1 => {
                format!("{} ({}–{})", short(median), short(min), short(max))
            }
            (Some(median), ..) => short(median),
            _ => NOTHING.into(),
        }
    }
}

impl Extend<f64> for Series {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut series = Series::default();
        series.extend(values);
        series
    }
}

/// The text of a table where there is no figure.
pub const NOTHING: &str = "–";

/// A number with three significant digits, and no exponent.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        0.0 => "0".into(),
        m if m >= 99.95 => format!("{value:.0}"),
        m if m >= 9.995 => format!("{value:.1}"),
        m if m >= 0.9995 => format!("{value:.2}"),
        m if m >= 0.0095 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

/// [`short`], or a dash.
pub fn short_or_nothing(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.into(), short)
}

/// Latencies of one run.
#[derive(Debug, Clone, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Sorts `durations`.
    pub fn new(mut durations: Vec<Duration>) -> Self {
        durations.sort();
        Latencies(durations)
    }

    /// The number of times.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest duration that `percent` of all do not exceed (nearest rank), in milliseconds.
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let rank = (percent / 100.0 * self.0.len() as f64).ceil() as usize;
        let duration = self.0.get(rank.saturating_sub(1))?;
        Some(duration.as_secs_f64() * 1000.0)
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [50.0, 99.0, 100.0].map(|p| short_or_nothing(self.percentile_ms(p)));
        write!(f, "p50 {p50} ms, p99 {p99} ms, max {max} ms of {}", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(Series::from_iter([4.0, 1.0, 3.0, 2.0]).median(), Some(2.5));
        assert_eq!(Series::from_iter([9.0, 1.0, 3.0]).median(), Some(3.0));
        assert_eq!(Series::default().median(), None);
    }

    #[test]
    fn a_figure_that_is_not_a_number_is_left_out() {
        let series = Series::from_iter([1.0, f64::NAN, f64::INFINITY]);
        assert_eq!(series.cell(), "1.00");
        assert_eq!(Series::from_iter([1.0, 200.4]).cell(), "101 (1.00–200)");
    }

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let latencies = Latencies::new((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(latencies.percentile_ms(50.0), Some(50.0));
        assert_eq!(latencies.percentile_ms(99.0), Some(99.0));
        assert_eq!(latencies.percentile_ms(100.0), Some(100.0));
        assert_eq!(Latencies::default().percentile_ms(99.0), None);
    }
}
