//! The token API, with a development issuer, three sample accounts and an operator.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use emulator::issuer::{self, Issuer};
use function::http::Request;
use function::{BoxFuture, Definition};
use serde_json::{Map, Value, json};
use tokens::identity::did::Did;
use tokens::identity::jwt::OPERATOR_SCOPE;

use crate::platform::Platform;
use crate::tenants::{Ground, Keeps, Panel, Tenant};

/// As in the defaults of the template.
const ISSUER: &str = "https://issuer.localhost";
const AUDIENCE: &str = "tokens";
const KEYS_PARAMETER: &str = "/ichido/local/tokens/jwt-keys";

const ACCOUNTS: [&str; 3] = ["did:example:alice", "did:example:bob", "did:example:carol"];
const OPERATOR: &str = "did:example:operator";

/// How long the tokens that a start issues are valid.
const TOKEN_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) struct Tokens;

/// An issuer with the key of this data directory, so that tokens stay valid after a restart.
fn issuer(ground: &Ground) -> Result<Issuer, issuer::Error> {
    let new_key = || Issuer::new_key().map(|key| STANDARD.encode(key)).unwrap_or_default();
    let kept = ground.secrets.get_or_make("tokens-issuer-key", new_key);
    let key = STANDARD.decode(kept).map_err(|_| issuer::Error)?;
    Issuer::with_key(ISSUER, AUDIENCE, "local", &key)
}

fn token(issuer: &Issuer, did: &str, operator: bool) -> Option<String> {
    let did: Did = did.parse().ok()?;
    let expires = (SystemTime::now() + TOKEN_LIFE).into();
    if operator { issuer.scoped_token(&did, OPERATOR_SCOPE, expires) } else { issuer.token(&did, expires) }.ok()
}

/// Calls `make` with the issuer. Without an issuer it logs an error and returns the default: the API then refuses everybody.
fn with_issuer<T: Default>(ground: &Ground, make: impl FnOnce(&Issuer) -> T) -> T {
    match issuer(ground) {
        Ok(issuer) => make(&issuer),
        Err(error) => {
            tracing::error!(error = %error, "the token API has no issuer and refuses every token; remove tokens-issuer-key from secrets.json and start again");
            T::default()
        }
    }
}

impl Tenant for Tokens {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn templates(&self) -> Vec<&'static str> {
        vec![include_str!("../../../../infra/templates/tokens.yaml")]
    }

    fn functions(&self) -> Vec<Definition> {
        tokens::functions()
    }

    fn keeps(&self) -> Vec<Keeps> {
        vec![Keeps {
            application: "tokens",
            table: tokens::table::records("tokens-ledger"),
            unprefixed: None,
            functions: &["tokens-api"],
            dead_letters: None,
        }]
    }

    fn secrets(&self, ground: &Ground) -> Vec<(String, String)> {
        with_issuer(ground, |issuer| vec![(KEYS_PARAMETER.to_owned(), issuer.jwks().to_string())])
    }

    fn config(&self, ground: &Ground) -> Map<String, Value> {
        with_issuer(ground, |issuer| {
            let accounts = ACCOUNTS.map(|did| json!({ "did": did, "token": token(issuer, did, false) }));
            let members = [
                ("accounts".to_owned(), Value::from(accounts.to_vec())),
                ("operatorToken".to_owned(), Value::from(token(issuer, OPERATOR, true))),
            ];
            members.into_iter().collect()
        })
    }

    fn panel(&self) -> Option<Panel> {
        Some(Panel {
            title: "Tokens",
            path: "/apps/tokens",
            script: console::asset!("src/console/web/panels/tokens.js"),
        })
    }

    /// Opens the three accounts through the function. Opening an open account changes nothing.
    fn demo(&self, platform: Platform) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(function) = platform.functions().find("tokens-api") else { return };
            let tokens =
                with_issuer(platform.ground(), |issuer| ACCOUNTS.map(|did| token(issuer, did, false)).to_vec());
            for token in tokens.into_iter().flatten() {
                let mut request =
                    Request { method: "POST".into(), path: "/tokens/accounts".into(), ..Request::default() };
                request.headers.insert("authorization".into(), format!("Bearer {token}"));
                platform.invoke(&function, request.to_event(), None).await;
            }
        })
    }

    fn try_it(&self, ground: &Ground) -> Option<String> {
        let url = &ground.url;
        let token = format!(
            "$(curl -s {url}/_local/config | python3 -c 'import json,sys; print(json.load(sys.stdin)[\"accounts\"][0][\"token\"])')"
        );
        let bob = ACCOUNTS[1];
        Some(format!(
            "curl -i {url}/tokens/transfer -H \"authorization: Bearer {token}\" -H 'idempotency-key: lunch-1' --json '{{\"recipientDid\":\"{bob}\",\"amount\":\"12.5\"}}'"
        ))
    }
}
