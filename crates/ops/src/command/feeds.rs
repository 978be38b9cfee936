//! `ichidoctl feeds`: makes entries owed that were given up or only rehearsed, and shows what would be posted of a feed.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use feeds::delivery::preview;
use feeds::delivery::text::Template;
use feeds::entry::Source;
use feeds::list::{DEFAULT_TEXT, Destination};
use feeds::outside::fetch::{Fetched, Fetcher, Policy, Validators};
use feeds::parse;
use feeds::reading::filter::Filter;
use ichido::{SystemClock, Timestamp};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, Why, failed};
use crate::operation::{self, Intent};
use crate::outside::invoke;
use crate::show;

/// How long a feed may take to answer.
const FETCH_WITHIN: Duration = Duration::from_secs(30);
/// How much of a title is shown, in characters.
const TITLE_CHARS: usize = 80;

#[derive(Debug, Subcommand)]
pub enum Feeds {
    /// Make entries owed that were given up or only rehearsed; the next run delivers them
    #[command(
        after_help = "Mastodon and Slack are asked first whether they have the entry. It asks before it changes anything, unless --yes is given.

Examples:
  ichidoctl feeds resend --rehearsed --since 2026-01-31T12:00:00Z --env prod
  ichidoctl feeds resend github --rehearsed --since 2026-01-31T12:00:00Z --env prod
  ichidoctl feeds resend blog --env prod"
    )]
    Resend(Resend),
    /// Read a feed and show what would be posted where, without posting
    #[command(after_help = "Examples:
  ichidoctl feeds preview https://blog.example.com/feed.xml
  ichidoctl feeds preview https://blog.example.com/feed.json --destinations slack,webhook --text '{title} ({categories}) {link}'")]
    Preview(Preview),
}

#[derive(Debug, Args)]
pub struct Resend {
    /// The feed: github, hatebu, or a name of the list; without it, all of them
    pub feed: Option<String>,
    /// The entries that were rehearsed (SHADOW=on), instead of the dead letters
    #[arg(long)]
    pub rehearsed: bool,
    /// Only entries that were found, or given up, at this time or later: 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", required_if_eq("rehearsed", "true"))]
    pub since: Option<jiff::Timestamp>,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    Mastodon,
    Pushover,
    Slack,
    Webhook,
}

#[derive(Debug, Args)]
pub struct Preview {
    /// The address of the feed
    pub url: url::Url,
    /// The text of a post, as in the list
    #[arg(long, default_value = DEFAULT_TEXT)]
    pub text: String,
    /// Where it would be posted
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [To::Mastodon])]
    pub destinations: Vec<To>,
    /// How many entries are shown, the first of the document first
    #[arg(long, default_value_t = 5)]
    pub entries: usize,
}

impl Feeds {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            Feeds::Resend(resend) => resend.run(context).await,
            Feeds::Preview(preview) => preview.run(context).await,
        }
    }
}

/// An entry that can be made owed.
struct Found {
    application: Application,
    /// The function, with the end of its name.
    function: String,
    /// The name of the feed, as an operator knows it.
    feed: String,
    /// What the function wants to know about the feed; null for those with functions of their own.
    event_feed: Value,
    id: String,
    title: String,
    at: Timestamp,
}

