//! How a lost or doubled effect came about, in one sentence, from the moments of its event. And what ichido did with the same event.

use serde::Serialize;

use crate::Handler;
use crate::column::{Column, Life};
use crate::storm::{Fault, HELD_BACK};
use crate::trace::{Moment, To, What};

/// One event that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Story {
    /// Whose event.
    pub handler: Handler,
    /// The number of the event.
    pub event: u32,
    /// Lost, or doubled.
    pub wrong: Wrong,
    /// What lies behind it.
    pub cause: Cause,
    /// The same in a few words.
    pub cause_words: &'static str,
    /// How it came about.
    pub text: String,
    /// What ichido did with the same event, if it took part and there is something to tell.
    pub ichido: Option<String>,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Wrong {
    /// No effect.
    Lost,
    /// More than one effect.
    Doubled,
}

/// The kinds of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// A worker died, or was stopped, after the post and before its record.
    Died,
    /// The answer to a post was lost.
    AnswerLost,
    /// Two copies of the event came at once.
    AtOnce,
    /// A worker went on after its lease.
    Outlived,
    /// The store could not record the post.
    Unrecorded,
    /// The event was given up.
    GivenUp,
    /// The event was acknowledged without a post.
    Acknowledged,
    /// Something else.
    Other,
}

impl Cause {
    /// All causes, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Died,
        Self::AnswerLost,
        Self::AtOnce,
        Self::Outlived,
        Self::Unrecorded,
        Self::GivenUp,
        Self::Acknowledged,
        Self::Other,
    ];

    /// The cause in a few words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Died => "a worker died after its post, before its record",
            Self::AnswerLost => "the answer to a post was lost",
            Self::AtOnce => "two copies of the event came at once",
            Self::Outlived => "a worker went on after its lease had ended",
            Self::Unrecorded => "the store could not record the post",
            Self::GivenUp => "the event was given up after ten deliveries",
            Self::Acknowledged => "the event was acknowledged without a post",
            Self::Other => "something else",
        }
    }
}

/// The stories of all columns, in the order of the events.
pub(crate) fn stories<'a>(columns: impl Iterator<Item = &'a Column> + Clone) -> Vec<Story> {
    let ours = columns.clone().find(|column| column.handler == Handler::Ichido);
    let mut stories = Vec::new();
    for column in columns {
        for (event, life) in column.wrong() {
            let (cause, text) = explain(column.handler, &life);
            let wrong = if life.is_doubled() { Wrong::Doubled } else { Wrong::Lost };
            let ichido =
                ours.filter(|ours| ours.handler != column.handler).and_then(|ours| contrast(&ours.life(event)));
            stories.push(Story {
                handler: column.handler,
                event,
                wrong,
                cause,
                cause_words: cause.words(),
                text,
                ichido,
            });
        }
    }
    stories.sort_by_key(|story| story.event);
    stories
}

/// What a worker calls its first call to the store.
fn first_call(handler: Handler) -> &'static str {
    match handler {
        Handler::Naive => "look",
        Handler::Powertools | Handler::Ichido => "claim",
    }
}

fn explain(handler: Handler, life: &Life) -> (Cause, String) {
    let moments = &life.moments;
    let mut posts = moments.iter().filter(|moment| moment.what == What::Posted);
    match (posts.next(), posts.next()) {
        (Some(first), Some(second)) => doubled(handler, moments, first, second),
        _ => lost(moments),
    }
}

fn lost(moments: &[Moment]) -> (Cause, String) {
    if let Some(moment) = moments.iter().find(|moment| moment.what == What::Acknowledged) {
        let text = format!("worker {} acknowledged the event, and nobody had posted it", moment.worker);
        return (Cause::Acknowledged, text);
    }
    let deliveries = moments.iter().map(|moment| moment.delivery).max().unwrap_or(0);
    let last = moments.iter().rev().find_map(|moment| match &moment.what {
        What::Failed(why) => Some(why.as_str()),
        What::Died => Some("the worker died"),
        _ => None,
    });
    let text =
        format!("given up after {deliveries} deliveries; the last one ended with: {}", last.unwrap_or("nothing"));
    (Cause::GivenUp, text)
}

