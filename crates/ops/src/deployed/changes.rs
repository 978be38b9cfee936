//! Changes from the console. Each is the command of the same name, with its confirmation given because the page has asked, and with what the
//! page showed as its condition. Each is logged with the caller's identity, whatever became of it.

use clap::ValueEnum as _;
use console::backend::Failure;
use console::contract::{Change, Changed};
use serde_json::json;

use super::{Deployed, unanswered};
use crate::applications::Application;
use crate::command::{dead_letters, keys, schedules};
use crate::context::{Context, Ended, Error, Why};

impl Deployed {
    /// Makes a change and says what was done.
    pub(super) async fn make(&self, change: Change) -> Result<Changed, Failure> {
        if self.0.caller.is_none() {
            let message =
                "this console only reads, because it was started without --allow-changes; nothing was changed";
            return Err(Failure::Forbidden(message.to_owned()));
        }
        let _busy = self.0.busy.lock().await;
        let asked = serde_json::to_value(&change).unwrap_or_default();
        let mut out: Vec<u8> = Vec::new();
        let mut context = self.context(&mut out);
        // The credentials may be another's by now.
        let caller = context.caller().await.map_err(unanswered)?;
        let ended = perform(&mut context, change).await;
        drop(context);
        let said = String::from_utf8_lossy(&out).lines().collect::<Vec<_>>().join("; ");
        let outcome = match ended {
            Ok(Ended::Well) => Ok(Changed { message: said.clone() }),
            Ok(Ended::NeedsAttention) => Err(Failure::Failed(said.clone())),
            Err(Error::Refused(why)) => Err(Failure::Changed(why)),
            Err(error) => Err(unanswered(error)),
        };
        let (level, became) = match &outcome {
            Ok(_) => ("WARN", said),
            Err(failure) => ("ERROR", failure.to_string()),
        };
        let line = json!({
            "level": level, "message": format!("change from the console by {caller}: {became}"), "change": asked, "by": caller,
        });
        let mut nowhere = std::io::sink();
        // A log that cannot be written must not hide what became of the change.
        let _ = self.context(&mut nowhere).log(&line);
        outcome
    }
}

async fn perform(context: &mut Context<'_>, change: Change) -> Result<Ended, Error> {
    match change {
        Change::ReleaseKey { application, key, fence, reason, not_done } => {
            let one = keys::One { application: named(&application)?, key, table: None };
            keys::Keys::Release(keys::Release { one, fence: Some(fence), not_done, why: why(&reason)? })
                .run(context)
                .await
        }
        Change::RedriveDeadLetter { application, id, reason } => {
            let chosen = dead_letters::Chosen { application: named(&application)?, ids: vec![id], why: why(&reason)? };
            dead_letters::DeadLetters::Redrive(chosen).run(context).await
        }
        Change::DropDeadLetter { application, id, reason } => {
            let chosen = dead_letters::Chosen { application: named(&application)?, ids: vec![id], why: why(&reason)? };
            dead_letters::DeadLetters::Drop(chosen).run(context).await
        }
        Change::RunSchedule { name } => {
            schedules::Schedules::Run(schedules::Run { one: schedules::One { name }, why: why("")? }).run(context).await
        }
        Change::PauseSchedule { name, reason } => {
            schedules::Schedules::Pause(schedule(name, why(&reason)?, true)).run(context).await
        }
        Change::ResumeSchedule { name, reason } => {
            schedules::Schedules::Resume(schedule(name, why(&reason)?, false)).run(context).await
        }
    }
}

/// A schedule that was shown as running or paused: a paused one has no button that pauses it.
fn schedule(name: String, why: Why, running: bool) -> schedules::Changed {
    schedules::Changed { one: schedules::One { name }, why, shown_running: Some(running) }
}

/// The reason that was written into the page. It may be empty, as on the command line.
fn why(reason: &str) -> Result<Why, Error> {
    Why::new(reason).map_err(Error::Refused)
}

fn named(application: &str) -> Result<Application, Error> {
    Application::from_str(application, false)
        .map_err(|_| Error::Refused(format!("there is no application {application:?}; nothing was changed")))
}
