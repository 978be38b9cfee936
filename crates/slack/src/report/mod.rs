//! What the history tells: totals, by day, by channel and by hour, and the anomalies among them.
//!
//! Plain functions over the entries of [`crate::table::history`]. `ichidoctl slack report` and the console show them.
//!
//! An anomaly is far from the same hours of the weeks before, and carries the numbers that say so. An hour is judged if
//! [`MIN_WEEKS`] weeks before it are known. How many days a report shows changes only what it shows: what is unusual, and since
//! when, is found in all that is kept. All times are UTC.
//! - **Silence**: hours without any event, not even one that was refused or failed, where the weeks before had
//!   [`MIN_EXPECTED`] on average and none of them had none. If events came by chance at that rate, such a silence would come
//!   once in about 3,000 times. It is judged as a whole, by the weeks before its first hour. Of a silence that is longer than a week,
//!   the first week is compared: the weeks before the later hours are part of the silence.
//! - **Duplicates**: an hour with at least [`MIN_ARRIVED`] arrivals whose share of duplicates is at least
//!   [`MIN_DIFFERENCE`] higher than in the weeks before, and [`MIN_DEVIATIONS`] standard deviations beyond it.
//! - **Failures**: the same for the share of failed attempts and refused deliveries. Each of them counts as an arrival here: an
//!   hour in which everything fails has no other ones.
//!
//! Unusual hours in a row are one anomaly, with the sums of its hours.

pub mod html;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ichido::Timestamp;
use serde_json::{Map, Value, json};

use crate::table::history::{Entry, Hour, Tally, What};

/// How many days a report may show: as many as are kept.
pub const MAX_DAYS: u32 = 90;
/// How many weeks must be known before anything is unusual.
pub const MIN_WEEKS: usize = 3;
/// How many weeks are compared: as many as are kept.
const MAX_WEEKS: u64 = 12;
/// How many events a silence replaces, on average.
pub const MIN_EXPECTED: f64 = 8.0;
/// With fewer arrivals, a share of them says nothing.
pub const MIN_ARRIVED: f64 = 10.0;
/// In shares: 0.1 is ten percent more of all arrivals.
pub const MIN_DIFFERENCE: f64 = 0.1;
pub const MIN_DEVIATIONS: f64 = 4.0;
/// A share is never believed to be smaller than this, so that a first duplicate or failure is nothing unusual.
const MIN_SHARE: f64 = 0.01;
const HOURS_PER_DAY: u64 = 24;
const HOURS_PER_WEEK: u64 = 7 * HOURS_PER_DAY;

/// What happened in some days, up to now.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub from: Hour,
    /// The present hour, which is not over.
    pub to: Hour,
    pub days: u32,
    pub total: Tally,
    /// Every day from the first to the last, also those on which nothing happened.
    pub by_day: Vec<(String, Tally)>,
    pub by_channel: Vec<(String, Tally)>,
    /// Hours and channels in which something happened.
    pub by_hour: Vec<Entry>,
    /// The first hour that is known. Nothing is known of those before it, which is not the same as nothing happened.
    pub known_from: Hour,
    /// How many weeks before now are known.
    pub weeks: usize,
    /// The first hour that is judged, or why none is.
    pub judged_from: Result<Hour, NotJudged>,
    pub anomalies: Vec<Anomaly>,
}

/// Why no hour is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotJudged {
    /// Fewer than [`MIN_WEEKS`] weeks are known.
    TooFewWeeks,
    /// The first hour that could be judged is the present one.
    NotOver,
    /// Nothing arrives, and fewer than [`MIN_WEEKS`] weeks were known when that began.
    SilentBefore,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Anomaly {
    pub kind: Kind,
    /// `None`: all channels together.
    pub channel: Option<String>,
    pub from: Hour,
    /// The first hour after it.
    pub to: Hour,
    /// The number of these hours: arrivals, or the share of duplicates or failures.
    pub found: f64,
    /// How many arrivals the share is of; 0 for a silence.
    pub arrived: u64,
    /// The same number over the weeks before.
    pub expected: f64,
    /// The same number in each of the weeks before, the last one first.
    pub weeks: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Silence,
    Duplicates,
    Failures,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Silence => "silence",
            Self::Duplicates => "duplicates",
            Self::Failures => "failures",
        }
    }
}

/// A part of what arrives in an hour. It is unusual if it is much larger than in the weeks before.
struct Share {
    kind: Kind,
    part: fn(&Tally) -> u64,
    whole: fn(&Tally) -> u64,
}

