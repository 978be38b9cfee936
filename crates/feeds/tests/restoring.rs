//! A state table that lost items and was filled from a copy of an earlier time: nothing is posted twice, nothing is dropped.

use std::time::Duration;

use crate::support::*;
use feeds::{
    delivery::{letters, owed::GiveUp},
    entry::Source,
    outside::pushover::WhenUnsure,
    table::{Doubt, restored},
    trouble::Trouble,
};
use function::item::Item;
use ichido::{Clock, Timestamp};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// The items of the table, and the time.
async fn copy(world: &World) -> (Vec<Item>, Timestamp) {
    let scanned = world.db.client().scan().table_name(world.table_name()).send().await.unwrap();
    (scanned.items.unwrap_or_default(), Clock::now(&world.clock))
}

async fn lose(world: &World, lost: impl Fn(&str) -> bool) {
    for item in copy(world).await.0 {
        if lost(item["entry_id"].as_s().unwrap()) {
            let key = item["entry_id"].clone();
            let delete = world.db.client().delete_item().table_name(world.table_name()).key("entry_id", key);
            delete.send().await.unwrap();
        }
    }
}

/// What `ichidoctl restore` does with the table of a feed.
async fn restore(world: &World, (items, since): &(Vec<Item>, Timestamp)) -> bool {
    for item in items {
        let put = world.db.client().put_item().table_name(world.table_name()).set_item(Some(restored(item.clone())));
        let _ = put.condition_expression("attribute_not_exists(entry_id)").send().await;
    }
    world.table().doubt(Doubt { since: *since, until: Clock::now(&world.clock) }).await.unwrap()
}

/// A world in which entry 1 was delivered and 2 was owed when the copy was made; then 2 and 3 were delivered.
async fn with_a_copy() -> (World, (Vec<Item>, Timestamp)) {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    world.run().await.unwrap();
    world.show(atom(&[2, 1]));
    world.mastodon_fails(|| Fault::Refuse(503));
    world.pushover_fails(|| Fault::Refuse(503));
    world.run().await.unwrap();
    let copy = copy(&world).await;
    world.mastodon_fails(|| Fault::None);
    world.pushover_fails(|| Fault::None);
    world.advance(5 * MINUTE);
    world.show(atom(&[3, 2, 1]));
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 2, 3].map(post_of));
    assert_once(world.pushes(), [1, 2, 3].map(push_of));
    // Long enough that Mastodon has forgotten the keys.
    world.advance(DAY);
    (world, copy)
}

#[tokio::test]
async fn a_table_that_lost_everything_repeats_nothing_and_drops_nothing() {
    let (world, copy) = with_a_copy().await;
    lose(&world, |_| true).await;
    assert!(restore(&world, &copy).await);
    // Entry 4 came while nothing ran; its date says that it is older than the restore.
    world.show(atom(&[4, 3, 2, 1]));
    world.advance(5 * MINUTE);
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 2, 3, 4].map(post_of));
    assert_once(world.pushes(), [1, 2, 3].map(push_of));
    // Pushover cannot be asked, so a person decides about what it may have.
    let mut dead: Vec<String> =
        letters::list(&world.table()).await.unwrap().iter().map(|letter| letter.entry_id.to_string()).collect();
    dead.sort();
    assert_eq!(dead, [2, 3, 4].map(id));
    assert!(letters::list(&world.table()).await.unwrap()[0].reason.contains("the table was restored"));
    letters::resend(&world.table(), &feeds::entry::EntryId::from_table(id(4)), Clock::now(&world.clock)).await.unwrap();
    world.run().await.unwrap();
    assert_once(world.pushes(), [1, 2, 3, 4].map(push_of));
    assert_once(world.posts(), [1, 2, 3, 4].map(post_of));
    // From now on the feed is read as always.
    world.advance(5 * MINUTE);
    world.show(atom(&[5, 4, 3, 2, 1]));
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 2, 3, 4, 5].map(post_of));
    assert_once(world.pushes(), [1, 2, 3, 4, 5].map(push_of));
}

