//! The console's back end on this machine: everything is asked of the platform itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use console::backend::{Answer, Backend, Failure};
use console::contract::{
    Address, Alarm, Change, Changed, DeadLetter, DeadLetters, Event, Frame, KeyName, KeyQuery, Keys, Life, Metric,
    Overview, Record, Schedule, capability,
};
use console::life;
use console::pages::{Page, TRY};
use console::search::{self, Place};
use function::Aws;
use futures::stream::{self, BoxStream, StreamExt};
use ichido::dynamodb::DynamoDb;
use ichido::record::State;
use ichido::store::Settled;
use ichido::{Clock as _, Key, SystemClock};
use serde_json::{Value, json};
use telemetry::trace::Trace;
use tokio::sync::Mutex;
use tokio::sync::broadcast::error::RecvError;

use crate::platform::Platform;
use crate::platform::clock::{now_ms, rfc3339};
use crate::tenants::Keeps;
use crate::world::alarms::{self, State as AlarmState};
use crate::world::live;
use crate::world::queues::Message;

/// How many datapoints of an alarm are shown.
const POINTS: u32 = 30;
/// How many minutes of a metric are shown.
const MINUTES: u64 = 60;

/// The platform, as the console sees it.
#[derive(Clone)]
pub(super) struct Local {
    platform: Platform,
    /// Held while a dead letter is sent again or dropped, so that two clicks on one letter do it once.
    letters: Arc<Mutex<()>>,
}

/// A dead letter, and where it lies.
struct Lying {
    letter: DeadLetter,
    lies: Lies,
}

enum Lies {
    InQueue,
    /// In the table of a subscriber.
    InTable {
        feed: Option<String>,
        entry: String,
    },
}

impl Backend for Local {
    fn frame(&self) -> Frame {
        use capability::{ALARMS, CHANGES, DEAD_LETTERS, KEYS, LIVE, LOCAL, METRICS, OVERVIEW, SCHEDULES};
        let ground = self.platform.ground();
        let address = |what: &str, url: &str| Address { what: what.to_owned(), url: url.to_owned() };
        let has = [OVERVIEW, KEYS, DEAD_LETTERS, SCHEDULES, ALARMS, METRICS, LIVE, CHANGES, LOCAL];
        Frame {
            environment: "local".to_owned(),
            capabilities: has.map(str::to_owned).to_vec(),
            pages: Vec::new(),
            identity: None,
            addresses: vec![
                address("AWS endpoint", &ground.url),
                address("DynamoDB, for tools", &ground.dynamodb_url),
                address("the same over TLS", &ground.tls_url),
            ],
            breakable: std::iter::once("dynamodb")
                .chain(self.platform.stand_ins().names())
                .map(str::to_owned)
                .collect(),
            refresh_seconds: None,
        }
    }

    fn pages(&self) -> Vec<Page> {
        let page = |(name, panel): (&'static str, crate::tenants::Panel)| Page {
            name,
            title: panel.title,
            path: panel.path,
            group: TRY,
            needs: "",
            script: panel.script,
        };
        let duel = Page {
            name: "duel",
            title: "The duel",
            path: "/duel",
            group: TRY,
            needs: "",
            script: console::asset!("../duel/web/duel.js"),
        };
        std::iter::once(duel).chain(self.platform.panels().into_iter().map(page)).collect()
    }

    fn overview(&self, minutes: u32, _logs: bool) -> impl Answer<Overview> {
        async move {
            let mut overview = self.platform.live().rates().shown(minutes);
            for status in self.platform.evaluate_alarms() {
                *overview.alarms.entry(status.state.as_str().to_owned()).or_default() += 1;
            }
            // Those in queues. The others are known to functions, and asking them would show up in what is measured here.
            overview.dead_letters = Some(self.platform.queues().peek().len() as u64);
            Ok(overview)
        }
    }

    fn keys(&self, query: KeyQuery) -> impl Answer<Keys> {
        async move { search::keys(&self.searched(), &query).await }
    }

