//! A feed from its document to its destinations, through the real clients and the embedded table.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::*;
use feeds::{
    delivery::{
        letters,
        message::{Request, Response},
        owed::GiveUp,
        shadow, text,
    },
    entry::{EntryId, Source},
    outside::{
        invoke::{self, Invoke},
        pushover::WhenUnsure,
    },
    reading::first_run::FirstRun,
    table::EntryState,
};
use function::BoxFuture;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn new_entries_are_posted_once_each_oldest_first() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[3, 2, 1]));
    let report = world.run().await.unwrap();
    assert_eq!((report.new, report.settled, report.owed), (3, 3, 0));
    assert_eq!(world.posts(), [post_of(1), post_of(2), post_of(3)]);
    assert_eq!(world.pushes(), [push_of(1), push_of(2), push_of(3)]);
    for _ in 0..3 {
        world.advance(5 * MINUTE);
        world.run().await.unwrap();
    }
    world.show(atom(&[4, 3, 2]));
    world.run().await.unwrap();
    assert_eq!(world.posts(), [post_of(1), post_of(2), post_of(3), post_of(4)]);
    assert_eq!(world.pushes().len(), 4);
}

#[tokio::test]
async fn the_first_run_floods_no_one_unless_told_to() {
    for (first_run, posted) in
        [(FirstRun::Mark, vec![]), (FirstRun::Last(2), vec![2, 3]), (FirstRun::All, vec![1, 2, 3])]
    {
        let world = World { first_run, ..World::new(Source::Github).await };
        world.show(atom(&[3, 2, 1]));
        world.run().await.unwrap();
        world.run().await.unwrap();
        assert_eq!(world.posts(), posted.iter().map(|n| post_of(*n)).collect::<Vec<_>>(), "{first_run:?}");
        world.show(atom(&[4, 3, 2, 1]));
        world.run().await.unwrap();
        assert_eq!(world.posts().last(), Some(&post_of(4)), "{first_run:?}");
        assert_eq!(world.posts().len(), posted.len() + 1, "{first_run:?}");
    }
}

#[tokio::test]
async fn an_unchanged_feed_costs_two_calls_to_the_store_at_most() {
    let world = World::new(Source::Github).await;
    // The server recognises its validators.
    let tagged =
        FeedAnswer { headers: vec![("etag".into(), "W/\"opaque, as it is\"".into())], ..FeedAnswer::ok(atom(&[2, 1])) };
    world.show_with(tagged);
    world.run().await.unwrap();
    world.db.reset_calls();
    let report = world.run().await.unwrap();
    assert_eq!(report.result, "unchanged");
    assert!(world.db.calls().total() <= 2, "{:?}", world.db.calls());
    let asked = world.asked.lock().unwrap().last().unwrap().clone();
    assert_eq!(asked["if-none-match"], "W/\"opaque, as it is\"");
    assert!(asked["user-agent"].to_str().unwrap().contains("ichido"));
    // The server knows no validators, and the content is the same.
    world.show(atom(&[2, 1]).replace("2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"));
    world.db.reset_calls();
    let report = world.run().await.unwrap();
    assert_eq!(report.result, "unchanged");
    assert!(world.db.calls().total() <= 2, "{:?}", world.db.calls());
    assert_eq!(world.posts().len(), 2);
}

#[tokio::test]
async fn what_is_owed_is_delivered_after_the_entry_has_left_the_feed_and_when_the_feed_cannot_be_read() {
    let world = World::new(Source::Github).await;
    world.mastodon_fails(|| Fault::Refuse(503));
    world.show(atom(&[2, 1]));
    let report = world.run().await.unwrap();
    assert_eq!((report.settled, report.owed), (0, 2));
    assert_eq!(world.pushes().len(), 2, "a failing destination does not block the other");
    world.show(atom(&[9, 8]));
    world.run().await.unwrap();
    world.mastodon_fails(|| Fault::None);
    world.show_with(FeedAnswer { status: 403, headers: vec![], body: vec![] });
    world.advance(MINUTE);
    world.run().await.unwrap_err();
    assert_once(world.posts(), [1, 2, 8, 9].map(post_of));
    assert_once(world.pushes(), [1, 2, 8, 9].map(push_of));
}

