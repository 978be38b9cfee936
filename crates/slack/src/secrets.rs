//! Secrets by name, at hand when they are needed.
//!
//! Promise: a value is at most [`function::aws::SECRET_KEPT`] old while SSM answers; when it does not, the last known
//! value serves, after [`REFRESH_WITHIN`] at the latest. Failure: only where there has never been a value.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use function::aws::Error;
use function::{Aws, Secret};
use futures::future::{Either, select};
use ichido::Clock;

/// How long a refresh may hold up a request.
pub const REFRESH_WITHIN: Duration = Duration::from_millis(500);
/// How many signing secrets may be valid at once: the old one and the new one, during a rotation.
pub const MAX_SIGNING_SECRETS: usize = 2;

/// A secret that is looked up again now and then.
pub struct Named {
    aws: Aws,
    name: String,
    clock: Arc<dyn Clock>,
    /// Held for a copy, never across a call.
    last: Mutex<Secret>,
}

impl Named {
    /// Fetches it for the first time.
    pub async fn fetch(aws: Aws, name: String, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let last = Mutex::new(aws.secret(&name).await?);
        Ok(Self { aws, name, clock, last })
    }

    /// Its value now.
    pub async fn get(&self) -> Secret {
        let fetched = pin!(self.aws.secret(&self.name));
        let refreshed = select(fetched, self.clock.sleep(REFRESH_WITHIN)).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match refreshed {
            Either::Left((Ok(secret), _)) => *last = secret,
            Either::Left((Err(error), _)) => {
                tracing::warn!(error = &error as &(dyn std::error::Error + 'static), "the last known secret serves");
            }
            Either::Right(_) => tracing::warn!(secret = self.name, "SSM is slow; the last known secret serves"),
        }
        last.clone()
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A secret, wherever it comes from.
#[derive(Debug)]
pub enum Source {
    /// Looked up in SSM.
    Named(Named),
    /// Given: tests.
    Fixed(Secret),
}

impl Source {
    pub async fn get(&self) -> Secret {
        match self {
            Self::Named(named) => named.get().await,
            Self::Fixed(secret) => secret.clone(),
        }
    }
}

/// The signing secrets in one value: one, or two separated by a comma during a rotation. `None`: none, or too many.
pub fn signing_secrets(value: &Secret) -> Option<Vec<Secret>> {
    let secrets: Vec<Secret> =
        value.expose().split([',', '\n']).map(str::trim).filter(|each| !each.is_empty()).map(Secret::new).collect();
    (!secrets.is_empty() && secrets.len() <= MAX_SIGNING_SECRETS).then_some(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_secret_or_two_and_never_more() {
        let read = |value: &str| {
            let secrets = signing_secrets(&Secret::new(value))?;
            Some(secrets.iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(read("old"), Some(vec!["old".to_owned()]));
        assert_eq!(read("new, old\n"), Some(vec!["new".to_owned(), "old".to_owned()]));
        assert_eq!(read(" , "), None);
        assert_eq!(read("a,b,c"), None);
    }
}
