//! Numbers the calls of a run to the outside, so that a test can stop the run at each of them.
//!
//! All effects of a run go through one [`Outside`]:
//!
//! | what makes the calls | how they come here |
//! |---|---|
//! | a client of the AWS SDK | `aws::http_client` (feature `aws`) |
//! | an HTTP client of any kind | `relay::Relay` (feature `relay`), or `tower::CallsLayer` (feature `tower`) if it is a tower service |
//! | the model of the store | [`Memory::with_outside`](crate::model::Memory::with_outside) |
//! | a fake of your own | [`Outside::call`], or [`Outside::request`] if it can fail |
//! | writes to a disk | [`Outside::write`] |
//!
//! [`interrupt`](crate::interrupt) uses it to stop a run at each call, and [`race`](crate::race) to let two copies of a
//! handler meet in all sorts of orders. What happened is kept, and [`Outside::history`] draws it.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::lanes::Lanes;
use crate::lock::lock;
use crate::turn::Turn;

/// How many calls of a run are kept: the last ones.
pub const MAX_KEPT: usize = 10_000;

/// How many steps of a history are kept: the last ones.
const MAX_STEPS: usize = 300;

/// How often the tasks of a dead run are polled, so that they come to their next call and stop there.
const TURNS_AFTER_DEATH: usize = 64;

/// More deliveries than this are not drawn side by side: those in the middle are left out.
const MAX_LANES: usize = 5;

/// On which side of a call the run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The call is not made.
    Before,
    /// Half of it is performed. Only a [write](Outside::write) has a middle.
    Within,
    /// The call is performed, but its answer does not arrive.
    After,
}

/// How a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The process dies. The run is dropped, and no further call of it reaches the outside.
    Killed,
    /// The connection breaks. The run gets an error and goes on. Only a [request](Outside::request) can be cut.
    Cut,
}

/// Where and how a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The number of the call, from 1.
    pub call: usize,
    /// Before the call or after it.
    pub side: Side,
    /// What becomes of the run.
    pub way: Way,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} call {}", self.how(), self.call)
    }
}

impl Stop {
    fn how(self) -> String {
        let way = match self.way {
            Way::Killed => "killed",
            Way::Cut => "cut off",
        };
        let side = match self.side {
            Side::Before => "before",
            Side::Within => "within",
            Side::After => "after",
        };
        format!("{way} {side}")
    }
}

/// Why a request got no answer: the test cut it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// It had no effect.
    #[error("the test cut the connection before the request was sent")]
    NotSent,
    /// It had its effect.
    #[error("the test cut the connection after the request was performed, so its answer is lost")]
    AnswerLost,
}

/// Why a write was not completed: the test has killed the run. The run must end now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the test has killed this run")]
pub struct Killed;

impl From<Killed> for std::io::Error {
    fn from(killed: Killed) -> Self {
        Self::other(killed)
    }
}

/// The way of a run to the outside. All clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Which run this is, or which pause between runs.
    run: u64,
    /// The workers of earlier runs that died, by run. Their calls that are still under way end there.
    buried: BTreeSet<(u64, usize)>,
    /// Who makes calls in this run. There is one worker, unless [`race`](crate::race) runs several.
    workers: Vec<Worker>,
    /// The test itself makes calls, between two runs or after the last one. They are not calls of a run.
    aside: bool,
    /// Whoever drives the run, and must know when a worker has died or a call has ended.
    driver: Option<Waker>,
    /// `Some`: calls wait until they are let through.
    gate: Option<Gate>,
    history: History,
    /// Where the first run that was stopped was stopped.
    stopped: Option<String>,
}

#[derive(Debug, Default)]
struct Worker {
    /// The number of its lane in the history.
    lane: usize,
    /// How many calls it has made.
    count: usize,
    /// The names of the last of these calls.
    calls: VecDeque<String>,
    stop: Option<Stop>,
    /// The kind of the call at which it was stopped.
    stopped_at: Option<Kind>,
    /// After the process has died, no call of it reaches the outside.
    dead: bool,
}

