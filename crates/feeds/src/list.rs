//! The list of feeds: what one entry says about a feed, read strictly.
//!
//! Promise: what [`read`] accepts can be run. Every entry has a name of its own, an address, a period that EventBridge takes, a template and
//! patterns that compile, and destinations with all that they need. An unknown key is refused. One error names everything that is wrong,
//! each with the entry and the key.
//!
//! The same object is the event of a feed's schedule ([`Listed::of_event`]), so the list is not limited by the size of a function's variables.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use url::Url;

use crate::{
    delivery::text::Template,
    outside::fetch::Policy,
    reading::{
        filter::{Filter, Pattern},
        first_run::FirstRun,
    },
};

/// Names of feeds that have functions of their own, and of those functions: `/_local/schedules` knows both.
const RESERVED: [&str; 4] = ["github", "hatebu", "github-subscriber", "hatebu-subscriber"];
/// Endings of the names of other environments' schedules.
const ENVIRONMENTS: [&str; 4] = ["-local", "-dev", "-staging", "-prod"];
/// Secrets that are no addresses, and those of the feeds that have functions of their own (`infra/templates/feeds.yaml`).
const OWN_SECRETS: [&str; 9] = [
    "github-url",
    "github-mastodon-token",
    "hatebu-url",
    "hatebu-mastodon-token",
    "mastodon-token",
    "pushover-token",
    "pushover-user",
    "slack-bot-token",
    "webhook-key",
];
const MAX_NAME: usize = 32;
const MAX_SECRET: usize = 64;
const MAX_PERIOD_MINUTES: u64 = 365 * 24 * 60;
/// EventBridge Scheduler takes so much as the input of a schedule. The rest is for what is around the entry.
const MAX_BYTES: usize = 256 * 1024 - 100;
/// The text of a post, unless the entry has one.
pub const DEFAULT_TEXT: &str = "{title} {link}";

/// The name of a feed. It is part of the feed's keys, so that no feed touches what belongs to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct FeedName(Arc<str>);

impl FeedName {
    /// A name of a listed feed. `None` if it is not allowed.
    pub fn listed(name: &str) -> Option<Self> {
        (is_plain(name, MAX_NAME) && !RESERVED.contains(&name)).then(|| FeedName(name.into()))
    }

    pub(crate) fn built_in(name: &'static str) -> Self {
        FeedName(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FeedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for FeedName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        FeedName::listed(&name).ok_or_else(|| serde::de::Error::custom(format_args!("{name:?} is no name of a feed")))
    }
}

/// Where entries are posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Destination {
    Mastodon,
    Pushover,
    Slack,
    Webhook,
}

impl Destination {
    pub const ALL: [Self; 4] = [Self::Mastodon, Self::Pushover, Self::Slack, Self::Webhook];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Mastodon => "mastodon",
            Self::Pushover => "pushover",
            Self::Slack => "slack",
            Self::Webhook => "webhook",
        }
    }
}

/// An address, or the name of the secret that holds it. One with a token is a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Url(Url),
    Secret(String),
}

/// One feed of the list.
#[derive(Debug, Clone)]
pub struct Listed {
    pub name: FeedName,
    pub address: Address,
    pub period: Duration,
    pub filter: Filter,
    /// The template of a post, which parses.
    pub text: String,
    pub destinations: Vec<Destination>,
    /// `None`: as the function is configured.
    pub first_run: Option<FirstRun>,
    /// The Slack channel. Present with that destination.
    pub channel: Option<String>,
    /// Where the webhook is. Present with that destination.
    pub webhook: Option<Address>,
    /// Its schedule is off.
    pub paused: bool,
    /// The entry as it was written.
    pub entry: Value,
}

/// What is wrong with a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Error(Vec<String>);

/// An entry as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    url: Option<String>,
    secret: Option<String>,
    period: String,
    destinations: Vec<String>,
    text: Option<String>,
    #[serde(default)]
    filter: WrittenFilter,
    first_run: Option<String>,
    channel: Option<String>,
    webhook: Option<WrittenAddress>,
    #[serde(default)]
    paused: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenFilter {
    ignore_title: String,
    ignore_link: String,
    only_title: String,
    only_link: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAddress {
    url: Option<String>,
    secret: Option<String>,
}

/// Reads a list. `policy` says which addresses are allowed, and `available` for which destinations there is a token.
pub fn read(text: &str, policy: &Policy, available: &[Destination]) -> Result<Vec<Listed>, Error> {
    let entries: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(entries)) => entries,
        Ok(_) => return Err(Error(vec!["the list of feeds is not a JSON array".to_owned()])),
        Err(error) => return Err(Error(vec![format!("the list of feeds is not JSON: {error}")])),
    };
    let mut problems = Vec::new();
    let mut feeds: Vec<Listed> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (at, entry) in entries.into_iter().enumerate() {
        let name = entry["name"].as_str().map(str::to_owned);
        let place = match &name {
            Some(name) => format!("entry {} ({name})", at + 1),
            None => format!("entry {}", at + 1),
        };
        let (feed, mut found) = match Listed::of_entry(entry, policy) {
            Ok(feed) => (Some(feed), Vec::new()),
            Err(Error(found)) => (None, found),
        };
        if let Some(name) = name {
            if names.contains(&name) {
                found.push("name: an entry before it has this name".to_owned());
            }
            names.push(name);
        }
        for destination in feed.iter().flat_map(|feed| &feed.destinations).filter(|it| !available.contains(it)) {
            found.push(format!("destinations: there is no token for {}", destination.name()));
        }
        problems.extend(found.into_iter().map(|problem| format!("{place}: {problem}")));
        feeds.extend(feed);
    }
    if problems.is_empty() { Ok(feeds) } else { Err(Error(problems)) }
}

