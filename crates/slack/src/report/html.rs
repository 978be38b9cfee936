//! The report as one HTML page that needs nothing else: no script, no font, no request. It opens from a file.

use std::fmt::Write as _;

use super::Report;
use crate::table::history::{Hour, Tally, What};

/// The height of the tallest bar, above the axis or below it.
const BAR_HEIGHT: f64 = 160.0;
/// From one bar to the next, and the same if every bar has its date.
const BAR_STEP: f64 = 22.0;
const LABELLED_STEP: f64 = 36.0;
/// Where the first bar begins: right of the numbers of the axis.
const BARS_FROM: f64 = 44.0;
/// Hours of which nothing is known.
const UNKNOWN: &str = "fill=\"#9ca3af\" fill-opacity=\"0.25\"";
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
.scroll { overflow-x: auto; } svg { display: block; } text { font: 10px system-ui, sans-serif; fill: currentColor; }
/* In a narrow window, the newest days are in view. */
.newest { direction: rtl; } .newest svg { direction: ltr; margin: 0 auto 0 0; }
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
    (What::Failed, "failed, per attempt", "#b91c1c"),
    (What::Refused, "refused deliveries", "#f472b6"),
];
/// Those that the bars show above the axis: what arrived. The others, failures, are below it.
const ABOVE: usize = 8;

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
    let most =
        |number: fn(&Tally) -> u64| report.by_day.iter().map(|(_, tally)| number(tally)).max().unwrap_or_default();
    let (arrived, failures) = (most(Tally::arrived), most(Tally::failures));
    // One scale for both sides.
    let per_one = BAR_HEIGHT / arrived.max(failures).max(1) as f64;
    let axis = 12.0 + arrived as f64 * per_one;
    let bottom = axis + failures as f64 * per_one;
    let step = if report.by_day.len() > LABELLED_DAYS { BAR_STEP } else { LABELLED_STEP };
    let (width, height) = (step * report.by_day.len() as f64 + BARS_FROM + 10.0, bottom + 20.0);
    let mut svg = format!(
        "<div class=\"scroll newest\"><svg role=\"img\" aria-label=\"Arrivals and failures per day\" width=\"{width}\" height=\"{height:.1}\">"
    );
    for (count, y) in [(arrived, 10.0), (failures, bottom)] {
        if count > 0 {
            let _ = write!(svg, "<text x=\"0\" y=\"{y:.1}\">{count}</text>");
        }
    }
    let every = report.by_day.len().div_ceil(LABELLED_DAYS);
    for (index, (day, tally)) in report.by_day.iter().enumerate() {
        let x = BARS_FROM + step * index as f64;
        let mut bar = |y: f64, tall: f64, fill: &str, title: &str| {
            let width = step - 4.0;
            let _ = write!(
                svg,
                "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{width}\" height=\"{tall:.1}\" {fill}><title>{day}: {title}</title></rect>"
            );
        };
        if *day < report.known_from.day() {
            bar(12.0, bottom - 12.0, UNKNOWN, "nothing is known");
        }
        let (mut top, mut low) = (axis, axis);
        for (index, (what, name, colour)) in SHOWN.iter().enumerate() {
            let count = tally.get(*what);
            let tall = count as f64 * per_one;
            let y = if index < ABOVE {
                top -= tall;
                top
            } else {
                low += tall;
                low - tall
            };
            if count > 0 {
                bar(y, tall, &format!("fill=\"{colour}\""), &format!("{count} {name}"));
            }
        }
        if index % every == 0 {
            let label = day.get(5..).unwrap_or(day);
            let _ = write!(svg, "<text x=\"{x}\" y=\"{:.1}\">{label}</text>", bottom + 14.0);
        }
    }
    let _ = write!(
        svg,
        "<path d=\"M{BARS_FROM} {axis:.1}H{width}\" stroke=\"currentColor\" stroke-width=\"0.5\"/></svg></div>\n<p class=\"legend soft\">"
    );
    for (_, name, colour) in SHOWN {
        let _ = write!(svg, "<span style=\"background:{colour}\"></span>{name}");
    }
    svg.push_str("</p>\n<p class=\"soft\">Failures are below the axis. Of grey days, nothing is known.</p>\n");
    svg
}

/// One row per day, the newest first, and one square per hour, the darker the more happened. Red at its foot: the share that failed.
fn hours(report: &Report) -> String {
    let mut all = std::collections::BTreeMap::<Hour, Tally>::new();
    for entry in &report.by_hour {
        all.entry(entry.hour).or_default().merge(&entry.tally);
    }
    let most = all.values().map(Tally::arrived_or_failed).max().unwrap_or_default().max(1) as f64;
    let rows = report.by_day.len() as f64;
    let mut svg = format!(
        "<div class=\"scroll\"><svg role=\"img\" aria-label=\"Arrivals and failures per hour\" width=\"560\" height=\"{}\">",
        rows * 18.0 + 18.0
    );
    for hour in (0..HOURS_PER_DAY).step_by(6) {
        let _ = write!(svg, "<text x=\"{}\" y=\"10\">{hour:02}</text>", 76 + hour * 20);
    }
    for (row, (index, (day, _))) in report.by_day.iter().enumerate().rev().enumerate() {
        let y = 16 + row * 18;
        let _ = write!(svg, "<text x=\"0\" y=\"{}\">{day}</text>", y + 12);
        for of_day in 0..HOURS_PER_DAY {
            let hour = Hour(report.from.0 + index as u64 * HOURS_PER_DAY + of_day);
            if hour > report.to {
                break;
            }
            square(&mut svg, (72 + of_day * 20, y), hour, all.get(&hour), most, report.known_from);
        }
    }
    svg.push_str("</svg></div>\n");
    svg.push_str("<p class=\"soft\">The darker, the more happened. Red: the share that failed or was refused.</p>\n");
    svg
}