/// How a call can be stopped, besides being killed before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    /// It can be cut off.
    Request,
    /// It can be killed within.
    Write,
}

/// Rows of a table of lanes. Nothing is kept before the first run begins: that is the set-up of the test.
#[derive(Debug, Default)]
struct History {
    lanes: Vec<String>,
    rows: VecDeque<Row>,
    /// How many rows there were before those that are kept.
    forgotten: usize,
}

#[derive(Debug)]
struct Row {
    lane: Option<usize>,
    text: String,
}

/// Calls that wait to be let through, one at a time.
#[derive(Debug, Default)]
struct Gate {
    tickets: u64,
    waiting: Vec<Waiting>,
    /// The workers of the calls that were let through and have not ended.
    under_way: Vec<usize>,
}

impl Gate {
    fn ended(&mut self, worker: usize) {
        if let Some(index) = self.under_way.iter().position(|under_way| *under_way == worker) {
            self.under_way.remove(index);
        }
    }
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    worker: usize,
    waker: Option<Waker>,
}

thread_local! {
    /// Which of several workers is being polled. `None`: a task that one of them has spawned.
    static POLLED: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Outside {
    /// An outside at which no run is stopped yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes one call to the outside, which cannot fail. If the run is killed here, this never returns.
    pub async fn call<T>(&self, name: &str, work: impl Future<Output = T>) -> T {
        match self.pass(name, Kind::Call, work, |_| "done".to_owned()).await {
            Ok(answer) => answer,
            Err(Cut::NotSent | Cut::AnswerLost) => pending().await,
        }
    }

    /// Makes one call to the outside, which fails if the run is cut off here. If the run is killed here, this never
    /// returns.
    ///
    /// # Errors
    /// If the run is cut off here.
    pub async fn request<T>(&self, name: &str, work: impl Future<Output = T>) -> Result<T, Cut> {
        self.pass(name, Kind::Request, work, |_| "done".to_owned()).await
    }

    /// Makes one call that blocks and may be performed by half, as a write to a disk may. If the run is killed here, this
    /// returns an error, because a call that blocks cannot wait for ever. So does every later write.
    ///
    /// # Errors
    /// If the run is killed here, or was killed before.
    pub fn write<T>(&self, name: &str, half: impl FnOnce(), whole: impl FnOnce() -> T) -> Result<T, Killed> {
        let mut call = Call::arrive(self, name, Kind::Write);
        // It cannot wait for its turn either.
        call.end();
        let Fate::Passes = call.meets(Side::Before) else { return Err(Killed) };
        let Fate::Passes = call.meets(Side::Within) else {
            half();
            return Err(Killed);
        };
        let answer = whole();
        call.answered("done");
        match call.meets(Side::After) {
            Fate::Passes => Ok(answer),
            Fate::Ends | Fate::IsCut => Err(Killed),
        }
    }

    /// Runs this until it ends, or until the run is killed: then it is dropped, and this returns `None`.
    pub async fn until_death<T>(&self, run: impl Future<Output = T>) -> Option<T> {
        let mut run = Box::pin(run);
        let ended = poll_fn(|cx| {
            let ended = run.as_mut().poll(cx);
            // A run that was killed in a write goes on until it next waits, or ends: that is not its own end.
            match (self.watch(cx, 0), ended) {
                (true, _) => Poll::Ready(None),
                (false, Poll::Ready(result)) => Poll::Ready(Some(result)),
                (false, Poll::Pending) => Poll::Pending,
            }
        })
        .await;
        drop(run);
        if ended.is_none() {
            after_death().await;
        }
        ended
    }

    /// `outcome` says for the history what the answer was.
    pub(crate) async fn pass<T>(
        &self,
        name: &str,
        kind: Kind,
        work: impl Future<Output = T>,
        outcome: impl FnOnce(&T) -> String,
    ) -> Result<T, Cut> {
        let mut call = Call::arrive(self, name, kind);
        poll_fn(|cx| call.poll_turn(cx)).await;
        match call.meets(Side::Before) {
            Fate::Passes => {}
            Fate::Ends => return pending().await,
            Fate::IsCut => return Err(Cut::NotSent),
        }
        let answer = work.await;
        call.answered(&outcome(&answer));
        match call.meets(Side::After) {
            Fate::Passes => Ok(answer),
            Fate::Ends => pending().await,
            Fate::IsCut => Err(Cut::AnswerLost),
        }
    }

    /// The names of the calls of the present run, in order: the last [`MAX_KEPT`] of them.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.lock().workers.first().map(|worker| worker.calls.iter().cloned().collect()).unwrap_or_default()
    }

    /// Begins a new run, which is stopped at `stop`, if there is one. It gets a lane of its own in the history.
    pub fn begin(&self, stop: Option<Stop>) {
        let mut state = self.lock();
        let lane = state.history.lanes.len();
        state.history.lanes.push(format!("delivery {}", lane + 1));
        state.begin(vec![Worker { lane, stop, ..Worker::default() }]);
    }

    /// Begins a new run of several workers. Their calls wait until [`open`](Self::open) lets them through.
    pub(crate) fn begin_together(&self, stops: &[Option<Stop>]) {
        let mut state = self.lock();
        if state.history.lanes.is_empty() {
            let names = (1..=stops.len()).map(|number| format!("worker {number}"));
            state.history.lanes = names.chain(["spawned tasks".to_owned()]).collect();
        }
        let spawned = [None];
        let workers = stops.iter().chain(&spawned).enumerate();
        state.begin(workers.map(|(lane, stop)| Worker { lane, stop: *stop, ..Worker::default() }).collect());
        state.gate = Some(Gate::default());
    }

    /// What follows is not part of a run: nothing is stopped, counted, or kept in the history, except this.
    pub(crate) fn aside(&self, note: &str) {
        let mut state = self.lock();
        state.bury();
        state.aside = true;
        state.gate = None;
        state.history.push(None, note.to_owned());
    }

    /// Keeps what a worker did apart from calls.
    pub(crate) fn did(&self, worker: usize, text: String) {
        let mut state = self.lock();
        let Some(lane) = state.workers.get(worker).map(|worker| worker.lane) else { return };
        state.history.push(Some(lane), text);
    }

    /// What happened since the first run began, one lane per run. Calls that the test makes before that, or between runs,
    /// are not part of it.
    #[must_use]
    pub fn history(&self) -> Lanes {
        self.lock().history.draw()
    }

    /// Whether the worker is dead. The caller is woken when a worker dies or a call ends.
    pub(crate) fn watch(&self, cx: &Context<'_>, worker: usize) -> bool {
        let mut state = self.lock();
        state.driver = Some(cx.waker().clone());
        state.workers.get(worker).is_some_and(|worker| worker.dead)
    }

    /// How and where the first of the runs was stopped that was stopped at all, for example `killed after PutItem`.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.lock().stopped.clone()
    }

    /// At which kind of call the run was stopped. `None`: it ended before its stop, or has none.
    pub(crate) fn stopped_at(&self) -> Option<Kind> {
        self.lock().workers.first().and_then(|worker| worker.stopped_at)
    }

    /// How many calls the present run has made.
    pub(crate) fn count(&self) -> usize {
        self.lock().workers.iter().map(|worker| worker.count).sum()
    }

    /// Polls a worker, so that the calls that it makes meanwhile are known to be its own.
    pub(crate) fn polling<T>(worker: usize, poll: impl FnOnce() -> T) -> T {
        struct Reset(Option<usize>);
        impl Drop for Reset {
            fn drop(&mut self) {
                POLLED.set(self.0);
            }
        }
        let _reset = Reset(POLLED.replace(Some(worker)));
        poll()
    }

    /// The workers of the calls that wait, in the order in which the calls arrived, and of those that are under way.
    pub(crate) fn waiting(&self) -> (Vec<usize>, Vec<usize>) {
        match &self.lock().gate {
            Some(gate) => (gate.waiting.iter().map(|waiting| waiting.worker).collect(), gate.under_way.clone()),
            None => (Vec::new(), Vec::new()),
        }
    }

    /// Lets one of the waiting calls through.
    pub(crate) fn open(&self, index: usize) {
        let mut state = self.lock();
        let Some(gate) = &mut state.gate else { return };
        if index >= gate.waiting.len() {
            return;
        }
        let waiting = gate.waiting.remove(index);
        gate.under_way.push(waiting.worker);
        if let Some(waker) = waiting.waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn bury(&mut self) {
        for (worker, state) in self.workers.iter_mut().enumerate() {
            if std::mem::take(&mut state.dead) {
                self.buried.insert((self.run, worker));
            }
        }
        self.run += 1;
    }

    fn begin(&mut self, workers: Vec<Worker>) {
        self.bury();
        self.workers = workers;
        self.aside = false;
        self.gate = None;
    }

    fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }
}

