//! The back end of the console of a deployed environment: what AWS's APIs and the logs say.
//!
//! Everything is asked as the commands ask it: `keys`, `trace`, `dead-letters`, `schedules`, `rollout`, `cost` and `slack report` have the
//! functions that are called here. A change is the command itself, run with its confirmation given, because the page has asked.

mod alarms;
mod changes;
mod overview;
mod rollouts;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use console::backend::{Answer, Backend, Failure};
use console::contract::{
    Alarm, Change, Changed, Cost, DeadLetter, DeadLetters, Frame, History, KeyName, KeyQuery, Keys, Life, Overview,
    Rollouts, Schedule, capability,
};
use console::life;
use console::search::{self, Place};
use feeds::entry::EntryId;
use feeds::list::FeedName;
use function::Aws;
use futures::future::join_all;
use ichido::{Clock as _, SystemClock};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::applications::Application;
use crate::command::{cost, schedules, slack};
use crate::context::{Context, Error, Shared, failed};
use crate::dead_letter::{self, Letter};
use crate::outside::logs;
use crate::record;
use rollouts::Standings;

/// How many dead letters' keys are searched in the logs.
const MOST_SEARCHED: usize = 10;
/// How many searches run at the same time: AWS allows an account a few per second.
const AT_ONCE: usize = 2;
/// How long Lambda tries an asynchronous event at most. What the attempts logged is from this time before it was given up.
const TRIED_FOR: Duration = Duration::from_secs(6 * 3600);
/// CloudWatch has one value per minute, and charges for each question.
const REFRESH_SECONDS: u32 = 60;

/// An environment, as the console sees it.
#[derive(Clone)]
pub(crate) struct Deployed(Arc<Inner>);

struct Inner {
    environment: &'static str,
    shared: Shared,
    aws: Aws,
    /// How far back the logs are searched.
    since: Duration,
    /// Who the changes were made as when the console started; `None`: it only reads.
    caller: Option<String>,
    standings: Standings,
    /// Held while dead letters are read, which hides them from others, and while something is changed.
    busy: tokio::sync::Mutex<()>,
    /// The model takes seconds, and its answer does not change while the console runs.
    cost: OnceCell<Cost>,
}

impl Deployed {
    pub(crate) fn new(
        context: &Context<'_>,
        since: Duration,
        settings: Option<PathBuf>,
        caller: Option<String>,
    ) -> Result<Self, Error> {
        // The page has asked; nobody sits at the terminal.
        let shared = Shared { yes: true, json: false, ..context.shared().clone() };
        Ok(Self(Arc::new(Inner {
            environment: context.environment()?.name(),
            shared,
            aws: context.aws.clone(),
            since,
            caller,
            standings: Standings::new(settings),
            busy: tokio::sync::Mutex::default(),
            cost: OnceCell::new(),
        })))
    }

    /// What a command works with. What it prints goes to `out`.
    fn context<'a>(&self, out: &'a mut (dyn Write + Send + Sync)) -> Context<'a> {
        Context::with(&self.0.shared, self.0.aws.clone(), out).confirmed_on_page()
    }

    /// Waits until a change that has begun has ended.
    pub(crate) async fn settled(&self) {
        let _idle = self.0.busy.lock().await;
    }

    fn places(&self, context: &Context<'_>) -> Result<Vec<Place>, Error> {
        let place = |application: Application| {
            let (_, store) = record::store(context, application, None)?;
            Ok(Place { application: application.name(), unprefixed: application.unprefixed(), store })
        };
        Application::ALL.into_iter().map(place).collect()
    }
}

impl Backend for Deployed {
    fn frame(&self) -> Frame {
        use capability::{ALARMS, CHANGES, COST, DEAD_LETTERS, HISTORY, INSIGHTS, KEYS, OVERVIEW, ROLLOUTS, SCHEDULES};
        let has = [OVERVIEW, INSIGHTS, KEYS, DEAD_LETTERS, SCHEDULES, ALARMS, ROLLOUTS, COST, HISTORY];
        let changes = self.0.caller.as_ref().map(|_| CHANGES);
        Frame {
            environment: self.0.environment.to_owned(),
            capabilities: has.into_iter().chain(changes).map(str::to_owned).collect(),
            pages: Vec::new(),
            identity: self.0.caller.clone(),
            addresses: Vec::new(),
            breakable: Vec::new(),
            refresh_seconds: Some(REFRESH_SECONDS),
        }
    }

