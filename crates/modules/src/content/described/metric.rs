//! Metrics: how the figures of objects appear in Prometheus, described beside the fields that hold them
//! ([`described!`](super::described!)).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::histogram::{Histogram, ZoneExemplar};

/// The type of metrics with buckets.
pub const HISTOGRAM: &str = "histogram";

/// The description of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The type in Prometheus: `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The name, which may have `{…}` for words of the family.
    pub name: &'static str,
    /// The text of `# HELP`. Metrics of the same name that follow each other have the first one's.
    pub help: &'static str,
    /// The label that tells the values of one object apart.
    pub label: Option<&'static str>,
    /// The value of this label, where a field has one value of it.
    pub label_value: Option<&'static str>,
}

/// The value of a figure.
pub enum Figure<'a> {
    /// There is none, so no sample is written.
    Missing,
    /// A number.
    Number(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A number with decimals.
    Decimal(f64),
    /// A duration in microseconds, which is shown in seconds.
    Duration(u64),
    /// A histogram of durations.
    Histogram(&'a Histogram),
    /// A histogram with examples of its durations, from the shortest to the longest.
    WithExemplars(&'a Histogram, &'a [ZoneExemplar]),
    /// Numbers, by the values of the metric's label.
    Counts(Vec<(Cow<'a, str>, u64)>),
}

/// A field whose value is a figure.
pub trait FigureValue {
    /// The value.
    fn figure(&self) -> Figure<'_>;
}

macro_rules! numbers {
    ($($type:ty: $of:ident as $as:ty;)+) => {
        $(impl FigureValue for $type {
            fn figure(&self) -> Figure<'_> {
                Figure::$of(<$as>::from(*self))
            }
        })+
    };
}

numbers! {
    bool: Number as u64;
    u32: Number as u64;
    u64: Number as u64;
    i64: Signed as i64;
    f64: Decimal as f64;
}

impl FigureValue for usize {
    fn figure(&self) -> Figure<'_> {
        Figure::Number(*self as u64)
    }
}

impl<T: FigureValue> FigureValue for Option<T> {
    fn figure(&self) -> Figure<'_> {
        self.as_ref().map_or(Figure::Missing, T::figure)
    }
}

/// The figure of a list is its length.
impl<T> FigureValue for Vec<T> {
    fn figure(&self) -> Figure<'_> {
        Figure::Number(self.len() as u64)
    }
}

impl FigureValue for Histogram {
    fn figure(&self) -> Figure<'_> {
        Figure::Histogram(self)
    }
}

macro_rules! counts {
    ($($key:ty: $name:ident => $text:expr;)+) => {
        $(impl FigureValue for BTreeMap<$key, u64> {
            fn figure(&self) -> Figure<'_> {
                Figure::Counts(self.iter().map(|($name, count)| ($text, *count)).collect())
            }
        })+
    };
}

counts! {
    &'static str: name => Cow::Borrowed(*name);
    String: name => Cow::Borrowed(name.as_str());
    u16: code => Cow::Owned(code.to_string());
}

/// The figure of a state: 1 for the state that the object is in, 0 for other states.
pub fn state_figure<'a>(states: &'a [&'static str], state: &str) -> Figure<'a> {
    Figure::Counts(states.iter().map(|one| (Cow::Borrowed(*one), u64::from(*one == state))).collect())
}

/// The value of a metric for an object.
pub type MetricValue<'f, T> = &'f dyn for<'a> Fn(&'a T) -> Figure<'a>;

/// An object that has metrics.
pub trait HasMetrics: Sized {
    /// Calls `visit` with each metric of the type, in the order of the fields.
    fn each_metric(visit: &mut dyn FnMut(&Metric, MetricValue<'_, Self>));
}

/// Gives a closure the type of a metric's value, which the compiler does not find out by itself.
pub fn metric_value<T, F: for<'a> Fn(&'a T) -> Figure<'a>>(value: F) -> F {
    value
}