impl History {
    /// Returns the number of the row, by which it can be found again.
    fn push(&mut self, lane: Option<usize>, text: String) -> usize {
        if self.lanes.is_empty() {
            return usize::MAX;
        }
        if self.rows.len() == MAX_STEPS {
            self.rows.pop_front();
            self.forgotten += 1;
        }
        self.rows.push_back(Row { lane, text });
        self.forgotten + self.rows.len() - 1
    }

    fn amend(&mut self, row: usize, text: String) {
        if let Some(row) = row.checked_sub(self.forgotten).and_then(|index| self.rows.get_mut(index)) {
            row.text = text;
        }
    }

    fn draw(&self) -> Lanes {
        let mut used: Vec<usize> =
            (0..self.lanes.len()).filter(|lane| self.rows.iter().any(|row| row.lane == Some(*lane))).collect();
        let left_out: Vec<usize> = if used.len() > MAX_LANES {
            let from = MAX_LANES / 2;
            let to = used.len() - (MAX_LANES - from);
            used.drain(from..to).collect()
        } else {
            Vec::new()
        };
        let mut lanes = Lanes::new(used.iter().map(|lane| &self.lanes[*lane]));
        if self.forgotten > 0 {
            lanes.note(format!("the first {} steps are not kept", self.forgotten));
        }
        // While deliveries are left out, so are the notes between them.
        let mut skipping = false;
        for row in &self.rows {
            match row.lane {
                Some(lane) if left_out.contains(&lane) => {
                    if !skipping {
                        lanes.note(format!("{} deliveries are left out", left_out.len()));
                    }
                    skipping = true;
                }
                Some(lane) => {
                    skipping = false;
                    if let Some(at) = used.iter().position(|used| *used == lane) {
                        lanes.step(at, &row.text);
                    }
                }
                None if skipping => {}
                None => lanes.note(&row.text),
            }
        }
        lanes
    }
}