fn doubled(handler: Handler, moments: &[Moment], first: &Moment, second: &Moment) -> (Cause, String) {
    let (a, b) = (first.worker, second.worker);
    let of = |post: &Moment| {
        let delivery = post.delivery;
        moments.iter().filter(move |moment| moment.delivery == delivery)
    };
    let seconds = HELD_BACK.as_secs();
    let look = first_call(handler);
    let stored = |moment: &&Moment| matches!(moment.what, What::Called { to: To::Store, performed: true, .. });
    let own = of(first).filter(|moment| moment.at <= first.at).filter_map(fault_of_post).next_back();
    // Did the second worker ask the store before the first one had posted, or before it had recorded a post that went well?
    let asked = of(second).find(stored);
    let recorded = of(first).skip_while(|moment| !std::ptr::eq(*moment, first)).find(stored).filter(|_| own.is_none());
    let done = recorded.map_or(first.at, |recorded| recorded.at);
    if asked.is_some_and(|asked| asked.at <= done) {
        let held = |post: &Moment| {
            of(post).any(|moment| {
                moment.at <= post.at && matches!(moment.what, What::Called { fault: Some(Fault::Outlive), .. })
            })
        };
        if held(second) {
            let text = format!(
                "worker {b} waited {seconds} s for the answer to its {look}; meanwhile worker {a} posted; then worker {b} posted too"
            );
            return (Cause::Outlived, text);
        }
        return (Cause::AtOnce, format!("workers {a} and {b} had the event at the same time, and both posted"));
    }
    // The first one posted, and left no record that the second one would have seen.
    let after = of(first).skip_while(|moment| !std::ptr::eq(*moment, first));
    let (cause, how) = match own {
        Some(Fault::DieAfter) => (Cause::Died, format!("worker {a} died after the post, before its record")),
        Some(Fault::TimeLimit) => {
            (Cause::Died, format!("worker {a} was stopped at its time limit after the post, before its record"))
        }
        Some(Fault::LoseAnswer) => {
            (Cause::AnswerLost, format!("the answer to worker {a}'s post was lost, so worker {a} took it for failed"))
        }
        Some(Fault::Outlive) => (
            Cause::Outlived,
            format!(
                "worker {a} waited {seconds} s for the answer to its post, and its lease ended before it could record it"
            ),
        ),
        _ => unrecorded(a, after),
    };
    (cause, format!("{how}; worker {b} posted again"))
}

fn fault_of_post(moment: &Moment) -> Option<Fault> {
    match moment.what {
        What::Called { to: To::Post, fault, .. } => fault,
        _ => None,
    }
}

/// What happened to the record of a post, whose own call went well.
fn unrecorded<'a>(worker: u32, after: impl Iterator<Item = &'a Moment>) -> (Cause, String) {
    let fault = after
        .filter_map(|moment| match moment.what {
            What::Called { to: To::Store, fault: Some(fault), performed: false, .. } => Some(fault),
            _ => None,
        })
        .last();
    match fault {
        Some(Fault::DieBefore) => (Cause::Died, format!("worker {worker} died after the post, before its record")),
        Some(Fault::StoreDown) => {
            (Cause::Unrecorded, format!("the store was down when worker {worker} wanted to record its post"))
        }
        Some(Fault::Throttle) => {
            (Cause::Unrecorded, format!("the store throttled worker {worker}'s record of its post"))
        }
        _ => {
            (Cause::Other, format!("worker {worker} posted, but its record did not keep the next worker from posting"))
        }
    }
}