#[tokio::test]
async fn what_is_owed_is_delivered_although_the_feed_is_unchanged() {
    let world = World::new(Source::Github).await;
    world.mastodon_fails(|| Fault::Refuse(500));
    world.show_with(FeedAnswer { headers: vec![("etag".into(), "\"1\"".into())], ..FeedAnswer::ok(atom(&[1])) });
    world.run().await.unwrap();
    world.mastodon_fails(|| Fault::None);
    world.advance(5 * MINUTE);
    let report = world.run().await.unwrap();
    assert_eq!((report.result, report.settled), ("unchanged", 1));
    assert_eq!(world.posts(), [post_of(1)]);
}

#[tokio::test]
async fn an_answer_lost_within_the_hour_is_recognised_by_its_key_and_after_it_by_asking() {
    for (pause, searches) in [(5 * MINUTE, 0), (2 * HOUR, 1)] {
        let world = World::new(Source::Github).await;
        world.mastodon_fails(|| Fault::LoseAnswer);
        world.show(atom(&[1]));
        assert_eq!(world.run().await.unwrap().owed, 1);
        world.mastodon_fails(|| Fault::None);
        world.advance(pause);
        assert_eq!(world.run().await.unwrap().owed, 0);
        assert_eq!(world.posts(), [post_of(1)]);
        assert_eq!(world.destinations.lock().unwrap().searches, searches);
    }
}

#[tokio::test]
async fn a_doubt_outlives_a_definite_failure() {
    // The answer to the post is lost. Within the hour a second attempt is refused. After the hour Mastodon must still be searched.
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    world.mastodon_fails(|| Fault::LoseAnswer);
    world.run().await.unwrap();
    world.mastodon_fails(|| Fault::Refuse(429));
    world.advance(10 * MINUTE);
    world.run().await.unwrap();
    world.mastodon_fails(|| Fault::None);
    world.advance(2 * HOUR);
    assert_eq!(world.run().await.unwrap().owed, 0);
    assert_eq!(world.posts(), [post_of(1)]);
}

/// What Mastodon does with the calls of a run, one after another. Then it answers.
fn faults_in_turn(world: &World, faults: impl IntoIterator<Item = Fault>) {
    let faults = Mutex::new(faults.into_iter().collect::<Vec<_>>().into_iter());
    world.mastodon_fails(move || faults.lock().unwrap().next().unwrap_or(Fault::None));
}

fn searches(world: &World) -> usize {
    world.destinations.lock().unwrap().searches
}

#[tokio::test]
async fn after_an_outage_the_statuses_are_read_once_for_all_that_is_in_doubt() {
    let world = World::new(Source::Github).await;
    world.mastodon_fails(|| Fault::LoseAnswer);
    world.show(atom(&[1, 2, 3, 4, 5]));
    assert_eq!(world.run().await.unwrap().owed, 5);
    world.mastodon_fails(|| Fault::None);
    world.advance(2 * HOUR);
    assert_eq!(world.run().await.unwrap().owed, 0);
    assert_once(world.posts(), (1..=5).map(post_of));
    assert_eq!(searches(&world), 1);
}

/// Two entries are in doubt for two hours, and were not posted. An instance reads the statuses and posts the first one. Ten minutes later,
/// another instance posts the second one, and does not hear of it. Returns the first instance.
async fn an_instance_whose_list_lacks_what_was_posted_since(
    world: &mut World,
) -> feeds::function::subscriber::Subscriber {
    world.parallel = 1;
    world.mastodon_fails(|| Fault::Refuse(503));
    world.show(atom(&[1, 2]));
    world.run().await.unwrap();
    world.advance(2 * HOUR);
    let instance = world.subscriber();
    faults_in_turn(world, [Fault::None, Fault::None, Fault::Refuse(503)]);
    let run = instance.run(ichido::Clock::now(&world.clock) + 2 * MINUTE).await.unwrap();
    assert_eq!((run.owed, world.posts()), (1, vec![post_of(1)]));
    world.advance(10 * MINUTE);
    world.mastodon_fails(|| Fault::LoseAnswer);
    assert_eq!(world.run().await.unwrap().owed, 1);
    assert_eq!((world.posts(), searches(world)), (vec![post_of(1), post_of(2)], 3));
    world.advance(10 * MINUTE);
    instance
}