    fn overview(&self, minutes: u32, logs: bool) -> impl Answer<Overview> {
        async move {
            let mut out = std::io::sink();
            overview::read(&self.context(&mut out), minutes, logs).await.map_err(unanswered)
        }
    }

    fn keys(&self, query: KeyQuery) -> impl Answer<Keys> {
        async move {
            let mut out = std::io::sink();
            let places = self.places(&self.context(&mut out)).map_err(unanswered)?;
            search::keys(&places, &query).await
        }
    }

    fn life(&self, namespace: String, key: String) -> impl Answer<Life> {
        async move {
            let mut out = std::io::sink();
            let context = self.context(&mut out);
            let places = self.places(&context).map_err(unanswered)?;
            let mut asked = (key.clone(), Vec::new(), Vec::new());
            let mut whole = true;
            for spelling in life::spellings(&namespace, &key) {
                let found = self.lines(&context, &namespace, &spelling).await.map_err(unanswered)?;
                whole &= found.1;
                let records = search::records(&places, &namespace, &spelling, false).await?;
                if !found.0.is_empty() || !records.is_empty() {
                    asked = (spelling, found.0, records);
                    break;
                }
            }
            let (key, lines, records) = asked;
            let known = records.first().map(|record| record.namespace.clone());
            let now = SystemClock.now();
            let mut life = life::of(&known.unwrap_or(namespace), &key, lines, records, now.to_string());
            // What happened before the time that was searched is not shown.
            let start = now.saturating_sub(self.0.since).to_string();
            let older =
                |record: &console::contract::Record| record.changed_at.as_deref().is_some_and(|at| *at < *start);
            life.whole &= whole && !life.records.iter().any(older);
            Ok(life)
        }
    }

    fn dead_letters(&self) -> impl Answer<DeadLetters> {
        async move {
            let _busy = self.0.busy.lock().await;
            let mut out = std::io::sink();
            let context = self.context(&mut out);
            let found = dead_letter::read(&context, &Application::ALL).await.map_err(unanswered)?;
            dead_letter::let_go(&context, &found.letters).await;
            let mut shown = DeadLetters::default();
            shown.unread.extend(found.unread.iter().map(|error| telemetry::causes(error)));
            let mut searched = Vec::new();
            for some in found.letters[..found.letters.len().min(MOST_SEARCHED)].chunks(AT_ONCE) {
                searched.extend(join_all(some.iter().map(|letter| logged_keys(&context, letter))).await);
            }
            for (letter, keys) in found.letters.iter().zip(searched) {
                // Without its keys a dead letter can still be read.
                let keys = keys.unwrap_or_else(|error| {
                    shown.unread.push(format!(
                        "the keys of {} are not known: {}",
                        letter.id,
                        telemetry::causes(&error)
                    ));
                    BTreeSet::new()
                });
                shown.letters.push(of(letter, keys));
            }
            let rest = found.letters.get(MOST_SEARCHED..).unwrap_or_default();
            shown.letters.extend(rest.iter().map(|letter| of(letter, BTreeSet::new())));
            Ok(shown)
        }
    }

    fn schedules(&self) -> impl Answer<Vec<Schedule>> {
        async move {
            let mut out = std::io::sink();
            let all = schedules::ours(&self.context(&mut out)).await.map_err(unanswered)?;
            let shown = |schedule: &aws_sdk_scheduler::operation::get_schedule::GetScheduleOutput| Schedule {
                name: schedule.name().unwrap_or_default().to_owned(),
                expression: schedule.schedule_expression().unwrap_or_default().to_owned(),
                enabled: schedules::state(schedule) == "ENABLED",
                next: None,
                last: None,
            };
            Ok(all.iter().map(shown).collect())
        }
    }

