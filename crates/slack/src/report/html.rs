//! The report as one HTML page that needs nothing else: no script, no font, no request. It opens from a file.

use std::fmt::Write as _;

use super::Report;
use crate::table::history::{Hour, Tally, What};

/// The height of the tallest bar.
const BAR_HEIGHT: f64 = 160.0;
const BAR_STEP: f64 = 22.0;
const HOURS_PER_DAY: u64 = 24;
/// With more days than this, not every bar has its date.
const LABELLED_DAYS: usize = 14;

const STYLE: &str = "
:root { color-scheme: light dark; --soft: #6b7280; --line: #d1d5db; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .7rem .2rem 0; text-align: right; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; } .soft { color: var(--soft); }
.bad { border-left: 4px solid #dc2626; padding-left: .8rem; } .legend span { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem; }
.scroll { overflow-x: auto; } text { font: 10px system-ui, sans-serif; fill: currentColor; }
";

/// What a reader sees, with its colour.
const SHOWN: [(What, &str, &str); 10] = [
    (What::Handled, "handled", "#2563eb"),
    (What::Found, "found at its destination", "#60a5fa"),
    (What::Retry, "Slack's retry", "#f59e0b"),
    (What::AtOnce, "at once", "#fbbf24"),
    (What::Envelope, "another envelope", "#a855f7"),
    (What::Outage, "after an outage", "#ef4444"),
    (What::Earlier, "the bot before", "#9ca3af"),
    (What::SameContent, "same content", "#14b8a6"),
    (What::Failed, "failed, per attempt", "#7f1d1d"),
    (What::Refused, "refused deliveries", "#be123c"),
];
/// Those that the bars show: what arrived.
const IN_BARS: usize = 8;

/// The page. `place` says whose history it is: `prod`.
pub fn page(report: &Report, place: &str) -> String {
    let (from, to) = (report.from, report.to);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Slack events, {place}</title><style>{STYLE}</style></head><body>\n<h1>Slack events, {place}</h1>\n\
         <p class=\"soft\">{from}:00 to {to}:00 and a part of the present hour. Times are UTC.</p>\n",
        place = escape(place)
    );
    let mut put = |part: &str| page.push_str(part);
    put(&anomalies(report));
    put("<h2>By day</h2>\n");
    put(&bars(report));
    put("<h2>By hour</h2>\n");
    put(&hours(report));
    put("<h2>By channel</h2>\n");
    put(&channels(report));
    put("</body></html>\n");
    page
}

fn anomalies(report: &Report) -> String {
    let judged: String =
        report.judged_in_words().iter().map(|words| format!("<p>{}.</p>\n", sentence(words))).collect();
    if report.anomalies.is_empty() {
        return judged;
    }
    let list: String =
        report.anomalies.iter().map(|anomaly| format!("<li>{}</li>\n", escape(&anomaly.in_words()))).collect();
    format!("<div class=\"bad\"><h2>Unusual</h2><ul>\n{list}</ul></div>\n{judged}")
}

/// With a capital letter at its beginning.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn bars(report: &Report) -> String {
    let most = report.by_day.iter().map(|(_, tally)| tally.arrived()).max().unwrap_or_default().max(1) as f64;
    let width = BAR_STEP * report.by_day.len() as f64 + 40.0;
    let height = BAR_HEIGHT + 34.0;
    let mut svg = format!(
        "<div class=\"scroll\"><svg role=\"img\" aria-label=\"Arrivals per day\" width=\"{width}\" height=\"{height}\">\
         <text x=\"0\" y=\"10\">{most}</text>"
    );
    let every = report.by_day.len().div_ceil(LABELLED_DAYS);
    for (index, (day, tally)) in report.by_day.iter().enumerate() {
        let x = 34.0 + BAR_STEP * index as f64;
        let mut y = BAR_HEIGHT + 12.0;
        for (what, name, colour) in SHOWN.iter().take(IN_BARS) {
            let count = tally.get(*what);
            let tall = count as f64 / most * BAR_HEIGHT;
            y -= tall;
            if count > 0 {
                let _ = write!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{}\" height=\"{tall:.1}\" fill=\"{colour}\"><title>{day}: {count} {name}</title></rect>",
                    BAR_STEP - 4.0
                );
            }
        }
        if index % every == 0 {
            let label = day.get(5..).unwrap_or(day);
            let _ = write!(svg, "<text x=\"{x}\" y=\"{}\">{label}</text>", BAR_HEIGHT + 26.0);
        }
    }
    svg.push_str("</svg></div>\n<p class=\"legend soft\">");
    for (_, name, colour) in SHOWN.iter().take(IN_BARS) {
        let _ = write!(svg, "<span style=\"background:{colour}\"></span>{name}");
    }
    svg.push_str("</p>\n");
    svg
}