#[tokio::test]
async fn what_was_posted_after_the_statuses_were_read_is_recognised_by_its_key() {
    let mut world = World::new(Source::Github).await;
    let instance = an_instance_whose_list_lacks_what_was_posted_since(&mut world).await;
    world.mastodon_fails(|| Fault::None);
    let run = instance.run(ichido::Clock::now(&world.clock) + 2 * MINUTE).await.unwrap();
    assert_eq!((run.owed, searches(&world)), (0, 3), "the list is not read again");
    assert_eq!(world.posts(), [post_of(1), post_of(2)]);
}

#[tokio::test]
async fn a_doubt_outlives_a_refusal_after_a_search_in_an_older_list() {
    let mut world = World::new(Source::Github).await;
    let instance = an_instance_whose_list_lacks_what_was_posted_since(&mut world).await;
    world.mastodon_fails(|| Fault::Refuse(429));
    let run = instance.run(ichido::Clock::now(&world.clock) + 2 * MINUTE).await.unwrap();
    assert_eq!(run.owed, 1);
    // Now Mastodon has forgotten the key.
    world.mastodon_fails(|| Fault::None);
    world.advance(2 * HOUR);
    assert_eq!(world.run().await.unwrap().owed, 0);
    assert_eq!(world.posts(), [post_of(1), post_of(2)]);
}

#[tokio::test]
async fn a_list_of_statuses_is_read_again_after_forty_minutes() {
    let mut world = World::new(Source::Github).await;
    let instance = an_instance_whose_list_lacks_what_was_posted_since(&mut world).await;
    world.mastodon_fails(|| Fault::None);
    world.advance(HOUR);
    let run = instance.run(ichido::Clock::now(&world.clock) + 2 * MINUTE).await.unwrap();
    assert_eq!((run.owed, searches(&world)), (0, 4));
    assert_eq!(world.posts(), [post_of(1), post_of(2)]);
}

#[tokio::test]
async fn an_unanswered_push_is_repeated_or_given_up_as_configured() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    world.pushover_fails(|| Fault::LoseAnswer);
    world.run().await.unwrap();
    world.pushover_fails(|| Fault::None);
    world.run().await.unwrap();
    assert_eq!(world.pushes(), [push_of(1), push_of(1)]);

    let world = World { when_unsure: WhenUnsure::Never, ..World::new(Source::Github).await };
    world.show(atom(&[1]));
    world.pushover_fails(|| Fault::LoseAnswer);
    world.run().await.unwrap();
    world.pushover_fails(|| Fault::None);
    world.run().await.unwrap();
    world.run().await.unwrap();
    assert_eq!(world.pushes(), [push_of(1)]);
    assert_eq!(world.posts(), [post_of(1)]);
    let dead = letters::list(&world.table()).await.unwrap();
    assert_eq!((dead.len(), dead[0].destination.as_str()), (1, "pushover"));
    assert!(dead[0].reason.contains("may have been made"), "{}", dead[0].reason);
}

