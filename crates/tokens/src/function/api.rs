//! The Lambda function `tokens-api`: the HTTP interface behind API Gateway.
//!
//! Promise: every answer is JSON, and every error is `application/problem+json` with a stable code. Nothing is read before
//! the caller is known. A caller sees only its own account, unless it has the operator's scope. A test compares the
//! routes with `api/openapi.json`.

use std::sync::Arc;
use std::time::Duration;

use function::http::{Request, Response};
use function::operation::{NO_REASON, Operation};
use function::secret::Source;
use function::{Aws, Env, Error, Handler};
use ichido::{Clock, Key, SystemClock, Timestamp};
use serde_json::json;
use telemetry::metric;

use crate::api::input::{self, Paging, ReversalInput, StatementPaging, TransferInput};
use crate::api::problem::{Code, Problem};
use crate::api::{OPENAPI, next_cursor, next_statement_cursor};
use crate::identity::did::Did;
use crate::identity::jwt::{Caller, Expectations, OPERATOR_SCOPE};
use crate::identity::keys::Keys;
use crate::ledger::{self, ATTEMPT, Answer, BUDGET, Entry, History, Ledger, Obstacle, Transfer, system_random};
use crate::settings::Settings;

/// What is left of the function's time for an attempt that began at the last moment, for the last look at the record,
/// and for the answer.
const RESERVE: Duration = Duration::from_millis(3_200);
const _: () = assert!(RESERVE.as_millis() > 2 * ATTEMPT.as_millis());

pub(crate) async fn build(env: Env, aws: Aws) -> Result<Handler, Error> {
    let settings = Settings::read(&env)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ledger = Ledger::new(aws.dynamodb(), &settings.table_name, settings.rules, Arc::clone(&clock), system_random());
    let keys = Keys::new(Source::named(aws.clone(), settings.keys_parameter));
    // Connections are opened and keys are read now, while Lambda gives the function a whole core. If that fails, the
    // first request tries again.
    let (_, keys_read) = tokio::join!(aws.warm(&settings.table_name), keys.current());
    if let Err(error) = keys_read {
        let parameter = keys.parameter();
        tracing::error!(
            parameter,
            error = &error as &(dyn std::error::Error + 'static),
            "could not read the issuer's public keys in parameter {parameter} at the start; the first request tries again"
        );
    }
    let api = Api::new(ledger, settings.expectations, keys, clock);
    Ok(function::handler(move |event| {
        let api = api.clone();
        async move {
            let request = Request::from_event(&event.payload)?;
            Ok(api.handle(&request, function::deadline(&event.context)).await.into_value())
        }
    }))
}

/// What answers requests: the ledger, and what is needed to know the caller. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    ledger: Ledger,
    expectations: Expectations,
    keys: Keys,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("ledger", &self.0.ledger).finish_non_exhaustive()
    }
}

/// What a path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Transfer,
    Balance,
    History(History),
    Statement,
    Accounts,
    Freeze(bool),
    Reversals,
    OpenApi,
}

impl Route {
    /// The route of a path, and where the path has a DID.
    fn of(path: &[&str]) -> Option<(Self, Option<usize>)> {
        Some(match path {
            ["tokens", "transfer"] => (Route::Transfer, None),
            ["tokens", "balance", _] => (Route::Balance, Some(2)),
            ["tokens", "transactions", "received", _] => (Route::History(History::Received), Some(3)),
            ["tokens", "transactions", _] => (Route::History(History::Sent), Some(2)),
            ["tokens", "statement", _] => (Route::Statement, Some(2)),
            ["tokens", "accounts"] => (Route::Accounts, None),
            ["tokens", "accounts", _, "freeze"] => (Route::Freeze(true), Some(2)),
            ["tokens", "accounts", _, "unfreeze"] => (Route::Freeze(false), Some(2)),
            ["tokens", "reversals"] => (Route::Reversals, None),
            ["tokens", "openapi.json"] => (Route::OpenApi, None),
            _ => return None,
        })
    }

