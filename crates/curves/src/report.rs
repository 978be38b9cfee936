//! Prints curves as tables, and writes them as JSON.

use std::io::{self, Write};

use serde::Serialize;

use crate::Result;
use crate::curve::{Curve, Point, Slopes, Verdict};
use crate::prices::REGION;
use crate::subject::Sizes;

/// All that was measured in one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The day, in UTC.
    date: String,
    sizes: Sizes,
    region: &'static str,
    /// The load average of one minute before the first measurement: above about 0.5, others used the machine too.
    load: f64,
    cores: usize,
    curves: Vec<Judged>,
}

/// A curve with what is to be said of it.
#[derive(Debug, Serialize)]
struct Judged {
    #[serde(flatten)]
    curve: Curve,
    slopes: Slopes,
    verdict: Verdict,
    memory: Option<Verdict>,
    faster_than_its_work: bool,
}

impl Report {
    pub(crate) fn begin(sizes: Sizes) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            date: jiff::Timestamp::now().strftime("%F").to_string(),
            sizes,
            region: REGION,
            load: load.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            curves: Vec::new(),
        }
    }

    /// Keeps the curves of a subject, and prints them.
    pub(crate) fn add(&mut self, curves: Vec<Curve>) -> Result<()> {
        let out = &mut io::stdout();
        for curve in curves {
            print(out, &curve)?;
            self.curves.push(Judged {
                slopes: curve.slopes(),
                verdict: curve.verdict(),
                memory: curve.memory(),
                faster_than_its_work: curve.grows_faster_than_its_work(),
                curve,
            });
        }
        Ok(())
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }
}

fn print(out: &mut impl Write, curve: &Curve) -> io::Result<()> {
    let Curve { subject, operation, of, unit, expected, points } = curve;
    writeln!(out, "\n{subject}: {operation}, per {unit}")?;
    writeln!(out, "{:>24}{:>14}{:>14}{:>14}{:>12}{:>16}", of, "time", "CPU", "store calls", "memory", "$ per million")?;
    for point in points {
        let Point { size, time_us, cpu_us, calls, memory, dollars } = point;
        let dollars = dollars.map_or("-".to_owned(), |dollars| format!("{dollars:.2}"));
        writeln!(
            out,
            "{:>24}{:>14}{:>14}{:>14}{:>12}{:>16}",
            grouped(*size),
            duration(*time_us),
            duration(*cpu_us),
            count(*calls),
            bytes(*memory),
            dollars
        )?;
    }
    let Slopes { time, cpu, calls, dollars, memory } = curve.slopes();
    let slopes = [("time", time), ("CPU", cpu), ("calls", calls), ("dollars", dollars), ("all memory", memory)];
    let slopes = slopes.iter().filter_map(|(name, slope)| Some(format!("{name} {:+.2}", (*slope)?)));
    let (verdict, expectation) = (curve.verdict().words(), expected.words());
    let alarm = if curve.grows_faster_than_its_work() { "  FASTER THAN ITS WORK" } else { "" };
    let memory = curve.memory().map_or(String::new(), |memory| format!(", memory {}", memory.words()));
    writeln!(out, "slope {}: {verdict} (expected {expectation}){memory}{alarm}", slopes.collect::<Vec<_>>().join(", "))
}

/// `1,000,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn duration(microseconds: f64) -> String {
    match microseconds {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us if us >= 10.0 => format!("{us:.0} µs"),
        us => format!("{us:.2} µs"),
    }
}

fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.0} KB", bytes / 1e3),
    }
}

fn count(number: f64) -> String {
    match number {
        0.0 => "-".to_owned(),
        number if number >= 0.01 => format!("{number:.2}"),
        number => format!("{number:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Expected;

    #[test]
    fn a_table_has_its_sizes_its_slope_and_what_was_expected() {
        let point = |size: u64| Point {
            size,
            time_us: 100.0,
            cpu_us: size as f64,
            calls: 1.0,
            memory: 2e6,
            dollars: Some(1.25),
        };
        let points = [1_000, 10_000, 100_000, 1_000_000].map(point).into();
        let (of, expected) = ("keys in the table", Expected::Flat);
        let curve = Curve { subject: "keys", operation: "mark", of, unit: "call", expected, points };
        let mut text = Vec::new();
        print(&mut text, &curve).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("1,000,000        100 µs        1.00 s          1.00      2.0 MB            1.25"),
            "{text}"
        );
        let last = "slope time +0.00, CPU +1.00, calls +0.00, dollars +0.00, all memory +0.00: grows (expected flat), memory flat  FASTER THAN ITS WORK\n";
        assert!(text.ends_with(last), "{text}");
    }
}