    fn life(&self, namespace: String, key: String) -> impl Answer<Life> {
        async move {
            let mut asked = (key.clone(), Vec::new(), Vec::new());
            for spelling in life::spellings(&namespace, &key) {
                let lines = self.platform.live().lines_of_key(&spelling);
                let records = search::records(&self.searched(), &namespace, &spelling, true).await?;
                if !lines.is_empty() || !records.is_empty() {
                    asked = (spelling, lines, records);
                    break;
                }
            }
            let (key, lines, records) = asked;
            let known = records.first().map(|record: &Record| record.namespace.clone());
            let mut life = life::of(&known.unwrap_or(namespace), &key, lines, records, rfc3339(now_ms()));
            life.whole &= self.platform.live().has_all_lines();
            if let Some(first) = life.moments.first() {
                life.outages = self.platform.live().rates().outages(&first.at, &life.at);
            }
            Ok(life)
        }
    }

    fn dead_letters(&self) -> impl Answer<DeadLetters> {
        async move {
            let (lying, unread) = self.letters().await;
            Ok(DeadLetters { letters: lying.into_iter().map(|lying| lying.letter).collect(), unread })
        }
    }

    fn schedules(&self) -> impl Answer<Vec<Schedule>> {
        let shown = |schedule: &crate::world::schedules::Schedule| {
            let shown = schedule.shown();
            let text = |name: &str| shown[name].as_str().map(str::to_owned);
            Schedule {
                name: text("name").unwrap_or_default(),
                expression: text("expression").unwrap_or_default(),
                enabled: shown["enabled"] == true,
                next: text("next"),
                last: text("last"),
            }
        };
        let all = self.platform.schedules().list().iter().map(shown).collect();
        async move { Ok(all) }
    }

    fn alarms(&self) -> impl Answer<Vec<Alarm>> {
        let (metrics, now) = (self.platform.metrics(), self.platform.metrics().now_ms());
        let shown = |status: alarms::Status| {
            let alarm = &status.alarm;
            Alarm {
                name: alarm.name.clone(),
                state: status.state.as_str().to_owned(),
                since: Some(rfc3339(status.since_ms)),
                reason: status.reason(),
                meaning: alarm.description.split(" Runbook ").next().unwrap_or_default().to_owned(),
                runbook: status.runbook().map(|path| console::runbooks::name_of(path).to_owned()),
                metric: alarm.metric.clone(),
                statistic: alarm.statistic.clone(),
                period_seconds: alarm.period.as_secs(),
                evaluation_periods: alarm.evaluation_periods,
                datapoints_to_alarm: alarm.datapoints_to_alarm,
                comparison: alarm.comparison.clone(),
                threshold: alarm.threshold,
                points: alarms::history(alarm, metrics, now, POINTS),
                actions_enabled: status.actions_enabled,
            }
        };
        let mut all = self.platform.evaluate_alarms();
        let order = |state: AlarmState| match state {
            AlarmState::Alarm => 0,
            AlarmState::InsufficientData => 1,
            AlarmState::Ok => 2,
        };
        all.sort_by(|one, other| {
            order(one.state).cmp(&order(other.state)).then_with(|| one.alarm.name.cmp(&other.alarm.name))
        });
        let all = all.into_iter().map(shown).collect();
        async move { Ok(all) }
    }

    fn metrics(&self) -> impl Answer<Vec<Metric>> {
        self.platform.measure_queues();
        let all = self.platform.metrics().of_console(MINUTES);
        async move { Ok(all) }
    }

    fn change(&self, change: Change) -> impl Answer<Changed> {
        async move {
            let message = match change {
                Change::ReleaseKey { application, key, fence, reason, not_done } => {
                    self.release(&application, &key, fence, &reason, not_done).await?
                }
                Change::RedriveDeadLetter { application, id, .. } => self.redrive(&application, &id).await?,
                Change::DropDeadLetter { application, id, .. } => self.drop_letter(&application, &id).await?,
                Change::RunSchedule { name } => self.run(&name).await?,
                Change::PauseSchedule { name, .. } => self.enable(&name, false)?,
                Change::ResumeSchedule { name, .. } => self.enable(&name, true)?,
            };
            tracing::info!(target: "local", "changed by hand: {message}");
            Ok(Changed { message })
        }
    }

    fn events(&self, after: u64) -> BoxStream<'static, Event> {
        let (past, receiver) = self.platform.live().follow(after);
        let rest = stream::unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Ok(event) => Some((event, receiver)),
                // Whoever reads too slowly is told how much it missed.
                Err(RecvError::Lagged(missed)) => {
                    let what = json!({ "missed": missed });
                    Some((live::Event { id: 0, at: rfc3339(now_ms()), kind: "missed", what }, receiver))
                }
                Err(RecvError::Closed) => None,
            }
        });
        let mut stopped = self.platform.stopped();
        let until = async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        let shown =
            |event: live::Event| Event { id: event.id, at: event.at, kind: event.kind.to_owned(), what: event.what };
        stream::iter(past).chain(rest).map(shown).take_until(Box::pin(until)).boxed()
    }
}