#[tokio::test]
async fn what_is_refused_for_good_becomes_a_dead_letter_the_rest_goes_out_and_it_can_be_sent_again() {
    let world = World { give_up: GiveUp { refusals: 3, ..GiveUp::default() }, ..World::new(Source::Github).await };
    let refused = Arc::new(AtomicUsize::new(0));
    // The first entry is refused as long as it is the only one that is tried.
    world.show(atom(&[1]));
    let counter = refused.clone();
    world.mastodon_fails(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        Fault::Refuse(422)
    });
    for run in 1..=3 {
        let report = world.run().await.unwrap();
        assert_eq!(report.dead, usize::from(run == 3), "run {run}");
        world.advance(5 * MINUTE);
    }
    world.mastodon_fails(|| Fault::None);
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    assert_eq!(refused.load(Ordering::Relaxed), 3, "a dead letter is not tried again by itself");
    assert_eq!(world.posts(), [post_of(2)]);
    assert_once(world.pushes(), [1, 2].map(push_of));

    let dead = letters::list(&world.table()).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].entry_id.as_str(), dead[0].destination.as_str()), (id(1).as_str(), "mastodon"));
    assert!(dead[0].reason.contains("422"), "{}", dead[0].reason);

    letters::resend(&world.table(), &dead[0].entry_id, ichido::Clock::now(&world.clock)).await.unwrap();
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 2].map(post_of));
    assert_once(world.pushes(), [1, 2].map(push_of));
    assert!(letters::list(&world.table()).await.unwrap().is_empty());
    let unknown = EntryId::from_table("nothing");
    assert!(letters::resend(&world.table(), &unknown, ichido::Clock::now(&world.clock)).await.is_err());
}

#[tokio::test]
async fn a_dropped_dead_letter_is_never_delivered_and_no_longer_listed() {
    let world = World { give_up: GiveUp { refusals: 3, ..GiveUp::default() }, ..World::new(Source::Github).await };
    world.show(atom(&[1]));
    world.mastodon_fails(|| Fault::Refuse(422));
    for _ in 0..3 {
        world.run().await.unwrap();
        world.advance(5 * MINUTE);
    }
    world.mastodon_fails(|| Fault::None);
    let now = || ichido::Clock::now(&world.clock);
    let marker = letters::drop(&world.table(), &EntryId::from_table(id(1)), now()).await.unwrap();
    assert_eq!(marker.state, EntryState::Delivered, "Pushover has it");
    assert!(letters::list(&world.table()).await.unwrap().is_empty());
    world.run().await.unwrap();
    assert!(world.posts().is_empty());
    let again = letters::drop(&world.table(), &EntryId::from_table(id(1)), now()).await;
    assert!(matches!(again, Err(letters::Error::Unknown(_))), "{again:?}");
}

#[tokio::test]
async fn a_dead_letter_that_was_posted_after_all_is_not_posted_again() {
    let world = World { give_up: GiveUp { owed_for: DAY, ..GiveUp::default() }, ..World::new(Source::Github).await };
    world.show(atom(&[1]));
    world.mastodon_fails(|| Fault::LoseAnswer);
    world.run().await.unwrap();
    world.mastodon_fails(|| Fault::Refuse(401));
    // The search fails as well, so the delivery stays owed until it is given up.
    world.advance(2 * DAY);
    assert_eq!(world.run().await.unwrap().dead, 1);
    world.mastodon_fails(|| Fault::None);
    for letter in letters::list(&world.table()).await.unwrap() {
        letters::resend(&world.table(), &letter.entry_id, ichido::Clock::now(&world.clock)).await.unwrap();
    }
    world.run().await.unwrap();
    assert_eq!(world.posts(), [post_of(1)]);
}

#[tokio::test]
async fn a_marker_outlives_a_quiet_feed_and_goes_thirty_days_after_its_entry() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    assert!(world.items()[&id(1)].get("ttl").is_none());
    // Nothing new for two months, while DynamoDB deletes what has expired.
    for _ in 0..60 {
        world.advance(DAY);
        world.db.sweep(ichido::Clock::now(&world.clock));
        world.run().await.unwrap();
    }
    assert_eq!(world.posts().len(), 2);
    world.show(atom(&[3, 2]));
    world.run().await.unwrap();
    let now = ichido::Clock::now(&world.clock).as_secs();
    let ttl: u64 = world.items()[&id(1)]["ttl"]["N"].as_str().unwrap().parse().unwrap();
    assert_eq!(ttl, now + 30 * 86_400);
    // It comes back before it has expired, and no longer expires.
    world.show(atom(&[3, 2, 1]));
    world.run().await.unwrap();
    assert!(world.items()[&id(1)].get("ttl").is_none());
    assert_eq!(world.posts().len(), 3);
}

