//! Which version of each function is live, which would be, and how far a running rollout is. The alias has all of it, so a rollout that
//! somebody else started is followed too.

use std::path::PathBuf;
use std::time::Duration;

use console::contract::{Rollout, Rollouts, WatchedAlarm};
use futures::future::join_all;
use tokio::sync::OnceCell;

use crate::context::{Context, Error, failed};
use crate::infra::{Described, function_names, with_suffix};
use crate::rollout::alias::{Note, Standing, Version};
use crate::rollout::drive::{Hands as _, Sight};
use crate::rollout::machine::Observation;
use crate::rollout::plan::{Item, Pace, TICK, Watch};
use crate::rollout::together::{cloud, item};

/// How far back the new version's invocations and errors are counted.
const COUNTED: Duration = Duration::from_secs(15 * 60);

/// Where the functions of the environment stand.
pub(super) struct Standings {
    settings: Option<PathBuf>,
    /// Read once: it needs Node, and does not change while the console runs.
    known: OnceCell<Known>,
}

/// What is known of the environment.
struct Known {
    functions: Vec<(String, Watch)>,
    /// `None`, and why: the settings of the environment could not be read.
    pace: Result<Pace, String>,
}

impl Standings {
    pub(super) fn new(settings: Option<PathBuf>) -> Self {
        Self { settings, known: OnceCell::new() }
    }

    pub(super) async fn read(&self, context: &Context<'_>) -> Result<Rollouts, Error> {
        let known = self.known.get_or_try_init(|| self.know(context)).await?;
        let found =
            join_all(known.functions.iter().map(|(function, watch)| one(context, known, function, watch))).await;
        let mut rollouts = Rollouts::default();
        for found in found {
            match found {
                Ok((rollout, unread)) => {
                    rollouts.functions.push(rollout);
                    rollouts.unread.extend(unread);
                }
                Err(error) => rollouts.unread.push(telemetry::causes(&error)),
            }
        }
        if let Err(why) = &known.pace {
            rollouts.unread.push(format!("the steps of a rollout are not known: {why}"));
        }
        let order = |rollout: &Rollout| (rollout.state == "settled", rollout.to.is_none());
        rollouts.functions.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.function.cmp(&b.function)));
        Ok(rollouts)
    }

    /// The environment from the source tree. Without it, the functions and their alarms are those of the templates.
    async fn know(&self, context: &Context<'_>) -> Result<Known, Error> {
        match Described::of(context, self.settings.as_deref()).await {
            Ok(described) => {
                let mut functions = Vec::new();
                for name in described.functions() {
                    let watch = Watch::of(&name, &described, &[])
                        .map_err(|error| failed("the alarms of the templates could not be read", error))?;
                    functions.push((name, watch));
                }
                let pace = Pace::new(&described.settings.rollout, None, None).map_err(|error| error.to_string());
                Ok(Known { functions, pace })
            }
            Err(error) => {
                let names = function_names(&with_suffix(context.suffix()?)?);
                let functions = names.into_iter().map(|name| (name, Watch::default())).collect();
                Ok(Known { functions, pace: Err(telemetry::causes(&error)) })
            }
        }
    }
}

/// Where one function stands, and why a part of it is not known.
async fn one(
    context: &Context<'_>,
    known: &Known,
    function: &str,
    watch: &Watch,
) -> Result<(Rollout, Option<String>), Error> {
    let item = item(context, function, watch.clone(), TICK, None).await?;
    let mut rollout = shown(&item, known.pace.as_ref().ok());
    let Standing::Moving { new, .. } = item.standing else { return Ok((rollout, None)) };
    let cloud = cloud(&context.aws, context.cloudwatch(), function, watch, TICK);
    let since = cloud.now().saturating_sub(COUNTED).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let (alias, (looked, sight)) = futures::join!(cloud.alias(), cloud.look(new, since));
    if let Ok(Some(alias)) = alias
        && let Some(Note::Moving { at, .. }) = Note::read(&alias.description)
    {
        rollout.beat_at = Some(format!("{at:.3}"));
    }
    let unread = match looked {
        Observation::Unclear(error) => Some(format!("what {function} does under its rollout is not known: {error}")),
        _ => {
            follow(&mut rollout, sight);
            None
        }
    };
    Ok((rollout, unread))
}

fn follow(rollout: &mut Rollout, sight: Sight) {
    rollout.alarms =
        sight.alarms.into_iter().map(|alarm| WatchedAlarm { name: alarm.name, state: alarm.state }).collect();
    (rollout.invocations, rollout.errors) = (Some(sight.invocations), Some(sight.errors));
}

