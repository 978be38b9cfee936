//! How long a run takes if each request to a destination takes 200 ms. It measures real time, so it is part of `make bench`.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use crate::support::*;
use feeds::entry::Source;

const RUNS: u32 = 5;
const NEW: usize = 30;

#[tokio::test]
#[ignore = "measures real time; bench/feeds/run runs it"]
async fn a_run_with_thirty_new_entries_is_within_its_time() {
    for (source, limit) in [(Source::Github, Duration::from_secs(5)), (Source::Hatebu, Duration::from_secs(10))] {
        let mut total = Duration::ZERO;
        for _ in 0..RUNS {
            let world = World { parallel: 4, ..World::new(source).await };
            world.show(atom(&[0]));
            world.run().await.unwrap();
            world.destinations.lock().unwrap().delay = Duration::from_millis(200);
            world.show(atom(&(0..=NEW).rev().collect::<Vec<_>>()));
            let started = Instant::now();
            let report = world.run().await.unwrap();
            total += started.elapsed();
            assert_eq!((report.new, report.settled, report.owed), (NEW, NEW, 0));
        }
        let average = total / RUNS;
        let _ = writeln!(
            io::stdout(),
            "{source:?}: {NEW} new entries, 200 ms per request: {} ms per run on average (limit {} s)",
            average.as_millis(),
            limit.as_secs()
        );
        assert!(average < limit, "{source:?}: {average:?}");
    }
}

#[tokio::test]
#[ignore = "counts; bench/feeds/run prints it beside the times"]
async fn a_poll_of_an_unchanged_feed_calls_the_store_twice_at_most() {
    let world = World::new(Source::Github).await;
    world.show_with(FeedAnswer { headers: vec![("etag".into(), "\"1\"".into())], ..FeedAnswer::ok(atom(&[1])) });
    world.run().await.unwrap();
    world.db.reset_calls();
    world.run().await.unwrap();
    let _ = writeln!(io::stdout(), "a poll of an unchanged feed: {} calls to the store", world.db.calls().total());
    assert!(world.db.calls().total() <= 2);
}