fn unreadable(error: ichido::store::Error) -> Failure {
    Failure::Failed(format!("the table could not be read: {}", telemetry::causes(&error)))
}

impl Local {
    /// Where the applications keep their records.
    fn places(&self) -> Vec<Keeps> {
        self.platform.tenants().iter().flat_map(|tenant| tenant.keeps()).collect()
    }

    fn place(&self, application: &str) -> Result<Keeps, Failure> {
        let found = self.places().into_iter().find(|keeps| keeps.application == application);
        found.ok_or_else(|| Failure::NotFound(format!("there is no application {application:?}")))
    }

    /// The store as tools reach it: without faults.
    fn store(&self, keeps: &Keeps) -> DynamoDb {
        DynamoDb::new(Aws::at(&self.platform.ground().url).dynamodb(), keeps.table.clone())
    }

    /// The same, to be searched.
    fn searched(&self) -> Vec<Place> {
        let place = |keeps: &Keeps| Place {
            application: keeps.application,
            unprefixed: keeps.unprefixed,
            store: self.store(keeps),
        };
        self.places().iter().map(place).collect()
    }

    /// All dead letters, oldest first, and what could not be asked.
    async fn letters(&self) -> (Vec<Lying>, Vec<String>) {
        let (mut all, mut unread) = (Vec::new(), Vec::new());
        let places = self.places();
        for message in self.platform.queues().peek() {
            all.push(Lying { letter: self.of_message(&places, &message), lies: Lies::InQueue });
        }
        for keeps in &places {
            let Some(function) = keeps.dead_letters else { continue };
            match self.ask(function, json!({"command": "dead-letters"})).await {
                Ok(answer) => all.extend(in_table(keeps, function, &answer)),
                Err(why) => unread.push(format!("{function} did not list its dead letters: {why}")),
            }
        }
        let order = |lying: &Lying| (lying.letter.at.clone(), lying.letter.id.clone());
        all.sort_by_key(order);
        (all, unread)
    }

    fn of_message(&self, places: &[Keeps], message: &Message) -> DeadLetter {
        let body: Value = serde_json::from_str(&message.body).unwrap_or_else(|_| Value::from(message.body.as_str()));
        let attribute = |name: &str| message.attributes.get(name).cloned();
        let of_lambda = &body["requestContext"];
        let function = match of_lambda["functionArn"].as_str() {
            Some(arn) => template::function_name(&Value::from(arn)),
            None => message.queue.trim_end_matches("-failures").to_owned(),
        };
        let keeps = places.iter().find(|keeps| keeps.functions.contains(&function.as_str()));
        let request = of_lambda["requestId"].as_str().unwrap_or_default();
        let answer = &body["responsePayload"];
        let reason = match (answer["errorType"].as_str(), attribute("ERROR_MESSAGE")) {
            (Some(kind), _) => format!("{kind}: {}", answer["errorMessage"].as_str().unwrap_or_default()),
            (None, Some(why)) => format!("{}: {why}", attribute("ERROR_CODE").unwrap_or_default()),
            (None, None) => "it is not known why".to_owned(),
        };
        let keys: BTreeSet<KeyName> =
            self.platform.live().lines_of_request(request).iter().filter_map(key_name).collect();
        DeadLetter {
            application: keeps.map_or_else(String::new, |keeps| keeps.application.to_owned()),
            id: message.id.clone(),
            place: message.queue.clone(),
            function,
            at: rfc3339(message.sent_ms),
            attempts: of_lambda["approximateInvokeCount"].as_u64(),
            what: of_lambda["condition"]
                .as_str()
                .map(str::to_owned)
                .or_else(|| attribute("EXHAUSTED_RETRY_CONDITION"))
                .unwrap_or_default(),
            reason,
            payload: if of_lambda.is_object() { body["requestPayload"].clone() } else { body },
            keys: keys.into_iter().collect(),
        }
    }