fn shown(item: &Item, pace: Option<&Pace>) -> Rollout {
    let (state, live, percent) = match item.standing {
        Standing::Settled { live, .. } => ("settled", live, 0),
        Standing::Moving { old, percent, .. } => ("moving", old, percent),
        Standing::Foreign { main, percent, .. } => ("foreign", main, percent),
    };
    let watched = |name: &String| WatchedAlarm { name: name.clone(), state: None };
    Rollout {
        function: item.function.clone(),
        state: state.to_owned(),
        live: live.0,
        to: item.target().map(|Version(to)| to),
        percent,
        steps: pace.map(|pace| pace.steps.clone()).unwrap_or_default(),
        bake_seconds: pace.map(|pace| pace.bake_of(&item.watch).as_secs()),
        beat_at: None,
        alarms: item.watch.alarms.iter().map(watched).collect(),
        invocations: None,
        errors: None,
        // A note about a rollout that moves is for whoever starts another one.
        note: if state == "moving" { None } else { item.note() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::alias::{Alias, Change, Run};

    fn alias(change: &Change) -> Alias {
        let description = change.note.to_string();
        Alias { version: change.version, other: change.other, description, revision: String::new() }
    }

    #[test]
    fn the_page_tells_a_rollout_from_what_would_move_and_from_what_somebody_moved() {
        let at = "2026-11-16T05:32:10Z".parse().unwrap();
        let (old, new, run) = (Version(12), Version(13), Run("a".to_owned()));
        let of = |alias: &Alias| shown(&Item::new("slack-events", alias, Some(new), Watch::default()), None);
        let moving = of(&alias(&Change::step(old, new, 10, &run, 4, at)));
        assert_eq!((moving.state.as_str(), moving.live, moving.to, moving.percent), ("moving", 12, Some(13), 10));
        let waiting = of(&Alias { version: old, other: None, description: String::new(), revision: String::new() });
        assert_eq!((waiting.state.as_str(), waiting.to, waiting.percent), ("settled", Some(13), 0));
        let done = of(&alias(&Change::finish(old, new, &run, at)));
        assert_eq!((done.state.as_str(), done.live, done.to), ("settled", 13, None));
        let foreign =
            of(&Alias { version: old, other: Some((new, 20)), description: String::new(), revision: String::new() });
        assert_eq!((foreign.state.as_str(), foreign.percent), ("foreign", 20));
        assert!(foreign.note.is_some_and(|note| note.contains("--abort")));
    }

    #[tokio::test]
    async fn a_rollout_that_somebody_else_started_is_followed_and_what_is_not_known_is_said() {
        use axum::extract::Path;
        let alias = |Path((function, alias)): Path<(String, String)>| async move {
            let moving = function == "slack-events" && alias == "live";
            axum::Json(match moving {
                true => serde_json::json!({
                    "FunctionVersion": "12", "RoutingConfig": {"AdditionalVersionWeights": {"13": 0.1}}, "RevisionId": "r",
                    "Description": "rollout 12 -> 13 at 10 %; run 3f2a9c beat 4, 2026-11-16T05:32:10Z",
                }),
                false => serde_json::json!({"FunctionVersion": "12", "RevisionId": "r"}),
            })
        };
        let lambda = axum::Router::new()
            .route("/2015-03-31/functions/{function}/aliases/{alias}", axum::routing::get(alias))
            // CloudWatch does not answer.
            .fallback(|| async { axum::http::StatusCode::BAD_REQUEST });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, lambda).await });
        let shared = crate::context::Shared { endpoint_url: Some(url.clone()), ..Default::default() };
        let mut out = std::io::sink();
        let context = Context::with(&shared, function::Aws::at(&url), &mut out);
        let found = Standings::new(None).read(&context).await.unwrap();
        let first = &found.functions[0];
        assert_eq!((first.function.as_str(), first.state.as_str(), first.percent), ("slack-events", "moving", 10));
        assert_eq!((first.to, first.beat_at.as_deref()), (Some(13), Some("2026-11-16T05:32:10.000Z")));
        assert!(found.functions[1..].iter().all(|other| other.state == "settled" && other.to.is_none()));
        assert_eq!(found.unread.len(), 1, "{:?}", found.unread);
        assert!(
            found.unread[0].starts_with("what slack-events does under its rollout is not known"),
            "{:?}",
            found.unread
        );
    }
}
