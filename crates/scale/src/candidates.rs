//! Further runs: what one would suspect to break first, measured. docs/scale.md has the results.

use emulator::limits::{Bound, Limits, aws};

use crate::app::{ONE_WAVE, feeds, mesh, slack, tokens};
use crate::world::ROUTES_OF_PROD;
use crate::{App, Error, Measured, Plan, play};

/// Something that one would suspect.
#[derive(Debug)]
pub struct Candidate {
    pub name: &'static str,
    pub what: &'static str,
    app: App,
    run: fn(u64) -> Result<Measured, Error>,
}

impl Candidate {
    /// Runs it in a world of its own.
    ///
    /// # Errors
    /// When the world cannot be made.
    pub fn run(&self, seed: u64) -> Result<Measured, Error> {
        (self.run)(seed)
    }
}

/// The candidates of an application.
pub fn of(app: App) -> impl Iterator<Item = &'static Candidate> {
    ALL.iter().filter(move |candidate| candidate.app == app)
}

/// All that Slack sends in an hour, at so many per second and at a hundredth of the size, while the route lets through this share of its
/// limit.
///
/// # Errors
/// When the world cannot be made.
pub fn hour_of_slack(load: u32, share: f64, seed: u64) -> Result<Measured, Error> {
    let smaller = |limits: &Limits| {
        let (_, rate, burst) = ROUTES_OF_PROD[0];
        let of = |number: u32| f64::from(number) * share / slack::SMALLER;
        let bound = Bound::Rate { per_second: of(rate), burst: of(burst).max(1.0) };
        limits.set_for(&aws::HTTP_API_ROUTE, slack::ROUTE, bound);
    };
    play(App::Slack, &once(load, seed), &smaller, |world, plan| Box::pin(slack::hour_at_once(world, plan)))
}

/// One wave of this load.
fn once(load: u32, seed: u64) -> Plan {
    Plan { load, waves: ONE_WAVE, seed }
}

/// This load for as long as an alarm of the application needs.
fn held(app: App, load: u32, seed: u64) -> Plan {
    Plan { load, waves: app.waves(), seed }
}

pub static ALL: [Candidate; 10] = [
    Candidate {
        name: "hour-at-once",
        what: "the 30,000 events that Slack sends in an hour come at 1,024 per second, all at a hundredth of the size: 300 events, a hundredth of the route's limit and of what a workspace takes in a minute",
        app: App::Slack,
        run: |seed| hour_of_slack(1_024, 1.0, seed),
    },
    Candidate {
        name: "outage-of-slack",
        what: "Slack's Web API is down for two minutes, while 8 uploads per second come in 20 channels: all that Slack sends in an hour comes in an hour",
        app: App::Slack,
        run: |seed| {
            play(App::Slack, &once(8, seed), &|_| {}, |world, plan| Box::pin(slack::slack_is_down(world, plan)))
        },
    },
    Candidate {
        name: "cold-starts",
        what: "300 uploads in one second, each on a new instance that reads its secret; the route lets them through",
        app: App::Slack,
        run: |seed| {
            let lift = |limits: &Limits| limits.lift(&aws::HTTP_API_ROUTE);
            play(App::Slack, &once(300, seed), &lift, |world, plan| Box::pin(slack::at_once(world, plan)))
        },
    },
    Candidate {
        name: "outage-of-the-store",
        what: "DynamoDB is down for a minute, while 32 uploads at the same moment, every four seconds, are admitted by the memory of as many instances, which reconcile later",
        app: App::Slack,
        run: |seed| {
            play(App::Slack, &once(32, seed), &|_| {}, |world, plan| Box::pin(slack::store_is_down(world, plan)))
        },
    },
    Candidate {
        name: "new-account",
        what: "16 uploads per second in an account whose Lambda concurrency is 10",
        app: App::Slack,
        run: |seed| {
            let few = |limits: &Limits| limits.set(&aws::LAMBDA_CONCURRENCY, Bound::AtOnce(10));
            // Its users go on for three periods of five minutes.
            let plan = Plan { load: 16, waves: &[0, 1, 2, 6, 11], seed };
            play(App::Slack, &plan, &few, App::Slack.script())
        },
    },
    Candidate {
        name: "many-secrets",
        what: "256 feeds in the same second, each with an entry, whose notifier is a new instance that reads its secret",
        app: App::Feeds,
        run: |seed| play(App::Feeds, &once(256, seed), &|_| {}, App::Feeds.script()),
    },
    Candidate {
        name: "herd",
        what: "Mastodon was down for two hours; 40 feeds have 20 owed entries each when it is back, and an account posts 300 in three hours",
        app: App::Feeds,
        run: |seed| play(App::Feeds, &once(40, seed), &|_| {}, |world, plan| Box::pin(feeds::herd(world, plan))),
    },
    Candidate {
        name: "hot-recipient",
        what: "32 transfers per second to one account",
        app: App::Tokens,
        run: |seed| {
            play(App::Tokens, &held(App::Tokens, 32, seed), &|_| {}, |world, plan| Box::pin(tokens::hot(world, plan)))
        },
    },
    Candidate {
        name: "without-our-own-limit",
        what: "512 transfers per second; the route lets them through",
        app: App::Tokens,
        run: |seed| {
            let lift = |limits: &Limits| limits.lift(&aws::HTTP_API_ROUTE);
            play(App::Tokens, &held(App::Tokens, 512, seed), &lift, App::Tokens.script())
        },
    },
    Candidate {
        name: "one-domain",
        what: "1,280 messages per second in 32 groups of one domain, whose sequence numbers are under one key; the table has grown before",
        app: App::Mesh,
        run: |seed| {
            let grown = |limits: &Limits| limits.lift(&aws::DYNAMODB_TABLE_WRITES);
            play(App::Mesh, &once(1_280, seed), &grown, |world, plan| Box::pin(mesh::one_domain(world, plan)))
        },
    },
];