const SHARES: [Share; 2] = [
    Share { kind: Kind::Duplicates, part: Tally::duplicates, whole: Tally::arrived },
    Share { kind: Kind::Failures, part: Tally::failures, whole: Tally::arrived_or_failed },
];

/// The first hour that a report reads, however few days it shows: all that is kept.
pub fn first_hour(now: Timestamp) -> Hour {
    Hour(Hour::of(now).0.saturating_sub(u64::from(MAX_DAYS) * HOURS_PER_DAY))
}

/// Reports the last days: today and the whole days before it.
pub fn report(history: &[Entry], now: Timestamp, days: u32) -> Report {
    let (from, to) = (begin(now, days), Hour::of(now));
    let shown: Vec<Entry> = history.iter().filter(|entry| (from..=to).contains(&entry.hour)).cloned().collect();
    let mut total = Tally::default();
    let mut by_day: BTreeMap<String, Tally> =
        (from.0..=to.0).step_by(HOURS_PER_DAY as usize).map(|hour| (Hour(hour).day(), Tally::default())).collect();
    let mut by_channel: BTreeMap<String, Tally> = BTreeMap::new();
    for entry in &shown {
        total.merge(&entry.tally);
        by_day.entry(entry.hour.day()).or_default().merge(&entry.tally);
        by_channel.entry(entry.channel.clone()).or_default().merge(&entry.tally);
    }
    let known = Known { oldest: history.iter().map(|entry| entry.hour).min().unwrap_or(to) };
    Report {
        from,
        to,
        days,
        total,
        by_day: by_day.into_iter().collect(),
        by_channel: by_channel.into_iter().collect(),
        by_hour: shown,
        known_from: known.oldest,
        weeks: known.weeks_before(to.0) as usize,
        judged_from: judged_from(&Series::of(history, None), from, to, known),
        anomalies: anomalies(history, to, known).into_iter().filter(|one| one.is_shown(from, to)).collect(),
    }
}

/// The first of the shown hours that is judged. Those of a silence that began too early are not.
fn judged_from(all: &Series<'_>, from: Hour, to: Hour, known: Known) -> Result<Hour, NotJudged> {
    let first = known.judged_from();
    if first > to {
        return Err(NotJudged::TooFewWeeks);
    }
    if first == to {
        return Err(NotJudged::NotOver);
    }
    let first = if all.is_silent(first.0 - 1) {
        let next = (first.0..to.0).find(|hour| !all.is_silent(*hour));
        next.map(Hour).ok_or(NotJudged::SilentBefore)?
    } else {
        first
    };
    let judged = first.max(from);
    if judged < to { Ok(judged) } else { Err(NotJudged::NotOver) }
}

/// Midnight of the first day.
fn begin(now: Timestamp, days: u32) -> Hour {
    let today = Hour::of(now).0 / HOURS_PER_DAY;
    Hour((today + 1).saturating_sub(u64::from(days.clamp(1, MAX_DAYS))) * HOURS_PER_DAY)
}

/// How far back the history goes.
#[derive(Debug, Clone, Copy)]
struct Known {
    oldest: Hour,
}

impl Known {
    fn judged_from(self) -> Hour {
        Hour(self.oldest.0.saturating_add(MIN_WEEKS as u64 * HOURS_PER_WEEK))
    }

    /// With how many weeks an hour can be compared.
    fn weeks_before(self, hour: u64) -> u64 {
        (hour.saturating_sub(self.oldest.0) / HOURS_PER_WEEK).min(MAX_WEEKS)
    }
}

/// All anomalies of the history, also those of days that are not shown.
fn anomalies(history: &[Entry], to: Hour, known: Known) -> Vec<Anomaly> {
    let channels: BTreeSet<&str> = history.iter().map(|entry| entry.channel.as_str()).collect();
    let mut found = Series::of(history, None).anomalies(to, known);
    let of_all = found.clone();
    for channel in channels {
        let own = Series::of(history, Some(channel)).anomalies(to, known);
        // What all channels have in common is not repeated for each.
        found.extend(own.into_iter().filter(|one| !of_all.iter().any(|all| one.is_part_of(all, to))));
    }
    found.sort_by(|one, other| (one.from, &one.channel).cmp(&(other.from, &other.channel)));
    found
}

/// The hours of one channel, or of all.
struct Series<'h> {
    channel: Option<&'h str>,
    hours: BTreeMap<Hour, Tally>,
}

