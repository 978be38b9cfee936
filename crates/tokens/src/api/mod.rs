//! The HTTP interface: one function behind API Gateway, the same code in both worlds.
//!
//! Promise: every answer is JSON; every error is `application/problem+json` with a stable code; nothing is looked at
//! before the caller is known, and nothing is shown but the caller's own, unless it has the operator's scope. The routes
//! below and `openapi.json` are held together by a test.

mod input;
mod keys;

use std::sync::Arc;
use std::time::Duration;

use function::http::{Request, Response};
use ichido::{Clock, Timestamp};
use serde_json::json;
use telemetry::metric;

pub use input::{MAX_BODY_BYTES, MAX_MESSAGE_CHARS, MAX_PAGE, PAGE};
pub use keys::Keys;

use crate::cursor::{self, History};
use crate::did::Did;
use crate::jwt::{self, Caller, Expectations};
use crate::ledger::{ATTEMPT, Answer, BUDGET, Error, Ledger};
use crate::problem::{Code, Problem};
use crate::table::IDEMPOTENCY;
use crate::verdict::Refusal;
use input::{Paging, Reversal, TransferInput};

/// The description of this interface, as it is served.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Seconds after which a client should send the same request again.
const RETRY_AFTER: u64 = 1;

/// What is left of the function's time for an attempt that began at the last moment, the last look at the record, and the
/// answer.
const RESERVE: Duration = Duration::from_millis(3_200);
const _: () = assert!(RESERVE.as_millis() > 2 * ATTEMPT.as_millis());

/// Who are the keys' owners, and where is the money.
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
    Accounts,
    Freeze(bool),
    Reversals,
    OpenApi,
}

impl Route {
    /// The route of a path, with the DID in it.
    fn of(path: &[&str]) -> Option<(Self, Option<usize>)> {
        Some(match path {
            ["tokens", "transfer"] => (Route::Transfer, None),
            ["tokens", "balance", _] => (Route::Balance, Some(2)),
            ["tokens", "transactions", "received", _] => (Route::History(History::Received), Some(3)),
            ["tokens", "transactions", _] => (Route::History(History::Sent), Some(2)),
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
            Route::Balance | Route::History(_) | Route::OpenApi => "GET",
        }
    }
}

impl Api {
    pub fn new(ledger: Ledger, expectations: Expectations, keys: Keys, clock: Arc<dyn Clock>) -> Self {
        Api(Arc::new(Inner { ledger, expectations, keys, clock }))
    }