    fn method(self) -> &'static str {
        match self {
            Route::Transfer | Route::Accounts | Route::Freeze(_) | Route::Reversals => "POST",
            Route::Balance | Route::History(_) | Route::Statement | Route::OpenApi => "GET",
        }
    }
}

impl Api {
    pub fn new(ledger: Ledger, expectations: Expectations, keys: Keys, clock: Arc<dyn Clock>) -> Self {
        Api(Arc::new(Inner { ledger, expectations, keys, clock }))
    }

    /// Answers one request. `deadline` is when Lambda stops the function, if that is known.
    pub async fn handle(&self, request: &Request, deadline: Option<Timestamp>) -> Response {
        let started = self.0.clock.now();
        let answered = self.route(request, started, deadline).await;
        answered.unwrap_or_else(|problem| {
            if matches!(problem.code, Code::Unauthorized | Code::Forbidden) {
                metric::DOOR_REFUSALS.add(1);
            }
            problem.response()
        })
    }

    async fn route(&self, request: &Request, now: Timestamp, deadline: Option<Timestamp>) -> Result<Response, Problem> {
        let segments = request.segments();
        let path: Vec<&str> = segments.iter().map(String::as_str).collect();
        let nothing =
            || Problem::new(Code::NotFound, "there is no such path; GET /tokens/openapi.json lists all paths");
        let (route, did_at) = Route::of(&path).ok_or_else(nothing)?;
        if request.method != route.method() {
            let only = format!("this path takes only {}", route.method());
            return Err(Problem::new(Code::MethodNotAllowed, only).header("allow", route.method()));
        }
        if route == Route::OpenApi {
            return Ok(json_response(200, OPENAPI.to_owned()));
        }
        // Also where no body is read: verifying a token costs more than looking at a length.
        input::within_limit(request)?;
        let caller = self.caller(request, now).await?;
        let did = did_at.map(|at| {
            // API Gateway hands over what it matched, already decoded.
            request.path_parameters.get("did").map_or(path[at], String::as_str)
        });
        let did: Option<Did> =
            did.map(str::parse).transpose().map_err(|error| Problem::new(Code::InvalidDid, error))?;
        let budget = now + BUDGET;
        let until = deadline.map_or(budget, |deadline| budget.min(deadline.saturating_sub(RESERVE)));
        match (route, did) {
            (Route::Transfer, _) => self.transfer(request, caller, until).await,
            (Route::Accounts, _) => self.open(caller, until).await,
            (Route::Reversals, _) => self.reverse(request, caller, until).await,
            (Route::Balance, Some(did)) => self.balance(caller, did).await,
            (Route::History(history), Some(did)) => self.history(request, caller, history, did).await,
            (Route::Statement, Some(did)) => self.statement(request, caller, did).await,
            (Route::Freeze(frozen), Some(did)) => self.freeze(caller, did, frozen).await,
            (Route::OpenApi | Route::Balance | Route::History(_) | Route::Statement | Route::Freeze(_), _) => {
                Err(nothing())
            }
        }
    }