impl Listed {
    /// The feed that the event of a schedule is about: `{"feed": {…}}`.
    pub fn of_event(event: &Value, policy: &Policy) -> Result<Self, Error> {
        match event.get("feed") {
            Some(entry) => Self::of_entry(entry.clone(), policy),
            None => Err(Error(vec!["the event has no \"feed\": it is the feed's entry of the list".to_owned()])),
        }
    }

    /// Reads one entry. The error names all that is wrong with it, or the first key that is unknown, missing or of the wrong type.
    pub fn of_entry(entry: Value, policy: &Policy) -> Result<Self, Error> {
        let one = |problem: String| Error(vec![problem]);
        if !entry.is_object() {
            return Err(one("it is not an object".to_owned()));
        }
        let size = entry.to_string().len();
        if size > MAX_BYTES {
            return Err(one(format!("it has {size} bytes, and {MAX_BYTES} are allowed")));
        }
        let written: Written = serde_json::from_value(entry.clone()).map_err(|error| one(error.to_string()))?;
        let mut problems = Problems::default();
        let feed = written.check(entry, policy, &mut problems);
        match (feed, problems.0) {
            (Some(feed), none) if none.is_empty() => Ok(feed),
            (_, problems) => Err(Error(problems)),
        }
    }

    /// The event of its schedule.
    pub fn event(&self) -> Value {
        let mut feed = self.entry.clone();
        if let Some(members) = feed.as_object_mut() {
            members.remove("paused");
        }
        serde_json::json!({ "feed": feed })
    }
}

#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn push(&mut self, key: &str, problem: impl fmt::Display) {
        self.0.push(format!("{key}: {problem}"));
    }

    /// The value, or `None` with its problem noted.
    fn take<T, E: fmt::Display>(&mut self, key: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.push(key, error)).ok()
    }
}

impl Written {
    /// `None` only if there is a problem.
    fn check(self, entry: Value, policy: &Policy, problems: &mut Problems) -> Option<Listed> {
        let name = problems.take("name", name(&self.name));
        let address = address("", self.url, self.secret, policy, problems);
        let period = problems.take("period", period(&self.period));
        let destinations = destinations(&self.destinations, problems);
        let text = self.text.unwrap_or_else(|| DEFAULT_TEXT.to_owned());
        problems.take("text", Template::parse(&text));
        let filter = Filter {
            ignore_title: pattern("filter.ignore_title", &self.filter.ignore_title, problems),
            ignore_link: pattern("filter.ignore_link", &self.filter.ignore_link, problems),
            only_title: pattern("filter.only_title", &self.filter.only_title, problems),
            only_link: pattern("filter.only_link", &self.filter.only_link, problems),
        };
        let first_run = self.first_run.and_then(|text| problems.take("first_run", text.parse::<FirstRun>()));
        belongs("channel", self.channel.is_some(), Destination::Slack, &destinations, problems);
        if self.channel.as_deref().is_some_and(|channel| !is_channel(channel)) {
            problems.push("channel", "it is not the ID of a channel, such as C0123456789");
        }
        belongs("webhook", self.webhook.is_some(), Destination::Webhook, &destinations, problems);
        let webhook = self.webhook.and_then(|it| address_of("webhook.", it, policy, problems));
        Some(Listed {
            name: name?,
            address: address?,
            period: period?,
            filter,
            text,
            destinations,
            first_run,
            channel: self.channel,
            webhook,
            paused: self.paused,
            entry,
        })
    }
}

fn name(name: &str) -> Result<FeedName, String> {
    if ENVIRONMENTS.iter().any(|ending| name.ends_with(ending)) {
        return Err(format!("{name:?} ends like the name of an environment"));
    }
    if RESERVED.contains(&name) {
        return Err(format!("{name:?} is reserved for a built-in feed; choose another name"));
    }
    let rule = || format!("{name:?} is not 1 to {MAX_NAME} of a-z, 0-9 and -");
    FeedName::listed(name).ok_or_else(rule)
}