#[tokio::test]
async fn an_entry_that_is_owed_never_expires_and_its_time_begins_when_it_is_delivered() {
    let world = World::new(Source::Github).await;
    world.mastodon_fails(|| Fault::Refuse(503));
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.show(atom(&[2]));
    world.run().await.unwrap();
    assert!(world.items()[&id(1)].get("ttl").is_none());
    world.advance(10 * DAY);
    world.mastodon_fails(|| Fault::None);
    world.run().await.unwrap();
    let now = ichido::Clock::now(&world.clock).as_secs();
    let ttl: u64 = world.items()[&id(1)]["ttl"]["N"].as_str().unwrap().parse().unwrap();
    assert_eq!(ttl, now + 30 * 86_400);
    assert_once(world.posts(), [1, 2].map(post_of));
}

#[tokio::test]
async fn the_same_thing_under_a_new_id_is_not_posted_again() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    world.show(atom(&[2, 1]).replace("tag:github.com,2008:", "tag:www.github.com,2009:"));
    let report = world.run().await.unwrap();
    assert_eq!((report.new, report.renamed, report.gap), (0, 2, false));
    assert_eq!(world.posts().len(), 2);
    assert_eq!(world.state_of("tag:www.github.com,2009:PushEvent/1"), "same");
}

#[tokio::test]
async fn a_gap_is_noticed_and_the_first_read_never_counts_as_one() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[2, 1]));
    assert!(!world.run().await.unwrap().gap);
    world.show(atom(&[3, 2]));
    assert!(!world.run().await.unwrap().gap);
    world.show(atom(&[9, 8]));
    assert!(world.run().await.unwrap().gap);
}

#[tokio::test]
async fn an_empty_or_unreadable_document_changes_nothing() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    for body in ["", "<html>Sign in</html>", &atom(&[])] {
        world.show(body);
        assert_eq!(world.run().await.unwrap_err().kind(), "Unreadable", "{body}");
    }
    world.show(atom(&[3, 2, 1]));
    assert_eq!(world.run().await.unwrap().new, 1);
    assert!(world.items().values().all(|item| item.get("left_at").is_none()));
}

#[tokio::test]
async fn a_document_that_breaks_off_loses_nothing() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[3, 2, 1]));
    world.run().await.unwrap();
    let whole = atom(&[4, 3, 2, 1]);
    let cut = whole.find("PushEvent/2").unwrap();
    world.show(&whole.as_bytes()[..cut]);
    assert_eq!(world.run().await.unwrap().new, 1);
    assert!(world.items()[&id(1)].get("left_at").is_none(), "what a broken document does not show has not left");
    world.show(whole);
    assert_eq!(world.run().await.unwrap().new, 0);
    assert_once(world.posts(), [1, 2, 3, 4].map(post_of));
}

#[tokio::test]
async fn filters_mark_what_they_ignore_and_choose_what_is_pushed() {
    let world = World { ignore_title: "pushed 2$", pushover_title: "pushed [13]$", ..World::new(Source::Github).await };
    world.show(atom(&[4, 3, 2, 1]));
    world.run().await.unwrap();
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 3, 4].map(post_of));
    assert_once(world.pushes(), [1, 3].map(push_of));
    assert_eq!(world.state_of(&id(2)), "ignored");
    assert_eq!(world.state_of(&id(4)), "delivered");
}