impl Resend {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let since = self.since.map_or(0, |at| u64::try_from(at.as_millisecond()).unwrap_or_default());
        let mut found = Vec::new();
        for (application, feed) in self.feeds() {
            found.extend(self.find(context, application, feed, since).await?);
        }
        let what = if self.rehearsed { "rehearsed entries" } else { "dead letters" };
        if found.is_empty() {
            if context.json() {
                context.value(&json!([]))?;
            } else {
                let of = self.feed.as_ref().map_or(String::new(), |feed| format!(" of feed {feed}"));
                context.line(format_args!("there are no {what}{of} to send"))?;
            }
            return Ok(Ended::Well);
        }
        if !context.json() {
            let rows: Vec<[String; 4]> = found
                .iter()
                .map(|it| [it.feed.clone(), it.at.to_string(), it.id.clone(), show::one_line(&it.title, TITLE_CHARS)])
                .collect();
            show::table(context, ["FEED", "SINCE", "ID", "TITLE"], &rows)?;
        }
        let question = format!("Make {} {what} owed, so that the next run delivers them?", found.len());
        context.confirm(&question)?;
        let (mut told, mut failures) = (Vec::new(), 0);
        for one in &found {
            let Found { feed, id, .. } = one;
            let done = self.resend(context, one, &question).await;
            failures += usize::from(done.is_err());
            let said = match &done {
                Ok(()) => "owed; the next run of the feed delivers it".to_owned(),
                Err(error) => telemetry::causes(error),
            };
            if !context.json() {
                context.line(format_args!("{feed}  {id}  {said}"))?;
            }
            told.push(json!({"feed": feed, "id": id, "ok": done.is_ok(), "done": said}));
        }
        if context.json() {
            context.value(&told)?;
        }
        Ok(if failures == 0 { Ended::Well } else { Ended::NeedsAttention })
    }

    /// Makes one entry owed, and leaves a trace.
    async fn resend(&self, context: &mut Context<'_>, found: &Found, question: &str) -> Result<(), Error> {
        let Found { application, function, feed, event_feed, id, title, at } = found;
        let command = if self.rehearsed { "resend-rehearsed" } else { "resend" };
        let mut event = json!({"command": command, "entryId": id});
        if !event_feed.is_null() {
            event["feed"] = event_feed.clone();
        }
        let table = context.table_name(None, application.table())?;
        let intent = Intent {
            application: *application,
            table: &table,
            what: command,
            on: id,
            reason: &self.why.reason,
            question: Some(question),
            before: json!({ "feed": feed, "title": title, "at": at.to_string() }),
        };
        let traced = operation::begin(context, intent).await?;
        let result = invoke::ask(context, function, &event).await.map(|_| ());
        traced.end(context, &result, |_| format!("{command} of entry {id} of feed {feed} by hand")).await;
        result
    }

    /// The applications to ask, and the name of the feed if only one of the list is wanted.
    fn feeds(&self) -> Vec<(Application, Option<&str>)> {
        match self.feed.as_deref() {
            None => vec![(Application::Github, None), (Application::Hatebu, None), (Application::Feeds, None)],
            Some("github") => vec![(Application::Github, None)],
            Some("hatebu") => vec![(Application::Hatebu, None)],
            Some(name) => vec![(Application::Feeds, Some(name))],
        }
    }

    async fn find(
        &self,
        context: &Context<'_>,
        application: Application,
        feed: Option<&str>,
        since: u64,
    ) -> Result<Vec<Found>, Error> {
        let Some(function) = application.dead_letter_function() else { return Ok(Vec::new()) };
        let function = format!("{function}{}", context.suffix()?);
        let (command, member) =
            if self.rehearsed { ("rehearsed", "rehearsed") } else { ("dead-letters", "deadLetters") };
        let mut event = json!({"command": command, "since": since});
        if let Some(name) = feed {
            event["feed"] = json!({ "name": name });
        }
        let answer = invoke::ask(context, &function, &event).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut found: Vec<Found> = Vec::new();
        for one in answer[member].as_array().into_iter().flatten() {
            let name = one["feed"].as_str().or(feed).map(str::to_owned);
            let at = one["at"].as_u64().unwrap_or_default();
            if at < since {
                continue;
            }
            found.push(Found {
                application,
                function: function.clone(),
                feed: name.clone().unwrap_or_else(|| application.name().to_owned()),
                event_feed: name.map_or(Value::Null, |name| json!({ "name": name })),
                id: text(&one["entryId"]),
                title: text(&one["title"]),
                at: Timestamp::from_millis(at),
            });
        }
        // One entry may be a dead letter for two destinations. Its function resends it as one.
        found.dedup_by(|a, b| a.feed == b.feed && a.id == b.id);
        Ok(found)
    }
}

