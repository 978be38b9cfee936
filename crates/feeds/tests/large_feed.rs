//! What a read showed may be too large for one item. Then it is spread over several, and one of them may be missing.

use crate::support::*;
use aws_sdk_dynamodb::types::AttributeValue;
use feeds::{
    entry::{EntryId, Source},
    reading::{first_run::FirstRun, identity::Known},
    table::{FeedState, Snapshot},
};

/// Entries whose ids and texts cannot be compressed.
fn scattered(count: usize, seed: u64) -> Vec<Known> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count)
        .map(|_| Known {
            id: EntryId::from_table(format!("urn:{:032x}{:032x}", random.u128(..), random.u128(..))),
            title: Some(random.u64(..)),
            link: Some(random.u64(..)),
            date: Some(random.i64(..)),
        })
        .collect()
}

fn parts(world: &World) -> Vec<String> {
    let mut parts: Vec<String> = world.items().into_keys().filter(|id| id.starts_with("#present#")).collect();
    parts.sort_unstable();
    parts
}

async fn remove(world: &World, id: &str) {
    let delete = world.db.client().delete_item().table_name(world.table_name());
    delete.key("entry_id", AttributeValue::S(id.to_owned())).send().await.unwrap();
}

#[tokio::test]
async fn a_snapshot_of_several_items_comes_back_and_leaves_nothing_behind() {
    let world = World::new(Source::Github).await;
    let table = world.table();
    let large = Snapshot { present: scattered(20_000, 1), gone: scattered(100, 2) };
    assert!(table.save_feed(None, FeedState::default(), &large).await.unwrap());
    assert!(parts(&world).len() >= 3, "{:?}", parts(&world));
    let first = table.feed().await.unwrap().unwrap();
    assert_eq!(table.snapshot(&first).await.unwrap(), large);

    // A run that read the same state but writes later loses, and removes its own parts.
    let other = Snapshot { present: scattered(8_000, 3), gone: Vec::new() };
    assert!(table.save_feed(Some(&first), FeedState::default(), &other).await.unwrap());
    let referred_to = parts(&world);
    assert!(referred_to.len() >= 2, "{referred_to:?}");
    assert!(!table.save_feed(Some(&first), FeedState::default(), &large).await.unwrap());
    assert!(!table.save_feed(Some(&first), FeedState::default(), &other).await.unwrap());
    assert_eq!(parts(&world), referred_to);
    let second = table.feed().await.unwrap().unwrap();
    assert_eq!(table.snapshot(&second).await.unwrap(), other);

    // If a part is missing, nothing is known; nothing wrong is read.
    remove(&world, &referred_to[0]).await;
    assert_eq!(table.snapshot(&second).await.unwrap(), Snapshot::default());

    let small = Snapshot { present: scattered(10, 4), gone: Vec::new() };
    assert!(table.save_feed(Some(&second), FeedState::default(), &small).await.unwrap());
    let third = table.feed().await.unwrap().unwrap();
    assert_eq!(table.snapshot(&third).await.unwrap(), small);
    assert_eq!(parts(&world), Vec::<String>::new());
}

/// The feed of these entries, newest first, with ids that cannot be compressed.
fn document(entries: impl DoubleEndedIterator<Item = usize>) -> String {
    let scatter = |n: usize| {
        let mut random = fastrand::Rng::with_seed(n as u64);
        format!("{:032x}{:032x}", random.u128(..), random.u128(..))
    };
    let whole = atom(&[0]);
    let one = atom_entry(0);
    let entries: String =
        entries.rev().map(|n| atom_entry(n).replace(&id(n), &format!("urn:{n}:{}", scatter(n)))).collect();
    whole.replace(&one, &entries)
}

#[tokio::test]
async fn a_feed_that_is_too_large_for_one_item_is_read_like_any_other() {
    let world = World { first_run: FirstRun::Mark, ..World::new(Source::Github).await };
    world.show(document(0..600));
    assert_eq!(world.run().await.unwrap().entries, 600);
    assert!(!parts(&world).is_empty(), "it is spread");
    world.db.reset_calls();
    assert_eq!(world.run().await.unwrap().result, "unchanged");
    assert!(world.db.calls().total() <= 2, "what it showed is not read for nothing: {:?}", world.db.calls());

    world.show(document(2..602));
    let report = world.run().await.unwrap();
    assert_eq!((report.new, report.settled, report.gap), (2, 2, false));
    assert_eq!(world.items().values().filter(|item| item.get("left_at").is_some()).count(), 2);

    // What the last read showed is lost. Every entry is looked up, and none is posted again.
    for part in parts(&world) {
        remove(&world, &part).await;
    }
    world.show(document(3..603));
    let report = world.run().await.unwrap();
    assert_eq!((report.new, report.settled, report.gap), (1, 1, false));
    assert_once(world.posts(), (600..603).map(post_of));
}
