//! What a person has to look at although runs do their work, and what the state of a feed weighs (infra/cost/usage.json counts on it).

use std::{sync::Arc, time::Duration};

use crate::support::*;
use feeds::{
    delivery::{
        letters,
        message::{Request, Response},
        notify::Notifier,
        owed::GiveUp,
    },
    entry::Source,
    outside::invoke::{self, Invoke},
    reading::first_run::FirstRun,
    table::Delivery,
    trouble::Trouble,
};
use function::BoxFuture;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn a_dead_letter_is_told_by_every_run_until_somebody_acts() {
    let give_up = GiveUp { refusals: 1, ..GiveUp::default() };
    let world = World { give_up, ..World::new(Source::Github).await };
    world.mastodon_fails(|| Fault::Refuse(422));
    world.show(atom(&[1]));
    for run in 0..3 {
        let report = world.run().await.unwrap();
        assert_eq!((report.dead, report.troubles), (usize::from(run == 0), vec![Trouble::DeadLetters]), "run {run}");
        world.advance(5 * MINUTE);
    }
    let dead = letters::list(&world.table()).await.unwrap();
    letters::drop(&world.table(), &dead[0].entry_id, ichido::Clock::now(&world.clock)).await.unwrap();
    assert_eq!(world.run().await.unwrap().troubles, []);
}

#[tokio::test]
async fn a_dead_letter_is_told_also_while_the_feed_is_not_due() {
    let give_up = GiveUp { refusals: 1, ..GiveUp::default() };
    let world = World { give_up, ..World::new(Source::Github).await };
    world.mastodon_fails(|| Fault::Refuse(422));
    let headers = vec![("cache-control".to_owned(), "max-age=3600".to_owned())];
    world.show_with(FeedAnswer { headers, ..FeedAnswer::ok(atom(&[1])) });
    world.run().await.unwrap();
    world.advance(5 * MINUTE);
    let report = world.run().await.unwrap();
    assert_eq!((report.result, report.troubles), ("not due", vec![Trouble::DeadLetters]));
}

#[tokio::test]
async fn a_delivery_that_is_owed_for_more_than_an_hour_is_told_until_it_is_made() {
    let world = World::new(Source::Github).await;
    world.mastodon_fails(|| Fault::Refuse(503));
    world.show(atom(&[1]));
    assert_eq!(world.run().await.unwrap().troubles, []);
    world.advance(61 * MINUTE);
    assert_eq!(world.run().await.unwrap().troubles, [Trouble::Overdue { minutes: 61 }]);
    world.mastodon_fails(|| Fault::None);
    assert_eq!(world.run().await.unwrap().troubles, []);
    assert_eq!(world.posts().len(), 1);
}

#[tokio::test]
async fn a_gap_is_told_for_four_periods_and_repeats_nothing() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1, 2]));
    world.run().await.unwrap();
    world.show(atom(&[8, 9]));
    for minutes in [0, 5, 10, 15] {
        assert_eq!(world.run().await.unwrap().troubles, [Trouble::Gap { minutes }]);
        world.advance(5 * MINUTE);
    }
    assert_eq!(world.run().await.unwrap().troubles, []);
    assert_eq!(world.posts().len(), 4, "each entry once");
}

/// The document up to the middle of the entry with this number.
fn cut_in(entries: &[usize], n: usize) -> String {
    let whole = atom(entries);
    let at = whole.find(&id(n)).unwrap();
    whole[..at].to_owned()
}

#[tokio::test]
async fn a_first_document_that_is_cut_short_records_nothing_and_is_told() {
    let world = World { first_run: FirstRun::Mark, ..World::new(Source::Github).await };
    world.show(cut_in(&[3, 2, 1], 1));
    for _ in 0..3 {
        let error = world.run().await.unwrap_err();
        assert_eq!((error.kind(), world.items().contains_key(&id(3))), ("Unreadable", false), "{error}");
        world.advance(5 * MINUTE);
    }
    world.show(atom(&[3, 2, 1]));
    world.run().await.unwrap();
    world.show(atom(&[4, 3, 2, 1]));
    world.run().await.unwrap();
    assert_eq!(world.posts(), [post_of(4)], "the first document that is whole is the first that counts");
}

