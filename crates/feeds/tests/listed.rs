//! A feed of the list from its document to every destination: nothing is lost, and nothing is doubled where the destination can be asked.

use std::{sync::Mutex, time::Duration};

use crate::support::*;
use feeds::{delivery::letters, entry::Source, reading, table::Doubt, trouble::Trouble};
use serde_json::json;
use testkit::interrupt;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

fn text(n: usize) -> String {
    format!("masutaka pushed {n} https://github.com/masutaka/repo/compare/{n}")
}

fn deliveries(world: &World, n: usize) -> serde_json::Value {
    world.items()[&format!("blog/{}", id(n))]["deliveries"]["M"].clone()
}

#[tokio::test]
async fn an_entry_goes_to_every_destination_once_and_the_webhook_gets_all_of_it() {
    let world = World::new(Source::Listed).await;
    let tagged = atom(&[1]).replace(
        "</entry>",
        r#"<category term="rust"/><link rel="enclosure" href="https://x.example/1.mp3"/></entry>"#,
    );
    world.show(tagged);
    let report = world.run().await.unwrap();
    assert_eq!((report.new, report.settled, report.owed), (1, 1, 0));
    for _ in 0..2 {
        world.advance(A_WHILE);
        world.run().await.unwrap();
    }
    assert_eq!((world.posts(), world.messages(), world.hooked()), (vec![text(1)], vec![text(1)], vec![text(1)]));
    assert_eq!(world.pushes(), [text(1)]);
    let destinations = world.destinations.lock().unwrap();
    let (key, body) = &destinations.hooks[0];
    assert_eq!((destinations.hooks.len(), key.len()), (1, 32));
    assert_eq!(
        body,
        &json!({
            "feed": "blog", "id": id(1), "title": "masutaka pushed 1", "link": "https://github.com/masutaka/repo/compare/1",
            "author": "masutaka", "content": "", "categories": ["rust"], "enclosure": "https://x.example/1.mp3",
            "published": "2025-01-01T00:01:00Z", "text": text(1),
        })
    );
}

#[tokio::test]
async fn slack_shows_a_feeds_markup_as_text_and_a_webhook_gets_it_as_it_is() {
    let world = World { listed: vec!["slack", "webhook"], ..World::new(Source::Listed).await };
    let hostile = "<!channel> <@U0000001> <!subteam^S1> <https://evil.example|Sign in> & more";
    let escaped = hostile.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    world.show(atom(&[1]).replace("masutaka pushed 1", &format!("<![CDATA[{escaped}]]>")));
    world.run().await.unwrap();
    let link = "https://github.com/masutaka/repo/compare/1";
    assert_eq!(world.messages(), [format!("{escaped} {link}")]);
    assert_eq!(world.hooked(), [format!("{hostile} {link}")]);
}

#[tokio::test]
async fn two_feeds_of_one_table_with_the_same_ids_never_touch_each_other() {
    let blog = World { listed: vec!["mastodon"], ..World::new(Source::Listed).await };
    let news = World { entry: json!({"name": "news", "text": "[N] {title}"}), ..blog.clone() };
    blog.show(atom(&[2, 1]));
    blog.run().await.unwrap();
    assert_eq!(news.run().await.unwrap().new, 2, "what the other feed has is not known here");
    let expected: Vec<String> =
        [text(1), text(2), "[N] masutaka pushed 1".into(), "[N] masutaka pushed 2".into()].into();
    assert_once(blog.posts(), expected);
    assert!(blog.items().contains_key("blog/#feed") && blog.items().contains_key("news/#feed"));
    blog.mastodon_fails(|| Fault::Refuse(503));
    blog.show(atom(&[3, 2, 1]));
    assert_eq!((blog.run().await.unwrap().owed, news.run().await.unwrap().owed), (1, 1), "each has its own");
    let names = blog.table().feeds().await.unwrap();
    assert_eq!(names.iter().map(feeds::list::FeedName::as_str).collect::<Vec<_>>(), ["blog", "news"]);
}

#[tokio::test]
async fn a_run_that_dies_at_any_call_delivers_to_every_destination_that_can_be_asked_exactly_once() {
    // One destination at a time: each has its own way to be sure. The process comes back within the hour and after it.
    for (destination, pause) in [("mastodon", A_WHILE), ("slack", A_WHILE), ("webhook", A_WHILE), ("pushover", A_WHILE)]
    {
        let report = interrupt::at_every_call(
            async |outside| {
                let world = World { listed: vec![destination], ..World::within(Source::Listed, outside).await };
                world.show(atom(&[1]));
                world.run().await.unwrap();
                world.show(atom(&[2, 1]));
                world
            },
            async |world: &World| until_settled(world).await,
            async |world: &World| world.advance(pause),
            async |world: &World| {
                let expected = [1, 2].map(text);
                match destination {
                    "mastodon" => assert_once(world.posts(), expected),
                    "slack" => assert_once(world.messages(), expected),
                    // The receiver remembers the key, which is the same for every attempt.
                    "webhook" => assert_once(world.hooked(), expected),
                    // It cannot be asked: the push that was under way may be repeated, and none is lost.
                    _ => {
                        assert!(expected.iter().all(|text| world.pushes().contains(text)), "{:?}", world.pushes());
                        assert!(world.pushes().len() <= 3, "{:?}", world.pushes());
                    }
                }
            },
        )
        .await;
        assert!(report.stops > 10, "{destination}: {report:?}");
    }
}

