//! The issuers' public keys: from a parameter, read again while the function lives.
//!
//! A new key is put into the set at least [`function::aws::SECRET_KEPT`] before the issuer signs with it; the old one is
//! taken out when its last token has expired. A set that cannot be read is loud, and the one before it serves on.

use std::sync::{Arc, Mutex, PoisonError};

use function::aws;
use function::{Aws, Secret};

use crate::jwt::{KeySet, KeySetError};

/// Where the keys come from.
#[derive(Debug)]
pub struct Keys {
    source: Source,
    /// The last text that was read, and what it says. Held for a look, never across a call.
    read: Mutex<Option<(Secret, Arc<KeySet>)>>,
}

#[derive(Debug)]
enum Source {
    Fixed(Arc<KeySet>),
    Parameter { aws: Aws, name: String },
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Parameter(#[from] aws::Error),
    #[error(transparent)]
    KeySet(#[from] KeySetError),
}

impl Keys {
    /// Keys that never change.
    pub fn fixed(keys: KeySet) -> Self {
        Keys { source: Source::Fixed(Arc::new(keys)), read: Mutex::default() }
    }

    /// Keys from a parameter (JWKS).
    pub fn parameter(aws: Aws, name: impl Into<String>) -> Self {
        Keys { source: Source::Parameter { aws, name: name.into() }, read: Mutex::default() }
    }

    /// The keys of now.
    pub async fn current(&self) -> Result<Arc<KeySet>, Error> {
        let (aws, name) = match &self.source {
            Source::Fixed(keys) => return Ok(Arc::clone(keys)),
            Source::Parameter { aws, name } => (aws, name),
        };
        let text = aws.secret(name).await?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, keys)) = &*read
            && *known == text
        {
            return Ok(Arc::clone(keys));
        }
        match (KeySet::parse(text.expose()), &*read) {
            (Ok(keys), _) => {
                let keys = Arc::new(keys);
                *read = Some((text, Arc::clone(&keys)));
                Ok(keys)
            }
            (Err(error), Some((_, keys))) => {
                tracing::error!(error = &error as &(dyn std::error::Error + 'static), "the new key set is not used");
                Ok(Arc::clone(keys))
            }
            (Err(error), None) => Err(error.into()),
        }
    }
}
