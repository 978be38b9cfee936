//! Every path of the machine, up to a bound of faults, against a model of the alias.
//!
//! A node is the model, the processes that work on it, and what has been promised so far. From each node everything that
//! could happen next is tried: the call succeeds, fails, succeeds with its answer lost, or is still on its way; an alarm
//! begins to ring; somebody presses Ctrl-C; the process dies and the operator repeats the command or aborts. Nodes that were
//! seen before are not explored again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

/// No path is longer than this. A longer one would be a loop.
const LONGEST: usize = 400;
const OLD: Version = Version(12);
const NEW: Version = Version(13);

fn settings() -> Settings {
    Settings {
        steps: vec![10, 50, 100],
        bake: 2,
        health_every: 2,
        rare: 1,
        lease: 2,
        tries: 1,
        tries_back: 3,
        blind: 1,
    }
}

/// The alias, as Lambda would keep it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Model {
    alias: Alias,
    revision: u32,
    /// A request whose caller has given up waiting for it, and that can still arrive.
    late: Option<(Change, String)>,
}

impl Model {
    fn new() -> Self {
        let alias = Alias { version: OLD, other: None, description: String::new(), revision: "0".to_owned() };
        Model { alias, revision: 0, late: None }
    }

    fn apply(&mut self, change: &Change, revision: &str) -> bool {
        if self.alias.revision != revision {
            return false;
        }
        self.revision += 1;
        self.alias = Alias {
            version: change.version,
            other: change.other,
            description: change.note.to_string(),
            revision: self.revision.to_string(),
        };
        true
    }

    /// Percent of the traffic on the new version.
    fn share(&self) -> u8 {
        match (self.alias.version, self.alias.other) {
            (NEW, _) => ALL,
            (_, Some((NEW, percent))) => percent,
            _ => 0,
        }
    }

    /// A late request that could still do something.
    fn threatens(&self) -> bool {
        self.late.as_ref().is_some_and(|(_, revision)| *revision == self.alias.revision)
    }
}

/// One run of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    machine: Machine,
    pending: Action,
    interrupted: bool,
    // what the promises are about
    waits_in_step: u32,
    waits_since_trouble: u32,
    looked: bool,
    healthy: bool,
}

impl Process {
    fn start(goal: Goal, run: &str) -> Self {
        Self::with(goal, run, settings())
    }

    fn with(goal: Goal, run: &str, settings: Settings) -> Self {
        let mut machine = Machine::new(goal, settings, Run(run.to_owned()));
        let pending = machine.next(Timestamp::UNIX_EPOCH, None, Observation::Nothing);
        Process {
            machine,
            pending,
            interrupted: false,
            waits_in_step: 0,
            waits_since_trouble: 0,
            looked: false,
            healthy: false,
        }
    }