#[tokio::test]
async fn with_destinations_that_fail_and_lose_answers_nothing_is_lost_and_slack_gets_each_entry_once() {
    for seed in 0..2_u64 {
        let world = World { parallel: 2, ..World::new(Source::Listed).await };
        let dice = |seed: u64| {
            let random = Mutex::new(fastrand::Rng::with_seed(seed));
            move || match random.lock().unwrap().f64() {
                roll if roll < 0.2 => Fault::Refuse(503),
                roll if roll < 0.4 => Fault::LoseAnswer,
                roll if roll < 0.45 => Fault::Refuse(429),
                _ => Fault::None,
            }
        };
        world.mastodon_fails(dice(seed));
        world.slack_fails(dice(seed + 100));
        world.webhook_fails(dice(seed + 200));
        for shown in 1..=6_usize {
            world.show(atom(&(shown.saturating_sub(3).max(1)..=shown).rev().collect::<Vec<_>>()));
            world.run().await.unwrap();
            world.advance(if shown % 3 == 0 { 120 * MINUTE } else { A_WHILE });
        }
        for _ in 0..40 {
            if world.run().await.unwrap().owed == 0 {
                break;
            }
            world.advance(A_WHILE);
        }
        for got in [world.posts(), world.messages(), world.hooked()] {
            let mut got = got;
            got.sort();
            assert_eq!(got, (1..=6).map(text).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

#[tokio::test]
async fn after_a_restore_slack_is_asked_and_what_a_webhook_may_have_is_a_dead_letter() {
    let world = World { listed: vec!["slack", "webhook"], ..World::new(Source::Listed).await };
    world.show(atom(&[1]));
    world.run().await.unwrap();
    let before = ichido::Clock::now(&world.clock);
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    world.advance(MINUTE);
    // The table lost what it knew of the second entry.
    let lost: Vec<String> = world.items().into_keys().filter(|key| key.contains("PushEvent/2")).collect();
    assert!(lost.len() >= 3, "{lost:?}");
    for key in lost {
        let delete = world.db.client().delete_item().table_name(world.table_name());
        delete.key("entry_id", aws_sdk_dynamodb::types::AttributeValue::S(key)).send().await.unwrap();
    }
    let now = ichido::Clock::now(&world.clock);
    assert!(world.table().doubt(Doubt { since: before, until: now }).await.unwrap());
    world.run().await.unwrap();
    assert_once(world.messages(), [1, 2].map(text));
    assert_eq!(world.destinations.lock().unwrap().hooks.len(), 2);
    let dead = letters::list(&world.table()).await.unwrap();
    assert_eq!((dead.len(), dead[0].destination.as_str()), (1, "webhook"));
    assert!(dead[0].reason.contains("the table was restored"), "{}", dead[0].reason);
    letters::resend(&world.table(), &dead[0].entry_id, now).await.unwrap();
    world.run().await.unwrap();
    assert_eq!(world.destinations.lock().unwrap().hooks.len(), 3, "a person decided to send it again");
}

#[tokio::test]
async fn a_refused_token_and_a_missing_one_are_told_and_the_entry_stays_owed() {
    let world = World { listed: vec!["slack", "webhook"], ..World::new(Source::Listed).await };
    world.slack_fails(|| Fault::Refuse(401));
    world.webhook_fails(|| Fault::Refuse(403));
    world.show(atom(&[1]));
    assert_eq!(world.run().await.unwrap().owed, 1);
    assert!(deliveries(&world, 1)["webhook"]["M"]["reason"]["S"].as_str().unwrap().contains("check the destination"));
    assert_eq!(deliveries(&world, 1)["slack"]["M"]["state"]["S"], "owed");
    let notifier = feeds::delivery::notify::Notifier { slack: None, ..world.notifier() };
    let notifier = std::sync::Arc::new(InProcess { notifier, clock: world.clock.clone() });
    world.webhook_fails(|| Fault::None);
    let deadline = ichido::Clock::now(&world.clock) + Duration::from_secs(120);
    assert_eq!(world.subscriber_with(notifier).run(deadline).await.unwrap().owed, 1);
    let reason = deliveries(&world, 1)["slack"]["M"]["reason"]["S"].clone();
    assert!(reason.as_str().unwrap().contains("the notifier has no token for it"), "{reason}");
    // The destination is taken from the feed's entry.
    let without = World { listed: vec!["webhook"], ..world.clone() };
    assert_eq!(without.run().await.unwrap().owed, 0);
    assert_eq!(deliveries(&world, 1)["slack"]["M"]["state"]["S"], "ignored");
}

#[tokio::test]
async fn a_webhook_that_answers_409_or_422_is_tried_again_or_given_up() {
    let world = World { listed: vec!["webhook"], ..World::new(Source::Listed).await };
    world.webhook_fails(|| Fault::Refuse(409));
    world.show(atom(&[1]));
    assert_eq!(world.run().await.unwrap().owed, 1);
    world.webhook_fails(|| Fault::Refuse(422));
    for _ in 0..5 {
        world.advance(A_WHILE);
        world.run().await.unwrap();
    }
    let dead = letters::list(&world.table()).await.unwrap();
    assert!(dead[0].reason.contains("refused 5 times: status 422"), "{}", dead[0].reason);
}

#[tokio::test]
async fn filters_of_the_entry_choose_what_is_posted() {
    let filter = json!({"filter": {"only_title": "pushed [12]$", "ignore_link": "/2$"}});
    let world = World { listed: vec!["mastodon"], entry: filter, ..World::new(Source::Listed).await };
    world.show(atom(&[3, 2, 1]));
    assert_eq!(world.run().await.unwrap().ignored, 2);
    assert_eq!(world.posts(), [text(1)]);
}

#[tokio::test]
async fn a_feed_that_is_gone_is_not_asked_again_and_told_in_every_run_until_its_address_changes() {
    let world = World { listed: vec!["mastodon"], ..World::new(Source::Listed).await };
    // Also if it was never read before.
    for first in [true, false] {
        world.mastodon_fails(|| Fault::Refuse(503));
        if !first {
            let again = World { entry: json!({"name": "again"}), ..world.clone() };
            again.show(atom(&[1]));
            assert_eq!(again.run().await.unwrap().owed, 1);
        }
        let world = if first { world.clone() } else { World { entry: json!({"name": "again"}), ..world.clone() } };
        world.show_with(FeedAnswer { status: 410, headers: vec![], body: vec![] });
        for _ in 0..3 {
            let error = world.run().await.unwrap_err();
            assert_eq!(error.kind(), "Gone", "{error}");
            world.advance(A_WHILE);
        }
        let asked = world.asked.lock().unwrap().len();
        world.mastodon_fails(|| Fault::None);
        assert!(matches!(world.run().await, Err(reading::Error::Gone { .. })));
        assert_eq!(world.asked.lock().unwrap().len(), asked, "it is left alone");
        assert_eq!(world.posts().len(), usize::from(!first), "what is owed is delivered all the same");
        world.show(atom(&[2, 1]));
        let moved = World {
            entry: json!({"name": world.feed_of_list().name, "url": format!("{}#back", world.feed_url())}),
            ..world.clone()
        };
        assert!(moved.run().await.is_ok());
        world.destinations.lock().unwrap().posts.clear();
    }
}

#[tokio::test]
async fn a_feed_that_asks_to_be_left_alone_before_its_first_read_is() {
    let world = World { listed: vec!["mastodon"], ..World::new(Source::Listed).await };
    world.show_with(FeedAnswer { status: 429, headers: vec![("retry-after".into(), "1800".into())], body: vec![] });
    world.run().await.unwrap_err();
    world.show(atom(&[1]));
    world.advance(A_WHILE);
    assert_eq!(world.run().await.unwrap().result, "not due");
    world.advance(30 * MINUTE);
    assert_eq!(world.run().await.unwrap().new, 1);
    assert_eq!(world.posts(), [text(1)], "it was the first read all the same");
}

#[tokio::test]
async fn a_feed_that_redirects_for_ever_is_read_and_told_for_four_periods() {
    let world = World { listed: vec!["mastodon"], ..World::new(Source::Listed).await };
    world.show(atom(&[1]));
    world.run().await.unwrap();
    let to = format!("{}&moved=1", world.feed_url());
    *world.moved_to.lock().unwrap() = Some((301, to));
    world.show(atom(&[2, 1]));
    for minutes in [0, 5, 10, 15] {
        assert_eq!(world.run().await.unwrap().troubles, [Trouble::Moved { minutes }]);
        world.advance(5 * MINUTE);
    }
    assert_eq!(world.run().await.unwrap().troubles, [], "after that it is only in the log");
    assert_once(world.posts(), [1, 2].map(text));
    let to = format!("{}&moved=2", world.feed_url());
    *world.moved_to.lock().unwrap() = Some((302, to));
    assert_eq!(world.run().await.unwrap().troubles, [], "a temporary redirect is no news");
    world.advance(DAY);
}
