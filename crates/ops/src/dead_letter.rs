//! The dead letters of all applications: events that Lambda gave up on and runs that Scheduler could not start (in a queue),
//! and deliveries that a feed gave up on (in its table; the feed's function lists them).
//!
//! Reading a queue hides its messages from other readers for [`HIDDEN_SECONDS`], so that each message is read once.
//! [`let_go`] makes them visible again. A message is deleted only after Lambda accepted its event again, or because the
//! operator drops it. If the process dies in between, the event is sent twice, which is safe: it goes through the same keys and
//! probes as the first time.

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use feeds::entry::EntryId;
use feeds::list::FeedName;
use feeds::table::claim_key;
use ichido::Timestamp;
use ichido::dynamodb::DynamoDb;
use serde::Serialize;
use serde_json::{Value, json};

use crate::applications::{Application, Failures};
use crate::context::{Context, Error, failed, partly};
use crate::outside::error::not_changed;
use crate::outside::invoke;

/// How many messages of one queue are read, about.
const MOST: usize = 500;
/// How many messages SQS returns per call, at most.
const MESSAGES_PER_CALL: i32 = 10;
/// How long other readers do not see a message that was read here.
const HIDDEN_SECONDS: i32 = 120;
/// How long one call waits for messages. A call that does not wait may miss some.
const WAIT_SECONDS: i32 = 1;

/// One dead letter.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Letter {
    pub application: &'static str,
    /// The id of the request, or of the feed's entry.
    pub id: String,
    /// The queue or the table that holds it.
    pub place: String,
    /// The function that gave up.
    pub function: String,
    /// When it was given up.
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    pub attempts: Option<u64>,
    /// `RetriesExhausted` or `EventAgeExceeded` (Lambda), `MaximumRetryAttempts` or `MaximumEventAgeInSeconds` (Scheduler); or the
    /// destination of a feed's entry.
    pub what: String,
    pub reason: String,
    /// What will be sent again.
    pub payload: Value,
    /// The message in the queue; `None` if it is in a table.
    #[serde(skip)]
    pub message: Option<QueueMessage>,
}

/// A message that was read here and that other readers do not see for now.
#[derive(Debug, Clone)]
pub(crate) struct QueueMessage {
    queue_url: String,
    receipt: String,
}

fn as_text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// The dead letters that could be read, oldest first, and the errors about the others: a function that is down must not
/// hide what its queue holds.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    pub letters: Vec<Letter>,
    pub unread: Vec<Error>,
}

impl Letters {
    fn take(&mut self, read: Result<Vec<Letter>, Error>) {
        match read {
            Ok(letters) => self.letters.extend(letters),
            Err(error) => self.unread.push(error),
        }
    }

    /// Prints what could not be read.
    pub(crate) fn complain(&self, context: &mut Context<'_>) -> Result<(), Error> {
        for error in &self.unread {
            context.line(format_args!("there may be more dead letters: {}", telemetry::causes(error)))?;
        }
        Ok(())
    }
}

/// Reads all dead letters of these applications. Call [`let_go`] afterwards. It fails only if nothing could be read.
pub(crate) async fn read(context: &Context<'_>, applications: &[Application]) -> Result<Letters, Error> {
    let mut all = Letters::default();
    let mut hidden = Vec::new();
    for application in applications {
        for failures in application.failures() {
            match of_queue(context, *application, *failures).await {
                Ok((letters, others)) => {
                    all.letters.extend(letters);
                    hidden.extend(others);
                }
                Err(error) => all.unread.push(error),
            }
        }
        if let Some(function) = application.dead_letter_function() {
            all.take(of_table(context, *application, function).await);
        }
    }
    if all.letters.is_empty() && !all.unread.is_empty() {
        return Err(all.unread.swap_remove(0));
    }
    all.unread.append(&mut hidden);
    all.letters.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
    Ok(all)
}

/// The letters in a queue, and a word if there are some that somebody else has received and not yet let go.
async fn of_queue(
    context: &Context<'_>,
    application: Application,
    failures: Failures,
) -> Result<(Vec<Letter>, Option<Error>), Error> {
    let suffix = context.suffix()?;
    let (queue, function) = (format!("{}{suffix}", failures.queue), format!("{}{suffix}", failures.function));
    let sqs = context.sqs();
    let url = url(context, &queue).await?;
    let mut letters: Vec<Letter> = Vec::new();
    while letters.len() < MOST {
        let receive = sqs
            .receive_message()
            .queue_url(&url)
            .max_number_of_messages(MESSAGES_PER_CALL)
            .visibility_timeout(HIDDEN_SECONDS)
            .wait_time_seconds(WAIT_SECONDS)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All);
        let received = receive.send().await.map_err(|error| {
            failed(format!("could not read the queue {queue}; check the permission sqs:ReceiveMessage"), error)
        })?;
        let messages = received.messages.unwrap_or_default();
        if messages.is_empty() {
            break;
        }
        letters.extend(messages.iter().map(|message| of_message(application, &function, &queue, &url, message)));
    }
    let others = count(context, &queue, &url).await?.held.saturating_sub(letters.len());
    let hidden = (others > 0).then(|| {
        Error::Refused(format!(
            "somebody else looks at {others} in {queue} just now; they are shown again within {HIDDEN_SECONDS} s"
        ))
    });
    Ok((letters, hidden))
}

