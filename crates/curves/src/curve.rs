//! Curves: the cost of one unit at several sizes, and how it grows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A curve is flat up to this slope: with a thousand times the size, a unit costs 2.3 times as much at most. A logarithm over three
/// decades has about 0.1. Where a subject covers less, the slope is the same and the factor less: with 50 times the size, 1.6.
const FLAT: f64 = 0.12;

/// All the memory may grow as the size does, and as much faster as a flat curve may grow.
const MEMORY: f64 = 1.0 + FLAT;

/// Less memory than this is what the allocator happened to ask for.
const MUCH: f64 = 1e6;

/// What one unit costs at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) size: u64,
    /// Microseconds per unit, the store included.
    pub(crate) time_us: f64,
    /// Microseconds of CPU per unit, without the store and the stand-ins.
    pub(crate) cpu_us: f64,
    /// Calls to the store per unit.
    pub(crate) calls: f64,
    /// Bytes that the work, or what it is about, took at most.
    pub(crate) memory: f64,
    /// Dollars per million units; `None` where nothing is paid for.
    pub(crate) dollars: Option<f64>,
}

impl Point {
    /// The same per unit, if what was measured were so many units.
    pub(crate) fn per(self, units: u64) -> Self {
        let units = units as f64;
        Self {
            time_us: self.time_us / units,
            cpu_us: self.cpu_us / units,
            calls: self.calls / units,
            dollars: self.dollars.map(|dollars| dollars / units),
            ..self
        }
    }

    /// What a unit costs that takes one of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            size: self.size,
            time_us: self.time_us + other.time_us,
            cpu_us: self.cpu_us + other.cpu_us,
            calls: self.calls + other.calls,
            memory: self.memory.max(other.memory),
            dollars: self.dollars.into_iter().chain(other.dollars).reduce(|one, two| one + two),
        }
    }
}

/// How a curve should look.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Expected {
    Flat,
    /// A unit costs more with a larger size, up to this slope.
    Grows {
        slope: f64,
        why: &'static str,
    },
}

impl Expected {
    /// Each unit costs in proportion to the size.
    pub(crate) fn linear(why: &'static str) -> Self {
        Self::Grows { slope: 1.0, why }
    }

    fn most(self) -> f64 {
        match self {
            Self::Flat => FLAT,
            Self::Grows { slope, .. } => slope + FLAT,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flat => f.write_str("flat"),
            Self::Grows { slope, why } => write!(f, "at most {slope:+.2}: {why}"),
        }
    }
}

/// One operation of a subject.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Curve {
    pub(crate) subject: &'static str,
    pub(crate) operation: &'static str,
    /// What the sizes count: "keys in the table".
    pub(crate) of: &'static str,
    /// What a unit is: "call".
    pub(crate) unit: &'static str,
    pub(crate) expected: Expected,
    pub(crate) points: Vec<Point>,
}

/// The slopes of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Slopes {
    pub(crate) time: Option<f64>,
    pub(crate) cpu: Option<f64>,
    pub(crate) calls: Option<f64>,
    pub(crate) dollars: Option<f64>,
    /// Of all the memory, not of that per unit.
    pub(crate) memory: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    /// A unit costs less where there is more, because it shares what is done once.
    Falls,
    Flat,
    Grows,
}

impl Verdict {
    fn of(slope: f64) -> Self {
        match slope {
            slope if slope > FLAT => Self::Grows,
            slope if slope < -FLAT => Self::Falls,
            _ => Self::Flat,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Falls => "falls",
            Self::Flat => "flat",
            Self::Grows => "grows",
        }
    }
}

impl Curve {
    pub(crate) fn slopes(&self) -> Slopes {
        let of = |pick: fn(&Point) -> f64| {
            slope(&self.points.iter().map(|point| (point.size as f64, pick(point))).collect::<Vec<_>>())
        };
        Slopes {
            time: of(|point| point.time_us),
            cpu: of(|point| point.cpu_us),
            calls: of(|point| point.calls),
            dollars: of(|point| point.dollars.unwrap_or(0.0)),
            memory: of(|point| point.memory),
        }
    }

    /// The largest slope of what our own code causes: its CPU, its calls, what they cost. A cost that falls does not make up for one
    /// that grows. The time is not among them: it includes the embedded store, which is not what runs on AWS, and whatever else this
    /// machine does.
    pub(crate) fn largest_slope(&self) -> f64 {
        let Slopes { cpu, calls, dollars, .. } = self.slopes();
        [cpu, calls, dollars].into_iter().flatten().reduce(f64::max).unwrap_or_default()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        Verdict::of(self.largest_slope())
    }