    /// Invokes a function and waits for its answer.
    async fn ask(&self, function: &str, event: Value) -> Result<Value, String> {
        let Some(function) = self.platform.functions().find(function) else {
            return Err(format!("there is no function {function}"));
        };
        let id = uuid::Uuid::new_v4().to_string();
        let trace = Trace::of_request(&id);
        // Not told to the console: nobody wants to see its own questions.
        let invoked = self.platform.functions().invoke(&function, event, id, Some(trace)).await;
        invoked.outcome.map_err(|failure| failure.message)
    }

    async fn letter(&self, application: &str, id: &str) -> Result<Lying, Failure> {
        let (all, _) = self.letters().await;
        let found = all.into_iter().find(|lying| lying.letter.application == application && lying.letter.id == id);
        found.ok_or_else(|| Failure::Changed(format!("the dead letter {id} is gone; nothing was changed")))
    }

    async fn redrive(&self, application: &str, id: &str) -> Result<String, Failure> {
        let _alone = self.letters.lock().await;
        let Lying { letter, lies } = self.letter(application, id).await?;
        if let Lies::InTable { feed, entry } = lies {
            self.command(&letter.function, "resend", feed, &entry).await?;
            return Ok(format!("{} is owed again; the next run delivers it", letter.id));
        }
        let Some(function) = self.platform.functions().find(&letter.function) else {
            return Err(Failure::Failed(format!("there is no function {}; nothing was changed", letter.function)));
        };
        let request = uuid::Uuid::new_v4().to_string();
        let kept = |error: crate::platform::journal::Error| Failure::Failed(error.to_string());
        // In this order: if the platform is killed in between, the letter is sent twice under the same key rather than lost.
        self.platform
            .invocations()
            .accept(&function, letter.payload.clone(), request.clone(), &Trace::of_request(&request))
            .map_err(kept)?;
        self.platform.queues().remove(&letter.id).map_err(kept)?;
        Ok(format!("sent {} to {} again", letter.id, letter.function))
    }

    async fn drop_letter(&self, application: &str, id: &str) -> Result<String, Failure> {
        let _alone = self.letters.lock().await;
        let Lying { letter, lies } = self.letter(application, id).await?;
        match lies {
            Lies::InTable { feed, entry } => self.command(&letter.function, "drop", feed, &entry).await?,
            Lies::InQueue => {
                if !self.platform.queues().remove(&letter.id).map_err(|error| Failure::Failed(error.to_string()))? {
                    return Err(Failure::Changed(format!("the dead letter {id} is gone; nothing was changed")));
                }
            }
        }
        Ok(format!("dropped {}", letter.id))
    }

    /// Asks a subscriber for something that is about all dead deliveries of an entry.
    async fn command(&self, function: &str, command: &str, feed: Option<String>, entry: &str) -> Result<(), Failure> {
        let mut event = json!({"command": command, "entryId": entry});
        if let Some(feed) = feed {
            event["feed"] = json!({ "name": feed });
        }
        self.ask(function, event).await.map(|_| ()).map_err(Failure::Failed)
    }

    async fn release(
        &self,
        application: &str,
        key: &str,
        fence: u64,
        reason: &str,
        not_done: bool,
    ) -> Result<String, Failure> {
        let store = self.store(&self.place(application)?);
        let key = Key::stored(key).map_err(|error| Failure::Refused(error.to_string()))?;
        let gone =
            || Failure::Changed(format!("{key} is not claimed with fence {fence} any more; nothing was changed"));
        let found = store.look(&key).await.map_err(unreadable)?;
        let record =
            found.and_then(|found| found.record.ok()).filter(|record| record.fence == fence).ok_or_else(gone)?;
        let (State::Claimed { .. } | State::Released { uncertain: true, .. }) = record.state else {
            return Err(gone());
        };
        let reason = format!("released by hand in the console: {reason}");
        match store.release(&key, &record, SystemClock.now(), &reason, !not_done).await.map_err(unreadable)? {
            Settled::Done => Ok(format!("released {key}; the next worker can claim it at once")),
            Settled::Lost(_) => Err(gone()),
        }
    }

    async fn run(&self, name: &str) -> Result<String, Failure> {
        let invoked = self.platform.run_schedule(name).await.map_err(|error| Failure::NotFound(error.to_string()))?;
        match invoked.outcome {
            Ok(_) => Ok(format!("{name} has run")),
            Err(failure) => Err(Failure::Failed(format!("{name} ran and failed: {}", failure.message))),
        }
    }