/// One row per day and one square per hour, the darker the more arrived.
fn hours(report: &Report) -> String {
    let mut all = std::collections::BTreeMap::<Hour, Tally>::new();
    for entry in &report.by_hour {
        all.entry(entry.hour).or_default().merge(&entry.tally);
    }
    let most = all.values().map(Tally::arrived).max().unwrap_or_default().max(1) as f64;
    let rows = report.by_day.len() as f64;
    let mut svg = format!(
        "<div class=\"scroll\"><svg role=\"img\" aria-label=\"Arrivals per hour\" width=\"560\" height=\"{}\">",
        rows * 18.0 + 18.0
    );
    for hour in (0..HOURS_PER_DAY).step_by(6) {
        let _ = write!(svg, "<text x=\"{}\" y=\"10\">{hour:02}</text>", 76 + hour * 20);
    }
    for (row, (day, _)) in report.by_day.iter().enumerate() {
        let y = 16 + row * 18;
        let _ = write!(svg, "<text x=\"0\" y=\"{}\">{day}</text>", y + 12);
        for of_day in 0..HOURS_PER_DAY {
            let hour = Hour(report.from.0 + row as u64 * HOURS_PER_DAY + of_day);
            if hour > report.to {
                break;
            }
            let tally = all.get(&hour).cloned().unwrap_or_default();
            let dark = tally.arrived() as f64 / most;
            let _ = write!(
                svg,
                "<rect x=\"{}\" y=\"{y}\" width=\"18\" height=\"16\" fill=\"#2563eb\" fill-opacity=\"{:.2}\" stroke=\"#9ca3af\" stroke-width=\"0.3\"><title>{hour}: {} arrived, {} of them duplicates</title></rect>",
                72 + of_day * 20,
                dark,
                tally.arrived(),
                tally.duplicates()
            );
        }
    }
    svg.push_str("</svg></div>\n");
    svg
}

fn channels(report: &Report) -> String {
    let mut table = String::from("<div class=\"scroll\"><table><thead><tr><th>channel</th>");
    for (_, name, _) in SHOWN {
        let _ = write!(table, "<th>{name}</th>");
    }
    table.push_str("</tr></thead><tbody>\n");
    let all = ("all".to_owned(), report.total.clone());
    for (channel, tally) in report.by_channel.iter().chain([&all]) {
        let _ = write!(table, "<tr><td>{}</td>", escape(channel));
        for (what, _, _) in SHOWN {
            let _ = write!(table, "<td>{}</td>", tally.get(what));
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody></table></div>\n");
    table
}

/// A channel's name is data.
fn escape(text: &str) -> String {
    // Also without characters that a reader of the source would not see.
    let text: String = text.chars().map(crate::event::shown).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::history::Entry;

    #[test]
    fn the_page_says_which_hours_are_not_judged_also_beside_what_is_unusual() {
        let now = ichido::Timestamp::from_secs(1_794_825_000);
        let to = Hour::of(now).0;
        let hour = |hour: u64, count: u64| {
            let mut tally = Tally::default();
            tally.add(What::Handled, count);
            Entry { hour: Hour(hour), channel: "C1".to_owned(), tally }
        };
        let quiet: Vec<Entry> = (to - 28 * HOURS_PER_DAY..to).map(|at| hour(at, 5)).collect();
        let silent = &quiet[..quiet.len() - 12];
        for (history, unusual) in [(&quiet[..], false), (silent, true)] {
            let page = page(&super::super::report(history, now, 30), "prod");
            assert!(page.contains("<p>Hours before 2026-11-09T10:00Z are not judged: fewer than 3 weeks"), "{page}");
            assert_eq!(page.contains("<h2>Unusual</h2>"), unusual);
            assert_eq!(page.contains("<p>From 2026-11-09T10:00Z on, there was no silence"), !unusual);
        }
    }

    #[test]
    fn the_page_asks_for_nothing_shows_every_cause_and_takes_a_channel_as_data() {
        let mut tally = Tally::default();
        for (n, what) in What::ALL.into_iter().enumerate() {
            tally.add(what, n as u64 + 1);
        }
        let now = ichido::Timestamp::from_secs(1_794_825_000);
        let channel = "C1<script>".to_owned();
        let history = [Entry { hour: Hour::of(now), channel, tally }];
        let page = page(&super::super::report(&history, now, 7), "a \"place\"");
        for outside in ["http:", "https:", "<script", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("C1&lt;script&gt;"));
        for (what, name, _) in SHOWN {
            assert!(page.contains(name), "{name}");
            let count = what as u64 + 1;
            assert!(page.contains(&format!("<td>{count}</td>")), "{name}: {count}");
        }
        assert_eq!(
            page.matches("<rect").count(),
            IN_BARS + (6 * 24 + 11),
            "seven causes in one bar, and a square per hour"
        );
    }
}