#[tokio::test]
async fn a_document_that_is_cut_short_is_told_until_it_is_whole_and_loses_nothing() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    world.run().await.unwrap();
    // An hour of freshness does not delay the look at the rest.
    let headers = vec![("cache-control".to_owned(), "max-age=3600".to_owned())];
    for shown in [cut_in(&[3, 2, 1], 2), atom(&[3, 2, 1]).replace(&id(2), "<!b ")] {
        world.show_with(FeedAnswer { headers: headers.clone(), ..FeedAnswer::ok(shown) });
        for _ in 0..2 {
            let report = world.run().await.unwrap();
            assert_eq!((report.result, report.gap, report.troubles), ("read", false, vec![Trouble::CutShort]));
            world.advance(5 * MINUTE);
        }
    }
    world.show(atom(&[3, 2, 1]));
    assert_eq!(world.run().await.unwrap().troubles, []);
    assert_once(world.posts(), [1, 2, 3].map(post_of));
}

#[tokio::test]
async fn a_feed_that_asks_to_be_left_alone_for_ever_is_told_after_an_hour() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    world.run().await.unwrap();
    let later = vec![("retry-after".to_owned(), "3600".to_owned())];
    world.show_with(FeedAnswer { status: 503, headers: later, ..FeedAnswer::ok("") });
    let mut kinds = Vec::new();
    for _ in 0..5 {
        kinds.push(match world.run().await {
            Ok(report) => report.troubles.first().map_or("well", |trouble| trouble.kind()),
            Err(error) => error.kind(),
        });
        world.advance(20 * MINUTE);
    }
    assert_eq!(kinds, ["Fetch", "well", "well", "Fetch", "Unread"], "the server is asked once per hour");
    world.show(atom(&[2, 1]));
    world.advance(60 * MINUTE);
    assert_eq!(world.run().await.unwrap().troubles, []);
    world.advance(5 * MINUTE);
    assert_eq!(world.run().await.unwrap().troubles, []);
    assert_once(world.posts(), [1, 2].map(post_of));
}

#[tokio::test]
async fn sending_a_dead_letter_again_leaves_what_was_only_rehearsed_alone() {
    let give_up = GiveUp { refusals: 1, ..GiveUp::default() };
    let world = World { give_up, ..World::new(Source::Github).await };
    world.mastodon_fails(|| Fault::Refuse(422));
    world.pushover_fails(|| Fault::Refuse(503));
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.advance(5 * MINUTE);
    World { shadow: true, ..world.clone() }.run().await.unwrap();
    let (table, now) = (world.table(), ichido::Clock::now(&world.clock));
    let dead = &letters::list(&table).await.unwrap()[0].entry_id.clone();
    let sent = letters::resend(&table, dead, now).await.unwrap();
    assert!(matches!(sent.deliveries["mastodon"], Delivery::Owed { .. }));
    assert!(matches!(sent.deliveries["pushover"], Delivery::Shadow { .. }));
}

#[tokio::test]
async fn a_refused_token_is_told_apart_from_a_destination_that_is_down() {
    let world = World::new(Source::Github).await;
    world.mastodon_fails(|| Fault::Refuse(401));
    world.show(atom(&[1]));
    let report = world.run().await.unwrap();
    assert_eq!((report.settled, report.owed), (0, 1));
    assert_eq!(world.pushes().len(), 1, "the other destination has it");
    let reason = world.items()[&id(1)]["deliveries"]["M"]["mastodon"]["M"]["reason"]["S"].clone();
    assert!(reason.as_str().unwrap().contains("check the destination's URL and token"), "{reason}");
    world.mastodon_fails(|| Fault::None);
    assert_eq!(world.run().await.unwrap().settled, 1);
    assert_eq!((world.posts().len(), world.pushes().len()), (1, 1));
}

/// A notifier that crashes before it answers.
struct DiesAtStart;

impl Invoke for DiesAtStart {
    fn invoke<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, Result<Response, invoke::Error>> {
        let died = invoke::Error::Function { kind: "Runtime.ExitError".into(), message: "exit status 1".into() };
        Box::pin(async move { Err(died) })
    }
}

