//! The same content again: a file whose content was handled within a window gets a reply that links the first message, instead of
//! being handled. Off unless the environment names channels.
//!
//! - A content is known by its SHA-256. If the app has no right to read a file, its name, size and type stand for it. What is not
//!   known in either way is handled: a file that is too large, too slow, deleted or not at Slack may be new. If Slack fails, Lambda retries.
//! - One file per content and channel is the first one ([`contents`](crate::table::contents)). If it was handled, the others get the
//!   link. While it is being handled, they fail, and Lambda retries them. If it was not handled, because its invocation died or
//!   its effect failed, the next file takes its place. Whether it was handled is asked as for any retry: its record, then its
//!   destination. [`function::files`](crate::function::files) does this.
//! - While the store is down, files are handled as if this were off.
//!
//! Invariant: only the SHA-256 of a content is kept, for the window, and neither is in a log (`tests/quiet.rs`).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ichido::{Claim, Failure};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use slack_api::{Content, Slack};
use telemetry::metric;

use crate::effect::{Error, Reply, UploadedFile};
use crate::event::{File, Upload};
use crate::table::contents::Contents;

/// The largest file that is read.
pub const MAX_BYTES: u64 = 50_000_000;

/// The channels in which a content is handled once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channels {
    All,
    Only(BTreeSet<String>),
}

impl Channels {
    /// `*`, or ids that are separated by commas. `None` if it is neither.
    pub fn read(text: &str) -> Option<Self> {
        if text.trim() == "*" {
            return Some(Self::All);
        }
        let ids: BTreeSet<String> = text.split(',').map(|id| id.trim().to_owned()).collect();
        ids.iter().all(|id| is_channel(id)).then_some(Self::Only(ids))
    }

    pub fn contains(&self, channel: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.contains(channel),
        }
    }
}

/// `C0123456789`; direct messages begin with `D`, old private channels with `G`.
fn is_channel(id: &str) -> bool {
    id.len() > 1
        && id.starts_with(['C', 'D', 'G'])
        && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// What it takes to recognise a content and to link its first file.
pub struct SameContent {
    pub channels: Channels,
    pub contents: Contents,
    pub slack: Arc<dyn Slack>,
    pub reply: Reply,
}

impl SameContent {
    /// What tells the content of a file from others. `None`: nothing does.
    pub(crate) async fn identify(
        &self,
        uploaded: UploadedFile<'_>,
        claim: &Claim,
    ) -> Result<Option<String>, Failure<Error>> {
        let file = uploaded.file;
        let left = self.reply.time_left(claim).ok_or(Failure::Retry(Error::NoTime))?;
        // The effect needs its time too.
        match self.slack.content(&file.id, MAX_BYTES, left / 2).await {
            Ok(Content::Sha256(digest)) => Ok(Some(format!("sha256:{digest}"))),
            Ok(Content::Forbidden) => Ok(by_name(file)),
            Ok(Content::NotRead) => Ok(None),
            // Reading has no effect.
            Err(error) => {
                if matches!(error, slack_api::Error::RateLimited { .. }) {
                    metric::SLACK_RATE_LIMITED.add(1);
                }
                Err(Failure::Retry(error.into()))
            }
        }
    }

    /// The address of the message that had the content first. `None`: it was deleted.
    pub(crate) async fn address(&self, first: &Upload, claim: &Claim) -> Result<Option<String>, Failure<Error>> {
        let within = self.reply.time_left(claim).ok_or(Failure::Retry(Error::NoTime))?;
        let address = self.slack.permalink(&first.channel, &first.ts, within).await;
        address.map_err(|error| Failure::Retry(error.into()))
    }
}

impl fmt::Debug for SameContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SameContent").field("channels", &self.channels).finish_non_exhaustive()
    }
}

/// Stands for the content of a file that may not be read. Slack says that a file is empty if it is kept elsewhere.
fn by_name(file: &File) -> Option<String> {
    let (name, mimetype) = (file.name.as_ref()?, file.mimetype.as_ref()?);
    let size = file.size.filter(|size| *size > 0)?;
    Some(format!("name:{}", hex::encode(Sha256::digest(json!([name, mimetype, size]).to_string()))))
}
