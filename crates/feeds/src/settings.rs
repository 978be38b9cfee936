//! Every variable that the functions read, typed. One error names everything that is missing or wrong.

use std::time::Duration;

use function::{
    Env, Error,
    env::{self, Reader},
};
use url::Url;

use crate::{
    delivery::{
        owed::{DAY_SECS, GiveUp},
        text::Template,
    },
    entry::Source,
    list::DEFAULT_TEXT,
    outside::{fetch::Policy, mastodon::Visibility, pushover::WhenUnsure},
    reading::{
        filter::{Filter, Pattern},
        first_run::FirstRun,
        pace::DEFAULT_LONGEST,
    },
};

/// The switch that lets feeds be fetched over http from this machine. No template may have it.
pub const ALLOW_LOCAL: &str = "FEED_ALLOW_PRIVATE_ADDRESSES";

/// Every variable that a subscriber reads.
pub(crate) const SUBSCRIBER_VARIABLES: &[&str] = &[
    "STATE_TABLE_NAME",
    "TARGET_FUNCTION_ARN",
    "FEED_URL_PARAMETER",
    "FIRST_RUN",
    "IGNORE_TITLE",
    "IGNORE_LINK",
    "ADAPTIVE",
    "PERIOD_MINUTES",
    "ADAPTIVE_LONGEST_MINUTES",
    "DEAD_AFTER",
    "GIVE_UP_DAYS",
    "PARALLEL_DELIVERIES",
    ALLOW_LOCAL,
];

/// Every variable that a notifier reads.
pub(crate) const NOTIFIER_VARIABLES: &[&str] = &[
    "STATE_TABLE_NAME",
    "MASTODON_URL",
    "MASTODON_TOKEN_PARAMETER",
    "MASTODON_VISIBILITY",
    "STATUS_TEMPLATE",
    "SHADOW",
    "PUSHOVER_TOKEN_PARAMETER",
    "PUSHOVER_USER_PARAMETER",
    "PUSHOVER_URL",
    "PUSHOVER_TITLE",
    "PUSHOVER_WHEN_UNSURE",
];

/// Every variable that `feeds-subscriber` reads.
pub(crate) const LISTED_SUBSCRIBER_VARIABLES: &[&str] = &[
    "STATE_TABLE_NAME",
    "TARGET_FUNCTION_ARN",
    "FEED_SECRETS_PREFIX",
    "FIRST_RUN",
    "ADAPTIVE",
    "ADAPTIVE_LONGEST_MINUTES",
    "DEAD_AFTER",
    "GIVE_UP_DAYS",
    "PARALLEL_DELIVERIES",
    ALLOW_LOCAL,
];

/// Every variable that `feeds-notifier` reads.
pub(crate) const LISTED_NOTIFIER_VARIABLES: &[&str] = &[
    "STATE_TABLE_NAME",
    "FEED_SECRETS_PREFIX",
    "SHADOW",
    "MASTODON_URL",
    "MASTODON_TOKEN_PARAMETER",
    "MASTODON_VISIBILITY",
    "PUSHOVER_TOKEN_PARAMETER",
    "PUSHOVER_USER_PARAMETER",
    "PUSHOVER_URL",
    "PUSHOVER_WHEN_UNSURE",
    "SLACK_BOT_TOKEN_PARAMETER",
    "SLACK_API_URL",
    "WEBHOOK_KEY_PARAMETER",
    ALLOW_LOCAL,
];

/// How many entries are delivered at the same time, unless configured.
const PARALLEL: usize = 4;
const ON_OFF: [(&str, bool); 2] = [("on", true), ("off", false)];

/// The settings of a subscriber.
#[derive(Debug)]
pub(crate) struct SubscriberSettings {
    pub(crate) table: String,
    /// The ARN of the notifier.
    pub(crate) notifier: String,
    pub(crate) first_run: FirstRun,
    pub(crate) adaptive: bool,
    /// Longest pause with `adaptive`.
    pub(crate) longest: Duration,
    pub(crate) give_up: GiveUp,
    pub(crate) parallel: usize,
    pub(crate) policy: Policy,
}