    fn conclusion(&self) -> Option<&Conclusion> {
        match &self.pending {
            Action::Done(conclusion) => Some(conclusion),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    model: Model,
    processes: Vec<Process>,
    alarm: bool,
    sick: bool,
    faults: u32,
    faulted: u32,
    deaths: u32,
    /// Runs whose alias was taken over.
    overtaken: Vec<Run>,
    last_writer: Option<Run>,
}

impl Node {
    fn new(processes: Vec<Process>, faults: u32, deaths: u32) -> Self {
        Node {
            model: Model::new(),
            processes,
            alarm: false,
            sick: false,
            faults,
            faulted: 0,
            deaths,
            overtaken: Vec::new(),
            last_writer: None,
        }
    }

    fn fault(&self) -> Option<Self> {
        (self.faults > 0).then(|| Node { faults: self.faults - 1, faulted: self.faulted + 1, ..self.clone() })
    }

    /// Process `p` sees this.
    fn sees(mut self, p: usize, seen: Observation) -> Self {
        let trouble = self.alarm || self.sick;
        let process = &mut self.processes[p];
        let before = process.pending.clone();
        match (&before, &seen) {
            (Action::Look { .. }, Observation::Looked(looked)) => process.looked = looked.wrong().is_none(),
            (Action::Health(_), Observation::Healthy) => process.healthy = true,
            (Action::Health(_), Observation::Unhealthy(_)) => process.healthy = false,
            (Action::Wait, _) => {
                process.looked = false;
                process.waits_in_step += 1;
                if trouble && self.model.share() > 0 {
                    process.waits_since_trouble += 1;
                }
            }
            _ => {}
        }
        let by = process.interrupted.then_some("Ctrl-C");
        process.pending = process.machine.next(Timestamp::UNIX_EPOCH, by, seen);
        if let Action::Update { change, .. } = &process.pending {
            let percent = match change.note {
                Note::Moving { percent, .. } => percent,
                Note::Live { .. } => ALL,
                Note::Back { .. } => 0,
            };
            let repeated = before == process.pending || !matches!(before, Action::Look { .. } | Action::Health(_));
            if percent > self.model.share() && !repeated {
                assert!(process.looked, "traffic moves on without a look: {process:#?}");
                assert!(process.healthy, "traffic moves on to a version that never answered: {process:#?}");
                let bake = process.machine.settings.bake;
                assert!(
                    self.model.share() == 0 || process.waits_in_step >= bake,
                    "traffic moves on before the bake is over: {process:#?}"
                );
                assert!(!process.interrupted, "traffic moves on although it was interrupted");
            }
        }
        self
    }

    /// The model takes a write, from whoever it comes.
    fn apply(&mut self, change: &Change, revision: &str) -> bool {
        let before = self.model.share();
        if !self.model.apply(change, revision) {
            return false;
        }
        let (Note::Moving { run, .. } | Note::Live { run, .. } | Note::Back { run, .. }) = &change.note;
        assert!(!self.overtaken.contains(run), "a run that was overtaken changed the alias");
        let last = self.last_writer.replace(run.clone());
        let first_of_run = last.as_ref() != Some(run);
        if let Some(last) = last
            && first_of_run
        {
            self.overtaken.push(last);
        }
        for process in self.processes.iter_mut().filter(|process| process.machine.run == *run) {
            // Whoever takes over watches the whole step: what was waited for before that does not count.
            if self.model.share() != before || first_of_run {
                process.waits_in_step = 0;
            }
        }
        true
    }

    /// Everything that can happen next.
    fn next(&self, deaths_lead_to: &[Goal], flips: bool) -> Vec<Node> {
        let mut out = Vec::new();
        if flips && !self.alarm {
            out.push(Node { alarm: true, ..self.clone() });
        }
        if flips && !self.sick && !self.alarm {
            out.push(Node { sick: true, ..self.clone() });
        }
        if let Some((change, revision)) = &self.model.late
            && self.model.threatens()
        {
            let mut arrived = self.clone();
            arrived.model.late = None;
            arrived.apply(change, revision);
            out.push(arrived);
        }
        for (p, process) in self.processes.iter().enumerate() {
            if process.conclusion().is_some() {
                continue;
            }
            if flips && !process.interrupted && !self.alarm && !self.sick {
                let mut interrupted = self.clone();
                interrupted.processes[p].interrupted = true;
                out.push(interrupted);
            }
            if self.deaths > 0 {
                for goal in deaths_lead_to {
                    let mut dead = Node { deaths: self.deaths - 1, ..self.clone() };
                    // its last request may still be on its way
                    if let Action::Update { change, revision } = &process.pending {
                        let mut late = dead.clone();
                        late.model.late = Some((change.clone(), revision.clone()));
                        late.processes[p] = Process::start(goal.clone(), "next");
                        out.push(late);
                    }
                    dead.processes[p] = Process::start(goal.clone(), "next");
                    out.push(dead);
                }
            }
            self.happens(p, &process.pending, &mut out);
        }
        out
    }

    fn happens(&self, p: usize, action: &Action, out: &mut Vec<Node>) {
        let unclear = || Observation::Unclear("no answer".to_owned());
        match action {
            Action::Read => {
                out.push(self.clone().sees(p, Observation::Alias(self.model.alias.clone())));
                out.extend(self.fault().map(|node| node.sees(p, unclear())));
            }
            Action::Update { change, revision } => {
                let mut applied = self.clone();
                if applied.apply(change, revision) {
                    let alias = applied.model.alias.clone();
                    out.push(applied.clone().sees(p, Observation::Updated(alias)));
                } else {
                    out.push(applied.clone().sees(p, Observation::Stale));
                }
                if let Some(lost) = applied.fault() {
                    out.push(lost.sees(p, unclear()));
                }
                if let Some(refused) = self.fault() {
                    out.push(refused.clone().sees(p, unclear()));
                    out.push(refused.clone().sees(p, Observation::Never("not allowed".to_owned())));
                    let mut late = refused;
                    late.model.late = Some((change.clone(), revision.clone()));
                    out.push(late.sees(p, unclear()));
                }
            }
            Action::Health(version) => {
                assert_eq!(*version, NEW);
                let seen =
                    if self.sick { Observation::Unhealthy("it crashed".to_owned()) } else { Observation::Healthy };
                out.push(self.clone().sees(p, seen));
                out.extend(self.fault().map(|node| node.sees(p, unclear())));
            }
            Action::Look { .. } => {
                let ringing = if self.alarm { vec!["errors".to_owned()] } else { Vec::new() };
                out.push(self.clone().sees(p, Observation::Looked(Looked { ringing, ..Looked::default() })));
                out.extend(self.fault().map(|node| node.sees(p, unclear())));
            }
            Action::Wait => out.push(self.clone().sees(p, Observation::Waited)),
            Action::Done(_) => {}
        }
    }
}

fn digest(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.hash(&mut hasher);
    hasher.finish()
}

/// Tries everything; `check` sees each node in which every process has ended. Returns how many there were of each.
fn explore(start: Node, goals: &[Goal], flips: bool, check: impl Fn(&Node)) -> (usize, usize) {
    let mut seen = HashSet::new();
    let mut open = vec![(start, 0)];
    let mut ended = 0;
    while let Some((node, length)) = open.pop() {
        assert!(length < LONGEST, "this goes on for ever: {node:#?}");
        // A digest is enough: two of a million nodes in one is less likely than a broken machine.
        if !seen.insert(digest(&node)) {
            continue;
        }
        for process in &node.processes {
            // A tick to the next look, and one for each fault on the way.
            assert!(
                process.waits_since_trouble <= 1 + settings().health_every + node.faulted,
                "traffic stays on a bad version: {node:#?}"
            );
            if node.alarm && !node.sick {
                assert!(
                    process.waits_since_trouble <= 2 + node.faulted,
                    "the machine does not react to an alarm: {node:#?}"
                );
            }
        }
        if node.processes.iter().all(|process| process.conclusion().is_some()) {
            ended += 1;
            check(&node);
            continue;
        }
        open.extend(node.next(goals, flips).into_iter().map(|next| (next, length + 1)));
    }
    (seen.len(), ended)
}

/// What each conclusion claims is so.
fn outcome_is_true(node: &Node) {
    let standing = Standing::of(&node.model.alias);
    for process in &node.processes {
        let conclusion = process.conclusion().expect("it has ended");
        match conclusion {
            Conclusion::Finished { old, new } => {
                assert_eq!((*old, *new), (OLD, NEW));
                assert_eq!(standing.before(), Some(OLD), "{node:#?}");
                assert_eq!(node.model.share(), ALL, "{node:#?}");
                assert!(!node.model.threatens(), "{node:#?}");
            }
            Conclusion::WentBack { old, .. } => {
                assert_eq!((node.model.share(), node.model.alias.version), (0, *old), "{node:#?}");
                assert!(matches!(standing, Standing::Settled { last: Some(Note::Back { .. }), .. }), "{node:#?}");
                assert!(!node.model.threatens(), "what is still on its way would move traffic: {node:#?}");
            }
            Conclusion::NotStarted { .. } => {
                let run = &process.machine.run;
                assert_ne!(node.last_writer.as_ref(), Some(run), "it moved something after all: {node:#?}");
                let own = |change: &Change| matches!(&change.note, Note::Moving { run: by, .. } if by == run);
                let threat = node.model.threatens() && node.model.late.as_ref().is_some_and(|(change, _)| own(change));
                assert!(!threat, "what is still on its way would move traffic: {node:#?}");
            }
            Conclusion::AlreadyThere { live } => assert_eq!(*live, node.model.alias.version, "{node:#?}"),
            Conclusion::Stuck { .. } => assert!(node.faulted > 0, "stuck without a reason: {node:#?}"),
            Conclusion::LeftAlone(_) => {}
        }
    }
}

#[test]
fn every_path_of_one_run_ends_where_it_says() {
    // Two steps are as good as three, and more faults fit in.
    let settings = Settings { steps: vec![10, 100], ..settings() };
    let start = Node::new(vec![Process::with(Goal::Forward(NEW), "one", settings)], 3, 0);
    let (nodes, ends) = explore(start, &[], true, |node| {
        outcome_is_true(node);
        let [process] = node.processes.as_slice() else { panic!("one process") };
        let conclusion = process.conclusion().expect("it has ended");
        assert!(
            !matches!(conclusion, Conclusion::LeftAlone(LeftAlone::Overtaken | LeftAlone::UnderWay { .. })),
            "{node:#?}"
        );
        let untroubled = !node.alarm && !node.sick && !process.interrupted && node.faulted == 0;
        if untroubled {
            assert!(matches!(conclusion, Conclusion::Finished { .. }), "{node:#?}");
        }
        if process.interrupted {
            // The alarm rang after the end, or the machine reacted.
            let reacted = matches!(
                conclusion,
                Conclusion::WentBack { .. } | Conclusion::NotStarted { .. } | Conclusion::Stuck { .. }
            );
            assert!(
                reacted || matches!(conclusion, Conclusion::Finished { .. } | Conclusion::LeftAlone(_)),
                "{node:#?}"
            );
        }
    });
    assert!(nodes > 10_000 && ends > 500, "{nodes} nodes, {ends} ends: hardly anything was tried");
}

#[test]
fn killed_at_any_point_the_same_command_goes_on() {
    let goals = [Goal::Forward(NEW)];
    let start = Node::new(vec![Process::start(Goal::Forward(NEW), "one")], 1, 1);
    let (nodes, _) = explore(start, &goals, true, |node| {
        outcome_is_true(node);
        if node.faulted > 0 || node.alarm || node.sick || node.processes[0].interrupted {
            return;
        }
        match node.processes[0].conclusion() {
            Some(Conclusion::Finished { .. } | Conclusion::AlreadyThere { live: NEW }) => {}
            // The dead process's last request arrived while its successor listened, or before it wrote: said, and safe
            // to repeat.
            Some(Conclusion::LeftAlone(LeftAlone::UnderWay { .. } | LeftAlone::Overtaken)) => {
                let again = Node { processes: vec![Process::start(Goal::Forward(NEW), "again")], ..node.clone() };
                explore(Node { deaths: 0, faults: 0, ..again }, &[], false, |node| {
                    let conclusion = node.processes[0].conclusion();
                    let there = matches!(
                        conclusion,
                        Some(Conclusion::Finished { .. } | Conclusion::AlreadyThere { live: NEW })
                    );
                    let repeat = matches!(conclusion, Some(Conclusion::LeftAlone(_))) && node.model.late.is_none();
                    assert!(there || repeat, "{node:#?}");
                });
            }
            conclusion => panic!("{conclusion:?} in {node:#?}"),
        }
    });
    assert!(nodes > 2_000, "{nodes} nodes: hardly anything was tried");
}

#[test]
fn killed_at_any_point_abort_goes_back() {
    for goal in [Goal::Abort, Goal::Rollback(None)] {
        let start = Node::new(vec![Process::start(Goal::Forward(NEW), "one")], 1, 1);
        explore(start, std::slice::from_ref(&goal), true, |node| {
            outcome_is_true(node);
            if node.deaths > 0 || node.faulted > 0 {
                return;
            }
            let process = &node.processes[0];
            match process.conclusion() {
                Some(Conclusion::WentBack { .. }) => assert_eq!(node.model.alias.version, OLD),
                // It was not moving: not yet, or not any more.
                Some(Conclusion::LeftAlone(LeftAlone::NotMoving { live } | LeftAlone::NothingBefore { live })) => {
                    assert!(*live == OLD || goal == Goal::Abort, "{node:#?}");
                }
                Some(Conclusion::AlreadyThere { live }) => assert_eq!(*live, OLD, "{node:#?}"),
                Some(Conclusion::NotStarted { .. }) => assert!(process.interrupted, "{node:#?}"),
                // The dead process's last request arrived between the look and the write.
                Some(Conclusion::LeftAlone(LeftAlone::Overtaken)) => assert!(node.model.late.is_none()),
                conclusion => panic!("{conclusion:?} in {node:#?}"),
            }
        });
    }
}

#[test]
fn two_runs_never_both_move_the_alias() {
    let small = Settings { steps: vec![10, 100], bake: 1, ..settings() };
    let process = |run: &str| Process::with(Goal::Forward(NEW), run, small.clone());
    let start = Node::new(vec![process("one"), process("two")], 1, 0);
    // `Node::apply` asserts at every write that no run that was overtaken changes the alias.
    let (nodes, _) = explore(start, &[], false, |node| {
        outcome_is_true_for_winner(node);
        let finished =
            node.processes.iter().filter(|p| matches!(p.conclusion(), Some(Conclusion::Finished { .. }))).count();
        assert!(finished <= 1, "{node:#?}");
    });
    assert!(nodes > 2_000, "{nodes} nodes: hardly anything was tried");
}

/// The run that wrote last is the one whose conclusion can be held against the alias.
fn outcome_is_true_for_winner(node: &Node) {
    let winner = node.processes.iter().find(|process| Some(&process.machine.run) == node.last_writer.as_ref());
    if let Some(winner) = winner {
        outcome_is_true(&Node { processes: vec![winner.clone()], ..node.clone() });
    }
}

#[test]
fn a_second_run_is_refused_while_the_first_is_heard_of() {
    let mut node = Node::new(vec![Process::start(Goal::Forward(NEW), "one")], 0, 0);
    let advance = |node: &Node, p: usize| {
        let mut out = Vec::new();
        node.happens(p, &node.processes[p].pending, &mut out);
        out.swap_remove(0)
    };
    // until the first step is made
    while node.model.share() == 0 {
        node = advance(&node, 0);
    }
    node.processes.push(Process::start(Goal::Forward(NEW), "two"));
    // Both live through the same ticks: each goes on until it waits, in turn.
    for _ in 0..LONGEST {
        for p in 0..2 {
            while node.processes[p].conclusion().is_none() {
                node = advance(&node, p);
                if node.processes[p].pending == Action::Wait {
                    break;
                }
            }
        }
    }
    let refused = Conclusion::LeftAlone(LeftAlone::UnderWay { run: Run("one".to_owned()) });
    assert_eq!(node.processes[1].conclusion(), Some(&refused));
    assert_eq!(node.processes[0].conclusion(), Some(&Conclusion::Finished { old: OLD, new: NEW }));
}

#[test]
fn a_rollback_returns_to_the_version_before_once() {
    let run = |model: &Model, goal: Goal, run: &str| {
        let node = Node { model: model.clone(), ..Node::new(vec![Process::start(goal, run)], 0, 0) };
        let end = std::cell::RefCell::new(None);
        explore(node, &[], false, |node| {
            end.replace(Some((node.model.clone(), node.processes[0].conclusion().expect("it has ended").clone())));
        });
        end.into_inner().expect("an end")
    };
    let (model, conclusion) = run(&Model::new(), Goal::Rollback(None), "zero");
    assert_eq!(conclusion, Conclusion::LeftAlone(LeftAlone::NothingBefore { live: OLD }));
    let (model, _) = run(&model, Goal::Forward(NEW), "one");
    let (model, conclusion) = run(&model, Goal::Rollback(None), "two");
    assert_eq!(conclusion, Conclusion::WentBack { old: OLD, new: NEW, why: Why::Asked });
    assert_eq!((model.alias.version, model.alias.other), (OLD, None));
    let (model, conclusion) = run(&model, Goal::Rollback(None), "three");
    assert_eq!(conclusion, Conclusion::AlreadyThere { live: OLD }, "a second rollback changes nothing");
    let (_, conclusion) = run(&model, Goal::Rollback(Some(NEW)), "four");
    assert_eq!(conclusion, Conclusion::WentBack { old: NEW, new: OLD, why: Why::Asked }, "unless it names a version");
}

#[test]
fn what_another_hand_split_is_left_alone_unless_it_is_aborted() {
    let mut model = Model::new();
    model.alias.other = Some((NEW, 25));
    let node = |goal| Node { model: model.clone(), ..Node::new(vec![Process::start(goal, "one")], 0, 0) };
    explore(node(Goal::Forward(NEW)), &[], false, |node| {
        let refused = Conclusion::LeftAlone(LeftAlone::Foreign { main: OLD, other: NEW, percent: 25 });
        assert_eq!(node.processes[0].conclusion(), Some(&refused));
        assert_eq!(node.model.alias, model.alias);
    });
    explore(node(Goal::Abort), &[], false, |node| assert_eq!(node.model.share(), 0));
}

#[test]
fn all_at_once_is_one_write_after_a_look_and_a_health_invocation() {
    let settings = Settings { steps: vec![ALL], bake: 0, ..settings() };
    let process = Process::with(Goal::Forward(NEW), "one", settings);
    explore(Node::new(vec![process], 0, 0), &[], false, |node| {
        assert_eq!(node.model.revision, 1);
        assert_eq!(Standing::of(&node.model.alias).before(), Some(OLD));
    });
}

#[test]
fn errors_of_the_new_version_are_too_many_from_three_and_one_in_twenty() {
    let wrong = |errors, invocations| Looked { errors, invocations, ..Looked::default() }.wrong().is_some();
    assert!(!wrong(2, 2), "single errors are nobody's fault");
    assert!(wrong(3, 3) && wrong(3, 60));
    assert!(!wrong(3, 61));
}
