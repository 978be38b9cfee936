//! `createGroup`: the same host and domain get the same group while it lives.
//!
//! The record of host and domain is the first item of the transaction that makes the group. So of any number of
//! simultaneous calls one makes the group and the others find it. The transaction also replaces a record whose group
//! has ended. A secured group is found only with its secret. When it is over, the ids of its host and its nodes are free. A host that finds its group, but has joined another one since or has left it, becomes its member again.

use std::time::Duration;

use ichido::record::Owner;
use ichido::{Clock, Timestamp, key};
use serde::Deserialize;
use telemetry::metric;

use crate::domain;
use crate::group::{
    Error, Group, MAX_DOMAIN_CHARS, MAX_GROUPS_PER_DOMAIN, MAX_ID_CHARS, MAX_NAME_CHARS, Random, Secret, check_length,
};
use crate::settings::{HEARTBEATS_UNTIL_GONE, Settings};
use crate::table::create::{Creation, IN_A_SECURED_GROUP, Was};
use crate::table::{self, Former, Table};

/// How many times a call tries to make the group while others are faster.
const ATTEMPTS: u32 = 8;
/// The longest pause after the first attempt; it doubles with each next one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The arguments of `createGroup`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Arguments {
    pub(crate) name: String,
    pub(crate) host_id: String,
    pub(crate) domain: String,
    pub(crate) max_connection_time_seconds: Option<i64>,
    pub(crate) use_web_socket: Option<bool>,
    pub(crate) secured: Option<bool>,
    pub(crate) secret: Option<Secret>,
}

/// A group that was made or found.
pub(crate) struct Created {
    pub(crate) group: Group,
    /// The secured group that its host left for it, now or in a call whose answer may have been lost: subscriptions there end.
    pub(crate) left: Option<String>,
}

/// Creates the group, or finds the one that the host has.
pub(crate) async fn create(
    table: &Table,
    settings: &Settings,
    clock: &dyn Clock,
    random: &Random,
    arguments: &Arguments,
    caller: &str,
) -> Result<Created, Error> {
    let Arguments { name, host_id, domain, .. } = arguments;
    let caller = &domain::caller(caller);
    let secret = Secret::brought(arguments.secret.as_ref())?;
    check_length("name", name, MAX_NAME_CHARS)?;
    check_length("hostId", host_id, MAX_ID_CHARS)?;
    check_length("domain", domain, MAX_DOMAIN_CHARS)?;
    let lifetime = lifetime(arguments.max_connection_time_seconds, settings.longest)?;
    let host = table::host_key(domain, host_id).map_err(|error| Error::Validation(too_long(&error)))?;

    if let Some(group_id) = table.group_of_host(&host).await?
        && let Some(group) = living(table, clock, domain, &group_id).await?
    {
        return enter(table, clock, arguments, group).await;
    }
    let mut replaced = None;
    let mut pause = FIRST_PAUSE;
    let mut refusal = Error::Conflict;
    for _ in 0..ATTEMPTS {
        let now = clock.now();
        let mut group = new_group(settings, arguments, random().simple().to_string(), lifetime, now);
        group.caller.clone_from(caller);
        if arguments.secured == Some(true) {
            // 244 random bits.
            let fresh = || Secret::new(format!("{}{}", random().simple(), random().simple()));
            group.host_secret = Some(secret.cloned().unwrap_or_else(fresh));
        }
        let former = table.group_of_node(domain, host_id).await?;
        // The index lags, so this is a bound for floods, not to the last group.
        let oldest = now.saturating_sub(settings.longest);
        let there = table.living_groups(domain, caller, oldest, now, MAX_GROUPS_PER_DOMAIN).await?;
        if there.of_caller >= settings.groups_per_caller {
            let most = settings.groups_per_caller;
            return Err(Error::Quota(format!(
                "{most} groups of the domain were made from your address, or by your identity, which is the maximum."
            )));
        }
        if there.all >= MAX_GROUPS_PER_DOMAIN {
            let most = format!("The domain already has {MAX_GROUPS_PER_DOMAIN} groups, which is the maximum.");
            return Err(Error::Validation(most));
        }
        let owner = Owner::from(random().simple().to_string().as_str());
        let is_over = is_over(table, clock, domain, former.as_ref()).await?;
        let host_was = Was { former: former.as_ref(), is_over, secret };
        match table.create_group(&host, &group, &host_was, replaced.as_ref(), owner, now).await? {
            Creation::Made => {
                metric::GROUPS_CREATED.add(1);
                let left = former.as_ref().and_then(Former::left).map(str::to_owned);
                return Ok(Created { group, left });
            }
            Creation::Unauthorized => return Err(Error::Unauthorized(IN_A_SECURED_GROUP)),
            Creation::Found { group_id, recorded } => {
                if let Some(group_id) = group_id
                    && let Some(group) = living(table, clock, domain, &group_id).await?
                {
                    return enter(table, clock, arguments, group).await;
                }
                // The group was dissolved, or its host went silent. The record is still there.
                replaced = Some(recorded);
                continue;
            }
            Creation::Conflict => {
                metric::CONFLICTS.add(1);
                refusal = Error::Conflict;
            }
            Creation::Failed(error) if error.is_transient() => refusal = error.into(),
            Creation::Failed(error) => return Err(error.into()),
        }
        clock.sleep(pause.mul_f64(0.5 + fraction(random) / 2.0)).await;
        pause *= 2;
    }
    Err(refusal)
}

