//! Groups and nodes as data: their limits, their life, and why a request about them is refused.

use ichido::{Timestamp, store};
use serde::Deserialize;
use uuid::Uuid;

/// The longest domain, in characters of any script.
pub(crate) const MAX_DOMAIN_CHARS: usize = 256;
/// The longest id of a node or host, in characters.
pub(crate) const MAX_ID_CHARS: usize = 128;
/// The longest id that a publisher gives a message, in characters.
pub(crate) const MAX_MESSAGE_ID_CHARS: usize = 100;
/// The longest name of a group, in characters.
pub(crate) const MAX_NAME_CHARS: usize = 128;
/// How long a secret may be that a caller brings along, in characters.
pub(crate) const SECRET_CHARS: std::ops::RangeInclusive<usize> = 16..=128;
/// How many living groups a domain may have.
pub(crate) const MAX_GROUPS_PER_DOMAIN: usize = 100;

/// Where random ids come from. Each call returns another one.
pub(crate) type Random = dyn Fn() -> Uuid + Send + Sync;

/// Why a request is refused, in the words that the client sees.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Validation(String),
    /// Holds the words that clients look for: see [`Error::no_group`].
    #[error("{0}. The group does not exist or has ended. Disconnect.")]
    GroupNotFound(String),
    #[error("Node not found: it is not a member of the group, or its membership has expired. Join again.")]
    NodeNotFound,
    #[error("{0}")]
    Unauthorized(&'static str),
    #[error("{0}")]
    Quota(String),
    #[error("Another request changed the same data at the same time. Try again.")]
    Conflict,
    /// The table could not be read or written. The cause is for the log, not for the client.
    #[error("The request could not be carried out. Try again.")]
    Unavailable(#[from] store::Error),
}

impl Error {
    /// Why a group is not found. `found` is what is left of it.
    pub(crate) fn no_group(domain: &str, group_id: &str, found: Option<&Group>, now: Timestamp) -> Self {
        Self::GroupNotFound(match found {
            // A group that is being dissolved has no end any more.
            Some(group) if group.expires_at > 0 && group.expires_at <= now.as_secs() => {
                format!("Group expired: {group_id}@{domain}")
            }
            Some(group) if group.expires_at > 0 => format!("Group not found: {group_id}@{domain} (heartbeat expired)"),
            _ => format!("Group not found: {group_id}@{domain}"),
        })
    }

    /// The `errorType` of the GraphQL error.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Validation(_) => "ValidationError",
            Self::GroupNotFound(_) => "GroupNotFound",
            Self::NodeNotFound => "NodeNotFound",
            Self::Unauthorized(_) => "Unauthorized",
            Self::Quota(_) => "QuotaExceeded",
            Self::Conflict => "Conflict",
            Self::Unavailable(_) => "Unavailable",
        }
    }
}

/// Refuses a text that is empty or too long.
pub(crate) fn check_length(what: &str, text: &str, most: usize) -> Result<(), Error> {
    let length = text.chars().count();
    if (1..=most).contains(&length) {
        return Ok(());
    }
    Err(Error::Validation(format!("{what} must have 1 to {most} characters; it has {length}.")))
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) group_id: String,
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) host_id: String,
    /// RFC 3339, with milliseconds.
    pub(crate) created_at: String,
    /// Seconds since the epoch; fixed at creation.
    pub(crate) expires_at: u64,
    /// Seconds since the epoch: how long the host's last heartbeat lasts.
    pub(crate) host_fresh_until: u64,
    pub(crate) use_web_socket: bool,
    /// Only a secured group has one. Whoever knows it is the host.
    pub(crate) host_secret: Option<Secret>,
    /// The address or identity that made the group.
    pub(crate) caller: String,
}

/// What a host or a member proves itself with. Not shown when a group is printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// A secret that its user chose. An empty one counts as not given.
    pub(crate) fn brought(given: Option<&Self>) -> Result<Option<&Self>, Error> {
        let Some(secret) = given.filter(|secret| !secret.0.is_empty()) else { return Ok(None) };
        let length = secret.0.chars().count();
        if SECRET_CHARS.contains(&length) {
            return Ok(Some(secret));
        }
        let (least, most) = SECRET_CHARS.into_inner();
        Err(Error::Validation(format!("secret must have {least} to {most} characters; it has {length}.")))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a secret")
    }
}

impl Group {
    /// A group lives until its end, and only while its host sends heartbeats.
    pub(crate) fn is_alive(&self, now: Timestamp) -> bool {
        self.expires_at > now.as_secs() && self.host_fresh_until > now.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_ends_with_its_time_and_with_its_host() {
        let group = Group {
            group_id: "g".into(),
            domain: "d".into(),
            name: "n".into(),
            host_id: "h".into(),
            created_at: Timestamp::from_secs(0).to_string(),
            expires_at: 100,
            host_fresh_until: 50,
            use_web_socket: true,
            host_secret: None,
            caller: String::new(),
        };
        assert!(group.is_alive(Timestamp::from_secs(49)));
        assert!(!group.is_alive(Timestamp::from_secs(50)));
        assert!(!Group { host_fresh_until: 200, ..group }.is_alive(Timestamp::from_secs(100)));
    }

    #[test]
    fn lengths_are_counted_in_characters_of_any_script() {
        assert!(check_length("domain", &"教".repeat(256), MAX_DOMAIN_CHARS).is_ok());
        let refusal = check_length("domain", &"教".repeat(257), MAX_DOMAIN_CHARS).unwrap_err();
        assert_eq!(refusal.to_string(), "domain must have 1 to 256 characters; it has 257.");
        assert!(check_length("domain", "", MAX_DOMAIN_CHARS).is_err());
    }
}