fn is_plain(text: &str, most: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=most).contains(&text.len()) && text.bytes().all(plain)
}

fn is_channel(text: &str) -> bool {
    text.len() >= 3
        && text.starts_with(['C', 'D', 'G'])
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn address_of(key: &str, written: WrittenAddress, policy: &Policy, problems: &mut Problems) -> Option<Address> {
    address(key, written.url, written.secret, policy, problems)
}

fn address(
    key: &str,
    url: Option<String>,
    secret: Option<String>,
    policy: &Policy,
    problems: &mut Problems,
) -> Option<Address> {
    match (url, secret) {
        (Some(url), None) => {
            let key = format!("{key}url");
            let Ok(parsed) = url.trim().parse::<Url>() else {
                problems.push(&key, "it is not a URL");
                return None;
            };
            if !parsed.username().is_empty() || parsed.password().is_some() {
                problems.push(&key, "it has a password; store the address as a secret and name that");
            }
            problems.take(&key, policy.check_url(&parsed))?;
            Some(Address::Url(parsed))
        }
        (None, Some(secret)) if OWN_SECRETS.contains(&secret.as_str()) => {
            problems.push(
                &format!("{key}secret"),
                format_args!("{secret:?} is a secret of feeds' own; choose another name"),
            );
            None
        }
        (None, Some(secret)) if is_plain(&secret, MAX_SECRET) => Some(Address::Secret(secret)),
        (None, Some(secret)) => {
            problems
                .push(&format!("{key}secret"), format_args!("{secret:?} is not 1 to {MAX_SECRET} of a-z, 0-9 and -"));
            None
        }
        (Some(_), Some(_)) | (None, None) => {
            problems.0.push(format!("{key}url or {key}secret: give exactly one of them"));
            None
        }
    }
}

/// `15 minutes`. One has the singular, all others the plural: EventBridge refuses everything else.
fn period(text: &str) -> Result<Duration, String> {
    let parsed = || {
        let (number, unit) = text.split_once(' ')?;
        let digits = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = number.parse().ok().filter(|_| digits)?;
        let unit = if number == 1 { unit } else { unit.strip_suffix('s')? };
        let minutes = match unit {
            "minute" => 1,
            "hour" => 60,
            "day" => 24 * 60,
            _ => return None,
        };
        number.checked_mul(minutes).filter(|minutes| *minutes <= MAX_PERIOD_MINUTES)
    };
    let rule = || format!("{text:?} is not a period such as \"1 minute\", \"15 minutes\", \"1 hour\" or \"1 day\"");
    parsed().map(|minutes| Duration::from_secs(minutes * 60)).ok_or_else(rule)
}

fn destinations(written: &[String], problems: &mut Problems) -> Vec<Destination> {
    let mut destinations = Vec::new();
    for text in written {
        match Destination::ALL.into_iter().find(|destination| destination.name() == text) {
            Some(destination) if destinations.contains(&destination) => {
                problems.push("destinations", format_args!("{text} is there twice"));
            }
            Some(destination) => destinations.push(destination),
            None => {
                problems
                    .push("destinations", format_args!("{text:?} is not one of mastodon, pushover, slack, webhook"));
            }
        }
    }
    if written.is_empty() {
        problems.push("destinations", "there is none; name at least one");
    }
    destinations
}

fn belongs(key: &str, given: bool, to: Destination, destinations: &[Destination], problems: &mut Problems) {
    match (given, destinations.contains(&to)) {
        (false, true) => problems.push(key, format_args!("it is missing; the destination {} needs it", to.name())),
        (true, false) => problems.push(key, format_args!("it is only for the destination {}", to.name())),
        _ => {}
    }
}

fn pattern(key: &'static str, text: &str, problems: &mut Problems) -> Pattern {
    // The error names the key itself.
    Pattern::parse(key, text).unwrap_or_else(|error| {
        problems.0.push(error.to_string());
        Pattern::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(list: &Value) -> Result<Vec<Listed>, Vec<String>> {
        read(&list.to_string(), &Policy::local(), &Destination::ALL).map_err(|Error(problems)| problems)
    }

    fn blog() -> Value {
        json!({"name": "blog", "url": "https://blog.example/feed.xml", "period": "15 minutes", "destinations": ["mastodon"]})
    }

    fn with(key: &str, value: Value) -> Value {
        let mut entry = blog();
        entry[key] = value;
        entry
    }

    #[test]
    fn the_documented_entry_is_read_and_comes_back_as_the_schedules_event() {
        let entry = json!({
            "name": "blog", "url": "http://127.0.0.1:9000/feed.xml", "period": "1 hour", "text": "{title} {link}",
            "destinations": ["mastodon", "pushover", "slack", "webhook"], "channel": "C0123456789",
            "webhook": {"secret": "blog-hook"}, "filter": {"ignore_title": "^Ad", "only_link": "/en/"}, "first_run": "last:3",
            "paused": true,
        });
        let feeds = check(&json!([entry])).unwrap();
        let feed = &feeds[0];
        assert_eq!((feed.name.as_str(), feed.period), ("blog", Duration::from_secs(3_600)));
        assert_eq!((feed.destinations.len(), feed.first_run, feed.paused), (4, Some(FirstRun::Last(3)), true));
        assert_eq!(feed.webhook, Some(Address::Secret("blog-hook".into())));
        let again = Listed::of_event(&feed.event(), &Policy::local()).unwrap();
        assert_eq!((again.name.clone(), again.channel.as_deref()), (feed.name.clone(), Some("C0123456789")));
        assert!(check(&json!([])).unwrap().is_empty());
    }

    #[test]
    fn an_entry_that_cannot_work_is_refused_with_its_place() {
        let long = "x".repeat(33);
        for (entry, said) in [
            (json!([]), "it is not an object"),
            (json!({"name": "blog"}), "missing field `period`"),
            (json!({"name": "blog", "period": "1 hour"}), "missing field `destinations`"),
            (
                json!({"name": "blog", "secret": "webhook-key", "period": "1 hour", "destinations": ["mastodon"]}),
                "is a secret of feeds' own",
            ),
            (with("perod", json!("1 hour")), "unknown field `perod`"),
            (with("filter", json!({"titel": "x"})), "unknown field `titel`"),
            (with("name", json!("Blog")), "name: \"Blog\" is not"),
            (with("name", json!("")), "name: \"\" is not"),
            (with("name", json!(long)), "is not 1 to 32"),
            (with("name", json!("github")), "built-in"),
            (with("name", json!("hatebu-subscriber")), "built-in"),
            (with("name", json!("blog-dev")), "environment"),
            (with("url", json!("blog.example")), "url: it is not a URL"),
            (with("url", json!("http://blog.example/")), "url: blog.example was not asked, because only https"),
            (with("url", json!("http://169.254.169.254/latest")), "url: "),
            (with("url", json!("https://10.0.0.1/")), "not on the public internet"),
            (with("url", json!("https://me:pw@blog.example/")), "it has a password"),
            (with("secret", json!("x")), "exactly one of them"),
            (with("url", Value::Null), "exactly one of them"),
            (with("period", json!("1 minutes")), "period: "),
            (with("period", json!("5 minute")), "period: "),
            (with("period", json!("0 minutes")), "period: "),
            (with("period", json!("05 minutes")), "period: "),
            (with("period", json!("366 days")), "period: "),
            (with("period", json!("rate(5 minutes)")), "period: "),
            (with("destinations", json!([])), "there is none"),
            (with("destinations", json!(["mastodon", "mastodon"])), "twice"),
            (with("destinations", json!(["myspace"])), "\"myspace\" is not one of"),
            (with("destinations", json!(["slack"])), "channel: it is missing"),
            (with("channel", json!("C0123456789")), "only for the destination slack"),
            (with("destinations", json!(["webhook"])), "webhook: it is missing"),
            (with("text", json!("{titel}")), "text: "),
            (with("text", json!(" ")), "text: the template is empty"),
            (with("filter", json!({"only_title": "(open"})), "filter.only_title"),
            (with("first_run", json!("some")), "first_run: "),
        ] {
            let problems = check(&json!([entry])).expect_err(said);
            assert!(
                problems.iter().any(|problem| problem.starts_with("entry 1") && problem.contains(said)),
                "{said}: {problems:?}"
            );
        }
    }

    #[test]
    fn all_problems_of_all_entries_are_named_at_once() {
        let problems = check(&json!([with("period", json!("soon")), blog(), with("name", json!("B"))])).unwrap_err();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[1].contains("entry 2 (blog): name: an entry before it"), "{problems:?}");
        for text in ["", "{}", "[", "[1]", "null"] {
            assert!(read(text, &Policy::local(), &Destination::ALL).is_err(), "{text}");
        }
    }

    #[test]
    fn a_destination_without_a_token_is_refused() {
        let text = json!([blog()]).to_string();
        let error = read(&text, &Policy::public(), &[Destination::Slack]).unwrap_err().to_string();
        assert_eq!(error, "entry 1 (blog): destinations: there is no token for mastodon");
    }

    #[test]
    fn loopback_is_for_the_local_platform_only() {
        let text = json!([with("url", json!("http://127.0.0.1:9000/feed.xml"))]).to_string();
        assert!(read(&text, &Policy::public(), &Destination::ALL).is_err());
        assert!(read(&text, &Policy::local(), &Destination::ALL).is_ok());
    }
}
