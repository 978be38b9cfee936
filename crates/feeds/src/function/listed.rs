//! `feeds-subscriber`: the subscriber of every feed of the list. The event of a feed's schedule is the feed's entry of the list, so the function knows
//! no list. Each event makes a [`Subscriber`] of its own; they share clients and a table.
//!
//! The commands of the other subscribers name their feed, too. `dead-letters` and `rehearsed` without a feed are about all of them.

use std::{sync::Arc, time::Duration};

use function::{Aws, Env, Error, Handler, LambdaEvent, Value};
use ichido::{Clock, SystemClock};
use serde_json::json;

use super::{
    command, feed_name,
    subscriber::{Subscriber, obey},
    table_of,
};
use crate::{
    delivery::{notify::Secrets, owed::Deliverer},
    entry::Source,
    list::{Destination, Listed},
    outside::{
        fetch::Fetcher,
        invoke::{Invoke, Lambda},
        sender::Sender,
    },
    reading::{Reader, pace::Pace},
    settings::{ListedSettings, SubscriberSettings},
    table::Table,
};

/// The longest time between two runs of a feed, and the period of their alarm. A feed with a longer period has more runs than reads.
const RUN_EVERY: Duration = Duration::from_secs(15 * 60);

pub(crate) async fn build(env: Env, aws: Aws) -> Result<Handler, Error> {
    build_with(env, aws, Arc::new(SystemClock), None)
}

/// Connects the parts of `feeds-subscriber`, in the time of a clock of the caller's. With `sender`, feeds are fetched through it.
pub fn build_with(env: Env, aws: Aws, clock: Arc<dyn Clock>, sender: Option<Sender>) -> Result<Handler, Error> {
    let ListedSettings { subscriber: settings, secrets_prefix } = ListedSettings::read(&env)?;
    let fetcher = Fetcher::new(settings.policy.clone(), clock.clone(), fastrand::f64);
    let fetcher = fetcher.map_err(|error| Error::failed("Start", error))?;
    let fetcher = match sender {
        Some(sender) => fetcher.with_sender(sender),
        None => fetcher,
    };
    let subscribers = Arc::new(Subscribers {
        table: Table::new(aws.dynamodb(), settings.table.clone()),
        fetcher,
        notifier: Arc::new(Lambda::new(&aws.invoker(), settings.notifier.clone())),
        secrets: Secrets { policy: settings.policy.clone(), named: Some((aws, secrets_prefix)) },
        settings,
        clock,
    });
    Ok(function::handler(move |event| {
        let subscribers = subscribers.clone();
        async move { subscribers.handle(event).await }
    }))
}

/// What the subscribers of all feeds share.
struct Subscribers {
    table: Table,
    fetcher: Fetcher,
    notifier: Arc<dyn Invoke>,
    secrets: Secrets,
    settings: SubscriberSettings,
    clock: Arc<dyn Clock>,
}

impl Subscribers {
    async fn handle(&self, event: LambdaEvent<Value>) -> Result<Value, Error> {
        match command(&event) {
            Some(name @ ("dead-letters" | "rehearsed")) if feed_name(&event)?.is_none() => {
                self.of_all(name, &event).await
            }
            Some(name) => {
                let table = table_of(Source::Listed, &self.table, &event)?;
                obey(name, &table, &event, self.clock.now()).await
            }
            None => {
                let feed = Listed::of_event(&event.payload, &self.secrets.policy);
                let feed = feed.map_err(|error| Error::failed("Configuration", error))?;
                self.subscriber(feed, event.payload.get("everyRunReads") == Some(&Value::Bool(true)))
                    .answer(&event)
                    .await
            }
        }
    }

    fn subscriber(&self, feed: Listed, every_run_reads: bool) -> Subscriber {
        let table = self.table.of_feed(feed.name.clone());
        let settings = &self.settings;
        let run_every = if every_run_reads { feed.period } else { feed.period.min(RUN_EVERY) };
        Subscriber {
            feed: feed.name.clone(),
            table: table.clone(),
            reader: Reader {
                feed: feed.name,
                source: Source::Listed,
                url: self.secrets.address(&feed.address),
                table: table.clone(),
                fetcher: self.fetcher.clone(),
                first_run: feed.first_run.unwrap_or(settings.first_run),
                filter: feed.filter,
            },
            deliverer: Deliverer {
                table,
                notifier: self.notifier.clone(),
                feed: feed.entry,
                destinations: feed.destinations.iter().copied().map(Destination::name).map(str::to_owned).collect(),
                give_up: settings.give_up,
                parallel: settings.parallel,
                clock: self.clock.clone(),
            },
            pace: Pace { adaptive: settings.adaptive, period: feed.period, run_every, longest: settings.longest },
            told_every: RUN_EVERY,
            clock: self.clock.clone(),
        }
    }

    /// The answer to a command about every feed, each member with the name of its feed.
    async fn of_all(&self, name: &str, event: &LambdaEvent<Value>) -> Result<Value, Error> {
        let feeds = self.table.feeds().await.map_err(|error| Error::failed("Store", error))?;
        let mut all = Vec::new();
        let member = if name == "dead-letters" { "deadLetters" } else { "rehearsed" };
        for feed in feeds {
            let mut answer = obey(name, &self.table.of_feed(feed.clone()), event, self.clock.now()).await?;
            for found in answer[member].as_array_mut().into_iter().flatten() {
                found["feed"] = json!(feed);
                all.push(found.take());
            }
        }
        Ok(json!({ member: all }))
    }
}
