//! The duel in the terminal: the command line, a scoreboard that is drawn again and again, the result.
//!
//! Everything for people goes to stderr. With `--json`, the last line on stdout is the result.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tokio::sync::watch;

use crate::explain::{Cause, Story, Wrong};
use crate::storm::Fault;
use crate::{Error, Handler, Options, Phase, Progress, Score};

/// How often the scoreboard is drawn on a terminal.
const DRAW: Duration = Duration::from_millis(250);
/// How often a line is written where there is no terminal.
const TELL: Duration = Duration::from_secs(10);
/// How many stories are told per handler.
const STORIES: usize = 8;
/// Lines on a terminal are not longer than this, so that they are not wrapped.
const WIDTH: usize = 79;

/// Three handlers get the same events and the same faults. Each event asks for one effect; the duel counts what came of it.
#[derive(Debug, Parser)]
#[command(
    name = "duel",
    version,
    after_help = "Examples:\n  make demo                                  a minute and a half, with a storm of its own\n  \
                  make demo ARGS=\"--seed 7\"                  the storm of seed 7\n  \
                  make demo ARGS=\"--seed 7 --seconds 30 --json --without powertools\"\n\n\
                  Everything for people goes to stderr. crates/duel/README.md describes the storm."
)]
struct Arguments {
    /// Decides every fault; without it, a seed is chosen and printed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long the duel takes, from 10 to 3600
    #[arg(long, value_name = "N", default_value_t = 90)]
    seconds: u64,
    /// Print the result as one line of JSON on stdout
    #[arg(long)]
    json: bool,
    /// Leave this handler out
    #[arg(long, value_name = "HANDLER")]
    without: Option<Without>,
    /// Tell how every lost or doubled effect came about, not only eight per handler
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Without {
    Powertools,
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let played = std::env::current_exe().map_err(|error| error.to_string()).and_then(|program| {
        let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(1..10_000));
        let mut options = Options::new(seed, program);
        options.seconds = arguments.seconds;
        options.without_powertools = arguments.without.is_some();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let ended = runtime.map_err(|error| error.to_string())?.block_on(play(options, arguments.all));
        ended.map_err(|error| telemetry::causes(&error))
    });
    match played {
        Ok(Some(result)) => {
            if arguments.json && writeln!(io::stdout(), "{}", result.json()).is_err() {
                return ExitCode::FAILURE;
            }
            verdict(&result)
        }
        Ok(None) => {
            say("\nStopped; the workers are gone.\n");
            ExitCode::from(130)
        }
        Err(error) => {
            say(&format!("duel: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// A duel in which ichido did not keep its promise is a failure.
fn verdict(result: &Progress) -> ExitCode {
    let kept = result.score(Handler::Ichido).is_some_and(Score::is_exactly_once);
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a duel and shows it. `None` if a person stopped it.
async fn play(options: Options, all: bool) -> Result<Option<Progress>, Error> {
    let style = Style::of_stderr();
    say(&intro(&options));
    let (sender, mut receiver) = watch::channel(Progress::default());
    let duel = crate::run(options, sender);
    tokio::pin!(duel);
    let shown = async {
        if let Ok(progress) = receiver.wait_for(|progress| progress.page.is_some()).await {
            say(&format!("In a browser: {}\n\n", progress.page.as_deref().unwrap_or_default()));
        }
        if style.terminal { draw(&style, receiver).await } else { tell(receiver).await }
    };
    let done = tokio::select! {
        ended = &mut duel => ended?,
        never = shown => match never {},
        _ = tokio::signal::ctrl_c() => return Ok(None),
    };
    if style.terminal {
        say("\x1b[J");
    }
    say(&ending(&style, &done, if all { usize::MAX } else { STORIES }));
    Ok(Some(done))
}

/// Draws the scoreboard in place.
async fn draw(style: &Style, receiver: watch::Receiver<Progress>) -> std::convert::Infallible {
    loop {
        let progress = receiver.borrow().clone();
        let board = live(style, &progress);
        // Each line replaces the one before it; then the cursor goes back to the first.
        let up = board.lines().count();
        say(&format!("{}\x1b[{up}A", board.replace('\n', "\x1b[K\n")));
        tokio::time::sleep(DRAW).await;
    }
}

/// Writes a line now and then.
async fn tell(receiver: watch::Receiver<Progress>) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(TELL).await;
        let progress = receiver.borrow().clone();
        let column = |score: &Score| format!("{} {} doubled, {} lost", score.name, score.doubled, score.lost);
        let columns: Vec<String> = progress.handlers.iter().map(column).collect();
        let sent = progress.handlers.first().map_or(0, |score| score.sent);
        say(&format!("{}; {sent} events sent; {}\n", clock(&progress), columns.join("; ")));
    }
}

fn say(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn intro(options: &Options) -> String {
    format!(
        "\nEXACTLY ONCE: a duel. Seed {seed}, {seconds} seconds.\n\n\
         Each event asks for one post; think of a payment. An event may arrive twice,\n\
         and anything may break on the way. Exactly once means that, in the end, there\n\
         is one post per event: none is missing, none is there twice.\n\n\
         \x20 naive       looks whether the event is done, posts, records it\n\
         \x20 powertools  AWS Lambda Powertools (idempotency), from npm, as documented\n\
         \x20 ichido      claims the event, posts, records it; if a worker may have died\n\
         \x20             in between, the next one first asks whether the post is there\n\n\
         All meet the same faults: copies at once, workers killed between any two calls\n\
         (each is a process of its own), answers lost, throttling, answers that come\n\
         after the lease, a store that is down for a while. An event that nobody has\n\
         acknowledged is delivered again after 4 seconds, at most ten times.\n\n",
        seed = options.seed,
        seconds = options.seconds,
    )
}

fn clock(progress: &Progress) -> String {
    let seconds = progress.elapsed_ms / 1000;
    let doing = match progress.phase {
        Phase::Starting => "the workers start",
        Phase::Sending if progress.store_down => "new events; THE STORE IS DOWN",
        Phase::Sending => "new events",
        Phase::Finishing => "no new events; what is not acknowledged is delivered again",
        Phase::Done => "done",
    };
    format!("{seconds:>3} s of {}: {doing}", progress.seconds)
}

fn live(style: &Style, progress: &Progress) -> String {
    if progress.phase == Phase::Starting {
        return format!("{}\n", style.dim("the workers start"));
    }
    let mut text = table(style, progress);
    let _ = writeln!(text, "\n{}", style.dim(&clock(progress)));
    let latest = progress
        .stories
        .last()
        .map_or(String::new(), |story| format!("{}, event {}: {}", story.handler, story.event, story.text));
    let _ = writeln!(text, "{}", clipped(&latest));
    text
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    text.chars().take(WIDTH - 1).chain(['…']).collect()
}

/// The scoreboard.
fn table(style: &Style, progress: &Progress) -> String {
    type Row = (&'static str, fn(&Score) -> String, bool);
    let rows: [Row; 8] = [
        ("events sent", |score| score.sent.to_string(), false),
        ("events acknowledged", |score| score.acknowledged.to_string(), false),
        ("posts at the destination", |score| score.effects.to_string(), false),
        ("LOST: events without a post", |score| score.lost.to_string(), true),
        ("DOUBLED: more than one post", |score| score.doubled.to_string(), true),
        ("acknowledged, never posted", |score| score.wrongly_acknowledged.to_string(), true),
        ("CPU per event", |score| format!("{:.1} ms", score.cpu_micros_per_event / 1000.0), false),
        ("calls to the store per event", |score| format!("{:.1}", score.store_calls_per_event), false),
    ];
    let mut text = format!("{:30}", "");
    for score in &progress.handlers {
        text.push_str(&style.bold(&format!("{:>16}", score.name)));
    }
    text.push('\n');
    let versions = progress.handlers.iter().map(|score| format!("{:>16}", short(&score.version)));
    let _ = writeln!(text, "{:30}{}", "", style.dim(&versions.collect::<String>()));
    for (name, value, must_be_zero) in rows {
        let _ = write!(text, "{name:30}");
        for score in &progress.handlers {
            let cell = format!("{:>16}", value(score));
            text.push_str(&match (must_be_zero, cell.trim() == "0") {
                (false, _) => cell,
                (true, true) => style.green(&cell),
                (true, false) => style.red(&cell),
            });
        }
        text.push('\n');
    }
    text
}

/// `aws-sdk-dynamodb 1.2.3` does not fit a column.
fn short(version: &str) -> String {
    version.replace("aws-sdk-dynamodb", "aws-sdk")
}

/// What is left on the screen: first the stories, then the table and what it means, because that is read first. `most` stories are
/// told per handler.
fn ending(style: &Style, done: &Progress, most: usize) -> String {
    let mut text = String::new();
    for score in &done.handlers {
        text.push_str(&stories(style, score, &done.stories, most));
        text.push('\n');
    }
    text.push_str(&table(style, done));
    let _ = writeln!(text, "\n{}", wrapped(&faults(done), ""));
    if let Some(sentence) = &done.left_out {
        let _ = writeln!(text, "{sentence}.");
    }
    if cfg!(debug_assertions) {
        let _ = writeln!(text, "CPU without the start of the workers; naive and ichido are debug builds here.");
    }
    text.push_str(&lesson(style, done));
    text
}

/// What the storm did.
fn faults(done: &Progress) -> String {
    let count = |kinds: &[Fault]| kinds.iter().filter_map(|kind| done.faults.get(kind)).sum::<u64>();
    format!(
        "The storm of seed {}. Workers killed: {}. Answers lost: {}. Calls throttled: {}. Answers held back beyond the lease: {}. \
         Calls to a store that was down: {}.",
        done.seed,
        count(&[Fault::DieBefore, Fault::DieAfter, Fault::TimeLimit]),
        count(&[Fault::LoseAnswer]),
        count(&[Fault::Throttle]),
        count(&[Fault::Outlive]),
        count(&[Fault::StoreDown]),
    )
}

/// The events of one handler that went wrong: how many of each cause, then one sentence each.
fn stories(style: &Style, score: &Score, all: &[Story], most: usize) -> String {
    let own: Vec<&Story> = all.iter().filter(|story| story.handler == score.name).collect();
    let mut text = style.bold(&score.name.to_string());
    if own.is_empty() {
        let _ = writeln!(text, ": one post for each of its {} events.", score.sent);
        return text;
    }
    let _ = writeln!(text, " got {} of {} events wrong:", own.len(), score.sent);
    for cause in Cause::ALL {
        let number = own.iter().filter(|story| story.cause == cause).count();
        if number > 0 {
            let _ = writeln!(text, "  {number:>4} × {}", cause.words());
        }
    }
    for story in chosen(&own, most) {
        let wrong = if story.wrong == Wrong::Doubled { "doubled" } else { "lost" };
        let _ = writeln!(text, "{}", wrapped(&format!("  event {} {wrong}: {}.", story.event, story.text), "    "));
        if let Some(ours) = &story.ichido {
            let ours = wrapped(&format!("    ichido, same event, same faults: {ours}."), "      ");
            let _ = writeln!(text, "{}", style.dim(&ours));
        }
    }
    if own.len() > most {
        let _ = writeln!(text, "  … and {} more; --all tells them all.", own.len() - most);
    }
    text
}

/// Breaks a text into lines. The second one and those after it begin with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    let mut words = text.split(' ');
    // Spaces at the beginning are kept.
    if let (Some(line), Some(first)) = (lines.last_mut(), words.next()) {
        line.push_str(first);
    }
    for word in words {
        let Some(line) = lines.last_mut() else { break };
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{indent}{word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// As many stories as are told: first one of each cause, then the others, in the order of the events.
fn chosen<'a>(own: &[&'a Story], most: usize) -> Vec<&'a Story> {
    let first = |story: &&&Story| {
        own.iter().find(|other| other.cause == story.cause).is_some_and(|other| other.event == story.event)
    };
    let (firsts, others): (Vec<_>, Vec<_>) = own.iter().partition(|story| first(story));
    let mut chosen: Vec<&Story> = firsts.into_iter().chain(others).take(most).copied().collect();
    chosen.sort_by_key(|story| story.event);
    chosen
}

fn lesson(style: &Style, done: &Progress) -> String {
    let Some(ours) = done.score(Handler::Ichido) else { return String::new() };
    if !ours.is_exactly_once() {
        return format!(
            "\n{}\n",
            style.red(
                "ichido did not keep its promise. Please report the seed: this is a fault of ichido or of the duel."
            )
        );
    }
    format!(
        "\n{}\n\
         A post and its record are not made in the same instant. A worker that dies or\n\
         fails between the two leaves a post that no record knows of. The next worker\n\
         cannot tell, and posts again.\n\
         ichido does not guess. Its claim tells the next worker that somebody was here\n\
         before. That worker asks the destination, and posts only if there is no post.\n\
         The destination must be one that can be asked. Where nobody can be asked, you\n\
         choose: post again, or stop and let a person look.\n\n\
         The same faults again: make demo ARGS=\"--seed {}\"\n",
        style.bold("What exactly once takes"),
        done.seed
    )
}

/// Colours, where they are wanted.
struct Style {
    terminal: bool,
    colours: bool,
}

impl Style {
    fn of_stderr() -> Self {
        let terminal = io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { terminal, colours: terminal && !refused }
    }

    fn with(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.with("2", text)
    }

    fn red(&self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn green(&self, text: &str) -> String {
        self.with("1;32", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { terminal: false, colours: false };

    fn score(name: Handler, doubled: u64) -> Score {
        Score {
            name,
            version: "1.2.3".into(),
            sent: 20,
            acknowledged: 20,
            effects: 20 + doubled,
            lost: 0,
            doubled,
            wrongly_acknowledged: 0,
            cpu_micros_per_event: 1500.0,
            store_calls_per_event: 2.25,
        }
    }

    fn story(event: u32, cause: Cause) -> Story {
        let text = "worker 7 died after the post, before its record; worker 9 posted again".to_owned();
        let ichido = Some("worker 4 asked the destination, found the post, and recorded it".to_owned());
        let (handler, wrong, cause_words) = (Handler::Naive, Wrong::Doubled, cause.words());
        Story { handler, event, wrong, cause, cause_words, text, ichido }
    }

    fn done() -> Progress {
        let stories = (1..=10).map(|event| story(event, if event == 10 { Cause::Outlived } else { Cause::Died }));
        Progress {
            seed: 7,
            phase: Phase::Done,
            handlers: vec![score(Handler::Naive, 10), score(Handler::Ichido, 0)],
            stories: stories.collect(),
            ..Progress::default()
        }
    }

    #[test]
    fn the_ending_tells_some_stories_of_every_cause_and_says_how_many_there_are_more() {
        let text = ending(&PLAIN, &done(), 8);
        assert!(text.contains("naive got 10 of 20 events wrong:\n     9 × a worker died"), "{text}");
        assert!(text.contains("     1 × a worker went on after its lease had ended\n"), "{text}");
        assert_eq!(text.matches("doubled: worker 7 died").count(), 8);
        assert!(text.contains("event 10 doubled"), "a cause that is rare is not left out: {text}");
        assert!(text.contains("… and 2 more; --all tells them all."), "{text}");
        assert!(text.contains("ichido: one post for each of its 20 events."), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let all = ending(&PLAIN, &done(), usize::MAX);
        assert!(all.matches("doubled: worker 7 died").count() == 10 && !all.contains("more;"), "{all}");
    }

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted() {
        assert!(!ending(&PLAIN, &done(), 8).contains('\x1b'));
        let coloured = Style { terminal: true, colours: true };
        assert!(table(&coloured, &done()).contains("\x1b[1;31m              10\x1b[0m\x1b[1;32m               0"));
    }

    #[test]
    fn a_duel_that_ichido_loses_says_so_and_is_a_failure() {
        let mut lost = done();
        lost.handlers[1].doubled = 1;
        assert!(ending(&PLAIN, &lost, 8).contains("ichido did not keep its promise"));
        assert_eq!(format!("{:?}", verdict(&lost)), format!("{:?}", ExitCode::FAILURE));
        assert_eq!(format!("{:?}", verdict(&done())), format!("{:?}", ExitCode::SUCCESS));
    }

    #[test]
    fn a_text_is_broken_between_words() {
        assert_eq!(wrapped("  event 1", "    "), "  event 1");
        let long = wrapped(&"word ".repeat(40), "    ");
        let (first, rest) = long.split_once('\n').expect("more than one line");
        assert!(first.starts_with("word word"));
        assert!(rest.lines().all(|line| line.starts_with("    word")));
    }
}