/// Why a domain and a host's id, each of which is short enough in characters, have too many bytes for the key of the host's record.
fn too_long(error: &key::Error) -> String {
    match error {
        key::Error::TooLong { bytes, .. } => {
            let more = bytes - key::MAX_KEY_BYTES;
            format!(
                "domain and hostId are {more} bytes too long together, in UTF-8 with # and % as three bytes each. Shorten one of them."
            )
        }
        error => format!("domain and hostId cannot be used together: {error}."),
    }
}

/// How long the group may live, or why not.
fn lifetime(asked: Option<i64>, longest: Duration) -> Result<Duration, Error> {
    let Some(asked) = asked else { return Ok(longest) };
    match u64::try_from(asked).map(Duration::from_secs) {
        Ok(asked) if !asked.is_zero() && asked <= longest => Ok(asked),
        _ => Err(Error::Validation(format!(
            "maxConnectionTimeSeconds must be 1 to {}; it is {asked}.",
            longest.as_secs()
        ))),
    }
}

/// The group, if it is alive.
async fn living(table: &Table, clock: &dyn Clock, domain: &str, group_id: &str) -> Result<Option<Group>, Error> {
    Ok(table.group(domain, group_id).await?.filter(|group| group.is_alive(clock.now())))
}

/// Whether the secured group that the host was in is over. The end of its node there does not say it: that of a host is the end of its group, also
/// if the host crashed long before. A group that is over stays over, so this may be read before the write.
async fn is_over(table: &Table, clock: &dyn Clock, domain: &str, former: Option<&Former>) -> Result<bool, Error> {
    match former {
        Some(former) if former.is_secured => Ok(living(table, clock, domain, &former.group_id).await?.is_none()),
        _ => Ok(false),
    }
}

/// Makes the host a member of its group, unless it is one. Only the host gets a secured group.
async fn enter(table: &Table, clock: &dyn Clock, arguments: &Arguments, group: Group) -> Result<Created, Error> {
    if group.host_secret.is_some() && group.host_secret != arguments.secret {
        return Err(Error::Unauthorized("The host has a secured group in this domain: pass its hostSecret."));
    }
    if group.host_secret.is_none() && arguments.secured == Some(true) {
        let open = "The host has a group in this domain that is not secured. Dissolve it first, or ask for it without secured.";
        return Err(Error::Validation(open.to_owned()));
    }
    let former = table.group_of_node(&group.domain, &group.host_id).await?;
    if former.as_ref().is_some_and(|former| former.group_id == group.group_id) {
        return Ok(Created { group, left: former.and_then(|former| former.left) });
    }
    let is_over = is_over(table, clock, &group.domain, former.as_ref()).await?;
    let host_was = Was { former: former.as_ref(), is_over, secret: arguments.secret.as_ref() };
    table.enter_group(&group, &host_was, clock.now()).await?;
    let left = former.as_ref().and_then(Former::left).map(str::to_owned);
    Ok(Created { group, left })
}

fn new_group(
    settings: &Settings,
    arguments: &Arguments,
    group_id: String,
    lifetime: Duration,
    now: Timestamp,
) -> Group {
    Group {
        group_id,
        domain: arguments.domain.clone(),
        name: arguments.name.clone(),
        host_id: arguments.host_id.clone(),
        created_at: now.to_string(),
        expires_at: (now + lifetime).as_secs_ceil(),
        host_fresh_until: (now + settings.host_heartbeat * HEARTBEATS_UNTIL_GONE).as_secs_ceil(),
        use_web_socket: arguments.use_web_socket.unwrap_or(true),
        host_secret: None,
        caller: String::new(),
    }
}

/// A random number from 0 to 1, from the first bits of a random id.
fn fraction(random: &Random) -> f64 {
    f64::from(random().as_fields().0) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lives_from_a_second_to_the_environments_maximum() {
        let longest = Duration::from_secs(600);
        assert_eq!(lifetime(None, longest).unwrap(), longest);
        assert_eq!(lifetime(Some(1), longest).unwrap(), Duration::from_secs(1));
        assert_eq!(lifetime(Some(600), longest).unwrap(), longest);
        for asked in [0, -1, 601, i64::MAX, i64::MIN] {
            assert!(matches!(lifetime(Some(asked), longest), Err(Error::Validation(_))), "{asked}");
        }
    }
}
