//! No entry is lost and none is posted twice, although runs die at any call to the outside, overlap, and talk to destinations that
//! fail and lose their answers. (Line 6 of what must always hold, in ARCHITECTURE.md.)

use std::{sync::Mutex, time::Duration};

use crate::support::*;
use feeds::{delivery::letters, entry::Source, outside::fetch, reading::Error};
use testkit::{Outside, interrupt};

const MINUTE: Duration = Duration::from_secs(60);
/// Long enough for Mastodon to forget a key, too.
const HOURS: Duration = Duration::from_secs(2 * 3_600);

/// The world of these tests: one entry is known, one or two are new.
async fn world(outside: Outside, shown: &[usize]) -> World {
    let world = World::within(Source::Github, outside).await;
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.show(atom(shown));
    world
}

#[tokio::test]
async fn a_run_that_dies_at_any_call_posts_every_entry_exactly_once() {
    // The process comes back within Mastodon's hour, with two new entries; then after it, with one.
    for (pause, shown) in [(A_WHILE, vec![3, 2, 1]), (HOURS, vec![2, 1])] {
        let report = interrupt::at_every_call(
            async |outside| world(outside, &shown).await,
            async |world: &World| until_settled(world).await,
            async |world: &World| world.advance(pause),
            async |world: &World| {
                assert_once(world.posts(), shown.iter().map(|n| post_of(*n)));
                // Pushover cannot be asked, so by default a push is repeated rather than lost.
                for n in &shown {
                    assert!(world.pushes().contains(&push_of(*n)), "{n} was not pushed");
                }
                assert!(world.pushes().len() <= shown.len() + 1, "only the push that was under way may be repeated");
                let dead = |item: &serde_json::Value| item["pending"]["S"] == "dead";
                assert!(!world.items().values().any(dead));
            },
        )
        .await;
        assert!(report.stops > 20, "{report:?}");
    }
}

#[tokio::test]
async fn entries_that_leave_the_feed_while_they_are_owed_are_posted_exactly_once() {
    interrupt::at_every_call(
        async |outside| world(outside, &[2, 1]).await,
        async |world: &World| until_settled(world).await,
        async |world: &World| {
            // When the process comes back, the feed no longer shows the entry that is owed.
            if world.items().contains_key(&id(2)) {
                world.show(atom(&[4]));
            }
            world.advance(A_WHILE);
        },
        async |world: &World| {
            let posts = world.posts();
            for n in [1, 2] {
                assert_eq!(posts.iter().filter(|post| **post == post_of(n)).count(), 1, "{n}");
            }
            assert!(posts.iter().filter(|post| **post == post_of(4)).count() <= 1);
        },
    )
    .await;
}

/// Random numbers that are always the same for the same seed.
fn dice(seed: u64) -> impl Fn() -> f64 + Send + Sync {
    let random = Mutex::new(fastrand::Rng::with_seed(seed));
    move || random.lock().unwrap().f64()
}

#[tokio::test]
async fn with_destinations_that_fail_and_lose_answers_every_entry_is_posted_exactly_once() {
    for seed in 0..3_u64 {
        let world = World { parallel: 2, ..World::new(Source::Github).await };
        let (mastodon, pushover) = (dice(seed), dice(seed + 1_000));
        let pick = |roll: f64| match roll {
            roll if roll < 0.2 => Fault::Refuse(503),
            roll if roll < 0.4 => Fault::LoseAnswer,
            roll if roll < 0.45 => Fault::Refuse(429),
            _ => Fault::None,
        };
        world.mastodon_fails(move || pick(mastodon()));
        world.pushover_fails(move || pick(pushover()));
        let pauses = dice(seed + 2_000);
        for shown in 1..=12_usize {
            let from = shown.saturating_sub(3).max(1);
            world.show(atom(&(from..=shown).rev().collect::<Vec<_>>()));
            world.run().await.unwrap();
            // Sometimes minutes pass, sometimes hours.
            world.advance(if pauses() < 0.3 { HOURS } else { A_WHILE });
        }
        for _ in 0..40 {
            if world.run().await.unwrap().owed == 0 {
                break;
            }
            world.advance(A_WHILE);
        }
        let mut posts = world.posts();
        posts.sort();
        let mut expected: Vec<String> = (1..=12).map(post_of).collect();
        expected.sort();
        assert_eq!(posts, expected, "seed {seed}");
        for n in 1..=12 {
            assert!(world.pushes().contains(&push_of(n)), "seed {seed}: {n} was not pushed");
        }
        assert!(letters::list(&world.table()).await.unwrap().is_empty(), "seed {seed}");
    }
}

