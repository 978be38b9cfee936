//! Groups and nodes as data: their names, their limits, their life.

use ichido::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest domain, in characters of any script.
pub const MAX_DOMAIN_CHARS: usize = 256;
/// The longest id of a node or host, in characters.
pub const MAX_ID_CHARS: usize = 128;
/// The longest id that a publisher gives a message, in characters.
pub const MAX_MESSAGE_ID_CHARS: usize = 100;
/// The longest name of a group, in characters.
pub const MAX_NAME_CHARS: usize = 128;
/// The most living groups of a domain.
pub const MAX_GROUPS_A_DOMAIN: usize = 100;

/// Why a request is refused, in the words and under the type that the client sees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Validation(String),
    #[error("The group does not exist or has ended. Disconnect.")]
    GroupNotFound,
    #[error("The node is not a member of the group, or has expired.")]
    NodeNotFound,
    #[error("Only the host can {0}.")]
    Unauthorized(&'static str),
    #[error("Other requests were faster. Try again.")]
    Conflict,
    #[error("The request could not be carried out. Try again.")]
    Unavailable,
}

impl Refusal {
    /// The `errorType` of the GraphQL error.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Validation(_) => "ValidationError",
            Self::GroupNotFound => "GroupNotFound",
            Self::NodeNotFound => "NodeNotFound",
            Self::Unauthorized(_) => "Unauthorized",
            Self::Conflict => "Conflict",
            Self::Unavailable => "Unavailable",
        }
    }
}

/// Refuses a text that is empty or too long.
pub fn check_length(what: &str, text: &str, most: usize) -> Result<(), Refusal> {
    let length = text.chars().count();
    if (1..=most).contains(&length) {
        return Ok(());
    }
    Err(Refusal::Validation(format!("{what} has 1 to {most} characters, not {length}.")))
}

/// A group as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    pub group_id: String,
    pub domain: String,
    pub name: String,
    pub host_id: String,
    /// ISO 8601, with milliseconds.
    pub created_at: String,
    /// Seconds since the epoch; fixed at creation.
    pub expires_at: u64,
    /// Seconds since the epoch: how long the host's last heartbeat lasts.
    pub host_fresh_until: u64,
    pub use_web_socket: bool,
}

impl Group {
    /// Is it neither at its end nor without its host?
    pub fn is_alive(&self, now: Timestamp) -> bool {
        self.expires_at > now.as_secs() && self.host_fresh_until > now.as_secs()
    }
}

/// A moment as the API shows it.
pub fn iso(at: Timestamp) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| String::new(), |at| format!("{at:.3}"))
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
            created_at: iso(Timestamp::from_secs(0)),
            expires_at: 100,
            host_fresh_until: 50,
            use_web_socket: true,
        };
        assert!(group.is_alive(Timestamp::from_secs(49)));
        assert!(!group.is_alive(Timestamp::from_secs(50)));
        assert!(!Group { host_fresh_until: 200, ..group }.is_alive(Timestamp::from_secs(100)));
    }

    #[test]
    fn lengths_are_counted_in_characters_of_any_script() {
        assert!(check_length("domain", &"教".repeat(256), MAX_DOMAIN_CHARS).is_ok());
        let refusal = check_length("domain", &"教".repeat(257), MAX_DOMAIN_CHARS).unwrap_err();
        assert_eq!(refusal.to_string(), "domain has 1 to 256 characters, not 257.");
        assert!(check_length("domain", "", MAX_DOMAIN_CHARS).is_err());
    }

    #[test]
    fn times_are_shown_with_milliseconds() {
        assert_eq!(iso(Timestamp::from_millis(1_700_000_000_123)), "2023-11-14T22:13:20.123Z");
    }
}