/// One call on its way. If it is dropped, it does not hold up the others.
struct Call<'a> {
    outside: &'a Outside,
    run: u64,
    name: String,
    kind: Kind,
    worker: usize,
    number: usize,
    stage: Stage,
    row: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It may go on when it likes.
    Free,
    Waiting(u64),
    UnderWay,
    Over,
}

/// What becomes of a call.
enum Fate {
    Passes,
    /// Its process is dead.
    Ends,
    IsCut,
}

impl<'a> Call<'a> {
    fn arrive(outside: &'a Outside, name: &str, kind: Kind) -> Self {
        let mut state = outside.lock();
        if state.workers.is_empty() {
            state.workers.push(Worker::default());
        }
        let spawned = state.workers.len() - 1;
        let worker = if state.gate.is_some() { POLLED.get().unwrap_or(spawned).min(spawned) } else { 0 };
        let State { run, workers, aside, gate, .. } = &mut *state;
        let me = &mut workers[worker];
        if !me.dead && !*aside {
            me.count += 1;
            if me.calls.len() == MAX_KEPT {
                me.calls.pop_front();
            }
            me.calls.push_back(name.to_owned());
        }
        let number = me.count;
        let run = *run;
        let stage = match gate {
            Some(gate) if !me.dead => {
                gate.tickets += 1;
                gate.waiting.push(Waiting { ticket: gate.tickets, worker, waker: None });
                Stage::Waiting(gate.tickets)
            }
            _ => Stage::Free,
        };
        // A spawned task arrives while nobody polls the driver.
        if stage != Stage::Free {
            state.wake_driver();
        }
        Self { outside, run, name: name.to_owned(), kind, worker, number, stage, row: usize::MAX }
    }

