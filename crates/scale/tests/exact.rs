//! When a limit refuses something, it is named, and nothing is lost or doubled: each application once, with a limit that is lowered so
//! that few effects are enough.

use std::collections::BTreeMap;

use emulator::limits::{Bound, Limit, Limits, aws};
use scale::app::{ONE_WAVE, slack};
use scale::candidates;
use scale::report::closing_line;
use scale::{App, Measured, Plan, measure, search};

fn rate(per_second: f64) -> Bound {
    Bound::Rate { per_second, burst: per_second }
}

fn lowered(app: App, load: u32, change: &dyn Fn(&Limits)) -> Measured {
    measure(app, &Plan { load, waves: ONE_WAVE, seed: 1 }, change).expect("a run")
}

#[track_caller]
fn assert_met(measured: &Measured, limit: &'static Limit) {
    let first = measured.first.as_ref().unwrap_or_else(|| panic!("no limit was met: {measured:?}"));
    assert_eq!(first.limit.name, limit.name, "{measured:?}");
    let outcome = &measured.outcome;
    assert!(outcome.wanted > 0, "a run that wants nothing proves nothing");
    assert_eq!((outcome.lost, outcome.doubled), (0, 0), "{measured:?}");
    let (app, load) = (measured.app.name(), measured.load);
    let expected = format!("{app}: first limit {} at {load}, lost 0, doubled 0", limit.name);
    assert_eq!(closing_line(measured), expected);
}

#[test]
fn slack_repeats_what_the_route_refused() {
    let measured = lowered(App::Slack, 4, &|limits| limits.set_for(&aws::HTTP_API_ROUTE, slack::ROUTE, rate(3.0)));
    assert_met(&measured, &aws::HTTP_API_ROUTE);
    assert!(measured.outcome.seen.contains_key("event refused with 429"), "{measured:?}");
    assert_eq!(measured.outcome.seen["reply"], measured.outcome.wanted);
}

#[test]
fn slack_repeats_what_lambda_would_not_run() {
    let measured = lowered(App::Slack, 8, &|limits| limits.set(&aws::LAMBDA_CONCURRENCY, Bound::AtOnce(2)));
    assert_met(&measured, &aws::LAMBDA_CONCURRENCY);
    assert!(measured.outcome.seen.contains_key("event refused with 500"), "{measured:?}");
}

#[test]
fn an_entry_whose_secret_could_not_be_read_is_delivered_later() {
    let measured = lowered(App::Feeds, 12, &|limits| limits.set(&aws::SSM_PARAMETERS, rate(1.0)));
    assert_met(&measured, &aws::SSM_PARAMETERS);
}

#[test]
fn a_transfer_that_was_throttled_is_made_once_under_its_key() {
    let measured = lowered(App::Tokens, 8, &|limits| limits.set(&aws::DYNAMODB_TABLE_WRITES, rate(60.0)));
    assert_met(&measured, &aws::DYNAMODB_TABLE_WRITES);
}

#[test]
fn machines_that_meet_at_one_record_upload_each_line_once() {
    let measured = lowered(App::Sessync, 8, &|limits| limits.set(&aws::DYNAMODB_PARTITION_WRITES, rate(4.0)));
    assert_met(&measured, &aws::DYNAMODB_PARTITION_WRITES);
}

#[test]
fn a_message_that_was_throttled_is_in_the_stream_once() {
    let measured = lowered(App::Mesh, 8, &|limits| limits.set(&aws::DYNAMODB_PARTITION_WRITES, rate(30.0)));
    assert_met(&measured, &aws::DYNAMODB_PARTITION_WRITES);
}

#[test]
fn an_alarm_rings_when_clients_of_the_mesh_are_refused_for_long() {
    let lower = |limits: &Limits| limits.set(&aws::DYNAMODB_PARTITION_WRITES, rate(30.0));
    // The alarm wants two periods of five minutes.
    let held = measure(App::Mesh, &Plan { load: 8, waves: &[0, 6], seed: 1 }, &lower).expect("a run");
    assert_met(&held, &aws::DYNAMODB_PARTITION_WRITES);
    assert!(held.alarms.contains_key("mesh-unavailable"), "{held:?}");
    let calm = measure(App::Mesh, &Plan { load: 1, waves: ONE_WAVE, seed: 1 }, &|_| {}).expect("a run");
    assert_eq!(calm.alarms, BTreeMap::new(), "nothing was refused");
}

#[test]
fn a_short_outage_of_the_store_rings_although_the_run_ends_soon() {
    let outage = candidates::ALL.iter().find(|candidate| candidate.name == "outage-of-the-store").expect("a candidate");
    let ran = outage.run(1).expect("a run");
    assert!(ran.is_exact() && ran.outcome.wanted > 0, "{ran:?}");
    assert!(ran.alarms.contains_key("slack-fallback-active"), "{ran:?}");
    assert!(ran.cold_starts >= 64, "32 instances of each function: {ran:?}");
}

#[test]
fn the_load_doubles_until_a_limit_is_met_and_the_seed_decides_the_rest() {
    let lower = |limits: &Limits| limits.set_for(&aws::HTTP_API_ROUTE, slack::ROUTE, rate(3.0));
    let found = |seed| search(App::Slack, 1, seed, &lower, &mut ()).expect("a limit");
    let first = found(3);
    assert_met(&first, &aws::HTTP_API_ROUTE);
    assert_eq!(first.load, 4, "one and two per second pass");
    let again = found(3);
    assert_eq!((again.outcome, again.alarms), (first.outcome, first.alarms));
}

#[test]
fn transfers_to_one_account_meet_each_other_and_are_all_made() {
    let hot = candidates::ALL.iter().find(|candidate| candidate.name == "hot-recipient").expect("a candidate");
    let ran = hot.run(1).expect("a run");
    assert!(ran.is_exact() && ran.outcome.wanted > 0, "{ran:?}");
    let conflicts = ran.refusals.iter().find(|one| one.limit.name == aws::DYNAMODB_TRANSACTION_CONFLICT.name);
    assert!(conflicts.is_some(), "nobody met anybody: {ran:?}");
}

#[test]
fn the_route_takes_all_that_slack_sends_in_an_hour_at_up_to_1024_per_second_and_half_of_it_would_not_be_enough() {
    for load in [128, 256, 512, 1_024] {
        let whole = candidates::hour_of_slack(load, 1.0, 1).expect("a run");
        assert!(whole.is_exact() && whole.outcome.wanted == 300, "{load} per second: {whole:?}");
    }
    let fastest = candidates::hour_of_slack(1_024, 1.0, 1).expect("a run");
    assert_met(&fastest, &aws::HTTP_API_ROUTE);
    let half = candidates::hour_of_slack(1_024, 0.5, 1).expect("a run");
    assert!(half.outcome.lost > 0, "Slack gave nothing up: {half:?}");
    assert_eq!(half.outcome.seen["event given up by Slack"], half.outcome.lost, "nothing else is lost");
}

#[test]
fn the_routes_have_the_limits_of_prod() {
    let text = include_str!("../../../infra/environments.ts");
    let prod = text.split("  prod: {").nth(1).expect("the environment prod");
    for (name, rate, burst) in scale::world::ROUTES_OF_PROD {
        let line = format!("{name}: {{ requestsPerSecond: {rate}, burst: {burst} }}");
        assert!(prod.contains(&line), "infra/environments.ts has no `{line}` in prod");
    }
}