/// How many messages the queues of all applications have.
pub(crate) async fn in_queues(context: &Context<'_>) -> Result<usize, Error> {
    let suffix = context.suffix()?;
    let mut all = 0;
    for failures in Application::ALL.iter().flat_map(|application| application.failures()) {
        let queue = format!("{}{suffix}", failures.queue);
        let Count { visible, held } = count(context, &queue, &url(context, &queue).await?).await?;
        all += visible + held;
    }
    Ok(all)
}

async fn url(context: &Context<'_>, queue: &str) -> Result<String, Error> {
    let found = context.sqs().get_queue_url().queue_name(queue).send().await.map_err(|error| {
        failed(format!("could not find the queue {queue}; check --env and the permission sqs:GetQueueUrl"), error)
    })?;
    Ok(found.queue_url.unwrap_or_default())
}

/// How many messages a queue has, roughly, as AWS counts them.
struct Count {
    visible: usize,
    /// Somebody has received them, and has neither deleted them nor let them go.
    held: usize,
}

async fn count(context: &Context<'_>, queue: &str, url: &str) -> Result<Count, Error> {
    use QueueAttributeName::{ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible};
    let asked = context.sqs().get_queue_attributes().queue_url(url);
    let asked =
        asked.attribute_names(ApproximateNumberOfMessages).attribute_names(ApproximateNumberOfMessagesNotVisible);
    let answer = asked.send().await.map_err(|error| {
        failed(format!("could not count the queue {queue}; check the permission sqs:GetQueueAttributes"), error)
    })?;
    let of = |name| answer.attributes().and_then(|all| all.get(&name)?.parse().ok()).unwrap_or(0);
    Ok(Count { visible: of(ApproximateNumberOfMessages), held: of(ApproximateNumberOfMessagesNotVisible) })
}

fn of_message(application: Application, function: &str, queue: &str, url: &str, message: &Message) -> Letter {
    let body = message.body().unwrap_or_default();
    let read: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
    let sent = message.attributes().and_then(|all| all.get(&MessageSystemAttributeName::SentTimestamp));
    let letter = Letter {
        application: application.name(),
        id: message.message_id().unwrap_or_default().to_owned(),
        place: queue.to_owned(),
        function: function.to_owned(),
        at: Timestamp::from_millis(sent.and_then(|sent| sent.parse().ok()).unwrap_or_default()),
        attempts: None,
        what: String::new(),
        reason: "it is not known why".to_owned(),
        payload: Value::Null,
        message: Some(QueueMessage {
            queue_url: url.to_owned(),
            receipt: message.receipt_handle().unwrap_or_default().to_owned(),
        }),
    };
    let attribute = |name: &str| message.message_attributes()?.get(name)?.string_value().map(str::to_owned);
    if read["requestContext"].is_object() {
        of_lambda(letter, &read)
    } else if attribute("SCHEDULE_ARN").is_some() {
        of_scheduler(letter, read, attribute)
    } else {
        // A plain dead-letter queue holds the event itself, without what anybody says about it.
        Letter { payload: read, ..letter }
    }
}

/// What Lambda sends to an on-failure queue: the event inside a record of what became of it.
fn of_lambda(letter: Letter, read: &Value) -> Letter {
    let context = &read["requestContext"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let answer = &read["responsePayload"];
    let reason = match (text(&answer["errorType"]), text(&answer["errorMessage"])) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (kind, message) => kind.or(message).unwrap_or_else(|| "Lambda did not say why".to_owned()),
    };
    Letter {
        id: text(&context["requestId"]).unwrap_or(letter.id),
        function: text(&context["functionArn"])
            .map_or(letter.function, |arn| template::function_name(&Value::from(arn))),
        attempts: context["approximateInvokeCount"].as_u64(),
        what: text(&context["condition"]).unwrap_or_default(),
        reason,
        payload: read["requestPayload"].clone(),
        ..letter
    }
}

