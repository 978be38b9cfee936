//! Dead letters of all applications as one thing: what Lambda gave up on (in a queue) and what an application gave up on
//! (in its table, through its own function).
//!
//! Looking at a queue holds its messages for a moment, so that each is seen once; they are let go afterwards. A message
//! is deleted only after its event was accepted by Lambda again, or by a person's wish: rather twice than never, because
//! the event goes through the same keys and probes as the first time.

use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use ichido::Timestamp;
use ichido::dynamodb::DynamoDb;
use serde::Serialize;
use serde_json::{Value, json};

use crate::applications::{Application, Failures};
use crate::context::{Context, Error, causes, failed};
use crate::show;

/// Messages of a queue that are looked at, at most.
pub(crate) const MOST: usize = 500;
/// What SQS gives in one call.
const BATCH: i32 = 10;
/// How long messages are held while somebody looks at them or sends them again.
const HELD_SECONDS: i32 = 120;
/// How long one call waits for messages: a short look may miss some.
const WAIT_SECONDS: i32 = 1;
/// The alias that serves.
const LIVE: &str = "live";

/// One dead letter.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Letter {
    pub application: &'static str,
    /// The request's id, or the entry's.
    pub id: String,
    /// The queue, or the table's function.
    pub place: String,
    /// The function that gave up.
    pub function: String,
    #[serde(serialize_with = "as_moment")]
    pub at: Timestamp,
    pub attempts: Option<u64>,
    /// `RetriesExhausted`, `EventAgeExceeded`; or the destination.
    pub what: String,
    pub reason: String,
    /// What will be sent again.
    pub payload: Value,
    /// How a message is let go or deleted; nothing in a table.
    #[serde(skip)]
    pub held: Option<Held>,
}

#[derive(Debug, Clone)]
pub(crate) struct Held {
    url: String,
    receipt: String,
}

fn as_moment<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&show::moment(*at))
}

/// What could be read, oldest first, and why the rest could not be: a function that is down must not hide what its
/// queue holds.
#[derive(Debug, Default)]
pub(crate) struct All {
    pub letters: Vec<Letter>,
    pub unread: Vec<Error>,
}

impl All {
    fn take(&mut self, read: Result<Vec<Letter>, Error>) {
        match read {
            Ok(letters) => self.letters.extend(letters),
            Err(error) => self.unread.push(error),
        }
    }

    /// Says what could not be read.
    pub(crate) fn complain(&self, context: &mut Context<'_>) -> Result<(), Error> {
        for error in &self.unread {
            context.line(format_args!("there may be more: {}", causes(error)))?;
        }
        Ok(())
    }
}

/// All dead letters of these applications. Those of queues are held until [`let_go`]. An error only if nothing could be read.
pub(crate) async fn all(context: &Context<'_>, applications: &[Application]) -> Result<All, Error> {
    let mut all = All::default();
    for application in applications {
        for failures in application.failures() {
            all.take(of_queue(context, *application, *failures).await);
        }
        if let Some(function) = application.letters() {
            all.take(of_table(context, *application, function).await);
        }
    }
    if all.letters.is_empty() && !all.unread.is_empty() {
        return Err(all.unread.swap_remove(0));
    }
    all.letters.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
    Ok(all)
}

async fn of_queue(context: &Context<'_>, application: Application, failures: Failures) -> Result<Vec<Letter>, Error> {
    let queue = format!("{}{}", failures.queue, context.suffix()?);
    let sqs = context.sqs();
    let url = sqs.get_queue_url().queue_name(&queue).send().await.map_err(|error| {
        failed(format!("the queue {queue} could not be found; check --env and the permission sqs:GetQueueUrl"), error)
    })?;
    let url = url.queue_url.unwrap_or_default();
    let mut letters: Vec<Letter> = Vec::new();
    while letters.len() < MOST {
        let receive = sqs
            .receive_message()
            .queue_url(&url)
            .max_number_of_messages(BATCH)
            .visibility_timeout(HELD_SECONDS)
            .wait_time_seconds(WAIT_SECONDS)
            .message_system_attribute_names(MessageSystemAttributeName::All);
        let received = receive.send().await.map_err(|error| {
            failed(format!("the queue {queue} could not be read; check the permission sqs:ReceiveMessage"), error)
        })?;
        let messages = received.messages.unwrap_or_default();
        if messages.is_empty() {
            break;
        }
        letters.extend(messages.iter().map(|message| of_message(application, failures, &queue, &url, message)));
    }
    Ok(letters)
}