impl SubscriberSettings {
    /// What all subscribers read.
    fn common(vars: &mut Reader<'_>) -> Self {
        let give_up = GiveUp::default();
        SubscriberSettings {
            table: vars.required("STATE_TABLE_NAME"),
            notifier: vars.required("TARGET_FUNCTION_ARN"),
            first_run: vars.parsed("FIRST_RUN", FirstRun::default()),
            adaptive: vars.one_of("ADAPTIVE", &ON_OFF, false),
            longest: minutes(vars.parsed("ADAPTIVE_LONGEST_MINUTES", DEFAULT_LONGEST.as_secs() / 60)),
            give_up: GiveUp {
                refusals: vars.parsed("DEAD_AFTER", give_up.refusals),
                owed_for: Duration::from_secs(
                    DAY_SECS * vars.parsed("GIVE_UP_DAYS", give_up.owed_for.as_secs() / DAY_SECS),
                ),
            },
            parallel: vars.parsed("PARALLEL_DELIVERIES", PARALLEL),
            policy: policy(vars),
        }
    }
}

/// The settings of a subscriber with a feed of its own.
#[derive(Debug)]
pub(crate) struct OwnFeedSettings {
    pub(crate) subscriber: SubscriberSettings,
    pub(crate) url_parameter: String,
    pub(crate) filter: Filter,
    pub(crate) period: Duration,
}

impl OwnFeedSettings {
    /// `default_period` is in minutes.
    pub(crate) fn read(default_period: u64, env: &Env) -> Result<Self, env::Error> {
        let mut vars = env.reader();
        let settings = OwnFeedSettings {
            subscriber: SubscriberSettings::common(&mut vars),
            url_parameter: vars.required("FEED_URL_PARAMETER"),
            filter: Filter {
                ignore_title: pattern(&mut vars, "IGNORE_TITLE"),
                ignore_link: pattern(&mut vars, "IGNORE_LINK"),
                ..Filter::default()
            },
            period: minutes(vars.parsed("PERIOD_MINUTES", default_period)),
        };
        vars.finish()?;
        Ok(settings)
    }
}

/// The settings of the subscriber of the list's feeds.
#[derive(Debug)]
pub(crate) struct ListedSettings {
    pub(crate) subscriber: SubscriberSettings,
    /// What stands before the names of secrets.
    pub(crate) secrets_prefix: String,
}