    /// How all the memory grows; `None` if there is little of it. It may grow as the size does: what is there has to be somewhere.
    pub(crate) fn memory(&self) -> Option<Verdict> {
        let is_much = self.points.iter().any(|point| point.memory >= MUCH);
        self.slopes().memory.filter(|_| is_much).map(Verdict::of)
    }

    /// Whether a unit costs more and more, or all of them take more and more memory, beyond what the size explains.
    pub(crate) fn grows_faster_than_its_work(&self) -> bool {
        let memory = self.memory().and(self.slopes().memory).unwrap_or_default();
        self.largest_slope() > self.expected.most() || memory > MEMORY
    }
}

/// Least squares of log(cost) over log(size). `None` if there are fewer than two sizes, or a cost is not positive.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(size, cost)| (size.ln(), cost.ln())).collect();
    if logs.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    let count = logs.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| logs.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let variance: f64 = logs.iter().map(|point| (point.0 - x).powi(2)).sum();
    let covariance: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cost: impl Fn(f64) -> f64) -> f64 {
        let points = [1e3, 1e4, 1e5, 1e6].map(|size| (size, cost(size)));
        slope(&points).unwrap()
    }

    #[test]
    fn the_slope_is_the_power_with_which_a_unit_costs_more() {
        for (expected, found) in [
            (0.0, at(|_| 7.0)),
            (1.0, at(|size| 3.0 * size)),
            (2.0, at(|size| size * size)),
            (0.5, at(f64::sqrt)),
            (-1.0, at(|size| 1.0 / size)),
        ] {
            assert!((expected - found).abs() < 1e-9, "{expected} {found}");
        }
        assert!((0.05..FLAT).contains(&at(f64::ln)), "a logarithm is flat: {}", at(f64::ln));
    }

    #[test]
    fn without_two_sizes_or_with_a_cost_of_nothing_there_is_no_slope() {
        assert_eq!(slope(&[]), None);
        assert_eq!(slope(&[(10.0, 1.0)]), None);
        assert_eq!(slope(&[(10.0, 1.0), (10.0, 2.0)]), None);
        assert_eq!(slope(&[(1.0, 0.0), (10.0, 2.0)]), None);
    }

    fn curve(expected: Expected, cost: impl Fn(f64) -> f64) -> Curve {
        with_memory(expected, cost, |_| 0.0)
    }

    fn with_memory(expected: Expected, cost: impl Fn(f64) -> f64, memory: impl Fn(f64) -> f64) -> Curve {
        let point = |size: u64| {
            let (cpu_us, memory) = (cost(size as f64), memory(size as f64));
            Point { size, time_us: 1.0, cpu_us, calls: 2.0, memory, dollars: None }
        };
        let points = [10, 100, 1_000, 10_000].map(point).into();
        Curve { subject: "s", operation: "o", of: "things", unit: "call", expected, points }
    }

    #[test]
    fn memory_may_grow_as_the_size_does_and_not_faster() {
        let of = |memory: fn(f64) -> f64| {
            let curve = with_memory(Expected::Flat, |_| 5.0, memory);
            (curve.memory(), curve.grows_faster_than_its_work())
        };
        assert_eq!(of(|_| 2e6), (Some(Verdict::Flat), false));
        assert_eq!(of(|size| 1e3 * size), (Some(Verdict::Grows), false));
        assert_eq!(of(|size| 100.0 * size * size), (Some(Verdict::Grows), true));
        assert_eq!(of(|size| size), (None, false), "too little to say anything");
    }

    #[test]
    fn a_curve_is_judged_by_its_largest_slope_and_against_what_was_expected() {
        let flat = curve(Expected::Flat, |_| 5.0);
        assert_eq!((flat.verdict(), flat.grows_faster_than_its_work()), (Verdict::Flat, false));
        let linear = curve(Expected::Flat, |size| size);
        assert_eq!((linear.verdict(), linear.grows_faster_than_its_work()), (Verdict::Grows, true));
        let allowed = curve(Expected::linear("each looks at all"), |size| size);
        assert_eq!((allowed.verdict(), allowed.grows_faster_than_its_work()), (Verdict::Grows, false));
        let square = curve(Expected::linear("each looks at all"), |size| size * size);
        assert!(square.grows_faster_than_its_work());
        let caches = Expected::Grows { slope: 0.2, why: "caches" };
        assert!(!curve(caches, |size| size.powf(0.3)).grows_faster_than_its_work());
        assert!(curve(caches, |size| size.powf(0.4)).grows_faster_than_its_work());
        // The calls are as flat as ever: what is shared falls only in the CPU.
        assert_eq!(curve(Expected::Flat, |size| 1.0 / size).verdict(), Verdict::Flat);
    }
}