    fn poll_turn(&mut self, cx: &Context<'_>) -> Poll<()> {
        let Stage::Waiting(ticket) = self.stage else { return Poll::Ready(()) };
        let mut state = self.outside.lock();
        let same_run = state.run == self.run;
        let waiting = state.gate.as_mut().and_then(|gate| gate.waiting.iter_mut().find(|w| w.ticket == ticket));
        match waiting {
            Some(waiting) if same_run => {
                waiting.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => {
                self.stage = Stage::UnderWay;
                Poll::Ready(())
            }
        }
    }

    fn meets(&mut self, side: Side) -> Fate {
        let mut state = self.outside.lock();
        if state.run != self.run {
            let dead = state.buried.contains(&(self.run, self.worker));
            return if dead { Fate::Ends } else { Fate::Passes };
        }
        if state.aside {
            return Fate::Passes;
        }
        let State { workers, history, .. } = &mut *state;
        let me = &mut workers[self.worker];
        if me.dead {
            drop(state);
            self.end();
            return Fate::Ends;
        }
        let here = |way| Some(Stop { call: self.number, side, way });
        let killed = me.stop == here(Way::Killed);
        let cut = self.kind == Kind::Request && me.stop == here(Way::Cut);
        let name = &self.name;
        match side {
            Side::Before => {
                let text = if killed {
                    format!("{name}: killed before it is sent")
                } else if cut {
                    format!("{name}: cut off before it is sent")
                } else {
                    format!("{name}: no answer yet")
                };
                self.row = history.push(Some(me.lane), text);
            }
            Side::Within if killed => history.amend(self.row, format!("{name}: killed when half of it was done")),
            Side::After if killed => history.amend(self.row, format!("{name}: done, killed before the answer")),
            Side::After if cut => history.amend(self.row, format!("{name}: done, cut off before the answer")),
            Side::Within | Side::After => {}
        }
        if killed || cut {
            me.stopped_at = Some(self.kind);
            let how = me.stop.take().map(|stop| format!("{} {}", stop.how(), self.name));
            me.dead = killed;
            state.stopped = state.stopped.take().or(how);
            state.wake_driver();
        }
        drop(state);
        if killed {
            self.end();
            Fate::Ends
        } else if cut {
            Fate::IsCut
        } else {
            Fate::Passes
        }
    }

    fn answered(&self, outcome: &str) {
        let mut state = self.outside.lock();
        if state.run == self.run {
            let text = format!("{}: {outcome}", self.name);
            state.history.amend(self.row, text);
        }
    }

    /// Lets other calls go on.
    fn end(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let mut state = self.outside.lock();
        if state.run != self.run {
            return;
        }
        if let Some(gate) = &mut state.gate {
            match stage {
                Stage::Waiting(ticket) => match gate.waiting.iter().position(|waiting| waiting.ticket == ticket) {
                    Some(index) => drop(gate.waiting.remove(index)),
                    // It was let through and never polled again.
                    None => gate.ended(self.worker),
                },
                Stage::UnderWay => gate.ended(self.worker),
                Stage::Free | Stage::Over => return,
            }
            state.wake_driver();
        }
    }
}

/// What a dead run has spawned belongs to the dead process: it comes to its next call and no further.
pub(crate) async fn after_death() {
    for _ in 0..TURNS_AFTER_DEATH {
        Turn::default().await;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