impl ListedSettings {
    pub(crate) fn read(env: &Env) -> Result<Self, env::Error> {
        let mut vars = env.reader();
        let settings = ListedSettings {
            subscriber: SubscriberSettings::common(&mut vars),
            secrets_prefix: vars.required("FEED_SECRETS_PREFIX"),
        };
        vars.finish()?;
        Ok(settings)
    }
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

fn policy(vars: &mut Reader<'_>) -> Policy {
    if vars.one_of(ALLOW_LOCAL, &ON_OFF, false) { Policy::local() } else { Policy::public() }
}

/// The settings of a notifier. A destination without a token is not there.
#[derive(Debug)]
pub(crate) struct NotifierSettings {
    pub(crate) table: String,
    pub(crate) mastodon: Option<MastodonSettings>,
    pub(crate) pushover: Option<PushoverSettings>,
    pub(crate) slack: Option<SlackSettings>,
    pub(crate) webhook_key_parameter: Option<String>,
    pub(crate) template: Template,
    pub(crate) shadow: bool,
    pub(crate) pushover_title: Pattern,
    pub(crate) policy: Policy,
    /// What stands before the names of secrets; empty without a list.
    pub(crate) secrets_prefix: String,
}

#[derive(Debug)]
pub(crate) struct MastodonSettings {
    pub(crate) url: Url,
    pub(crate) token_parameter: String,
    pub(crate) visibility: Visibility,
}

#[derive(Debug)]
pub(crate) struct PushoverSettings {
    pub(crate) url: Url,
    pub(crate) token_parameter: String,
    pub(crate) user_parameter: String,
    pub(crate) when_unsure: WhenUnsure,
}

#[derive(Debug)]
pub(crate) struct SlackSettings {
    /// Without a slash at its end.
    pub(crate) api_url: String,
    pub(crate) token_parameter: String,
}

impl NotifierSettings {
    pub(crate) fn read(source: Source, env: &Env) -> Result<Self, Error> {
        let mut vars = env.reader();
        let table = vars.required("STATE_TABLE_NAME");
        let shadow = vars.one_of("SHADOW", &ON_OFF, false);
        if source != Source::Listed {
            // These feeds are posted to Mastodon, always.
            vars.required("MASTODON_URL");
            vars.required("MASTODON_TOKEN_PARAMETER");
        }
        let mastodon = mastodon(&mut vars);
        let pushover = pushover(&mut vars);
        let (template, pushover_title) = match source {
            Source::Listed => (Template::parse(DEFAULT_TEXT).ok(), Pattern::default()),
            _ => (template(&mut vars, source), pattern(&mut vars, "PUSHOVER_TITLE")),
        };
        let (slack, webhook_key_parameter, policy, secrets_prefix) = match source {
            Source::Listed => (
                slack(&mut vars),
                vars.optional("WEBHOOK_KEY_PARAMETER"),
                policy(&mut vars),
                vars.required("FEED_SECRETS_PREFIX"),
            ),
            _ => (None, None, Policy::public(), String::new()),
        };
        vars.finish()?;
        let Some(template) = template else {
            return Err(Error::failed("Start", "STATUS_TEMPLATE was accepted but cannot be used"));
        };
        Ok(NotifierSettings {
            table,
            mastodon,
            // Hatena's entries are not pushed.
            pushover: pushover.filter(|_| source != Source::Hatebu),
            slack,
            webhook_key_parameter,
            template,
            shadow,
            pushover_title,
            policy,
            secrets_prefix,
        })
    }
}

fn mastodon(vars: &mut Reader<'_>) -> Option<MastodonSettings> {
    let visibilities = [
        ("public", Visibility::Public),
        ("unlisted", Visibility::Unlisted),
        ("private", Visibility::Private),
        ("direct", Visibility::Direct),
    ];
    let visibility = vars.one_of("MASTODON_VISIBILITY", &visibilities, Visibility::Public);
    let token_parameter = vars.optional("MASTODON_TOKEN_PARAMETER")?;
    let url = vars.required("MASTODON_URL");
    let url = base_url(vars, "MASTODON_URL", &url)?;
    Some(MastodonSettings { url, token_parameter, visibility })
}

fn pushover(vars: &mut Reader<'_>) -> Option<PushoverSettings> {
    let unsure = [("repeat", WhenUnsure::Repeat), ("never", WhenUnsure::Never)];
    let when_unsure = vars.one_of("PUSHOVER_WHEN_UNSURE", &unsure, WhenUnsure::default());
    let url = vars.optional("PUSHOVER_URL").unwrap_or_else(|| "https://api.pushover.net/".to_owned());
    let url = base_url(vars, "PUSHOVER_URL", &url);
    let token_parameter = vars.optional("PUSHOVER_TOKEN_PARAMETER")?;
    let user_parameter = vars.required("PUSHOVER_USER_PARAMETER");
    Some(PushoverSettings { url: url?, token_parameter, user_parameter, when_unsure })
}

fn slack(vars: &mut Reader<'_>) -> Option<SlackSettings> {
    let url = vars.optional("SLACK_API_URL").unwrap_or_else(|| "https://slack.com/api".to_owned());
    let url = base_url(vars, "SLACK_API_URL", &url);
    let token_parameter = vars.optional("SLACK_BOT_TOKEN_PARAMETER")?;
    Some(SlackSettings { api_url: url?.as_str().trim_end_matches('/').to_owned(), token_parameter })
}

fn template(vars: &mut Reader<'_>, source: Source) -> Option<Template> {
    let default = match source {
        Source::Github => "[GH] {title} {link}",
        Source::Hatebu => "[B!] id:{author} {comment} > {title} {link}",
        Source::Listed => DEFAULT_TEXT,
    };
    let text = vars.optional("STATUS_TEMPLATE");
    Template::parse(text.as_deref().unwrap_or(default)).map_err(|error| vars.invalid("STATUS_TEMPLATE", error)).ok()
}

fn pattern(vars: &mut Reader<'_>, name: &'static str) -> Pattern {
    let text = vars.optional(name).unwrap_or_default();
    Pattern::parse(name, &text).unwrap_or_else(|error| {
        vars.invalid(name, error);
        Pattern::default()
    })
}

/// `None` if it is empty, which was reported already, or not a URL, which is reported here.
fn base_url(vars: &mut Reader<'_>, name: &str, text: &str) -> Option<Url> {
    if text.is_empty() {
        return None;
    }
    // A base without a slash at its end would lose its last part when a path is joined to it.
    let text = if text.ends_with('/') { text.to_owned() } else { format!("{text}/") };
    match text.parse::<Url>() {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Some(url),
        _ => {
            vars.invalid(name, "not an http(s) URL");
            None
        }
    }
}