/// What ichido did with an event that went wrong elsewhere.
fn contrast(life: &Life) -> Option<String> {
    let find = |test: &dyn Fn(&What) -> bool| {
        life.moments.iter().find(|moment| test(&moment.what)).map(|moment| moment.worker)
    };
    if let Some(worker) = find(&|what| *what == What::Asked(true)) {
        return Some(format!("worker {worker} asked the destination, found the post, and recorded it"));
    }
    let failed = |words: &'static str| find(&move |what| matches!(what, What::Failed(why) if why.contains(words)));
    if let Some(worker) = failed("passed before the work could begin") {
        return Some(format!("worker {worker} saw that its lease had ended, and did not post"));
    }
    if let Some(worker) = failed("another call is working on it") {
        return Some(format!("worker {worker} was told that another worker holds the claim, and did not post"));
    }
    find(&|what| *what == What::Asked(false))
        .map(|worker| format!("worker {worker} asked the destination, found no post, and posted once"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A life, written as one line per moment: when, delivery, worker, what.
    fn life(moments: &[(u64, u32, u32, What)]) -> Life {
        let column = Column::new(Handler::Powertools, String::new());
        for (_, delivery, worker, what) in moments {
            column.note(1, *delivery, *worker, what.clone());
        }
        let mut life = column.life(1);
        for (moment, (at, ..)) in life.moments.iter_mut().zip(moments) {
            moment.at = Duration::from_millis(*at);
        }
        life
    }

    fn called(to: To, fault: Option<Fault>) -> What {
        let performed = !matches!(fault, Some(Fault::DieBefore | Fault::Throttle | Fault::StoreDown));
        What::Called { call: 0, to, fault, performed }
    }

    /// Worker 7 claims and posts, its post or its record meets a fault; worker 9 posts four seconds later.
    fn twice(of_post: Option<Fault>, record: Option<Fault>) -> Life {
        let mut moments =
            vec![(0, 1, 7, called(To::Store, None)), (10, 1, 7, called(To::Post, of_post)), (10, 1, 7, What::Posted)];
        moments.extend(record.map(|fault| (20, 1, 7, called(To::Store, Some(fault)))));
        moments.extend([
            (4000, 2, 9, called(To::Store, None)),
            (4010, 2, 9, called(To::Post, None)),
            (4010, 2, 9, What::Posted),
            (4020, 2, 9, What::Acknowledged),
        ]);
        life(&moments)
    }

    #[test]
    fn each_way_to_double_an_effect_has_its_sentence() {
        let again = "; worker 9 posted again";
        for (of_post, record, cause, how) in [
            (Some(Fault::DieAfter), None, Cause::Died, "worker 7 died after the post, before its record"),
            (None, Some(Fault::DieBefore), Cause::Died, "worker 7 died after the post, before its record"),
            (
                Some(Fault::TimeLimit),
                None,
                Cause::Died,
                "worker 7 was stopped at its time limit after the post, before its record",
            ),
            (
                Some(Fault::LoseAnswer),
                None,
                Cause::AnswerLost,
                "the answer to worker 7's post was lost, so worker 7 took it for failed",
            ),
            (
                Some(Fault::Outlive),
                None,
                Cause::Outlived,
                "worker 7 waited 5 s for the answer to its post, and its lease ended before it could record it",
            ),
            (None, Some(Fault::Throttle), Cause::Unrecorded, "the store throttled worker 7's record of its post"),
            (
                None,
                Some(Fault::StoreDown),
                Cause::Unrecorded,
                "the store was down when worker 7 wanted to record its post",
            ),
        ] {
            let life = twice(of_post, record);
            assert!(life.is_doubled() && !life.is_lost());
            assert_eq!(explain(Handler::Powertools, &life), (cause, format!("{how}{again}")));
        }
    }

    #[test]
    fn copies_at_once_are_told_from_a_worker_that_was_late() {
        let at_once = life(&[
            (0, 1, 3, called(To::Store, None)),
            (1, 2, 4, called(To::Store, None)),
            (10, 1, 3, What::Posted),
            (11, 2, 4, What::Posted),
        ]);
        let (cause, text) = explain(Handler::Naive, &at_once);
        assert_eq!(
            (cause, text.as_str()),
            (Cause::AtOnce, "workers 3 and 4 had the event at the same time, and both posted")
        );
        // The second one looked after the post of the first one, and before its record.
        let between = life(&[
            (0, 1, 3, called(To::Store, None)),
            (10, 1, 3, called(To::Post, None)),
            (10, 1, 3, What::Posted),
            (11, 2, 4, called(To::Store, None)),
            (12, 1, 3, called(To::Store, None)),
            (13, 2, 4, What::Posted),
        ]);
        assert_eq!(explain(Handler::Naive, &between).0, Cause::AtOnce);
        let late = life(&[
            (0, 1, 3, called(To::Store, Some(Fault::Outlive))),
            (4000, 2, 4, called(To::Store, None)),
            (4010, 2, 4, What::Posted),
            (5010, 1, 3, What::Posted),
        ]);
        let (cause, text) = explain(Handler::Powertools, &late);
        assert_eq!(cause, Cause::Outlived);
        assert_eq!(
            text,
            "worker 3 waited 5 s for the answer to its claim; meanwhile worker 4 posted; then worker 3 posted too"
        );
    }

    #[test]
    fn an_effect_is_lost_if_its_event_was_given_up_or_acknowledged_without_a_post() {
        let given_up = life(&[(0, 10, 3, What::Failed("the store is down".into())), (1, 10, 0, What::GivenUp)]);
        assert!(given_up.is_lost());
        let text = "given up after 10 deliveries; the last one ended with: the store is down";
        assert_eq!(explain(Handler::Naive, &given_up), (Cause::GivenUp, text.to_owned()));
        let acknowledged = life(&[(0, 1, 3, What::Acknowledged)]);
        assert!(acknowledged.is_lost());
        let text = "worker 3 acknowledged the event, and nobody had posted it";
        assert_eq!(explain(Handler::Naive, &acknowledged), (Cause::Acknowledged, text.to_owned()));
    }

    #[test]
    fn what_ichido_did_is_read_from_its_probe_and_its_errors() {
        let said = |what| contrast(&life(&[(0, 1, 3, what)])).expect("a sentence");
        assert!(said(What::Asked(true)).contains("worker 3 asked the destination, found the post"));
        assert!(said(What::Asked(false)).contains("found no post"));
        let at = ichido::Timestamp::from_millis(0);
        let in_flight = ichido::Error::<String>::InFlight { until: at }.to_string();
        assert!(said(What::Failed(in_flight)).contains("another worker holds the claim"));
        let too_late = ichido::Error::<String>::DeadlinePassed { deadline: at }.to_string();
        assert!(said(What::Failed(too_late)).contains("its lease had ended"));
        assert_eq!(contrast(&life(&[(0, 1, 3, What::Acknowledged)])), None);
    }
}
