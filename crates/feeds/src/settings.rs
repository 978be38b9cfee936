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
    outside::{fetch::Policy, mastodon::Visibility, pushover::WhenUnsure},
    reading::{
        filter::{Ignore, Pattern},
        first_run::FirstRun,
        pace::{DEFAULT_LONGEST, Pace},
    },
};

/// The switch that lets feeds be fetched over http and from this machine. No template may have it.
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

/// How many entries are delivered at the same time, unless configured.
const PARALLEL: usize = 4;
const ON_OFF: [(&str, bool); 2] = [("on", true), ("off", false)];

/// The settings of a subscriber.
#[derive(Debug)]
pub(crate) struct SubscriberSettings {
    pub(crate) table: String,
    /// The ARN of the notifier.
    pub(crate) notifier: String,
    pub(crate) url_parameter: String,
    pub(crate) first_run: FirstRun,
    pub(crate) ignore: Ignore,
    pub(crate) pace: Pace,
    pub(crate) give_up: GiveUp,
    pub(crate) parallel: usize,
    pub(crate) policy: Policy,
}

impl SubscriberSettings {
    pub(crate) fn read(source: Source, env: &Env) -> Result<Self, env::Error> {
        let default_period: u64 = match source {
            Source::Github => 5,
            Source::Hatebu => 15,
        };
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let give_up = GiveUp::default();
        let mut vars = env.reader();
        let settings = SubscriberSettings {
            table: vars.required("STATE_TABLE_NAME"),
            notifier: vars.required("TARGET_FUNCTION_ARN"),
            url_parameter: vars.required("FEED_URL_PARAMETER"),
            first_run: vars.parsed("FIRST_RUN", FirstRun::default()),
            ignore: Ignore { title: pattern(&mut vars, "IGNORE_TITLE"), link: pattern(&mut vars, "IGNORE_LINK") },
            pace: Pace {
                adaptive: vars.one_of("ADAPTIVE", &ON_OFF, false),
                period: minutes(vars.parsed("PERIOD_MINUTES", default_period)),
                longest: minutes(vars.parsed("ADAPTIVE_LONGEST_MINUTES", DEFAULT_LONGEST.as_secs() / 60)),
            },
            give_up: GiveUp {
                refusals: vars.parsed("DEAD_AFTER", give_up.refusals),
                owed_for: Duration::from_secs(
                    DAY_SECS * vars.parsed("GIVE_UP_DAYS", give_up.owed_for.as_secs() / DAY_SECS),
                ),
            },
            parallel: vars.parsed("PARALLEL_DELIVERIES", PARALLEL),
            policy: if vars.one_of(ALLOW_LOCAL, &ON_OFF, false) { Policy::local() } else { Policy::public() },
        };
        vars.finish()?;
        Ok(settings)
    }
}

/// The settings of a notifier.
#[derive(Debug)]
pub(crate) struct NotifierSettings {
    pub(crate) table: String,
    pub(crate) mastodon_url: Url,
    pub(crate) mastodon_token_parameter: String,
    pub(crate) visibility: Visibility,
    pub(crate) template: Template,
    pub(crate) shadow: bool,
    pub(crate) pushover: Option<PushoverSettings>,
    pub(crate) pushover_title: Pattern,
}

#[derive(Debug)]
pub(crate) struct PushoverSettings {
    pub(crate) url: Url,
    pub(crate) token_parameter: String,
    pub(crate) user_parameter: String,
    pub(crate) when_unsure: WhenUnsure,
}

impl NotifierSettings {
    pub(crate) fn read(source: Source, env: &Env) -> Result<Self, Error> {
        let visibilities = [
            ("public", Visibility::Public),
            ("unlisted", Visibility::Unlisted),
            ("private", Visibility::Private),
            ("direct", Visibility::Direct),
        ];
        let unsure = [("repeat", WhenUnsure::Repeat), ("never", WhenUnsure::Never)];
        let mut vars = env.reader();
        let table = vars.required("STATE_TABLE_NAME");
        let mastodon_url = vars.required("MASTODON_URL");
        let mastodon_url = base_url(&mut vars, "MASTODON_URL", &mastodon_url);
        let mastodon_token_parameter = vars.required("MASTODON_TOKEN_PARAMETER");
        let visibility = vars.one_of("MASTODON_VISIBILITY", &visibilities, Visibility::Public);
        let template = template(&mut vars, source);
        let shadow = vars.one_of("SHADOW", &ON_OFF, false);
        let token_parameter = vars.optional("PUSHOVER_TOKEN_PARAMETER");
        let user_parameter = token_parameter.as_ref().map(|_| vars.required("PUSHOVER_USER_PARAMETER"));
        let pushover_url = vars.optional("PUSHOVER_URL").unwrap_or_else(|| "https://api.pushover.net/".to_owned());
        let pushover_url = base_url(&mut vars, "PUSHOVER_URL", &pushover_url);
        let pushover_title = pattern(&mut vars, "PUSHOVER_TITLE");
        let when_unsure = vars.one_of("PUSHOVER_WHEN_UNSURE", &unsure, WhenUnsure::default());
        // Only GitHub's entries are pushed.
        let pushover = match (source, token_parameter, user_parameter) {
            (Source::Github, Some(token_parameter), Some(user_parameter)) => {
                pushover_url.map(|url| PushoverSettings { url, token_parameter, user_parameter, when_unsure })
            }
            _ => None,
        };
        vars.finish()?;
        let (Some(mastodon_url), Some(template)) = (mastodon_url, template) else {
            return Err(Error::failed("Start", "MASTODON_URL or STATUS_TEMPLATE was accepted but cannot be used"));
        };
        Ok(NotifierSettings {
            table,
            mastodon_url,
            mastodon_token_parameter,
            visibility,
            template,
            shadow,
            pushover,
            pushover_title,
        })
    }
}

fn template(vars: &mut Reader<'_>, source: Source) -> Option<Template> {
    let default = match source {
        Source::Github => "[GH] {title} {link}",
        Source::Hatebu => "[B!] id:{author} {comment} > {title} {link}",
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