#[tokio::test]
async fn with_a_store_that_fails_now_and_then_every_entry_is_posted_exactly_once() {
    for seed in 0..3_u64 {
        let world = World::new(Source::Github).await;
        world.show(atom(&[1]));
        world.run().await.unwrap();
        world.db.faults().seed(seed);
        world.db.faults().put(testkit::faults::Rule::new(testkit::faults::Fault::LoseAnswer).rate(0.1));
        for shown in 2..=6_usize {
            world.show(atom(&(1..=shown).rev().collect::<Vec<_>>()));
            // A run may fail; the next one does its work.
            let _ = world.run().await;
            world.advance(A_WHILE);
        }
        world.db.faults().heal();
        for _ in 0..10 {
            let report = world.run().await.unwrap();
            if report.owed == 0 {
                break;
            }
            world.advance(A_WHILE);
        }
        let mut posts = world.posts();
        posts.sort();
        assert_eq!(posts, (1..=6).map(post_of).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[tokio::test]
async fn overlapping_runs_post_every_entry_exactly_once() {
    for round in 0..3_usize {
        let world = World { parallel: 3, ..World::new(Source::Github).await };
        world.show(atom(&[1]));
        world.run().await.unwrap();
        world.show(atom(&[6, 5, 4, 3, 2, 1]));
        let (one, two, three) = tokio::join!(world.run(), world.run(), world.run());
        for report in [one, two, three] {
            match report {
                Ok(_) | Err(Error::Table(_)) => {}
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        world.advance(A_WHILE);
        until_settled(&world).await.unwrap();
        assert_once(world.posts(), (1..=6).map(post_of));
        assert_once(world.pushes(), (1..=6).map(push_of));
    }
}

#[tokio::test]
async fn a_feed_that_is_down_for_a_while_costs_nothing_that_it_still_shows() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.show_with(FeedAnswer { status: 502, headers: vec![], body: vec![] });
    for _ in 0..3 {
        let error = world.run().await.unwrap_err();
        assert!(matches!(error, Error::Fetch(fetch::Error::Status { status: 502, .. })), "{error}");
        world.advance(5 * MINUTE);
    }
    world.show(atom(&[3, 2, 1]));
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 2, 3].map(post_of));
}

/// With a destination that fails one request in ten, fewer than one delivery in a thousand may be given up.
#[tokio::test]
async fn a_destination_that_fails_one_request_in_ten_leaves_no_dead_letters() {
    let world = World { parallel: 8, ..World::new(Source::Github).await };
    let (mastodon, pushover) = (dice(7), dice(8));
    world.mastodon_fails(move || if mastodon() < 0.1 { Fault::Refuse(422) } else { Fault::None });
    world.pushover_fails(move || if pushover() < 0.1 { Fault::Refuse(503) } else { Fault::None });
    world.show(atom(&(1..=150).rev().collect::<Vec<_>>()));
    for _ in 0..10 {
        if world.run().await.unwrap().owed == 0 {
            break;
        }
        world.advance(A_WHILE);
    }
    assert_once(world.posts(), (1..=150).map(post_of));
    assert!(letters::list(&world.table()).await.unwrap().is_empty());
}