/// One hour of the map.
fn square(svg: &mut String, (x, y): (u64, usize), hour: Hour, tally: Option<&Tally>, most: f64, known_from: Hour) {
    let tally = tally.cloned().unwrap_or_default();
    let (arrived, failures) = (tally.arrived(), tally.failures());
    // The root, so that one busy hour does not bleach all the others.
    let dark = |count: u64| (count as f64 / most).sqrt();
    let (fill, title) = if hour < known_from {
        (UNKNOWN.to_owned(), "nothing is known".to_owned())
    } else {
        (
            format!("fill=\"#2563eb\" fill-opacity=\"{:.2}\"", dark(arrived)),
            format!("{arrived} arrived, {} of them duplicates; {failures} failed or were refused", tally.duplicates()),
        )
    };
    let title = format!("<title>{hour}:00: {title}</title>");
    let _ = write!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"18\" height=\"16\" {fill} stroke=\"#9ca3af\" stroke-width=\"0.3\">{title}</rect>"
    );
    if failures > 0 {
        let share = failures as f64 / tally.arrived_or_failed() as f64;
        let tall = (16.0 * share).max(2.0);
        let _ = write!(
            svg,
            "<rect x=\"{x}\" y=\"{:.1}\" width=\"18\" height=\"{tall:.1}\" fill=\"#dc2626\" fill-opacity=\"{:.2}\">{title}</rect>",
            y as f64 + 16.0 - tall,
            dark(failures).max(0.3)
        );
    }
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
        let now = now();
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
        let now = now();
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
            6 + SHOWN.len() + (6 * 24 + 11) + 1,
            "a bar per day of which nothing is known, one with every cause, a square per hour, and the failures of one"
        );
    }

    /// A history of hours, in one channel.
    fn page_of(hours: impl IntoIterator<Item = (u64, What, u64)>, days: u32) -> String {
        let entry = |(hour, what, count)| {
            let mut tally = Tally::default();
            tally.add(what, count);
            Entry { hour: Hour(hour), channel: "C1".to_owned(), tally }
        };
        let history: Vec<Entry> = hours.into_iter().map(entry).collect();
        page(&super::super::report(&history, now(), days), "prod")
    }

    fn now() -> ichido::Timestamp {
        ichido::Timestamp::from_secs(1_794_825_000)
    }

    #[test]
    fn a_day_on_which_everything_failed_is_seen_below_the_axis_and_in_the_map() {
        let to = Hour::of(now()).0;
        let page = page_of([(to - 24, What::Handled, 50), (to, What::Failed, 75), (to, What::Refused, 25)], 2);
        // The axis is at half the tallest bar, and the failures hang from it.
        assert!(page.contains("<path d=\"M44 92.0H126\""), "{page}");
        assert!(page.contains(
            "y=\"92.0\" width=\"32\" height=\"120.0\" fill=\"#b91c1c\"><title>2026-11-16: 75 failed, per attempt<"
        ));
        assert!(page.contains(
            "y=\"212.0\" width=\"32\" height=\"40.0\" fill=\"#f472b6\"><title>2026-11-16: 25 refused deliveries<"
        ));
        assert!(page.contains("height=\"16.0\" fill=\"#dc2626\" fill-opacity=\"1.00\"><title>2026-11-16T10:00: 0 arrived, 0 of them duplicates; 100 failed or were refused<"));
    }

    #[test]
    fn one_busy_hour_does_not_bleach_the_others() {
        let to = Hour::of(now()).0;
        let page = page_of([(to - 1, What::Handled, 10_000), (to, What::Handled, 100)], 1);
        assert!(
            page.contains(
                "fill-opacity=\"0.10\" stroke=\"#9ca3af\" stroke-width=\"0.3\"><title>2026-11-16T10:00: 100 arrived"
            ),
            "{page}"
        );
    }

    #[test]
    fn what_is_not_known_is_grey_and_the_newest_day_comes_first() {
        let page = page_of([(Hour::of(now()).0 - 24, What::Handled, 1)], 3);
        assert_eq!(page.matches("2026-11-14: nothing is known").count(), 1);
        assert_eq!(page.matches(":00: nothing is known").count(), 24 + 10, "until the first hour that is known");
        assert!(page.contains("2026-11-16T09:00: 0 arrived"), "an hour in which nothing happened is known");
        let row = |day: &str| page.find(&format!(">{day}</text>")).expect("a row");
        assert!(row("2026-11-16") < row("2026-11-15") && row("2026-11-15") < row("2026-11-14"));
        assert!(page.contains("<div class=\"scroll newest\"><svg"), "it begins at its end: {page}");
    }
}