#[tokio::test]
async fn an_entry_whose_notifier_never_answers_becomes_a_dead_letter_and_can_be_sent_again_to_all() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    let run = async || {
        let deadline = ichido::Clock::now(&world.clock) + Duration::from_secs(120);
        world.subscriber_with(Arc::new(DiesAtStart)).run(deadline).await.unwrap()
    };
    assert_eq!(run().await.owed, 1);
    let reason = world.items()[&id(1)]["deliveries"]["M"]["mastodon"]["M"]["reason"]["S"].clone();
    assert!(reason.as_str().unwrap().contains("exit status 1"), "it is told why: {reason}");
    world.advance(13 * DAY);
    assert_eq!(run().await.troubles, [Trouble::Overdue { minutes: 13 * 24 * 60 }]);
    world.advance(DAY);
    let report = run().await;
    assert_eq!((report.dead, report.owed, report.troubles), (1, 0, vec![Trouble::DeadLetters]));
    let dead = letters::list(&world.table()).await.unwrap();
    assert!(dead[0].reason.contains("given up after 14 days"), "{}", dead[0].reason);
    assert!(dead[0].reason.contains("exit status 1"), "{}", dead[0].reason);
    letters::resend(&world.table(), &dead[0].entry_id, ichido::Clock::now(&world.clock)).await.unwrap();
    assert_eq!(world.run().await.unwrap().settled, 1);
    assert_eq!((world.posts(), world.pushes()), (vec![post_of(1)], vec![push_of(1)]));
}

#[tokio::test]
async fn what_is_owed_to_a_destination_that_is_gone_is_not_owed_for_ever() {
    let world = World::new(Source::Github).await;
    world.pushover_fails(|| Fault::Refuse(503));
    world.show(atom(&[1]));
    assert_eq!(world.run().await.unwrap().owed, 1);
    // The token of Pushover was removed from the configuration.
    let notifier = Notifier { pushover: None, ..world.notifier() };
    let notifier = Arc::new(InProcess { notifier, clock: world.clock.clone() });
    let deadline = ichido::Clock::now(&world.clock) + Duration::from_secs(120);
    let report = world.subscriber_with(notifier).run(deadline).await.unwrap();
    assert_eq!((report.settled, report.owed), (1, 0));
    assert_eq!(world.items()[&id(1)]["deliveries"]["M"]["pushover"]["M"]["state"]["S"], "ignored");
    assert_eq!(world.state_of(&id(1)), "delivered");
}

#[tokio::test]
async fn an_id_of_many_signs_that_keys_escape_is_delivered_like_any_other() {
    let world = World::new(Source::Github).await;
    let odd = "#%".repeat(250);
    world.show(atom(&[1]).replace(&id(1), &odd));
    assert_eq!(world.run().await.unwrap().settled, 1);
    assert_eq!(world.run().await.unwrap().owed, 0);
    assert_eq!((world.posts().len(), world.pushes().len()), (1, 1));
}

/// The size of a value as DynamoDB counts it, roughly: names and texts by their bytes, a number as its digits.
fn size(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Object(members) => members
            .iter()
            .map(|(name, value)| match (name.as_str(), value.as_str()) {
                ("S" | "N", Some(text)) => text.len(),
                ("B", Some(text)) => text.len() * 3 / 4,
                (name, _) => name.len() + size(value) + 1,
            })
            .sum(),
        serde_json::Value::Array(values) => values.iter().map(size).sum(),
        _ => 1,
    }
}

/// What `infra/cost/usage.json` says about a feed's table follows from these numbers.
#[tokio::test]
async fn the_state_of_a_feed_is_kilobytes_per_entry() {
    for (source, document) in [
        (Source::Github, &include_bytes!("fixtures/github.atom")[..]),
        (Source::Hatebu, &include_bytes!("fixtures/hatebu.rdf")[..]),
    ] {
        let world = World::new(source).await;
        world.show(document);
        let entries = world.run().await.unwrap().entries;
        let items = world.items();
        let (feed, rest): (Vec<_>, Vec<_>) = items.iter().partition(|(id, _)| id.starts_with("#feed"));
        let total: usize = rest.iter().map(|(_, item)| size(item)).sum();
        let feed: usize = feed.iter().map(|(_, item)| size(item)).sum();
        assert!(total / entries < 5_000, "{source:?}: {total} bytes for {entries} entries");
        assert!(feed < 16_000, "{source:?}: {feed} bytes for the feed itself");
    }
}
