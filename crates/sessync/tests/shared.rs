//! Several machines that share one state: each knows what the others have uploaded.

mod support;

use emulator::bigquery::{Fault, Faults};
use ichido::Once;
use ichido::dynamodb::{DynamoDb, Table};
use sessync::outside::shared::{PARTITION_KEY, Shared, TTL};
use support::{DESTINATION, Fuse, MemoryDisk, World, Writer, runtime};

const TABLE: &str = "sessync-state";

fn dynamo() -> testkit::Dynamo {
    let mut dynamo = testkit::Dynamo::empty();
    dynamo.simple_table(TABLE, PARTITION_KEY, None, TTL);
    dynamo
}

#[test]
fn machines_with_the_same_lines_upload_each_once_with_one_record_per_batch() {
    runtime().block_on(async {
        let dynamo = dynamo();
        let world = World::new(1);
        Writer::new(1).files(&world.logs(), 120);
        world.standin.set_faults(Faults { forgetful: true, ..Faults::default() });
        let machines = [MemoryDisk::new(), MemoryDisk::new(), MemoryDisk::new()];
        for (seed, disk) in machines.iter().enumerate() {
            let shared = Shared::new(dynamo.client(), TABLE, DESTINATION);
            let (_, result) = world.run_shared(&Fuse::unlimited(), seed as u64, Some(&shared), disk).await;
            result.unwrap();
            world.assert_each_line_once(&format!("machine {seed}"));
        }
        let (inserts, _) = world.standin.calls();
        assert_eq!(dynamo.items(TABLE).len() as u64, inserts, "one record per batch");
    });
}

#[test]
fn machines_that_take_turns_add_what_the_others_lack() {
    runtime().block_on(async {
        let dynamo = dynamo();
        let world = World::new(2);
        let mut writer = Writer::new(2);
        let machines = [MemoryDisk::new(), MemoryDisk::new()];
        world.standin.set_faults(Faults {
            forgetful: true,
            inserts: Some((Fault::AcceptThenLose, 0.3)),
            ..Faults::default()
        });
        for round in 0..6 {
            writer.files(&world.logs(), 20 + round);
            let shared = Shared::new(dynamo.client(), TABLE, DESTINATION);
            let (_, result) =
                world.run_shared(&Fuse::unlimited(), round as u64, Some(&shared), &machines[round % 2]).await;
            result.unwrap();
        }
        let all = support::uploaded(&world.standin);
        assert!(all.values().all(|count| *count == 1));
        let now = support::expected(world.root.path());
        assert!(now.keys().all(|identity| all.contains_key(identity)));
    });
}

#[test]
fn a_machine_killed_anywhere_leaves_its_turn_to_the_others_and_nothing_is_lost_or_doubled() {
    for seed in 0..4 {
        let mut point = 0;
        loop {
            point += 1;
            let finished = runtime().block_on(async {
                let dynamo = dynamo();
                // This clock jumps ahead when everybody waits, so that no test waits for a lease.
                let clock = testkit::ManualClock::new();
                let shared = || {
                    let store = DynamoDb::new(dynamo.client(), Table::new(TABLE, PARTITION_KEY).ttl(TTL));
                    Shared::on(Once::builder(store).clock(clock.clone()).build(), DESTINATION)
                };
                let world = World::new(seed);
                Writer::new(seed).files(&world.logs(), 30);
                world.standin.set_faults(Faults { forgetful: true, ..Faults::default() });
                let machines = [MemoryDisk::new(), MemoryDisk::new()];
                let (_, first) = world.run_shared(&Fuse::new(point, seed), seed, Some(&shared()), &machines[0]).await;
                for machine in [&machines[1], &machines[0]] {
                    let (_, result) = world.run_shared(&Fuse::unlimited(), seed, Some(&shared()), machine).await;
                    result.unwrap_or_else(|error| panic!("seed {seed}, point {point}: {error}"));
                }
                world.assert_each_line_once(&format!("seed {seed}, point {point}"));
                first.is_ok()
            });
            if finished {
                break;
            }
        }
        assert!(point > 10, "only {point} points");
    }
}