impl<'h> Series<'h> {
    fn of(history: &[Entry], channel: Option<&'h str>) -> Self {
        let mut hours: BTreeMap<Hour, Tally> = BTreeMap::new();
        for entry in history.iter().filter(|entry| channel.is_none_or(|channel| entry.channel == channel)) {
            hours.entry(entry.hour).or_default().merge(&entry.tally);
        }
        Self { channel, hours }
    }

    /// A number of an hour, for example [`Tally::arrived`].
    fn count(&self, hour: u64, number: fn(&Tally) -> u64) -> f64 {
        self.hours.get(&Hour(hour)).map_or(0, number) as f64
    }

    /// Did nothing happen? What was refused or failed has arrived too.
    fn is_silent(&self, hour: u64) -> bool {
        self.hours.get(&Hour(hour)).is_none_or(Tally::is_empty)
    }

    /// `to` is the present hour: it is not over, so it is not judged.
    fn anomalies(&self, to: Hour, known: Known) -> Vec<Anomaly> {
        let judged = known.judged_from().0..to.0;
        let shares = SHARES.iter().flat_map(|share| {
            let is_large = |hour| self.is_large(share, hour, known.weeks_before(hour));
            runs(judged.clone(), is_large)
                .into_iter()
                .map(|run| self.large_share(share, &run, known))
                .collect::<Vec<_>>()
        });
        let silences = runs(known.oldest.0..to.0, |hour| self.is_silent(hour));
        shares.chain(silences.into_iter().filter_map(|run| self.silence(&run, known.weeks_before(run.start)))).collect()
    }

    /// No hour of a silence serves as its comparison, so only its first week is compared.
    fn silence(&self, hours: &Range<u64>, weeks: u64) -> Option<Anomaly> {
        if weeks < MIN_WEEKS as u64 {
            return None;
        }
        let before: Vec<f64> = (1..=weeks).map(|week| self.sum(&first_week(hours), week, Tally::arrived)).collect();
        let expected = before.iter().sum::<f64>() / weeks as f64;
        let unusual = expected >= MIN_EXPECTED && before.iter().all(|sum| *sum > 0.0);
        unusual.then(|| self.anomaly(Kind::Silence, hours, 0.0, expected, before))
    }

    /// Is the share of this hour unusual?
    fn is_large(&self, share: &Share, hour: u64, weeks: u64) -> bool {
        // Most hours of most channels end here.
        if self.count(hour, share.whole) < MIN_ARRIVED {
            return false;
        }
        let Shares { now, before, .. } = self.shares(share, &(hour..hour + 1), weeks);
        if before.whole < MIN_ARRIVED {
            return false;
        }
        let expected = before.share().max(MIN_SHARE);
        let deviation = (expected * (1.0 - expected) / now.whole).sqrt();
        let difference = now.share() - expected;
        difference >= MIN_DIFFERENCE && difference >= MIN_DEVIATIONS * deviation
    }

    /// Hours in a row that are unusual, as one. As with a silence, only the first week is compared.
    fn large_share(&self, share: &Share, hours: &Range<u64>, known: Known) -> Anomaly {
        let Shares { now, before, weeks } = self.shares(share, &first_week(hours), known.weeks_before(hours.start));
        let anomaly = self.anomaly(share.kind, hours, now.share(), before.share(), weeks);
        Anomaly { arrived: now.whole as u64, ..anomaly }
    }

    /// A share in these hours, and in the same hours of so many weeks before.
    fn shares(&self, share: &Share, hours: &Range<u64>, weeks: u64) -> Shares {
        let counted =
            |week| Counted { part: self.sum(hours, week, share.part), whole: self.sum(hours, week, share.whole) };
        let weeks: Vec<Counted> = (1..=weeks).map(counted).collect();
        let before = weeks
            .iter()
            .fold(Counted::default(), |all, one| Counted { part: all.part + one.part, whole: all.whole + one.whole });
        Shares { now: counted(0), before, weeks: weeks.iter().map(Counted::share).collect() }
    }

    /// The sum of a number over these hours, so many weeks before.
    fn sum(&self, hours: &Range<u64>, weeks: u64, number: fn(&Tally) -> u64) -> f64 {
        hours.clone().map(|hour| self.count(hour.saturating_sub(weeks * HOURS_PER_WEEK), number)).sum()
    }

    fn anomaly(&self, kind: Kind, hours: &Range<u64>, found: f64, expected: f64, weeks: Vec<f64>) -> Anomaly {
        let channel = self.channel.map(str::to_owned);
        Anomaly { kind, channel, from: Hour(hours.start), to: Hour(hours.end), found, arrived: 0, expected, weeks }
    }
}