impl Preview {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let template = Template::parse(&self.text).map_err(|error| Error::Refused(error.to_string()))?;
        let document = fetch(&self.url).await?;
        let feed = parse::parse(Source::Listed, &document.body, document.charset.as_deref(), &document.url);
        let feed = feed.map_err(|error| Error::Refused(format!("could not read the feed: {error}")))?;
        let problems: Vec<String> = feed.problems.iter().map(ToString::to_string).collect();
        let filter = Filter::default();
        let posts: Vec<Value> = feed
            .entries
            .iter()
            .take(self.entries)
            .map(|entry| {
                let posts = self.destinations.iter().map(|to| {
                    let destination = to.destination();
                    let text = preview::text(entry, &template, destination);
                    let text = text.unwrap_or_else(|error| format!("(refused: {error})"));
                    json!({"destination": destination.name(), "text": text})
                });
                json!({
                    "id": entry.id, "title": entry.title, "link": entry.link, "author": entry.author,
                    "published": entry.published.map(|at| at.to_string()), "categories": entry.categories,
                    "enclosure": entry.enclosure, "ignored": filter.reason(entry), "posts": posts.collect::<Vec<_>>(),
                })
            })
            .collect();
        let format = feed.format.name();
        let moved = document.moved.as_ref().map(url::Url::as_str);
        if context.json() {
            context.value(&json!({
                "format": format, "entries": feed.entries.len(), "truncated": feed.truncated, "movedTo": moved,
                "problems": problems, "shown": posts,
            }))?;
        } else {
            context.line(format_args!("{format}, {} entries", feed.entries.len()))?;
            if let Some(moved) = moved {
                context.line(format_args!("the feed has moved permanently; use this address: {moved}"))?;
            }
            for problem in &problems {
                context.line(format_args!("problem: {problem}"))?;
            }
            for post in &posts {
                let of = |name: &str| post[name].as_str().unwrap_or("-").to_owned();
                context.line("")?;
                context.line(format_args!("{}  {}", of("published"), of("id")))?;
                if let Some(reason) = post["ignored"].as_str() {
                    context.line(format_args!("  not posted: {reason}"))?;
                    continue;
                }
                for post in post["posts"].as_array().into_iter().flatten() {
                    let of = |name: &str| post[name].as_str().unwrap_or_default().to_owned();
                    // A post may have several lines.
                    let (destination, text) = (of("destination"), of("text"));
                    let first = std::iter::once(destination.as_str()).chain(std::iter::repeat(""));
                    for (before, line) in first.zip(text.lines()) {
                        context.line(format_args!("  {before:<9} {line}"))?;
                    }
                }
            }
        }
        Ok(if feed.truncated { Ended::NeedsAttention } else { Ended::Well })
    }
}

impl To {
    fn destination(self) -> Destination {
        match self {
            To::Mastodon => Destination::Mastodon,
            To::Pushover => Destination::Pushover,
            To::Slack => Destination::Slack,
            To::Webhook => Destination::Webhook,
        }
    }
}

async fn fetch(url: &url::Url) -> Result<feeds::outside::fetch::Document, Error> {
    // The operator's own machine may be asked, too: a feed can be tried before it is published.
    let fetcher = Fetcher::new(Policy::local(), Arc::new(SystemClock), || 0.5);
    let fetcher = fetcher.map_err(|error| failed("could not make an HTTP client", error))?;
    let fetched = fetcher.fetch(url, &Validators::default(), FETCH_WITHIN).await;
    match fetched.map_err(|error| failed("could not fetch the feed", error))? {
        Fetched::Changed(document) => Ok(document),
        Fetched::Unchanged { .. } => Err(Error::Refused("the server answered 304 to a first request".to_owned())),
    }
}