#[tokio::test]
async fn a_rehearsal_posts_nothing_and_is_compared_with_the_account() {
    let world = World { first_run: FirstRun::Mark, shadow: true, ..World::new(Source::Github).await };
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.show(atom(&[3, 2, 1]));
    world.run().await.unwrap();
    assert!(world.posts().is_empty() && world.pushes().is_empty());
    // Another program posted one of the two, and something else.
    let now = world.clock.now_ms();
    for (id, text) in [(1, post_of(2)), (2, "good morning".to_owned())] {
        world.destinations.lock().unwrap().posts.push(Post { id, text, visibility: "public".into(), at_ms: now });
    }
    let rehearsed = shadow::rehearsed(&world.table()).await.unwrap();
    let since = shadow::since(&rehearsed.0).unwrap();
    let statuses = world.notifier().statuses(since, ichido::Clock::now(&world.clock) + HOUR).await.unwrap();
    let comparison = shadow::compare(rehearsed, statuses);
    assert_eq!(comparison.both.len(), 1);
    assert_eq!(comparison.only_here[0].text, post_of(3));
    assert_eq!(comparison.only_there[0].text, "good morning");
    // Going live does not post what was rehearsed.
    let live = World { shadow: false, ..world.clone() };
    live.run().await.unwrap();
    assert_eq!(live.posts().len(), 2);
}

#[tokio::test]
async fn what_was_rehearsed_since_the_switch_is_posted_once_and_the_rest_never() {
    let world = World { first_run: FirstRun::Mark, shadow: true, ..World::new(Source::Github).await };
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    world.advance(HOUR);
    let switched = ichido::Clock::now(&world.clock);
    world.advance(MINUTE);
    world.show(atom(&[4, 3, 2, 1]));
    world.run().await.unwrap();
    // The other program posted one of the two in the same words before it stopped.
    let at_ms = world.clock.now_ms();
    let text = post_of(3);
    world.destinations.lock().unwrap().posts.push(Post { id: 1, text, visibility: "public".into(), at_ms });
    let live = World { shadow: false, ..world.clone() };
    let table = live.table();
    let rehearsed = letters::rehearsed(&table, switched).await.unwrap();
    assert_eq!(rehearsed.iter().map(|entry| entry.entry_id.to_string()).collect::<Vec<_>>(), [id(3), id(4)]);
    for entry in &rehearsed {
        let marker =
            letters::resend_rehearsed(&table, &entry.entry_id, ichido::Clock::now(&world.clock)).await.unwrap();
        assert_eq!(marker.state, EntryState::Owed);
    }
    for _ in 0..2 {
        live.run().await.unwrap();
        live.advance(5 * MINUTE);
    }
    assert_once(live.posts(), [3, 4].map(post_of));
    assert_once(live.pushes(), [3, 4].map(push_of));
    assert_eq!(live.state_of(&id(2)), "shadow", "it was found before the switch");
    let again = letters::resend_rehearsed(&table, &rehearsed[0].entry_id, ichido::Clock::now(&world.clock)).await;
    assert!(matches!(again, Err(letters::Error::NotRehearsed(_))), "{again:?}");
}

#[tokio::test]
async fn a_feed_that_stays_empty_is_believed_at_the_third_reading_and_one_empty_answer_is_not() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    // One empty answer, then the same entries again: nothing has left, and the count begins anew.
    world.show(atom(&[]));
    assert_eq!(world.run().await.unwrap_err().kind(), "Unreadable");
    world.show(atom(&[2, 1]));
    assert_eq!(world.run().await.unwrap().result, "unchanged");
    world.show(atom(&[]));
    for reading in 1..=2 {
        let error = world.run().await.unwrap_err().to_string();
        assert!(error.contains(&format!("reading {reading} of 3")), "{error}");
        assert!(world.items()[&id(1)].get("left_at").is_none(), "nothing has left yet");
        world.advance(5 * MINUTE);
    }
    let report = world.run().await.unwrap();
    assert_eq!((report.entries, report.gap), (0, false));
    assert!(world.items()[&id(1)].get("left_at").is_some());
    assert_eq!(world.run().await.unwrap().result, "unchanged", "an empty feed is no error");
    world.show(atom(&[3, 2]));
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 2, 3].map(post_of));
}