    fn enable(&self, name: &str, enabled: bool) -> Result<String, Failure> {
        let changed = self.platform.schedules().change(name, Some(enabled), None, None);
        changed.map_err(|error| Failure::NotFound(error.to_string()))?;
        self.platform.live().tell("schedule", json!({"name": name, "by": "hand", "enabled": enabled}));
        Ok(format!("{name} is {}", if enabled { "resumed" } else { "paused" }))
    }
}

/// The dead letters that a subscriber has listed: one per entry, because sending again and dropping are about all its dead deliveries.
fn in_table(keeps: &Keeps, function: &str, answer: &Value) -> Vec<Lying> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut entries: BTreeMap<(Option<String>, String), Vec<&Value>> = BTreeMap::new();
    for delivery in answer["deadLetters"].as_array().into_iter().flatten() {
        let of = (delivery["feed"].as_str().map(str::to_owned), text(&delivery["entryId"]));
        entries.entry(of).or_default().push(delivery);
    }
    let lying = |((feed, entry), deliveries): ((Option<String>, String), Vec<&Value>)| {
        let destinations: Vec<String> = deliveries.iter().map(|delivery| text(&delivery["destination"])).collect();
        let key = |(delivery, destination): (&&Value, &String)| {
            let own = || {
                let feed = feed.as_deref().and_then(feeds::list::FeedName::listed);
                let entry = feeds::entry::EntryId::from_table(&entry);
                feeds::table::claim_key(feed.as_ref(), destination, &entry).ok().map(|key| key.as_str().to_owned())
            };
            let key = delivery["key"].as_str().map(str::to_owned).or_else(own)?;
            Some(KeyName { namespace: "DELIVERY".to_owned(), key })
        };
        let reasons = deliveries.iter().zip(&destinations).map(|(delivery, destination)| {
            let reason = text(&delivery["reason"]);
            if deliveries.len() == 1 { reason } else { format!("{destination}: {reason}") }
        });
        let letter = DeadLetter {
            application: keeps.application.to_owned(),
            id: feed.as_ref().map_or_else(|| entry.clone(), |feed| format!("{feed}/{entry}")),
            place: keeps.table.name().to_owned(),
            function: function.to_owned(),
            at: rfc3339(deliveries.iter().filter_map(|delivery| delivery["at"].as_u64()).max().unwrap_or_default()),
            attempts: None,
            what: destinations.join(", "),
            reason: reasons.collect::<Vec<_>>().join("; "),
            payload: deliveries.iter().map(|delivery| (*delivery).clone()).collect(),
            keys: deliveries.iter().zip(&destinations).filter_map(key).collect(),
        };
        Lying { letter, lies: Lies::InTable { feed, entry } }
    };
    entries.into_iter().map(lying).collect()
}

fn key_name(line: &Value) -> Option<KeyName> {
    let key = line["eventKey"].as_str()?;
    Some(KeyName { namespace: life::namespace_of(line["namespace"].as_str(), key).to_owned(), key: key.to_owned() })
}

/// The router of the console.
pub(super) fn routes(platform: &Platform) -> axum::Router {
    console::routes(Local { platform: platform.clone(), letters: Arc::default() }, "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_two_dead_deliveries_is_one_letter_and_no_payload_decides_where_a_letter_lies() {
        let keeps = Keeps {
            application: "github",
            table: ichido::dynamodb::Table::new("subscriptions", "id"),
            unprefixed: None,
            functions: &[],
            dead_letters: Some("github-subscriber"),
        };
        let dead = |entry: &str, destination: &str, at: u64| json!({"entryId": entry, "destination": destination, "title": "t", "reason": format!("{destination} said no"), "at": at});
        let answer =
            json!({"deadLetters": [dead("e1", "mastodon", 1), dead("e1", "slack", 2), dead("e2", "slack", 3)]});
        let found = in_table(&keeps, "github-subscriber", &answer);
        let ids: Vec<_> = found.iter().map(|lying| (lying.letter.id.as_str(), lying.letter.what.as_str())).collect();
        assert_eq!(ids, [("e1", "mastodon, slack"), ("e2", "slack")]);
        assert_eq!(found[0].letter.reason, "mastodon: mastodon said no; slack: slack said no");
        assert_eq!((found[0].letter.keys.len(), found[1].letter.keys.len()), (2, 1));
        assert!(matches!(&found[0].lies, Lies::InTable { feed: None, entry } if entry == "e1"));
    }
}
