//! A project as one run sees it: its config, its logs, its state, its destination.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bigquery::{self, BigQuery};
use crate::clock::{Clock, Time};
use crate::config::{self, Config};
use crate::deliver::Patience;
use crate::discovery::{self, Log, Scope};
use crate::journal::disk::Directory;
use crate::journal::state::State;
use crate::journal::{self, Journal};
use crate::legacy;
use crate::line::{self, Line};
use crate::reader::Lines;
use crate::row::Origin;
use crate::seen::Seen;
use crate::transport::Transport;

/// How old an intent must be before BigQuery's "it is not there" is believed.
pub const SETTLE: Duration = Duration::from_secs(10);
/// How long a question that is not part of an upload may take.
const QUESTION: Duration = Duration::from_secs(120);
/// How many rows of one uuid a rebuilt journal tells apart.
const MAX_ROWS_OF_UUID: u64 = crate::digest::MAX_UNKNOWN;

/// What the process is told by its environment. Nothing else in this crate looks there.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    pub directory: PathBuf,
    pub home: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`
    pub claude: Option<PathBuf>,
    /// `BIGQUERY_EMULATOR_HOST`
    pub emulator: Option<String>,
    pub places: crate::auth::Places,
}

impl Surroundings {
    /// Reads the environment of the process.
    pub fn of_process() -> io::Result<Surroundings> {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let gcloud = var("CLOUDSDK_CONFIG").map(PathBuf::from);
        Ok(Surroundings {
            directory: std::env::current_dir()?,
            claude: var("CLAUDE_CONFIG_DIR").map(PathBuf::from),
            emulator: var("BIGQUERY_EMULATOR_HOST"),
            places: crate::auth::Places {
                named: var("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
                gcloud: gcloud.or_else(|| home.as_ref().map(|home| home.join(".config/gcloud"))),
                metadata: var("GCE_METADATA_HOST"),
            },
            home,
        })
    }

    /// Claude Code's own directory.
    pub fn claude_directory(&self) -> PathBuf {
        match (&self.claude, &self.home) {
            (Some(directory), _) => directory.clone(),
            (None, Some(home)) => home.join(".claude"),
            (None, None) => PathBuf::from(".claude"),
        }
    }
}

/// Why a project cannot be worked with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Legacy(#[from] legacy::Error),
    #[error("the state has to be rebuilt ({reason}), and BigQuery cannot be asked for it: {source}")]
    Rebuild { reason: String, source: bigquery::Error },
    #[error(transparent)]
    Ask(bigquery::Error),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A project.
#[derive(Debug)]
pub struct Project {
    pub config: Config,
    /// The directory of all logs.
    pub root: PathBuf,
    pub scope: Scope,
    /// Where the config is, and with it the state.
    pub directory: PathBuf,
    /// The name of the destination, to which the state belongs.
    pub destination: String,
    pub is_emulated: bool,
}

impl Project {
    /// Reads the config and finds out where everything is.
    pub fn open(config_path: &Path, all: bool, around: &Surroundings) -> Result<Project, Error> {
        let path = around.directory.join(config_path);
        let config = config::load(&path, around.home.as_deref(), &around.directory)?;
        let table = &config.table;
        let mut destination = format!("{}.{}.{}", table.project, table.dataset, table.table);
        // What a stand-in has says nothing of what BigQuery has.
        if around.emulator.is_some() {
            destination.push_str("@emulator");
        }
        Ok(Project {
            root: around.claude_directory().join("projects"),
            scope: if all { Scope::All } else { Scope::Project(around.directory.clone()) },
            directory: path.parent().unwrap_or(Path::new(".")).to_owned(),
            destination,
            is_emulated: around.emulator.is_some(),
            config,
        })
    }

    /// Where the state of the destination is.
    pub fn state_directory(&self) -> PathBuf {
        let safe = |each: char| if each.is_alphanumeric() || "-_.@".contains(each) { each } else { '-' };
        let name: String = self.destination.chars().map(safe).collect();
        self.directory.join("state").join(name)
    }

    pub fn logs(&self) -> discovery::Found {
        discovery::find(&self.root, &self.scope)
    }

    /// What every row says of where it comes from.
    pub fn origin(&self) -> Origin {
        Origin {
            developer_id: self.config.developer_id.clone(),
            hostname: hostname(),
            user_email: self.config.user_email.clone(),
            project_name: self.config.project_name.clone(),
        }
    }

    /// How long "it is not there" is doubted: a stand-in shows rows at once.
    pub fn settle(&self) -> Duration {
        if self.is_emulated { Duration::ZERO } else { SETTLE }
    }

    /// The journal, to be read only.
    pub fn journal(&self) -> Result<Journal<Directory>, Error> {
        let journal = Journal::open(Directory::new(self.state_directory()), &self.destination);
        let journal = journal.map_err(|(error, _)| error)?;
        if journal.is_new()
            && let Some(old) = legacy::peek(&self.directory, &self.destination)?
        {
            return Ok(self.adopt(&old));
        }
        Ok(journal)
    }

    /// The journal, to be written to. A new one takes over an `upload-state.json`; a damaged one is set aside
    /// and rebuilt from what the destination has. The text says what was unusual.
    pub async fn journal_for_writing<T: Transport, C: Clock>(
        &self,
        bigquery: &BigQuery<T>,
        clock: &C,
    ) -> Result<(Journal<Directory>, Option<String>), Error> {
        match Journal::open(Directory::new(self.state_directory()), &self.destination) {
            Ok(journal) if journal.is_new() => match legacy::import(&self.directory, &self.destination) {
                Ok(None) => Ok((journal, None)),
                Ok(Some(old)) => {
                    let note = format!("imported {} uuids from {}", old.uploaded_uuids.len(), legacy::FILE);
                    let mut journal = self.adopt(&old);
                    journal.compact()?;
                    Ok((journal, Some(note)))
                }
                Err(legacy::Error::Unreadable { path, reason }) => {
                    let reason = format!("{} is damaged: {reason}", legacy::FILE);
                    let rebuilt = self.rebuild(&reason, bigquery, clock).await?;
                    let aside = path.with_extension(format!("json.damaged-{}", clock.now().0));
                    fs::rename(&path, &aside).map_err(|source| Error::Io { path: path.clone(), source })?;
                    Ok((rebuilt, Some(format!("{reason}; it is kept as {}", aside.display()))))
                }
                Err(error) => Err(error.into()),
            },
            Ok(journal) => Ok((journal, None)),
            Err((journal::Error::Damaged(reason), _)) => {
                let journal = self.rebuild(&reason, bigquery, clock).await?;
                Ok((
                    journal,
                    Some(format!("the journal was damaged ({reason}); it was set aside and rebuilt from BigQuery")),
                ))
            }
            Err((error, _)) => Err(error.into()),
        }
    }

    /// Sets the journal aside and makes one of what the destination has.
    pub async fn rebuild<T: Transport, C: Clock>(
        &self,
        reason: &str,
        bigquery: &BigQuery<T>,
        clock: &C,
    ) -> Result<Journal<Directory>, Error> {
        let now = clock.now();
        let rows = bigquery
            .rows_since(Time(0), now, QUESTION)
            .await
            .map_err(|source| Error::Rebuild { reason: reason.to_owned(), source })?;
        let mut disk = Directory::new(self.state_directory());
        journal::set_aside(&mut disk, reason, now)?;
        let mut state = State::new(&self.destination);
        state.calendar = state.calendar.advance(now.day());
        let mut seen = Seen::default();
        for (uuid, count) in rows {
            state.totals.uploaded += count;
            for _ in 0..count.min(MAX_ROWS_OF_UUID) {
                seen.insert_unknown(&uuid, state.calendar.today);
            }
        }
        let mut journal = Journal::fresh(disk, state, seen);
        journal.compact()?;
        Ok(journal)
    }

    fn adopt(&self, old: &legacy::UploadState) -> Journal<Directory> {
        let mut state = State::new(&self.destination);
        let mut seen = Seen::default();
        state.totals = legacy::adopt(old, &mut seen, state.calendar.today);
        Journal::fresh(Directory::new(self.state_directory()), state, seen)
    }

    /// Calls `each` with every line that could be a row, and where it stands.
    pub fn each_line(&self, each: &mut dyn FnMut(&Log, u64, u64, &Line<'_>)) -> Result<(), Error> {
        for log in self.logs().logs {
            let failed = |source| Error::Io { path: log.path.clone(), source };
            if discovery::is_foreign(&log, &self.scope).map_err(failed)? {
                continue;
            }
            let mut lines = Lines::new(File::open(&log.path).map_err(failed)?, 0, log.stat.size);
            while let Some(found) = lines.next_line().map_err(failed)? {
                if let Some(Ok(line)) = found.text.map(line::parse) {
                    each(&log, found.start, found.end, &line);
                }
            }
        }
        Ok(())
    }
}

/// How long a question may take.
pub fn question<C: Clock>(clock: &C) -> Patience {
    Patience { until: clock.elapsed() + QUESTION }
}

/// What the destination has and what it should have.
#[derive(Debug, Default, serde::Serialize)]
pub struct Comparison {
    pub lines: u64,
    pub uploaded: u64,
    pub not_uploaded_yet: u64,
    pub set_aside: u64,
    /// Uploaded by our account, but not there.
    pub missing: u64,
    pub missing_examples: Vec<String>,
    /// There more often than the logs and the journal have it.
    pub doubled: u64,
    pub doubled_examples: Vec<String>,
}

/// Compares the logs, the journal and the destination.
pub async fn verify<T: Transport, C: Clock>(
    project: &Project,
    bigquery: &BigQuery<T>,
    clock: &C,
) -> Result<Comparison, Error> {
    const EXAMPLES: usize = 20;
    let mut journal = project.journal()?;
    let set_aside = set_aside_uuids(project);
    let mut comparison = Comparison::default();
    let mut met = Seen::default();
    // By uuid: contents that are uploaded, contents in all.
    let mut expected: HashMap<String, (u64, u64)> = HashMap::new();
    let mut oldest: Option<Time> = None;
    let mut failed = None;
    project.each_line(&mut |_, _, _, line| {
        let key = crate::digest::Key::of(line);
        if met.verdict(key) == crate::seen::Verdict::Known {
            return;
        }
        met.insert(key, 0);
        comparison.lines += 1;
        if let Some(time) = Time::parse(&line.timestamp) {
            oldest = Some(oldest.map_or(time, |oldest: Time| oldest.min(time)));
        }
        let counts = expected.entry(line.uuid.clone().into_owned()).or_default();
        counts.1 += 1;
        match journal.verdict(key) {
            Ok(crate::seen::Verdict::Known) if set_aside.contains(line.uuid.as_ref()) => comparison.set_aside += 1,
            Ok(crate::seen::Verdict::Known) => {
                comparison.uploaded += 1;
                counts.0 += 1;
            }
            Ok(_) => comparison.not_uploaded_yet += 1,
            Err(error) => failed = Some(error),
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let since = oldest.map_or(Time(0), |oldest| Time(oldest.0 - 1000));
    let there = bigquery.rows_since(since, clock.now(), QUESTION).await.map_err(Error::Ask)?;
    let seen = journal.seen()?;
    for (uuid, (uploaded, contents)) in expected {
        // Contents that no log has any more were uploaded once all the same.
        let contents = contents.max(seen.contents(crate::digest::uuid_half(&uuid)));
        let count = there.get(&uuid).copied().unwrap_or(0);
        if count < uploaded {
            comparison.missing += uploaded - count;
            comparison.missing_examples.push(uuid);
        } else if count > contents {
            comparison.doubled += count - contents;
            comparison.doubled_examples.push(uuid);
        }
    }
    for examples in [&mut comparison.missing_examples, &mut comparison.doubled_examples] {
        examples.sort();
        examples.truncate(EXAMPLES);
    }
    Ok(comparison)
}

/// The uuids among the dead letters.
pub fn set_aside_uuids(project: &Project) -> std::collections::BTreeSet<String> {
    #[derive(serde::Deserialize)]
    struct Letter {
        uuid: String,
    }
    let path = project.state_directory().join(crate::upload::DEAD_LETTERS);
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str::<Letter>(line).ok()).map(|letter| letter.uuid).collect()
}

/// The machine's name.
fn hostname() -> String {
    let file = |path: &str| fs::read_to_string(path).ok();
    let command = || {
        let output = std::process::Command::new("hostname").output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    file("/proc/sys/kernel/hostname")
        .or_else(|| file("/etc/hostname"))
        .or_else(command)
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