#[tokio::test]
async fn hatena_entries_are_posted_as_documented() {
    let world = World::new(Source::Hatebu).await;
    world.show(
        r#"<rdf:RDF xmlns="http://purl.org/rss/1.0/" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="https://b.hatena.ne.jp/masutaka/rss"><link>https://b.hatena.ne.jp/masutaka/</link></channel>
        <item rdf:about="https://b.hatena.ne.jp/masutaka/20240102#bookmark-2"><title>Second</title><link>https://example.com/2</link><dc:creator>masutaka</dc:creator><dc:date>2024-01-02T00:00:00Z</dc:date></item>
        <item rdf:about="https://b.hatena.ne.jp/masutaka/20240101#bookmark-1"><title>題名</title><link>https://example.com/1</link><description>a &lt; b @you</description><dc:creator>masutaka</dc:creator><dc:date>2024-01-01T00:00:00Z</dc:date></item></rdf:RDF>"#,
    );
    world.run().await.unwrap();
    assert_eq!(
        world.posts(),
        [
            "[B!] id:masutaka a < b @\u{200B}you > 題名 https://example.com/1",
            "[B!] id:masutaka > Second https://example.com/2"
        ]
    );
    let post = world.destinations.lock().unwrap().posts[0].clone();
    assert_eq!(post.visibility, "unlisted");
}

#[tokio::test]
async fn the_limit_is_the_instances_own_and_read_once_per_day() {
    let world = World::new(Source::Github).await;
    world.destinations.lock().unwrap().max_characters = Some(60);
    let long = atom(&[1]).replace("masutaka pushed 1", &"long ".repeat(100));
    world.show(long);
    world.run().await.unwrap();
    let post = world.posts().remove(0);
    assert!(text::count(&post, text::Limit { characters: 60, url: 23 }) <= 60, "{post}");
    assert!(post.ends_with("https://github.com/masutaka/repo/compare/1"), "{post}");
    assert!(world.items().contains_key("#limit"));
}

#[tokio::test]
async fn a_feed_that_asks_to_be_left_alone_is_and_what_is_owed_is_delivered_meanwhile() {
    let world = World::new(Source::Github).await;
    world.mastodon_fails(|| Fault::Refuse(503));
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.show_with(FeedAnswer { status: 429, headers: vec![("retry-after".into(), "1800".into())], body: vec![] });
    world.run().await.unwrap_err();
    let asked = world.asked.lock().unwrap().len();
    world.mastodon_fails(|| Fault::None);
    world.advance(5 * MINUTE);
    assert_eq!(world.run().await.unwrap().result, "not due");
    assert_eq!(world.posts(), [post_of(1)]);
    assert_eq!(world.asked.lock().unwrap().len(), asked);
    world.advance(30 * MINUTE);
    world.show(atom(&[2, 1]));
    assert_eq!(world.run().await.unwrap().new, 1);
}

#[tokio::test]
async fn adaptive_reading_costs_one_read_and_nothing_else_while_the_feed_is_not_due() {
    let world = World { adaptive: true, ..World::new(Source::Github).await };
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.advance(24 * HOUR);
    assert_eq!(world.run().await.unwrap().result, "unchanged");
    world.advance(5 * MINUTE);
    let asked = world.asked.lock().unwrap().len();
    world.db.reset_calls();
    assert_eq!(world.run().await.unwrap().result, "not due");
    assert_eq!(world.db.calls().total(), 1);
    assert_eq!(world.asked.lock().unwrap().len(), asked);
    world.advance(2 * HOUR);
    world.show(atom(&[2, 1]));
    assert_eq!(world.run().await.unwrap().new, 1);
}

/// A notifier that fails a number of times before it works.
struct Flaky {
    inner: InProcess,
    failures: AtomicUsize,
    calls: AtomicUsize,
}

impl Invoke for Flaky {
    fn invoke<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, invoke::Error>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            let left = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
            match left {
                Ok(_) => Err(invoke::Error::Function { kind: "Unhandled".into(), message: "boom".into() }),
                Err(_) => self.inner.invoke(request).await,
            }
        })
    }
}

