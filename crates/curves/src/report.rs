//! Prints curves as tables, and writes them as JSON.

use std::io::{self, Write};

use clap::ValueEnum as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Result;
use crate::curve::{Curve, Point, Slopes, Verdict};
use crate::prices::REGION;
use crate::subject::{Sizes, Subject};

/// Curves of all subjects. Each says when and how it was measured, because subjects can be measured on different days.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    region: String,
    curves: Vec<Kept>,
}

/// A curve in a file: of this run, or of an earlier one.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    subject: String,
    /// The day, in UTC.
    date: String,
    sizes: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// When and how a subject is measured.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    date: String,
    sizes: Sizes,
    /// The load average of one minute before the subject was measured: above about 0.5, others used the machine too.
    load: f64,
    cores: usize,
}

impl Run {
    pub(crate) fn begin(sizes: Sizes) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            date: jiff::Timestamp::now().strftime("%F").to_string(),
            sizes,
            load: load.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// A curve with what is to be said of it.
#[derive(Debug, Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    run: &'a Run,
    #[serde(flatten)]
    curve: &'a Curve,
    slopes: Slopes,
    verdict: Verdict,
    memory: Option<Verdict>,
    faster_than_its_work: bool,
}

impl Report {
    /// With nothing in it.
    pub(crate) fn empty() -> Self {
        Self { region: REGION.to_owned(), curves: Vec::new() }
    }

    /// With the curves of a file, as [`Report::json`] wrote it.
    pub(crate) fn of(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Written {
            region: String,
            curves: Vec<Kept>,
        }
        let Written { region, curves } = serde_json::from_str(text)?;
        if region != REGION {
            return Err(format!("its prices are those of {region}, not of {REGION}").into());
        }
        Ok(Self { curves, ..Self::empty() })
    }

    /// Puts the curves of a subject in the place of those that the subject had.
    pub(crate) fn replace(&mut self, subject: Subject, run: &Run, curves: &[Curve]) -> Result<()> {
        let name = subject.to_string();
        self.curves.retain(|kept| kept.subject != name);
        for curve in curves {
            let faster_than_its_work = curve.grows_faster_than_its_work();
            let (slopes, verdict, memory) = (curve.slopes(), curve.verdict(), curve.memory());
            let judged = Judged { run, curve, slopes, verdict, memory, faster_than_its_work };
            self.curves.push(serde_json::from_value(serde_json::to_value(judged)?)?);
        }
        // In the order of the subjects. A subject that no longer exists has no place.
        let subjects: Vec<String> = Subject::value_variants().iter().map(ToString::to_string).collect();
        self.curves.retain(|kept| subjects.contains(&kept.subject));
        self.curves.sort_by_key(|kept| subjects.iter().position(|subject| *subject == kept.subject));
        Ok(())
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }
}

/// The curves of a subject that grow faster than their work does although nobody expects that, each in a sentence.
pub(crate) fn too_fast(curves: &[Curve], sizes: Sizes) -> impl Iterator<Item = String> {
    let too_fast = curves.iter().filter(move |curve| sizes.can_be_judged() && curve.grows_faster_than_its_work());
    too_fast.map(|curve| {
        let Curve { subject, operation, expected, .. } = curve;
        let (largest, memory) = (curve.largest_slope(), signed(curve.slopes().memory));
        format!("{subject}, {operation}: largest slope {largest:+.2}, all memory {memory}, expected {expected}")
    })
}

fn signed(slope: Option<f64>) -> String {
    slope.map_or("-".to_owned(), |slope| format!("{slope:+.2}"))
}

/// Prints a curve as a table.
pub(crate) fn print(out: &mut impl Write, curve: &Curve) -> io::Result<()> {
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
    let verdict = curve.verdict().words();
    let alarm = if curve.grows_faster_than_its_work() { "  FASTER THAN ITS WORK" } else { "" };
    let memory = curve.memory().map_or(String::new(), |memory| format!(", memory {}", memory.words()));
    writeln!(out, "slope {}: {verdict} (expected {expected}){memory}{alarm}", slopes.collect::<Vec<_>>().join(", "))
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

    fn curve(subject: &'static str, operation: &'static str, power: i32) -> Curve {
        let point = |size: u64| Point {
            size,
            time_us: 100.0,
            cpu_us: (size as f64).powi(power),
            calls: 1.0,
            memory: 0.0,
            dollars: Some(1.25),
        };
        let points = [10, 100, 1_000, 10_000].map(point).into();
        Curve { subject, operation, of: "keys", unit: "call", expected: Expected::Flat, points }
    }

    fn run(date: &str, sizes: Sizes) -> Run {
        Run { date: date.to_owned(), sizes, load: 0.25, cores: 2 }
    }

    #[test]
    fn a_subject_that_is_measured_again_replaces_its_curves_and_no_others() {
        let mut report = Report::empty();
        let first = run("2026-11-17", Sizes::Small);
        report.replace(Subject::History, &first, &[curve("history", "transfer", 0)]).unwrap();
        report.replace(Subject::Keys, &first, &[curve("keys", "mark", 0), curve("keys", "run", 0)]).unwrap();
        let mut again = Report::of(&report.json().unwrap()).unwrap();
        assert_eq!(again.json().unwrap(), report.json().unwrap(), "what is written is read back");
        again.replace(Subject::Keys, &run("2026-11-18", Sizes::Full), &[curve("keys", "mark", 0)]).unwrap();
        let written: Value = serde_json::from_str(&again.json().unwrap()).unwrap();
        let curves = written["curves"].as_array().unwrap().iter();
        let curves: Vec<_> =
            curves.map(|curve| ["subject", "date", "sizes"].map(|name| curve[name].as_str().unwrap())).collect();
        assert_eq!(curves, [["keys", "2026-11-18", "full"], ["history", "2026-11-17", "small"]]);
    }

    #[test]
    fn a_file_whose_curves_do_not_say_when_they_were_measured_is_refused() {
        let error = Report::of(r#"{"region": "ap-northeast-1", "curves": [{"subject": "keys"}]}"#).unwrap_err();
        assert!(error.to_string().contains("date"), "{error}");
        Report::of(r#"{"region": "us-east-1", "curves": []}"#).unwrap_err();
    }

    #[test]
    fn what_grows_faster_than_its_work_is_named_unless_it_is_expected() {
        let allowed = Curve { expected: Expected::linear("it looks at all"), ..curve("keys", "list", 1) };
        let curves = [curve("keys", "mark", 0), allowed, curve("keys", "run", 1)];
        let named: Vec<String> = too_fast(&curves, Sizes::Full).collect();
        assert_eq!(named, ["keys, run: largest slope +1.00, all memory -, expected flat"]);
        assert_eq!(too_fast(&curves, Sizes::Tiny).count(), 0, "the slopes of tiny sizes say nothing");
    }

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
        let (of, expected) = ("keys in the table", Expected::linear("it looks at all"));
        let curve = Curve { subject: "keys", operation: "mark", of, unit: "call", expected, points };
        let mut text = Vec::new();
        print(&mut text, &curve).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("1,000,000        100 µs        1.00 s          1.00      2.0 MB            1.25"),
            "{text}"
        );
        let last = "slope time +0.00, CPU +1.00, calls +0.00, dollars +0.00, all memory +0.00: grows (expected at most +1.00: it looks at all), memory flat\n";
        assert!(text.ends_with(last), "{text}");
    }
}