    /// Answers one request. `deadline` is when the function itself will be stopped, if that is known.
    pub async fn handle(&self, request: &Request, deadline: Option<Timestamp>) -> Response {
        let started = self.0.clock.now();
        let answered = self.route(request, started, deadline).await;
        metric::DOOR_LATENCY.took(self.0.clock.now().since(started));
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
        let nothing = || Problem::new(Code::NotFound, "there is no such path; GET /tokens/openapi.json lists all");
        let (route, did_at) = Route::of(&path).ok_or_else(nothing)?;
        if request.method != route.method() {
            let only = format!("only {} is possible here", route.method());
            return Err(Problem::new(Code::MethodNotAllowed, only).header("allow", route.method()));
        }
        if route == Route::OpenApi {
            return Ok(json_response(200, OPENAPI.to_owned()));
        }
        let caller = self.caller(request, now).await?;
        let did = did_at.map(|at| {
            // what the gateway matched, already decoded; else the path's own part
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
            (Route::Freeze(frozen), Some(did)) => self.freeze(caller, did, frozen).await,
            (Route::OpenApi | Route::Balance | Route::History(_) | Route::Freeze(_), _) => Err(nothing()),
        }
    }

    async fn caller(&self, request: &Request, now: Timestamp) -> Result<Caller, Problem> {
        let authorization = request.header("authorization");
        let refused = |error: jwt::Error| {
            let challenge = match error {
                jwt::Error::Missing => "Bearer",
                _ => "Bearer error=\"invalid_token\"",
            };
            Problem::new(Code::Unauthorized, error).header("www-authenticate", challenge)
        };
        if authorization.is_none() {
            return Err(refused(jwt::Error::Missing));
        }
        let keys = self.0.keys.current().await.map_err(|error| {
            tracing::error!(error = &error as &(dyn std::error::Error + 'static), "the issuers' keys cannot be read");
            unavailable("callers cannot be verified now")
        })?;
        self.0.expectations.verify(authorization, &keys, now).map_err(refused)
    }

    async fn transfer(&self, request: &Request, caller: Caller, until: Timestamp) -> Result<Response, Problem> {
        let started = self.0.clock.now();
        let ledger = &self.0.ledger;
        let input = TransferInput::read(request)?;
        let transfer = input.into_transfer(caller.did, || ledger.new_idempotency_key())?;
        if transfer.sender == ledger.rules().treasury && !caller.operator {
            return Err(Problem::new(Code::Forbidden, "only an operator may send from the treasury"));
        }
        let record = format!("{IDEMPOTENCY}#{}#{}", transfer.sender, transfer.key);
        let outcome = ledger.transfer(&transfer, until).await;
        metric::TRANSFER_LATENCY.took(self.0.clock.now().since(started));
        match outcome {
            Ok(answer) => {
                let result = if answer.replayed { "duplicate" } else { "new" };
                if answer.replayed {
                    metric::TRANSFER_REPLAYS.add(1)
                } else {
                    metric::TRANSFERS.add(1)
                }
                // the same fields as every decision about a key, so that one search finds them all
                tracing::info!(event_key = %record, result, strength = "join", "transfer");
                Ok(answered(200, answer).header("idempotency-key", transfer.key.as_str()))
            }
            Err(error) => {
                let problem = match error {
                    Error::Refused(Refusal::LimitExceeded) => self.limit_exceeded(transfer.amount),
                    // the record under this key was made by a version that this one cannot read: the money may have moved
                    Error::Record(error) => {
                        tracing::error!(
                            error = &error as &(dyn std::error::Error + 'static),
                            "a record cannot be read"
                        );
                        unavailable("what became of the transfer is not known yet")
                    }
                    error => problem_of(error),
                };
                match problem.code {
                    Code::IdempotencyMismatch => metric::TRANSFER_MISMATCHES.add(1),
                    Code::Unavailable => metric::TRANSFERS_UNRESOLVED.add(1),
                    Code::Internal => {}
                    code => {
                        metric::TRANSFER_REFUSALS.add(1);
                        metric::TRANSFER_REFUSALS.with("Code", code.as_str()).add(1);
                    }
                }
                tracing::info!(record = %record, code = problem.code.as_str(), "transfer not made");
                // A key that we made is the client's only way to ask again.
                Err(problem
                    .with("idempotencyKey", transfer.key.as_str())
                    .header("idempotency-key", transfer.key.as_str()))
            }
        }
    }

    fn limit_exceeded(&self, amount: crate::amount::Amount) -> Problem {
        let rules = self.0.ledger.rules();
        let detail = if amount > rules.transfer_limit {
            format!("one transfer may move at most {}", rules.transfer_limit)
        } else {
            format!("with this transfer more than {} would have been sent on this day (UTC)", rules.daily_limit)
        };
        Problem::new(Code::LimitExceeded, detail)
    }

    async fn open(&self, caller: Caller, until: Timestamp) -> Result<Response, Problem> {
        if caller.did == self.0.ledger.rules().treasury {
            return Err(Problem::new(Code::Forbidden, "the treasury needs no account"));
        }
        let answer = self.0.ledger.open(&caller.did, until).await.map_err(problem_of)?;
        if !answer.replayed {
            metric::ACCOUNTS_OPENED.add(1);
        }
        Ok(answered(if answer.replayed { 200 } else { 201 }, answer))
    }

    async fn balance(&self, caller: Caller, did: Did) -> Result<Response, Problem> {
        own(&caller, &did)?;
        let holding = self.0.ledger.holding(&did).await.map_err(problem_of)?;
        let holding = holding.ok_or_else(|| problem_of(Error::AccountNotFound))?;
        Ok(Response::json(200, &holding))
    }

    async fn history(
        &self,
        request: &Request,
        caller: Caller,
        history: History,
        did: Did,
    ) -> Result<Response, Problem> {
        own(&caller, &did)?;
        let paging = Paging::read(request, history, &did)?;
        let page = self.0.ledger.history(history, &did, paging.places, paging.limit).await.map_err(problem_of)?;
        let next = page.entries.last().filter(|_| page.more).map(|last| cursor::encode(history, &did, last.id));
        let transactions: Vec<_> = page.entries.iter().map(crate::entry::Entry::view).collect();
        Ok(Response::json(200, &json!({ "transactions": transactions, "cursor": next, "hasMore": page.more })))
    }

    async fn freeze(&self, caller: Caller, did: Did, frozen: bool) -> Result<Response, Problem> {
        operator(&caller)?;
        let status = self.0.ledger.set_frozen(&did, frozen, caller.did.as_str()).await.map_err(problem_of)?;
        tracing::warn!(did = did.as_str(), status, by = caller.did.as_str(), "an operator changed an account's status");
        Ok(Response::json(200, &json!({ "did": did, "status": status })))
    }

    async fn reverse(&self, request: &Request, caller: Caller, until: Timestamp) -> Result<Response, Problem> {
        operator(&caller)?;
        let Reversal { sender, id, reason } = Reversal::read(request)?;
        let answer = self.0.ledger.reverse(&sender, id, &reason, until).await.map_err(problem_of)?;
        tracing::warn!(transaction_id = %id, by = caller.did.as_str(), replayed = answer.replayed, "an operator reversed a transfer");
        Ok(answered(200, answer))
    }
}

fn own(caller: &Caller, did: &Did) -> Result<(), Problem> {
    if caller.operator || caller.did == *did {
        Ok(())
    } else {
        Err(Problem::new(Code::Forbidden, "an account shows itself to its owner and to operators only"))
    }
}

fn operator(caller: &Caller) -> Result<(), Problem> {
    if caller.operator {
        Ok(())
    } else {
        Err(Problem::new(Code::Forbidden, format!("the scope {} is required", jwt::OPERATOR_SCOPE)))
    }
}

fn unavailable(detail: &str) -> Problem {
    Problem::new(Code::Unavailable, detail).header("retry-after", RETRY_AFTER)
}

fn problem_of(error: Error) -> Problem {
    match error {
        Error::Refused(refusal) => match refusal {
            Refusal::SenderNotFound => {
                Problem::new(Code::AccountNotFound, "the sender has no account; POST /tokens/accounts opens one")
            }
            Refusal::SenderFrozen => Problem::new(Code::AccountFrozen, "the sender's account is frozen"),
            Refusal::RecipientNotFound => Problem::new(Code::RecipientNotFound, "the recipient has no account"),
            Refusal::RecipientFrozen => Problem::new(Code::RecipientFrozen, "the recipient's account is frozen"),
            Refusal::InsufficientBalance => {
                Problem::new(Code::InsufficientBalance, "there is less in the account than amount and fee")
            }
            Refusal::LimitExceeded => Problem::new(Code::LimitExceeded, "the transfer is above a limit"),
        },
        Error::Mismatch { fields } => {
            let detail = format!("this key was used for a transfer that differs in {}", fields.join(", "));
            Problem::new(Code::IdempotencyMismatch, detail).with("fields", fields)
        }
        Error::Unresolved => {
            unavailable("what became of the request is not known yet; send it again with the same key")
        }
        Error::Key(error) => Problem::new(Code::InvalidIdempotencyKey, error),
        Error::TransactionNotFound => Problem::new(Code::TransactionNotFound, error),
        Error::NotReversible => Problem::new(Code::NotReversible, error),
        Error::AccountNotFound => Problem::new(Code::AccountNotFound, error),
        Error::Store(_) | Error::Item(_) | Error::Record(_) => {
            // The client learns nothing of our inside; the log does, once, here.
            tracing::error!(error = &error as &(dyn std::error::Error + 'static), "a request failed on our side");
            metric::FAILURES.add(1);
            Problem::new(Code::Internal, "this is not the request's fault; it has been logged")
        }
    }
}

fn answered(status: u16, answer: Answer) -> Response {
    let response = json_response(status, answer.body);
    if answer.replayed { response.header("idempotency-replayed", "true") } else { response }
}

fn json_response(status: u16, body: String) -> Response {
    Response { body: body.into_bytes(), ..Response::empty(status) }.header("content-type", "application/json")
}