#[tokio::test]
async fn a_function_error_is_not_delivered_and_the_invocation_is_retried_twice() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    for (failures, calls, owed) in [(3, 3, 1), (2, 3, 0)] {
        let inner = InProcess { notifier: world.notifier(), clock: world.clock.clone() };
        let flaky = Arc::new(Flaky { inner, failures: failures.into(), calls: 0.into() });
        let deadline = ichido::Clock::now(&world.clock) + Duration::from_secs(120);
        let report = world.subscriber_with(flaky.clone()).run(deadline).await.unwrap();
        assert_eq!((flaky.calls.load(Ordering::Relaxed), report.owed), (calls, owed));
    }
    assert_eq!(world.posts(), [post_of(1)]);
}

#[tokio::test]
async fn without_time_left_nothing_is_begun_and_everything_stays_owed() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[2, 1]));
    let deadline = ichido::Clock::now(&world.clock) + Duration::from_secs(4);
    let report = world.subscriber().run(deadline).await.unwrap();
    assert_eq!((report.new, report.owed, world.posts().len()), (2, 2, 0));
    world.run().await.unwrap();
    assert_eq!(world.posts(), [post_of(1), post_of(2)]);
}

#[tokio::test]
async fn hundreds_of_entries_are_recorded_and_recognised() {
    let world = World { first_run: FirstRun::Last(2), parallel: 4, ..World::new(Source::Github).await };
    let many: Vec<usize> = (0..400).rev().collect();
    world.show(atom(&many));
    let report = world.run().await.unwrap();
    assert_eq!((report.entries, report.settled), (400, 2));
    let more: Vec<usize> = (1..401).rev().collect();
    world.show(atom(&more));
    let report = world.run().await.unwrap();
    assert_eq!((report.new, report.settled), (1, 1));
    assert_eq!(world.posts().len(), 3);
}

#[tokio::test]
async fn a_run_whose_index_lags_delivers_what_it_has_just_recorded() {
    let world = World::new(Source::Github).await;
    world.db.faults().lag_indexes(Some(testkit::faults::Lag::Calls(40)));
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    assert_eq!(world.posts().len(), 2);
    world.run().await.unwrap();
    world.db.faults().lag_indexes(None);
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 2].map(post_of));
    assert_once(world.pushes(), [1, 2].map(push_of));
}

#[tokio::test]
async fn no_token_is_in_what_a_run_says() {
    telemetry::init_scoped(telemetry::Level::DEBUG);
    let lines = Arc::new(Mutex::new(Vec::<String>::new()));
    let sink = {
        let lines = Arc::clone(&lines);
        Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
    };
    let runs = async {
        let mut said = String::new();
        let world = World::new(Source::Github).await;
        // A feed that repeats its own address, in an error and in its entries.
        world.show_with(FeedAnswer { status: 500, headers: vec![], body: b"token=NOTREAL".to_vec() });
        let error = world.run().await.unwrap_err();
        said += &format!("{error} {error:?} {:?}", world.subscriber());
        world.show("token=NOTREAL");
        let error = world.run().await.unwrap_err();
        said += &format!("{error} {error:?}");
        world.show(atom(&[1]).replace("compare/1", "compare/1?token=NOTREAL"));
        said += &format!("{:?}", world.run().await);
        // Destinations that refuse the entry.
        world.mastodon_fails(|| Fault::Refuse(401));
        world.pushover_fails(|| Fault::Refuse(400));
        world.show(atom(&[2, 1]));
        said += &format!("{:?}", world.run().await);
        said
    };
    let trace = telemetry::trace::Trace::of_request("request-1");
    let invocation = telemetry::Invocation { function: "github".into(), request_id: "request-1".into(), trace };
    let said = telemetry::scoped(sink, telemetry::invocation(invocation, runs)).await;
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.lines().count() > 3, "{lines}");
    for secret in ["NOTREAL", "token=", "Bearer"] {
        assert!(!said.contains(secret) && !lines.contains(secret), "{secret} is in what a run says: {said}\n{lines}");
    }
}
