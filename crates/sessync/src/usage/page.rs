//! The report as a page: one file without scripts and without anything from elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use telemetry::terminal::harmless;

use super::{Report, prices};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1b1f24;background:#fff}\
table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{padding:.3rem .6rem;border-bottom:1px solid #d8dee4;text-align:right}\
th:nth-child(-n+3),td:nth-child(-n+3){text-align:left}svg{width:100%;height:auto}text{font:11px system-ui,sans-serif;fill:currentColor}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}}";
const COLOURS: [&str; 4] = ["#2f81f7", "#db6d28", "#3fb950", "#a371f7"];

/// The page.
pub(crate) fn html(report: &Report) -> String {
    let mut out = String::from("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Usage</title>");
    let _ = write!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body><h1>Usage</h1>"
    );
    let total = &report.total;
    let _ = write!(
        out,
        "<p>{} responses, ${:.2}. Days are in UTC. Costs are list prices.</p>",
        total.responses,
        prices::dollars(total.cost)
    );
    if total.unpriced > 0 {
        let _ = write!(
            out,
            "<p>{} responses are of models without a known price; they are not in the cost.</p>",
            total.unpriced
        );
    }
    let mut cost: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    let mut tokens: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for day in &report.days {
        cost.entry(&day.day).or_default().push((0, prices::dollars(day.row.cost)));
        let parts = [
            day.row.tokens.input_tokens,
            day.row.tokens.output_tokens,
            day.row.tokens.cache_read_tokens,
            day.row.tokens.cache_creation_tokens,
        ];
        tokens.entry(&day.day).or_default().extend(parts.into_iter().map(|part| part as f64).enumerate());
    }
    chart(&mut out, "Cost per day (USD)", &["cost"], &cost);
    chart(&mut out, "Tokens per day", &["input", "output", "cache read", "cache creation"], &tokens);
    out.push_str("<table><thead><tr><th>day<th>project<th>model<th>responses<th>input<th>output<th>cache read<th>cache creation<th>cost</tr></thead><tbody>");
    for day in &report.days {
        let row = &day.row;
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escaped(&day.day),
            escaped(&day.project),
            escaped(&day.model),
            row.responses,
            row.tokens.input_tokens,
            row.tokens.output_tokens,
            row.tokens.cache_read_tokens,
            row.tokens.cache_creation_tokens,
            if row.unpriced > 0 { "?".to_owned() } else { format!("${:.2}", prices::dollars(row.cost)) },
        );
    }
    out.push_str("</tbody></table></body></html>\n");
    out
}

/// A bar per day, with a part per name.
fn chart(out: &mut String, title: &str, names: &[&str], days: &BTreeMap<&str, Vec<(usize, f64)>>) {
    const HEIGHT: f64 = 160.0;
    let sum = |parts: &[(usize, f64)]| parts.iter().map(|(_, value)| value).sum::<f64>();
    let most = days.values().map(|parts| sum(parts)).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let width = 14.0;
    let _ = write!(
        out,
        "<h2>{title}</h2><svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{title}\">",
        (days.len() as f64 * width).max(300.0),
        HEIGHT + 30.0
    );
    for (at, (day, parts)) in days.iter().enumerate() {
        let mut top = HEIGHT + 12.0;
        for (name, label) in names.iter().enumerate() {
            let value: f64 = parts.iter().filter(|(of, _)| *of == name).map(|(_, value)| value).sum();
            let height = value / most * HEIGHT;
            top -= height;
            let _ = write!(
                out,
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{}\"><title>{} {label}: {value:.2}</title></rect>",
                at as f64 * width,
                width - 3.0,
                COLOURS[name % COLOURS.len()],
                escaped(day),
            );
        }
    }
    for (label, at) in [
        (days.keys().next(), 0.0),
        (days.keys().next_back().filter(|_| days.len() > 8), (days.len() as f64 - 5.0) * width),
    ] {
        if let Some(label) = label {
            let _ = write!(out, "<text x=\"{at:.0}\" y=\"{:.0}\">{}</text>", HEIGHT + 26.0, escaped(label));
        }
    }
    out.push_str("</svg><p>");
    for (name, label) in names.iter().enumerate() {
        let _ = write!(out, "<span style=\"color:{}\">&#9632;</span> {label} ", COLOURS[name % COLOURS.len()]);
    }
    out.push_str("</p>");
}

/// A project or a model is somebody else's text.
fn escaped(text: &str) -> String {
    harmless(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