    fn alarms(&self) -> impl Answer<Vec<Alarm>> {
        async move {
            let mut out = std::io::sink();
            alarms::read(&self.context(&mut out)).await.map_err(unanswered)
        }
    }

    fn rollouts(&self) -> impl Answer<Rollouts> {
        async move {
            let mut out = std::io::sink();
            self.0.standings.read(&self.context(&mut out)).await.map_err(unanswered)
        }
    }

    fn cost(&self) -> impl Answer<Cost> {
        async move {
            let compute = || async {
                let mut out = std::io::sink();
                let model = cost::Cost { free_tier: false, usage: None };
                let printed = model.compute(&self.context(&mut out), true).await?;
                serde_json::from_str(&printed)
                    .map_err(|error| failed("the answer of scripts/cost is not understood", error))
            };
            self.0.cost.get_or_try_init(compute).await.cloned().map_err(unanswered)
        }
    }

    fn history(&self, days: u32) -> impl Answer<History> {
        async move {
            let mut out = std::io::sink();
            let context = self.context(&mut out);
            let table = context.table_name(None, Application::Slack.table()).map_err(unanswered)?;
            let report = slack::report(&context, &table, days).await.map_err(unanswered)?;
            Ok(report.as_json())
        }
    }

    fn change(&self, change: Change) -> impl Answer<Changed> {
        async move { self.make(change).await }
    }
}

impl Deployed {
    /// The log lines that are about a key, and whether these are all.
    async fn lines(&self, context: &Context<'_>, namespace: &str, key: &str) -> Result<(Vec<Value>, bool), Error> {
        let named = Application::ALL.into_iter().find(|application| application.name() == namespace);
        let of = named.map_or_else(|| Application::ALL.to_vec(), |application| vec![application]);
        let functions: Vec<&str> = of.iter().flat_map(|application| application.functions()).copied().collect();
        let found = logs::find(context, &functions, key, logs::since(self.0.since)).await?;
        // The text may be a part of another key, or of a message.
        let lines = found.lines.into_iter().map(|line| line.fields).filter(|fields| fields["eventKey"] == key);
        Ok((lines.collect(), found.whole))
    }
}

/// Why AWS, or the project's tree, did not answer.
fn unanswered(error: Error) -> Failure {
    Failure::Failed(telemetry::causes(&error))
}

/// The keys that the attempts of a dead letter logged. The attempts at a feed's entry have one key, which its id tells.
async fn logged_keys(context: &Context<'_>, letter: &Letter) -> Result<BTreeSet<KeyName>, Error> {
    let named = |namespace: Option<&str>, key: &str| KeyName {
        namespace: life::namespace_of(namespace, key).to_owned(),
        key: key.to_owned(),
    };
    if let Some(id) = letter.payload["entryId"].as_str() {
        let feed = letter.payload["feed"].as_str().and_then(FeedName::listed);
        let key = feeds::table::claim_key(feed.as_ref(), &letter.what, &EntryId::from_table(id)).ok();
        return Ok(key.iter().map(|key| named(None, key.as_str())).collect());
    }
    let of = Application::ALL.into_iter().find(|application| application.name() == letter.application);
    let functions = of.map(Application::functions).unwrap_or_default();
    let tried = letter.at.saturating_sub(TRIED_FOR)..letter.at + Duration::from_secs(60);
    let found = logs::find(context, functions, &letter.id, tried).await?;
    let lines = found.lines.iter().filter(|line| line.text("requestId") == Some(letter.id.as_str()));
    Ok(lines.filter_map(|line| Some(named(line.text("namespace"), line.text("eventKey")?))).collect())
}

fn of(letter: &Letter, keys: BTreeSet<KeyName>) -> DeadLetter {
    DeadLetter {
        application: letter.application.to_owned(),
        id: letter.id.clone(),
        place: letter.place.clone(),
        function: letter.function.clone(),
        at: letter.at.to_string(),
        attempts: letter.attempts,
        what: letter.what.clone(),
        reason: letter.reason.clone(),
        payload: letter.payload.clone(),
        keys: keys.into_iter().collect(),
    }
}