#[tokio::test]
async fn without_the_doubt_a_restored_table_would_post_again() {
    let (world, (items, _)) = with_a_copy().await;
    lose(&world, |_| true).await;
    for item in items {
        world.db.client().put_item().table_name(world.table_name()).set_item(Some(item)).send().await.unwrap();
    }
    world.run().await.unwrap();
    assert!(world.posts().len() > 3, "the world of these tests can show a repetition: {:?}", world.posts());
}

#[tokio::test]
async fn what_is_in_the_table_is_newer_than_the_copy_and_stays() {
    let (world, copy) = with_a_copy().await;
    // Only some items are lost: an entry that the feed still shows, and the record of its delivery.
    lose(&world, |key| key.ends_with("PushEvent/3")).await;
    assert!(restore(&world, &copy).await);
    assert_eq!(world.state_of(&id(2)), "delivered", "the copy says owed");
    world.run().await.unwrap();
    assert_eq!(world.state_of(&id(3)), "dead", "Mastodon has it, and Pushover cannot be asked");
    assert_once(world.posts(), [1, 2, 3].map(post_of));
    assert_once(world.pushes(), [1, 2, 3].map(push_of));
}

#[tokio::test]
async fn restoring_twice_and_reading_once_in_between_changes_nothing_more() {
    for when_unsure in [WhenUnsure::Repeat, WhenUnsure::Never] {
        let (world, copy) = with_a_copy().await;
        let world = World { when_unsure, ..world };
        lose(&world, |_| true).await;
        assert!(restore(&world, &copy).await && restore(&world, &copy).await);
        world.run().await.unwrap();
        assert!(restore(&world, &copy).await);
        world.run().await.unwrap();
        assert_once(world.posts(), [1, 2, 3].map(post_of));
        assert_once(world.pushes(), [1, 2, 3].map(push_of));
    }
}

#[tokio::test]
async fn an_entry_that_was_published_after_the_restore_is_not_in_doubt() {
    let world = World::new(Source::Github).await;
    world.show(atom(&[1]));
    world.run().await.unwrap();
    let copy = copy(&world).await;
    // The copy shows a time before entry 2 was published, and the restore happens then.
    let early: jiff::Timestamp = "2025-01-01T00:01:30Z".parse().unwrap();
    let early = Timestamp::from_millis(u64::try_from(early.as_millisecond()).unwrap());
    assert!(world.table().doubt(Doubt { since: copy.1, until: early }).await.unwrap());
    world.show(atom(&[2, 1]));
    world.run().await.unwrap();
    assert_once(world.posts(), [1, 2].map(post_of));
    assert_once(world.pushes(), [1, 2].map(push_of));
}

#[tokio::test]
async fn a_dead_letter_that_a_restore_brings_back_is_told() {
    let give_up = GiveUp { refusals: 1, ..GiveUp::default() };
    let world = World { give_up, ..World::new(Source::Github).await };
    world.mastodon_fails(|| Fault::Refuse(422));
    world.show(atom(&[1]));
    world.run().await.unwrap();
    let copy = copy(&world).await;
    let dead = letters::list(&world.table()).await.unwrap();
    letters::drop(&world.table(), &dead[0].entry_id, Clock::now(&world.clock)).await.unwrap();
    for _ in 0..2 {
        world.advance(DAY);
        assert_eq!(world.run().await.unwrap().troubles, []);
    }
    lose(&world, |key| key == id(1)).await;
    assert!(restore(&world, &copy).await);
    assert_eq!(letters::list(&world.table()).await.unwrap().len(), 1);
    for _ in 0..2 {
        assert_eq!(world.run().await.unwrap().troubles, [Trouble::DeadLetters]);
        world.advance(DAY);
    }
}

#[tokio::test]
async fn a_copy_from_before_the_first_read_is_of_no_use_and_that_is_said() {
    let world = World::new(Source::Github).await;
    assert!(!restore(&world, &(Vec::new(), Clock::now(&world.clock))).await);
}
