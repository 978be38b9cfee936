//! The naive form: a record per key, as it is usually written, and a world in which each repetition is counted.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use ichido::{MAX_CLOCK_SKEW, Probed};
use testkit::{Dynamo, ManualClock, Outside, interrupt};

use crate::support::*;

/// The condition of a claim that most implementations have: there is no record, or its worker has had its time.
pub(crate) const ABSENT_OR_LAPSED: &str =
    "attribute_not_exists(event_key) OR (attribute_not_exists(outcome) AND progress_until < :now)";

/// Records without owner and fence.
pub(crate) struct Naive {
    client: Client,
    clock: ManualClock,
}

/// What is under a key.
pub(crate) struct Found {
    pub(crate) outcome: Option<String>,
    pub(crate) progress_until_ms: u64,
}

impl Naive {
    pub(crate) fn new(db: &Dynamo) -> Self {
        Self { client: db.client_without_retries(), clock: db.clock().clone() }
    }

    /// The same, on a machine with this clock.
    pub(crate) fn with_clock(self, clock: ManualClock) -> Self {
        Self { clock, ..self }
    }

    /// The same, with the retries of the SDK.
    pub(crate) fn retrying(self, db: &Dynamo) -> Self {
        Self { client: db.client(), ..self }
    }

    pub(crate) async fn begin(&self, key: &str) -> bool {
        self.begin_if(ABSENT_OR_LAPSED, key, Some(LEASE)).await
    }

    /// False if the condition is. Nothing else goes wrong where this is used.
    pub(crate) async fn begin_if(&self, condition: &str, key: &str, lease: Option<Duration>) -> bool {
        self.try_begin_if(condition, key, lease).await.unwrap()
    }

    /// False if the condition is; everything else that goes wrong is an error.
    pub(crate) async fn try_begin_if(
        &self,
        condition: &str,
        key: &str,
        lease: Option<Duration>,
    ) -> Result<bool, String> {
        let put = self.put(key, lease).condition_expression(condition);
        let now = N(self.clock.now_ms().to_string());
        let put = if condition.contains(":now") { put.expression_attribute_values(":now", now) } else { put };
        match put.send().await {
            Ok(_) => Ok(true),
            Err(error) => match error.into_service_error() {
                error if error.is_conditional_check_failed_exception() => Ok(false),
                error => Err(format!("{error:?}")),
            },
        }
    }

    /// Puts a record in progress over whatever is there.
    pub(crate) async fn begin_anyway(&self, key: &str) {
        self.put(key, Some(LEASE)).send().await.unwrap();
    }

    fn put(&self, key: &str, lease: Option<Duration>) -> PutItemFluentBuilder {
        let put = self.client.put_item().table_name(TABLE).item("event_key", S(key.to_owned()));
        match lease {
            Some(lease) => {
                put.item("progress_until", N((u128::from(self.clock.now_ms()) + lease.as_millis()).to_string()))
            }
            None => put,
        }
    }

    /// False if the store does not take it.
    pub(crate) async fn complete(&self, key: &str, outcome: &str) -> bool {
        let update = self.client.update_item().table_name(TABLE).key("event_key", S(key.to_owned()));
        let update = update.update_expression("SET outcome = :outcome");
        update.expression_attribute_values(":outcome", S(outcome.to_owned())).send().await.is_ok()
    }

    pub(crate) async fn delete(&self, key: &str) {
        self.client.delete_item().table_name(TABLE).key("event_key", S(key.to_owned())).send().await.unwrap();
    }

    pub(crate) async fn get(&self, key: &str) -> Option<Found> {
        self.try_get(key).await.unwrap()
    }

    pub(crate) async fn try_get(&self, key: &str) -> Result<Option<Found>, String> {
        let get = self.client.get_item().table_name(TABLE).key("event_key", S(key.to_owned())).consistent_read(true);
        let Some(item) = get.send().await.map_err(|error| format!("{error:?}"))?.item else { return Ok(None) };
        let outcome = item.get("outcome").map(|outcome| outcome.as_s().unwrap().clone());
        let until = item.get("progress_until").map_or("0", |until| until.as_n().unwrap());
        Ok(Some(Found { outcome, progress_until_ms: until.parse().unwrap() }))
    }

    pub(crate) async fn outcome(&self, key: &str) -> Option<String> {
        self.get(key).await?.outcome
    }
}

/// What happened outside, in order. It cannot be undone.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    /// Returns a receipt: how much has happened by now.
    pub(crate) fn happen(&self, what: &str) -> usize {
        let mut happened = self.0.lock().unwrap();
        happened.push(what.to_owned());
        happened.len()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|happened| *happened == what).count()
    }

    /// How often it happened since this was asked last.
    pub(crate) fn taken(&self) -> usize {
        self.0.lock().unwrap().drain(..).len()
    }
}

/// The effect in a [`World`].
pub(crate) const PAYMENT: &str = "payment-1";

/// The effects of a batch.
pub(crate) const PAYMENTS: [&str; 3] = [PAYMENT, "payment-2", "payment-3"];

/// A database, a bank that pays as often as it is asked, and the checkpoints of a workflow.
pub(crate) struct World {
    pub(crate) db: Dynamo,
    pub(crate) outside: Outside,
    pub(crate) bank: Effects,
    pub(crate) checkpoints: Effects,
}

impl World {
    pub(crate) async fn pay(&self, payment: &str) -> usize {
        self.outside.call("pay", async { self.bank.happen(payment) }).await
    }

    /// Asks the bank whether it has paid.
    pub(crate) async fn find(&self, payment: &str) -> Probed<usize> {
        let paid = self.outside.call("find", async { self.bank.count(payment) }).await;
        if paid > 0 { Probed::Done(paid) } else { Probed::NotDone }
    }
}

/// Lets the handler die before and after each of its calls, in turn, and delivers the event again until it returns `Ok`, each
/// time when the lease is over. Returns the least and the most effects that any of these `payments` had.
pub(crate) async fn killed_at_every_call(
    payments: &[&str],
    handler: impl AsyncFn(&World) -> Result<(), String>,
) -> (usize, usize) {
    let (least, most) = (Cell::new(usize::MAX), Cell::new(0));
    let report = interrupt::at_every_call(
        async |outside| {
            let db = dynamo().with_outside(outside.clone());
            World { db, outside, bank: Effects::default(), checkpoints: Effects::default() }
        },
        handler,
        async |world| world.db.clock().advance(LEASE + MAX_CLOCK_SKEW),
        async |world| {
            for payment in payments {
                let paid = world.bank.count(payment);
                least.set(least.get().min(paid));
                most.set(most.get().max(paid));
            }
        },
    )
    .await;
    assert!(report.stops >= 4, "it died at no call: {report:?}");
    (least.get(), most.get())
}