/// How much of what arrived is the part of a [`Share`].
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    part: f64,
    whole: f64,
}

impl Counted {
    /// 0 if nothing arrived.
    fn share(&self) -> f64 {
        self.part / self.whole.max(1.0)
    }
}

/// A share now, in the weeks before together, and in each of them.
struct Shares {
    now: Counted,
    before: Counted,
    weeks: Vec<f64>,
}

/// The longest runs of hours that have something in common.
fn runs(hours: Range<u64>, has: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut hour = hours.start;
    while hour < hours.end {
        let end = (hour..hours.end).find(|hour| !has(*hour)).unwrap_or(hours.end);
        if end > hour {
            found.push(hour..end);
        }
        hour = end + 1;
    }
    found
}

/// The hours that are compared: those after a week would be compared with earlier ones of the same run.
fn first_week(hours: &Range<u64>) -> Range<u64> {
    hours.start..hours.end.min(hours.start.saturating_add(HOURS_PER_WEEK))
}

impl Anomaly {
    /// Does it reach into the hours from `from` to the present one, `to`? A silence that lasts does, also before any of them is over.
    fn is_shown(&self, from: Hour, to: Hour) -> bool {
        self.to > from || (self.kind == Kind::Silence && self.to == to)
    }

    /// Is it what all channels show? They show at least half of it. If it lasts up to the present hour, `to`, so does theirs.
    fn is_part_of(&self, all: &Self, to: Hour) -> bool {
        let common = self.to.min(all.to).0.saturating_sub(self.from.max(all.from).0);
        self.kind == all.kind && 2 * common >= self.to.0 - self.from.0 && (self.to < to || all.to == to)
    }

    /// What is unusual, with the numbers that say so.
    pub fn in_words(&self) -> String {
        let place =
            self.channel.as_deref().map_or_else(|| "all channels".to_owned(), |channel| format!("channel {channel}"));
        let weeks = self.weeks.len();
        let list = |number: fn(f64) -> String| self.weeks.iter().map(|n| number(*n)).collect::<Vec<_>>().join(", ");
        let (from, to) = (self.from, self.to);
        let first = if to.0 - from.0 > HOURS_PER_WEEK { ", counted for its first 7 days" } else { "" };
        match self.kind {
            Kind::Silence => format!(
                "{from}:00Z to {to}:00Z, {place}: nothing arrived; the same hours of the {weeks} weeks before had {:.1} on average ({}){first}",
                self.expected,
                list(|n| format!("{n:.0}")),
            ),
            Kind::Duplicates | Kind::Failures => format!(
                "{from}:00Z to {to}:00Z, {place}: {} of the {} arrivals {}; in the same hours of the {weeks} weeks before it was {} ({}){first}",
                percent(self.found),
                self.arrived,
                if self.kind == Kind::Duplicates { "were duplicates" } else { "failed or were refused" },
                percent(self.expected),
                list(percent)
            ),
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "kind": self.kind.name(), "channel": self.channel, "from": self.from.begin().to_string(),
            "to": self.to.begin().to_string(), "found": self.found, "arrived": self.arrived, "expected": self.expected, "weeks": self.weeks,
            "why": self.in_words(),
        })
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

impl Report {
    /// Which hours were judged, for people: that nothing is unusual, and what could not be judged. A sentence each, beside those of
    /// the anomalies.
    pub fn judged_in_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        match self.judged_from {
            Ok(from) => {
                if self.anomalies.is_empty() {
                    words.push(format!(
                        "from {from}:00Z on, there was no silence, and no unusual share of duplicates or failures, compared with the same hours of the weeks before"
                    ));
                }
                if from > self.from {
                    words.push(format!(
                        "hours before {from}:00Z are not judged: fewer than {MIN_WEEKS} weeks are known before them or before their silence"
                    ));
                }
            }
            // A silence can last before an hour of the shown days is over.
            Err(_) if !self.anomalies.is_empty() => {}
            Err(NotJudged::TooFewWeeks) => {
                let known = if self.weeks == 1 {
                    "1 week is known".to_owned()
                } else {
                    format!("{} weeks are known", self.weeks)
                };
                words.push(format!("nothing is judged yet: {known}, and {MIN_WEEKS} are needed"));
            }
            Err(NotJudged::NotOver) => {
                words.push("nothing is judged yet: the first hour that can be judged is not over".to_owned());
            }
            Err(NotJudged::SilentBefore) => words.push(format!(
                "nothing is judged: nothing arrives, and fewer than {MIN_WEEKS} weeks were known when that began"
            )),
        }
        words
    }

