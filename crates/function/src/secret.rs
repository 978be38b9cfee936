//! A secret, wherever it comes from.
//!
//! Promise: a named secret is at most [`SECRET_KEPT`](crate::aws::SECRET_KEPT) old while SSM answers. If SSM does not
//! answer, the cached value is used. A source with a time limit ([`Source::refreshed_within`]) uses the cached value when the
//! limit has passed, so that a slow SSM does not delay a request. It fails only if there is no cached value.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{Either, select};
use ichido::Clock;

use crate::aws::Error;
use crate::{Aws, Secret};

/// Where a secret comes from.
pub enum Source {
    /// A value that never changes, for tests and for the local platform.
    Fixed(Secret),
    /// An SSM parameter, or a secret of Secrets Manager as SSM shows it.
    Named(Named),
}

/// A secret that is fetched when it is needed and then refreshed from time to time.
pub struct Named {
    aws: Aws,
    name: String,
    limit: Option<(Duration, Arc<dyn Clock>)>,
    /// The cached value. The mutex is held for a copy, never across a call.
    cached: Mutex<Option<Secret>>,
}

impl Source {
    /// The secret of this name.
    pub fn named(aws: Aws, name: impl Into<String>) -> Self {
        Self::Named(Named { aws, name: name.into(), limit: None, cached: Mutex::default() })
    }

    /// A refresh may take at most `limit`; then the cached value is used.
    #[must_use]
    pub fn refreshed_within(self, limit: Duration, clock: Arc<dyn Clock>) -> Self {
        match self {
            Self::Fixed(secret) => Self::Fixed(secret),
            Self::Named(named) => Self::Named(Named { limit: Some((limit, clock)), ..named }),
        }
    }

    /// The name of the parameter, for messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Fixed(_) => "(a fixed value)",
            Self::Named(named) => &named.name,
        }
    }

    /// The current value.
    pub async fn get(&self) -> Result<Secret, Error> {
        match self {
            Self::Fixed(secret) => Ok(secret.clone()),
            Self::Named(named) => named.get().await,
        }
    }
}

impl Named {
    async fn get(&self) -> Result<Secret, Error> {
        let fetch = self.aws.secret(&self.name);
        let (Some(cached), Some((limit, clock))) = (self.cached(), &self.limit) else {
            let secret = fetch.await?;
            self.keep(&secret);
            return Ok(secret);
        };
        match select(pin!(fetch), clock.sleep(*limit)).await {
            Either::Left((Ok(secret), _)) => {
                self.keep(&secret);
                Ok(secret)
            }
            Either::Left((Err(error), _)) => {
                let error = &error as &(dyn std::error::Error + 'static);
                tracing::warn!(
                    secret = self.name,
                    error,
                    "could not refresh secret {}; using the cached one",
                    self.name
                );
                Ok(cached)
            }
            Either::Right(_) => {
                tracing::warn!(
                    secret = self.name,
                    "SSM did not answer in time for secret {}; using the cached one",
                    self.name
                );
                Ok(cached)
            }
        }
    }

    fn cached(&self) -> Option<Secret> {
        telemetry::lock(&self.cached).clone()
    }

    fn keep(&self, secret: &Secret) {
        *telemetry::lock(&self.cached) = Some(secret.clone());
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("Fixed(…)"),
            Self::Named(named) => named.fmt(f),
        }
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Named({})", self.name)
    }
}