fn of_message(application: Application, failures: Failures, queue: &str, url: &str, message: &Message) -> Letter {
    let body = message.body().unwrap_or_default();
    let read: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
    let sent = message.attributes().and_then(|all| all.get(&MessageSystemAttributeName::SentTimestamp));
    let at = Timestamp::from_millis(sent.and_then(|sent| sent.parse().ok()).unwrap_or_default());
    let context = &read["requestContext"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let held = Held { url: url.to_owned(), receipt: message.receipt_handle().unwrap_or_default().to_owned() };
    let answer = &read["responsePayload"];
    let reason = match (text(&answer["errorType"]), text(&answer["errorMessage"])) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (kind, message) => kind.or(message).unwrap_or_else(|| "Lambda did not say why".to_owned()),
    };
    // A queue without a history (an old dead-letter queue) holds the event itself.
    let with_history = context.is_object();
    Letter {
        application: application.name(),
        id: text(&context["requestId"]).unwrap_or_else(|| message.message_id().unwrap_or_default().to_owned()),
        place: queue.to_owned(),
        function: text(&context["functionArn"])
            .map_or_else(|| failures.function.to_owned(), |arn| template::function_name(&Value::from(arn))),
        at,
        attempts: context["approximateInvokeCount"].as_u64(),
        what: text(&context["condition"]).unwrap_or_default(),
        reason,
        payload: if with_history { read["requestPayload"].clone() } else { read },
        held: Some(held),
    }
}

async fn of_table(context: &Context<'_>, application: Application, function: &str) -> Result<Vec<Letter>, Error> {
    let function = format!("{function}{}", context.suffix()?);
    let answer = ask(context, &function, &json!({"command": "dead-letters"})).await?;
    let table = context.table_name(None, application.table())?;
    let records = DynamoDb::new(context.aws.dynamodb(), application.records(&table));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut letters = Vec::new();
    for letter in answer["deadLetters"].as_array().into_iter().flatten() {
        let (id, destination) = (text(&letter["entryId"]), text(&letter["destination"]));
        letters.push(Letter {
            application: application.name(),
            attempts: attempts(&records, &destination, &id).await,
            id,
            place: table.clone(),
            function: function.clone(),
            at: Timestamp::from_millis(letter["at"].as_u64().unwrap_or_default()),
            what: destination,
            reason: text(&letter["reason"]),
            payload: letter.clone(),
            held: None,
        });
    }
    Ok(letters)
}

/// How often a delivery was tried; unknown if its record cannot be read.
async fn attempts(records: &DynamoDb, destination: &str, id: &str) -> Option<u64> {
    let key = Application::delivery_key(destination, id)?;
    let record = records.look(&key).await.ok()??.record.ok()?;
    Some(record.fence)
}

/// Asks a function and waits for its answer.
pub(crate) async fn ask(context: &Context<'_>, function: &str, payload: &Value) -> Result<Value, Error> {
    let invoke = context.aws.lambda().invoke().function_name(function).qualifier(LIVE);
    let answered = invoke.payload(Blob::new(payload.to_string())).send().await.map_err(|error| {
        failed(format!("{function} could not be invoked; check --env and the permission lambda:InvokeFunction"), error)
    })?;
    let body = answered.payload.map(Blob::into_inner).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match answered.function_error {
        None => Ok(body),
        Some(_) => {
            let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
            Err(Error::Refused(format!("{function} answered {}: {}", text("errorType"), text("errorMessage"))))
        }
    }
}

/// Makes held messages free again. What cannot be let go is free after [`HELD_SECONDS`] by itself.
pub(crate) async fn let_go(context: &Context<'_>, letters: &[Letter]) {
    let sqs = context.sqs();
    for held in letters.iter().filter_map(|letter| letter.held.as_ref()) {
        let free = sqs.change_message_visibility().queue_url(&held.url).receipt_handle(&held.receipt);
        let _ = free.visibility_timeout(0).send().await;
    }
}

/// Sends one again; it is deleted once it was accepted.
pub(crate) async fn redrive(context: &Context<'_>, letter: &Letter) -> Result<(), Error> {
    let Some(held) = &letter.held else {
        ask(context, &letter.function, &json!({"command": "resend", "entryId": letter.id})).await?;
        return Ok(());
    };
    let invoke = context.aws.lambda().invoke().function_name(&letter.function).qualifier(LIVE);
    let invoke = invoke.invocation_type(InvocationType::Event).payload(Blob::new(letter.payload.to_string()));
    invoke.send().await.map_err(|error| {
        failed(
            format!(
                "{} did not take it; it stays in the queue; check the permission lambda:InvokeFunction",
                letter.function
            ),
            error,
        )
    })?;
    delete(context, held).await
}

/// Forgets one.
pub(crate) async fn drop(context: &Context<'_>, letter: &Letter) -> Result<(), Error> {
    match &letter.held {
        Some(held) => delete(context, held).await,
        None => {
            ask(context, &letter.function, &json!({"command": "drop", "entryId": letter.id})).await?;
            Ok(())
        }
    }
}

async fn delete(context: &Context<'_>, held: &Held) -> Result<(), Error> {
    let delete = context.sqs().delete_message().queue_url(&held.url).receipt_handle(&held.receipt);
    delete.send().await.map_err(|error| {
        failed("it is still in the queue; check the permission sqs:DeleteMessage (sending it again is safe)", error)
    })?;
    Ok(())
}