    async fn caller(&self, request: &Request, now: Timestamp) -> Result<Caller, Problem> {
        let authorization = request.header("authorization");
        if authorization.is_none() {
            return Err(Problem::no_token());
        }
        let keys = self.0.keys.current().await.map_err(|error| {
            let parameter = self.0.keys.parameter();
            tracing::error!(
                parameter,
                error = &error as &(dyn std::error::Error + 'static),
                "could not read the issuer's public keys in parameter {parameter}; answering 503, because callers cannot be verified"
            );
            Problem::unavailable("callers cannot be verified at the moment; send the request again")
        })?;
        Ok(self.0.expectations.verify(authorization, &keys, now)?)
    }

    async fn transfer(&self, request: &Request, caller: Caller, until: Timestamp) -> Result<Response, Problem> {
        let started = self.0.clock.now();
        let ledger = &self.0.ledger;
        let transfer = TransferInput::read(request)?.into_transfer(caller.did, || ledger.new_idempotency_key())?;
        if transfer.sender == ledger.rules().treasury && !caller.operator {
            return Err(Problem::new(Code::Forbidden, "only an operator may send from the treasury"));
        }
        let result = ledger.transfer(&transfer, until).await;
        metric::TRANSFER_LATENCY.took(self.0.clock.now().since(started));
        let record = ledger.record_key(&transfer).ok();
        // These fields are on every line about the answer. `event_key` is the key of the record, as in the library's lines
        // about a key. Separators are escaped in it, so the sender and the key are also there as the client knows them.
        let span = tracing::error_span!(
            "transfer",
            event_key = record.as_ref().map(Key::as_str),
            sender_did = transfer.sender.as_str(),
            idempotency_key = transfer.key.as_str()
        );
        span.in_scope(|| match result {
            Ok(answer) => Ok(made(&transfer, answer)),
            Err(error) => Err(self.not_made(&transfer, error)),
        })
    }

    /// The answer to a transfer that was not made, or of which it is not known.
    fn not_made(&self, transfer: &Transfer, error: ledger::Error) -> Problem {
        let Transfer { sender, key, .. } = transfer;
        let problem = match error {
            ledger::Error::Refused(Obstacle::LimitExceeded) => self.limit_exceeded(transfer),
            // A newer version made the record, and this one cannot read it. The money may have moved.
            ledger::Error::Record(error) => {
                tracing::error!(
                    error = &error as &(dyn std::error::Error + 'static),
                    "could not read the record of transfer {key} of {sender}; the money may have moved"
                );
                ledger::Error::Unresolved.into()
            }
            error => error.into(),
        };
        let code = problem.code.as_str();
        match problem.code {
            Code::IdempotencyMismatch => metric::TRANSFER_MISMATCHES.add(1),
            Code::Unavailable => metric::TRANSFERS_UNRESOLVED.add(1),
            Code::Internal => {}
            _ => metric::TRANSFER_REFUSALS.add(1),
        }
        tracing::info!(code, "answered transfer {key} of {sender} with the error {code}");
        // If the service made the key, the answer is the client's only way to learn it.
        problem.with("idempotencyKey", key.as_str()).header(ichido::http::HEADER, key)
    }

    fn limit_exceeded(&self, transfer: &Transfer) -> Problem {
        let rules = self.0.ledger.rules();
        let detail = if transfer.amount > rules.transfer_limit {
            format!("one transfer may move at most {}", rules.transfer_limit)
        } else {
            format!("with this transfer the sender would send more than {} on one day (UTC)", rules.daily_limit)
        };
        Problem::new(Code::LimitExceeded, detail)
    }

    async fn open(&self, caller: Caller, until: Timestamp) -> Result<Response, Problem> {
        if caller.did == self.0.ledger.rules().treasury {
            return Err(Problem::new(Code::Forbidden, "the treasury needs no account"));
        }
        let answer = self.0.ledger.open(&caller.did, until).await?;
        if !answer.replayed {
            metric::ACCOUNTS_OPENED.add(1);
        }
        Ok(answered(if answer.replayed { 200 } else { 201 }, answer))
    }

    async fn balance(&self, caller: Caller, did: Did) -> Result<Response, Problem> {
        require_owner(&caller, &did)?;
        let holding = self.0.ledger.holding(&did).await?;
        let holding = holding.ok_or(ledger::Error::AccountNotFound)?;
        Ok(Response::json(200, &holding))
    }

    async fn history(
        &self,
        request: &Request,
        caller: Caller,
        history: History,
        did: Did,
    ) -> Result<Response, Problem> {
        require_owner(&caller, &did)?;
        let paging = Paging::read(request, history, &did)?;
        let page = self.0.ledger.history(history, &did, paging.places, paging.limit).await?;
        let next = page.entries.last().filter(|_| page.more).map(|last| next_cursor(history, &did, last.id));
        let transactions: Vec<_> = page.entries.iter().map(Entry::view).collect();
        Ok(Response::json(200, &json!({ "transactions": transactions, "cursor": next, "hasMore": page.more })))
    }

    async fn statement(&self, request: &Request, caller: Caller, did: Did) -> Result<Response, Problem> {
        require_owner(&caller, &did)?;
        let StatementPaging { limit, from } = StatementPaging::read(request, &did)?;
        let statement = self.0.ledger.statement(&did, from, limit).await?;
        let next = statement.next.map(|place| next_statement_cursor(&did, place));
        Ok(Response::json(200, &json!({ "entries": statement.rows, "hasMore": next.is_some(), "cursor": next })))
    }

    async fn freeze(&self, caller: Caller, did: Did, frozen: bool) -> Result<Response, Problem> {
        require_operator(&caller)?;
        let (ledger, by) = (&self.0.ledger, caller.did.as_str());
        let operation = by_hand(if frozen { "freeze" } else { "unfreeze" }, did.to_string(), &caller, "");
        let work = ledger.set_frozen(&did, frozen, by);
        let status = ledger.by_hand(&operation, work, |status| format!("the account is {status}")).await?;
        tracing::warn!(did = did.as_str(), status, by, "operator {by} set the status of account {did} to {status}");
        Ok(Response::json(200, &json!({ "did": did, "status": status })))
    }

    async fn reverse(&self, request: &Request, caller: Caller, until: Timestamp) -> Result<Response, Problem> {
        require_operator(&caller)?;
        let ReversalInput { sender, id, reason } = ReversalInput::read(request)?;
        let ledger = &self.0.ledger;
        let operation = by_hand("reverse", id.to_string(), &caller, &reason);
        // What is left is for the end of the trace.
        let work = ledger.reverse(&sender, id, &reason, until.saturating_sub(ATTEMPT));
        let said = |answer: &Answer| if answer.replayed { "it was reversed before" } else { "reversed" }.to_owned();
        let answer = ledger.by_hand(&operation, work, said).await?;
        let (sender_did, by, replayed) = (sender.as_str(), caller.did.as_str(), answer.replayed);
        if replayed {
            tracing::warn!(transaction_id = %id, sender_did, by, replayed, "operator {by} asked to reverse transfer {id} of {sender_did}; it was reversed before, so nothing changed");
        } else {
            tracing::warn!(transaction_id = %id, sender_did, by, replayed, "operator {by} reversed transfer {id} of {sender_did}");
        }
        Ok(answered(200, answer))
    }
}

/// What an operator asks for. Nothing was shown: whoever uses the API shows what it likes.
fn by_hand(what: &str, on: String, caller: &Caller, reason: &str) -> Operation {
    let reason = if reason.is_empty() { NO_REASON } else { reason };
    Operation {
        what: what.to_owned(),
        on,
        by: caller.did.to_string(),
        reason: reason.to_owned(),
        shown: "asked for over the API".to_owned(),
    }
}

/// The answer to a transfer that was made, now or before.
fn made(transfer: &Transfer, answer: Answer) -> Response {
    let Transfer { sender, key, .. } = transfer;
    if answer.replayed {
        metric::TRANSFER_REPLAYS.add(1);
        let result = "duplicate";
        tracing::info!(
            result,
            strength = "join",
            "transfer {key} of {sender} was made before; sent the first answer again"
        );
    } else {
        metric::TRANSFERS.add(1);
        let result = "new";
        tracing::info!(result, strength = "join", "made transfer {key} of {sender}");
    }
    answered(200, answer).header(ichido::http::HEADER, key.as_str())
}

fn require_owner(caller: &Caller, did: &Did) -> Result<(), Problem> {
    if caller.operator || caller.did == *did {
        Ok(())
    } else {
        Err(Problem::new(Code::Forbidden, "only its owner and operators may see an account"))
    }
}

fn require_operator(caller: &Caller) -> Result<(), Problem> {
    if caller.operator {
        Ok(())
    } else {
        Err(Problem::new(Code::Forbidden, format!("the token needs the scope {OPERATOR_SCOPE}")))
    }
}

fn answered(status: u16, answer: Answer) -> Response {
    let response = json_response(status, answer.body);
    if answer.replayed { response.header(ichido::http::REPLAYED, "true") } else { response }
}

fn json_response(status: u16, body: String) -> Response {
    Response { body: body.into_bytes(), ..Response::empty(status) }.header("content-type", "application/json")
}