    /// The report for a machine.
    pub fn as_json(&self) -> Value {
        let with = |name: &str, value: &str, tally: &Tally| {
            let mut all = counters(tally);
            all.insert(name.to_owned(), value.into());
            Value::Object(all)
        };
        let of_hour = |entry: &Entry| {
            let mut one = with("hour", &entry.hour.begin().to_string(), &entry.tally);
            one["channel"] = entry.channel.as_str().into();
            one
        };
        json!({
            "from": self.from.begin().to_string(), "to": self.to.begin().to_string(), "days": self.days,
            "total": counters(&self.total),
            "byDay": self.by_day.iter().map(|(day, tally)| with("day", day, tally)).collect::<Vec<_>>(),
            "byChannel": self.by_channel.iter().map(|(of, tally)| with("channel", of, tally)).collect::<Vec<_>>(),
            "byHour": self.by_hour.iter().map(of_hour).collect::<Vec<_>>(),
            "weeksBefore": self.weeks, "judgedFrom": self.judged_from.ok().map(|hour| hour.begin().to_string()),
            "judged": self.judged_in_words(),
            "anomalies": self.anomalies.iter().map(Anomaly::as_json).collect::<Vec<_>>(),
        })
    }
}

/// `{"handled": 3, …, "duplicates": {"slackRetry": 1, …}}`
fn counters(tally: &Tally) -> Map<String, Value> {
    let of = |what: &What| (what.name().to_owned(), Value::from(tally.get(*what)));
    let (duplicates, others): (Vec<What>, Vec<What>) =
        What::ALL.into_iter().partition(|what| What::DUPLICATES.contains(what));
    let mut all: Map<String, Value> = others.iter().map(of).collect();
    all.insert("duplicates".to_owned(), Value::Object(duplicates.iter().map(of).collect()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Monday, 10:30.
    fn now() -> Timestamp {
        Timestamp::from_secs(1_794_825_000)
    }

    fn entry(hour: u64, channel: &str, handled: u64, retries: u64) -> Entry {
        let mut tally = Tally::default();
        tally.add(What::Handled, handled);
        tally.add(What::Retry, retries);
        Entry { hour: Hour(hour), channel: channel.to_owned(), tally }
    }

    /// So many weeks, with this many files in every hour from 8 to 18, a tenth of which Slack sends twice.
    fn usual(weeks: u64, per_hour: u64) -> Vec<Entry> {
        let to = Hour::of(now()).0;
        let working = |hour: &u64| (8..18).contains(&(hour % 24));
        (to - weeks * HOURS_PER_WEEK..=to)
            .filter(working)
            .map(|hour| entry(hour, "C1", per_hour, per_hour / 10))
            .collect()
    }

    /// The same, and many duplicates in the last hour.
    fn usual_weeks_and_a_burst(weeks: u64) -> Vec<Entry> {
        let mut history = usual(weeks, 20);
        history.push(entry(at(9), "C1", 0, 22));
        history
    }

    /// Today at this hour.
    fn at(hour: u64) -> u64 {
        Hour::of(now()).0 / 24 * 24 + hour
    }

    #[test]
    fn a_report_adds_up_by_day_and_channel_and_has_every_day() {
        let history = [entry(at(3), "C1", 2, 1), entry(at(9), "C2", 1, 0), entry(at(9) - 48, "C1", 4, 0)];
        let report = report(&history, now(), 3);
        assert_eq!((report.total.get(What::Handled), report.total.duplicates()), (7, 1));
        let days: Vec<u64> = report.by_day.iter().map(|(_, tally)| tally.get(What::Handled)).collect();
        assert_eq!(days, [4, 0, 3]);
        assert_eq!(report.by_channel.iter().map(|(channel, _)| channel.as_str()).collect::<Vec<_>>(), ["C1", "C2"]);
        let json = report.as_json();
        assert_eq!(json["total"]["duplicates"]["slackRetry"], 1);
        assert_eq!(json["byDay"][0]["day"], "2026-11-14");
        assert_eq!((&json["weeksBefore"], &json["anomalies"]), (&0.into(), &json!([])));
        assert_eq!(json["judged"], json!(["nothing is judged yet: 0 weeks are known, and 3 are needed"]));
    }

    #[test]
    fn a_usual_week_has_no_anomalies() {
        assert_eq!(report(&usual(8, 20), now(), 7).anomalies, []);
    }

    #[test]
    fn hours_without_events_in_which_there_always_were_some_are_a_silence() {
        let mut history = usual(8, 5);
        history.retain(|entry| entry.hour != Hour(at(8)) && entry.hour != Hour(at(9)));
        let report = report(&history, now(), 2);
        let [silence] = &report.anomalies[..] else { panic!("one: {:?}", report.anomalies) };
        // From the end of yesterday's work on: the night is part of it.
        assert_eq!((silence.kind, silence.from, silence.to), (Kind::Silence, Hour(at(0) - 6), Hour(at(10))));
        assert_eq!((silence.expected, silence.weeks.len()), (10.0, 7));
        assert_eq!(
            silence.in_words(),
            "2026-11-15T18:00Z to 2026-11-16T10:00Z, all channels: nothing arrived; the same hours of the 7 weeks before had 10.0 on average (10, 10, 10, 10, 10, 10, 10)"
        );
    }

    #[test]
    fn hours_in_which_everything_was_refused_or_failed_are_no_silence() {
        for what in [What::Refused, What::Failed] {
            let mut history = usual(8, 5);
            for entry in history.iter_mut().filter(|entry| entry.hour >= Hour(at(8))) {
                entry.tally = Tally::of(what);
            }
            assert_eq!(report(&history, now(), 2).anomalies, [], "{what:?}");
        }
    }

    #[test]
    fn one_quiet_hour_with_few_events_in_the_weeks_before_says_nothing() {
        let mut history = usual(8, 5);
        history.retain(|entry| entry.hour != Hour(at(9)));
        assert_eq!(report(&history, now(), 2).anomalies, []);
        // A week in which nothing happened at that time, a holiday, says that it may be silent.
        let mut history = usual(8, 20);
        history.retain(|entry| ![Hour(at(9)), Hour(at(9) - 2 * HOURS_PER_WEEK)].contains(&entry.hour));
        assert_eq!(report(&history, now(), 2).anomalies, []);
    }

    #[test]
    fn an_hour_with_many_more_duplicates_than_in_the_weeks_before_is_named_with_both_shares() {
        let history = usual_weeks_and_a_burst(8);
        let report = report(&history, now(), 1);
        let [many] = &report.anomalies[..] else { panic!("one: {:?}", report.anomalies) };
        assert_eq!((many.kind, many.from, &many.channel), (Kind::Duplicates, Hour(at(9)), &None));
        assert!((many.found - 24.0 / 44.0).abs() < 1e-9 && (many.expected - 2.0 / 22.0).abs() < 1e-9, "{many:?}");
        assert!(
            many.in_words().contains(
                "55 % of the 44 arrivals were duplicates; in the same hours of the 7 weeks before it was 9 %"
            )
        );
    }

    #[test]
    fn an_hour_in_which_everything_fails_or_is_refused_is_unusual() {
        for what in [What::Failed, What::Refused] {
            let mut history = usual(8, 20);
            for entry in history.iter_mut().filter(|entry| entry.hour == Hour(at(9))) {
                entry.tally = Tally::default();
                entry.tally.add(what, 60);
            }
            let report = report(&history, now(), 1);
            let [failures] = &report.anomalies[..] else { panic!("one: {:?}", report.anomalies) };
            assert_eq!((failures.kind, failures.from, failures.to), (Kind::Failures, Hour(at(9)), Hour(at(10))));
            assert_eq!((failures.found, failures.expected), (1.0, 0.0), "{what:?}");
            assert!(failures.in_words().contains("all channels: 100 % of the 60 arrivals failed or were refused"));
            assert_eq!(report.as_json()["anomalies"][0]["kind"], "failures");
        }
    }

    #[test]
    fn unusual_hours_in_a_row_are_one_anomaly_with_their_sums() {
        let mut history = usual(8, 20);
        // Yesterday from 8 to 18, but for one hour.
        for hour in (at(8)..at(18)).filter(|hour| *hour != at(12)) {
            history.push(entry(hour - 24, "C1", 0, hour - at(0)));
        }
        let report = report(&history, now(), 2);
        let told: Vec<_> = report.anomalies.iter().map(|one| (one.kind, one.from.0 + 24, one.to.0 + 24)).collect();
        assert_eq!(told, [(Kind::Duplicates, at(8), at(12)), (Kind::Duplicates, at(13), at(18))]);
        // 22 arrivals per hour, 2 of them duplicates, and 8 to 11 more.
        let burst = &report.anomalies[0];
        assert_eq!((burst.arrived, burst.weeks.len()), (4 * 22 + 8 + 9 + 10 + 11, 7));
        assert!((burst.found - 46.0 / 126.0).abs() < 1e-9 && (burst.expected - 2.0 / 22.0).abs() < 1e-9, "{burst:?}");
        assert_eq!(
            burst.in_words(),
            "2026-11-15T08:00Z to 2026-11-15T12:00Z, all channels: 37 % of the 126 arrivals were duplicates; in the same hours of the 7 weeks before it was 9 % (9 %, 9 %, 9 %, 9 %, 9 %, 9 %, 9 %)"
        );
        assert_eq!(report.as_json()["anomalies"][0]["arrived"], 126);
    }

    #[test]
    fn of_many_failures_that_last_longer_than_a_week_the_first_week_is_compared() {
        let mut history = hourly("C1", 0..60, 20);
        for entry in history.iter_mut().filter(|entry| entry.hour.0 >= at(10) - 10 * 24) {
            entry.tally = Tally::default();
            entry.tally.add(What::Failed, 60);
        }
        for days in [1, 30] {
            let report = report(&history, now(), days);
            let [failures] = &report.anomalies[..] else { panic!("{days} days: {:?}", report.anomalies) };
            assert_eq!((failures.from.0, failures.to.0), (at(10) - 10 * 24, at(10)));
            assert_eq!((failures.found, failures.expected, failures.arrived), (1.0, 0.0, 168 * 60));
            assert!(failures.in_words().ends_with(", counted for its first 7 days"));
        }
    }

    #[test]
    fn failures_of_every_week_and_a_few_first_ones_are_nothing_unusual() {
        let failing = |every_week: u64, now_failing: u64| {
            let mut history = usual(8, 20);
            for entry in &mut history {
                entry.tally.add(What::Failed, if entry.hour == Hour(at(9)) { now_failing } else { every_week });
            }
            report(&history, now(), 1).anomalies.len()
        };
        assert_eq!((failing(0, 2), failing(20, 20), failing(0, 20)), (0, 0, 1));
    }

    #[test]
    fn what_only_one_channel_shows_is_named_with_the_channel() {
        let mut history = usual(8, 20);
        let busy: Vec<Entry> = history.iter().map(|entry| Entry { channel: "C2".into(), ..entry.clone() }).collect();
        history.extend(busy);
        history.retain(|entry| entry.channel == "C2" || entry.hour != Hour(at(9)));
        let report = report(&history, now(), 1);
        let [silence] = &report.anomalies[..] else { panic!("one: {:?}", report.anomalies) };
        assert_eq!((silence.kind, silence.channel.as_deref()), (Kind::Silence, Some("C1")));
    }

    #[test]
    fn a_longer_report_names_what_a_shorter_one_names() {
        let history = usual_weeks_and_a_burst(5);
        for days in 1..=MAX_DAYS {
            let report = report(&history, now(), days);
            let [many] = &report.anomalies[..] else { panic!("{days} days: {:?}", report.anomalies) };
            assert_eq!((many.from, many.weeks.len()), (Hour(at(9)), 4), "{days} days");
            let begin = Hour(at(0) + 24 - u64::from(days) * 24);
            let oldest = history[0].hour.0;
            assert_eq!(report.judged_from, Ok(begin.max(Hour(oldest + 3 * HOURS_PER_WEEK))), "{days} days");
        }
    }

    /// Each hour from so many days ago until so many days ago.
    fn hourly(channel: &str, days: Range<u64>, handled: u64) -> Vec<Entry> {
        let to = Hour::of(now()).0;
        (to - days.end * 24..to - days.start * 24).map(|hour| entry(hour, channel, handled, 0)).collect()
    }

    /// The same, however few days are shown.
    fn one_silence(history: &[Entry], channel: Option<&str>, hours: u64, expected: f64) {
        let to = Hour::of(now()).0;
        for days in [1, 2, 3, 7, 14, 30, MAX_DAYS] {
            let report = report(history, now(), days);
            let [silence] = &report.anomalies[..] else { panic!("{days} days: {:?}", report.anomalies) };
            assert_eq!((silence.kind, silence.channel.as_deref()), (Kind::Silence, channel), "{days} days");
            assert_eq!((silence.from, silence.to), (Hour(to - hours), Hour(to)), "{days} days");
            assert_eq!(silence.expected, expected, "{days} days");
        }
    }

    #[test]
    fn a_silence_that_lasts_is_found_however_few_days_are_shown() {
        one_silence(&hourly("C1", 15..60, 5), None, 15 * 24, 5.0 * 168.0);
        let rare: Vec<Entry> =
            hourly("C1", 3..60, 1).into_iter().filter(|entry| entry.hour.0.is_multiple_of(3)).collect();
        one_silence(&rare, None, 3 * 24, 24.0);
        let one_of_two = [hourly("C1", 10..60, 2), hourly("C2", 0..60, 5)].concat();
        one_silence(&one_of_two, Some("C1"), 10 * 24, 2.0 * 168.0);
    }

    #[test]
    fn of_a_silence_that_is_longer_than_a_week_the_first_week_is_compared() {
        let report = report(&hourly("C1", 15..60, 5), now(), 7);
        assert_eq!(
            report.anomalies[0].in_words(),
            "2026-11-01T10:00Z to 2026-11-16T10:00Z, all channels: nothing arrived; the same hours of the 6 weeks before had 840.0 on average (840, 840, 840, 840, 840, 840), counted for its first 7 days"
        );
    }

    #[test]
    fn a_silence_that_lasts_is_found_before_the_first_hour_of_the_day_is_over() {
        let midnight = Timestamp::from_secs(now().as_secs() - 10 * 3_600);
        let report = report(&hourly("C1", 15..60, 5), midnight, 1);
        assert_eq!((report.from, report.anomalies.len()), (report.to, 1), "{:?}", report.anomalies);
        assert_eq!(report.judged_in_words(), [] as [String; 0]);
    }

    #[test]
    fn a_channel_that_is_silent_for_longer_than_all_are_is_named_beside_them() {
        let to = Hour::of(now()).0;
        let mut history = [hourly("C1", 10..60, 2), hourly("C2", 0..60, 5)].concat();
        history.retain(|entry| !(to - 5 * 24..to - 5 * 24 + 12).contains(&entry.hour.0));
        let named = |days| {
            let anomalies = report(&history, now(), days).anomalies;
            anomalies.into_iter().map(|anomaly| anomaly.channel).collect::<Vec<_>>()
        };
        assert_eq!(named(1), [Some("C1".to_owned())]);
        assert_eq!(named(7), [Some("C1".to_owned()), None]);
    }

    #[test]
    fn a_report_that_judges_nothing_says_why() {
        let words = |history: &[Entry], now, days| report(history, now, days).judged_in_words();
        assert_eq!(words(&usual(1, 20), now(), 7), ["nothing is judged yet: 1 week is known, and 3 are needed"]);
        let not_over = ["nothing is judged yet: the first hour that can be judged is not over"];
        assert_eq!(words(&usual(3, 20), now(), 7), not_over);
        let midnight = Timestamp::from_secs(now().as_secs() - 10 * 3_600);
        assert_eq!(words(&usual(8, 20), midnight, 1), not_over);
        assert_eq!(
            words(&hourly("C1", 28..42, 5), now(), 7),
            ["nothing is judged: nothing arrives, and fewer than 3 weeks were known when that began"]
        );
        let both = words(&usual(4, 20), now(), 30);
        let [usual, earlier] = &both[..] else { panic!("two sentences: {both:?}") };
        assert_eq!(
            usual,
            "from 2026-11-09T10:00Z on, there was no silence, and no unusual share of duplicates or failures, compared with the same hours of the weeks before"
        );
        let not_judged = "hours before 2026-11-09T10:00Z are not judged: fewer than 3 weeks are known before them";
        assert!(earlier.starts_with(not_judged), "{earlier}");
        // Beside an anomaly, no other sentence names the hour.
        let history = usual_weeks_and_a_burst(4);
        let [earlier] = &words(&history, now(), 30)[..] else { panic!("one sentence") };
        assert!(earlier.starts_with(not_judged), "{earlier}");
    }

    #[test]
    fn absurd_counters_are_reported() {
        let mut history = usual(8, 20);
        for entry in &mut history {
            entry.tally.add(What::Handled, u64::MAX);
            entry.tally.add(What::Retry, u64::MAX);
        }
        let report = report(&history, now(), 7);
        assert_eq!((report.total.get(What::Handled), report.total.arrived()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn without_three_weeks_nothing_is_unusual_and_the_present_hour_never_is() {
        let mut history = usual(2, 20);
        history.retain(|entry| entry.hour < Hour(at(8)));
        assert_eq!(report(&history, now(), 1).anomalies, []);
        let mut history = usual(8, 20);
        history.retain(|entry| entry.hour != Hour(at(10)));
        assert_eq!(report(&history, now(), 1).anomalies, [], "it is half past ten");
    }
}