/// What EventBridge Scheduler sends to a dead-letter queue: the event itself, with attributes that say what became of it. It is
/// sent again to the function of the queue, since the target of the schedule may be what was wrong.
fn of_scheduler(letter: Letter, event: Value, attribute: impl Fn(&str) -> Option<String>) -> Letter {
    let schedule = attribute("SCHEDULE_ARN").unwrap_or_default();
    let schedule = schedule.rsplit('/').next().unwrap_or_default();
    let of = |name: &str| attribute(name).unwrap_or_default();
    let retries: Option<u64> = attribute("RETRY_ATTEMPTS").and_then(|retries| retries.parse().ok());
    Letter {
        id: attribute("EXECUTION_ID").unwrap_or(letter.id),
        attempts: retries.map(|retries| retries + 1),
        what: attribute("EXHAUSTED_RETRY_CONDITION").unwrap_or_else(|| "NotRetried".to_owned()),
        reason: format!("{schedule} could not start it: {}: {}", of("ERROR_CODE"), of("ERROR_MESSAGE")),
        payload: if event.is_object() { event } else { json!({}) },
        ..letter
    }
}

async fn of_table(context: &Context<'_>, application: Application, function: &str) -> Result<Vec<Letter>, Error> {
    let function = format!("{function}{}", context.suffix()?);
    let answer = invoke::ask(context, &function, &json!({"command": "dead-letters"})).await?;
    let table = context.table_name(None, application.table())?;
    let records = DynamoDb::new(context.aws.dynamodb(), application.records(&table));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut letters = Vec::new();
    for letter in answer["deadLetters"].as_array().into_iter().flatten() {
        let (id, destination) = (text(&letter["entryId"]), text(&letter["destination"]));
        letters.push(Letter {
            application: application.name(),
            attempts: attempts(&records, &letter["feed"], &destination, &id).await,
            // Entries of two further feeds may have the same id.
            id: match letter["feed"].as_str() {
                Some(feed) => format!("{feed}/{id}"),
                None => id,
            },
            place: table.clone(),
            function: function.clone(),
            at: Timestamp::from_millis(letter["at"].as_u64().unwrap_or_default()),
            what: destination,
            reason: text(&letter["reason"]),
            payload: letter.clone(),
            message: None,
        });
    }
    Ok(letters)
}

/// How often a delivery was tried, which the fence of its record counts; `None` if the record cannot be read.
async fn attempts(records: &DynamoDb, feed: &Value, destination: &str, id: &str) -> Option<u64> {
    let feed = feed.as_str().and_then(FeedName::listed);
    let key = claim_key(feed.as_ref(), destination, &EntryId::from_table(id)).ok()?;
    let record = records.look(&key).await.ok()??.record.ok()?;
    Some(record.fence)
}

/// Makes the messages visible to other readers again. If that fails, they become visible after [`HIDDEN_SECONDS`].
pub(crate) async fn let_go(context: &Context<'_>, letters: &[Letter]) {
    let sqs = context.sqs();
    for message in letters.iter().filter_map(|letter| letter.message.as_ref()) {
        let show = sqs.change_message_visibility().queue_url(&message.queue_url).receipt_handle(&message.receipt);
        let _ = show.visibility_timeout(0).send().await;
    }
}

/// Sends a dead letter again and deletes it once it was accepted.
pub(crate) async fn redrive(context: &Context<'_>, letter: &Letter) -> Result<(), Error> {
    match &letter.message {
        Some(message) => {
            invoke::send(context, &letter.function, &letter.payload).await?;
            let deleted = delete(context, message).await;
            deleted.map_err(|error| partly("sent it again, but the dead letter is still in its queue", error))
        }
        None => command(context, letter, "resend").await,
    }
}

/// Deletes a dead letter without sending it.
pub(crate) async fn drop(context: &Context<'_>, letter: &Letter) -> Result<(), Error> {
    match &letter.message {
        Some(message) => delete(context, message).await,
        None => command(context, letter, "drop").await,
    }
}

async fn command(context: &Context<'_>, letter: &Letter, command: &str) -> Result<(), Error> {
    let mut event = json!({"command": command, "entryId": letter.payload["entryId"]});
    if let Some(feed) = letter.payload["feed"].as_str() {
        event["feed"] = json!({ "name": feed });
    }
    invoke::ask(context, &letter.function, &event).await?;
    Ok(())
}

async fn delete(context: &Context<'_>, message: &QueueMessage) -> Result<(), Error> {
    let delete = context.sqs().delete_message().queue_url(&message.queue_url).receipt_handle(&message.receipt);
    delete.send().await.map_err(|error| {
        not_changed(
            "could not delete it from the queue; check the permission sqs:DeleteMessage (sending it again is safe)",
            error,
        )
    })?;
    Ok(())
}
