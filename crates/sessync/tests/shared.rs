//! Several machines that share one state: each knows what the others have uploaded.

mod support;

use emulator::bigquery::{Fault, Faults};
use ichido::Once;
use ichido::dynamodb::{DynamoDb, Table};
use sessync::journal::Journal;
use sessync::journal::seen::Seen;
use sessync::journal::state::State;
use sessync::outside::shared::{PARTITION_KEY, Shared, TTL};
use sessync::upload;
use support::{DESTINATION, MemoryDisk, World, Writer, runtime};
use testkit::{ManualClock, Outside, interrupt};

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
            let (_, result) = world.run_shared(&Outside::new(), seed as u64, Some(&shared), disk).await;
            result.unwrap();
            world.assert_each_line_once(&format!("machine {seed}"));
        }
        let (inserts, _) = world.standin.calls();
        assert_eq!(dynamo.items(TABLE).len() as u64, inserts, "one record per batch");
    });
}

#[test]
fn a_row_that_did_not_fit_is_not_sent_if_another_machine_has_sent_it_meanwhile() {
    runtime().block_on(async {
        let dynamo = dynamo();
        let mut world = World::new(3);
        Writer::new(3).files(&world.logs(), 60);
        world.standin.set_faults(Faults { forgetful: true, ..Faults::default() });
        // The other machine has sent in one batch what this one sends in many.
        for batch_rows in [1000, 7] {
            world.batch_rows = batch_rows;
            let shared = Shared::new(dynamo.client(), TABLE, DESTINATION);
            let (_, result) = world.run_shared(&Outside::new(), 3, Some(&shared), &MemoryDisk::new()).await;
            result.unwrap();
            world.assert_each_line_once(&format!("batches of {batch_rows} rows"));
        }
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
                world.run_shared(&Outside::new(), round as u64, Some(&shared), &machines[round % 2]).await;
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
    for seed in 0..2 {
        let project = World::new(seed);
        Writer::new(seed).files(&project.logs(), 12);
        let report = runtime().block_on(interrupt::at_every_call(
            async |outside| Machines::new(project.afresh(seed), outside),
            async |machines| machines.run(0, seed).await,
            // Meanwhile the other machine goes on.
            async |machines| machines.run(1, seed).await.unwrap_or_else(|error| panic!("seed {seed}: {error}")),
            async |machines| {
                for machine in [1, 0] {
                    machines.run(machine, seed).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                }
                machines.world.assert_each_line_once(&format!("seed {seed}"));
            },
        ));
        assert!(report.stops > 20, "{report:?}");
    }
}

/// Two machines with the same lines and one state that they share.
struct Machines {
    world: World,
    disks: [MemoryDisk; 2],
    dynamo: testkit::Dynamo,
    /// It jumps ahead when everybody waits, so that no test waits for a lease.
    clock: ManualClock,
    outside: Outside,
}

impl Machines {
    fn new(world: World, outside: Outside) -> Machines {
        world.standin.set_faults(Faults { forgetful: true, ..Faults::default() });
        let dynamo = dynamo().with_outside(outside.clone());
        Machines { world, disks: [MemoryDisk::new(), MemoryDisk::new()], dynamo, clock: ManualClock::new(), outside }
    }

    async fn run(&self, machine: usize, seed: u64) -> Result<(), upload::Error> {
        let store = DynamoDb::new(self.dynamo.client(), Table::new(TABLE, PARTITION_KEY).ttl(TTL));
        let shared = Shared::on(Once::builder(store).clock(self.clock.clone()).build(), DESTINATION);
        self.world.run_shared(&self.outside, seed, Some(&shared), &self.disks[machine]).await.1
    }
}

#[test]
fn after_a_reset_everything_is_sent_again_once_whatever_others_have_sent() {
    runtime().block_on(async {
        let dynamo = dynamo();
        let world = World::new(7);
        Writer::new(7).files(&world.logs(), 60);
        world.standin.set_faults(Faults { forgetful: true, ..Faults::default() });
        let shared = || Shared::new(dynamo.client(), TABLE, DESTINATION);
        let (first, other) = (MemoryDisk::new(), MemoryDisk::new());
        let run = async |disk: &MemoryDisk| {
            let (summary, result) = world.run_shared(&Outside::new(), 1, Some(&shared()), disk).await;
            result.unwrap();
            summary.uploaded
        };
        let all = run(&first).await;
        assert_eq!(run(&other).await, 0);
        // What `sessync reset` leaves.
        let reset = MemoryDisk::new();
        let mut empty = State::new(DESTINATION);
        empty.resend = true;
        Journal::fresh(reset.clone(), empty, Seen::default()).compact().unwrap();
        assert_eq!(run(&reset).await, all, "a reset promises to send everything");
        assert_eq!(run(&reset).await, 0, "once");
        assert_eq!(run(&other).await, 0);
    });
}

#[test]
fn without_deduplication_what_others_have_sent_is_sent_too() {
    runtime().block_on(async {
        let dynamo = dynamo();
        let mut world = World::new(8);
        Writer::new(8).files(&world.logs(), 40);
        let shared = || Shared::new(dynamo.client(), TABLE, DESTINATION);
        let (summary, result) = world.run_shared(&Outside::new(), 1, Some(&shared()), &MemoryDisk::new()).await;
        result.unwrap();
        world.deduplication = false;
        let disk = MemoryDisk::new();
        for round in 0..2 {
            let (again, result) = world.run_shared(&Outside::new(), 2, Some(&shared()), &disk).await;
            result.unwrap();
            assert!(again.uploaded >= summary.uploaded, "round {round}: {} of {}", again.uploaded, summary.uploaded);
        }
    });
}
