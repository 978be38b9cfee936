//! What each command does, in terms of the project it does it to.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::bigquery::{self, BigQuery};
use crate::cli::AUTO_TIME;
use crate::clock::{Clock, Time};
use crate::config::StateKind;
use crate::deliver::Patience;
use crate::digest::{Key, uuid_half};
use crate::hook;
use crate::journal::disk::Directory;
use crate::journal::record::Record;
use crate::journal::{self, Journal};
use crate::legacy::{self, UploadState};
use crate::lock;
use crate::network::{Network, Target};
use crate::project::{self, Project, Surroundings};
use crate::redact::Redactor;
use crate::report;
use crate::schema;
use crate::seen::Verdict;
use crate::shared::{self, Shared};
use crate::upload::{self, Progress, Settings, Summary, Upload};

/// How long a run waits for another one to end.
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// No run of a person's takes longer.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// After how many days Claude Code deletes transcripts unless its settings say otherwise.
const DEFAULT_CLEANUP_DAYS: u64 = 30;

/// Why a command could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Project(#[from] project::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Upload(#[from] upload::Error),
    #[error(transparent)]
    BigQuery(#[from] bigquery::Error),
    #[error(transparent)]
    Legacy(#[from] legacy::Error),
    #[error(transparent)]
    Hook(#[from] hook::Error),
    #[error(transparent)]
    Lock(#[from] lock::Error),
    #[error("a pattern in `redact` is not right: {0}")]
    Redact(#[from] regex::Error),
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// One command on one project.
#[derive(Debug)]
pub struct Session<C> {
    pub project: Project,
    bigquery: BigQuery<Network>,
    clock: C,
    claude: std::path::PathBuf,
    pub json: bool,
    pub auto: bool,
    /// Whether to show a progress bar.
    pub bar: bool,
}

impl<C: Clock> Session<C> {
    pub fn open(config: &Path, all: bool, around: &Surroundings, clock: C) -> Result<Self, Error> {
        let project = Project::open(config, all, around)?;
        let target = match &around.emulator {
            Some(host) => Target::Emulator(host.clone()),
            None => Target::Google { key_path: project.config.key_path.clone(), places: around.places.clone() },
        };
        let bigquery = BigQuery::new(Network::new(target), project.config.table.clone());
        let claude = around.claude_directory();
        Ok(Session { project, bigquery, clock, claude, json: false, auto: false, bar: false })
    }

    /// Uploads what is new.
    pub async fn upload(&mut self, dry_run: bool, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8, Error> {
        if self.auto && !self.project.config.auto_upload {
            return Ok(0);
        }
        let found = self.project.logs();
        let redactor = Redactor::new(&self.project.config.redact)?;
        let settings = self.settings(dry_run);
        if dry_run {
            let mut journal = self.project.journal()?;
            let (summary, result) = self.run(&mut journal, None, &redactor, &settings, &found, &mut ()).await;
            result?;
            report::upload(&summary, &found, true, self.json, out)?;
            return Ok(0);
        }
        let _lock =
            lock::take(&self.project.directory, if self.auto { Duration::ZERO } else { LOCK_WAIT }, &self.clock)
                .await?;
        let (mut journal, note) = self.project.journal_for_writing(&self.bigquery, &self.clock).await?;
        if let Some(note) = note {
            writeln!(err, "sessync: {note}")?;
        }
        let shared = self.shared().await;
        let mut bar = Bar { shown: self.bar, bar: None, rows: 0 };
        let (mut summary, mut result) =
            self.run(&mut journal, shared.as_ref(), &redactor, &settings, &found, &mut bar).await;
        if let Err(upload::Error::Journal(journal::Error::Damaged(reason))) = &result {
            // The table of keys is read late. Nothing was sent that the journal does not know of.
            writeln!(err, "sessync: the state is damaged ({reason}); it is set aside and rebuilt from BigQuery")?;
            journal = self.project.rebuild(reason, &self.bigquery, &self.clock).await?;
            (summary, result) = self.run(&mut journal, shared.as_ref(), &redactor, &settings, &found, &mut bar).await;
        }
        bar.end();
        report::upload(&summary, &found, false, self.json, out)?;
        result?;
        Ok(u8::from(summary.set_aside > 0 || !summary.unreadable.is_empty()))
    }

    async fn run(
        &self,
        journal: &mut Journal<Directory>,
        shared: Option<&Shared>,
        redactor: &Redactor,
        settings: &Settings,
        found: &crate::discovery::Found,
        progress: &mut dyn Progress,
    ) -> (Summary, Result<(), upload::Error>) {
        let rng = fastrand::Rng::new();
        Upload::new(&self.bigquery, &self.clock, journal, shared, redactor, settings, rng, progress).run(found).await
    }

    fn settings(&self, dry_run: bool) -> Settings {
        let config = &self.project.config;
        let most = if config.state == StateKind::File { usize::MAX } else { shared::MAX_ROWS };
        Settings {
            batch_rows: config.batch_rows.min(most),
            deduplication: config.deduplication,
            origin: self.project.origin(),
            scope: self.project.scope.clone(),
            settle: self.project.settle(),
            patience: Patience { until: self.clock.elapsed() + if self.auto { AUTO_TIME } else { A_DAY } },
            dry_run,
        }
    }

    /// The log that machines share, if the config names one.
    async fn shared(&self) -> Option<Shared> {
        let StateKind::DynamoDb { table, region } = &self.project.config.state else { return None };
        let mut loader = aws_config::defaults(aws_config::BehaviorVersion::latest()).http_client(https());
        if let Some(region) = region {
            loader = loader.region(aws_config::Region::new(region.clone()));
        }
        let client = aws_sdk_dynamodb::Client::new(&loader.load().await);
        Some(Shared::new(client, table, &self.project.destination))
    }

    /// What is uploaded and what is not.
    pub async fn status(&mut self, out: &mut dyn Write) -> Result<u8, Error> {
        let found = self.project.logs();
        let mut journal = self.project.journal()?;
        let mut settings = self.settings(true);
        settings.deduplication = true;
        let (summary, result) = self.run(&mut journal, None, &Redactor::none(), &settings, &found, &mut ()).await;
        result?;
        let now = self.clock.now();
        let age_days = summary.oldest.map(|oldest| now.since(oldest).as_secs() / 86_400);
        let state = journal.state();
        let status = report::Status {
            destination: self.project.destination.clone(),
            state: self.project.state_directory(),
            shared: match &self.project.config.state {
                StateKind::DynamoDb { table, .. } => Some(table.clone()),
                StateKind::File => None,
            },
            uploaded: state.totals.uploaded,
            last_upload: state.totals.last_upload.map(|time| time.to_string()),
            last_batch: state.totals.last_batch.clone(),
            files: found.logs.len(),
            not_uploaded: summary.would_upload,
            oldest_not_uploaded: summary.oldest.map(|time| time.to_string()),
            oldest_age_days: age_days,
            deleted_after_days: cleanup_days(&self.claude),
            uncertain: summary.uncertain,
            set_aside: project::set_aside_uuids(&self.project).len(),
            skipped: summary.skipped.clone(),
        };
        report::status(&status, &found, self.json, out)?;
        Ok(0)
    }

    /// Compares the logs with the destination.
    pub async fn verify(&mut self, out: &mut dyn Write) -> Result<u8, Error> {
        let comparison = project::verify(&self.project, &self.bigquery, &self.clock).await?;
        report::verify(&comparison, self.json, out)?;
        Ok(u8::from(comparison.missing > 0 || comparison.doubled > 0))
    }

    /// Lets a line be uploaded again.
    pub async fn forget(&mut self, uuid: &str, out: &mut dyn Write) -> Result<u8, Error> {
        let _lock = lock::take(&self.project.directory, LOCK_WAIT, &self.clock).await?;
        let (mut journal, _) = self.project.journal_for_writing(&self.bigquery, &self.clock).await?;
        let known = journal.seen()?.knows_uuid(uuid_half(uuid));
        let mut again = Vec::new();
        let files = journal.state().files.clone();
        self.project.each_line(&mut |log, start, end, line| {
            // Lines behind what was read are read anyway.
            if line.uuid == uuid && files.get(&log.name).is_some_and(|mark| end <= mark.offset) {
                again.push((log.name.clone(), start, end));
            }
        })?;
        let lines = again.len();
        if known {
            journal.append(&Record::Forgotten { uuid: uuid_half(uuid), again })?;
        }
        if self.json {
            writeln!(out, "{}", json!({"forgotten": known, "lines": lines}))?;
        } else if !known {
            writeln!(out, "{uuid} is not among what was uploaded.")?;
        } else if lines == 0 {
            writeln!(out, "Forgotten. No log has a line with it any more, so nothing will be uploaded again.")?;
        } else {
            writeln!(out, "Forgotten. The next upload sends it again.")?;
        }
        Ok(u8::from(!known))
    }

    /// Puts the state aside.
    pub async fn reset(&mut self, rebuild: bool, out: &mut dyn Write) -> Result<u8, Error> {
        let _lock = lock::take(&self.project.directory, LOCK_WAIT, &self.clock).await?;
        if rebuild {
            let journal = self.project.rebuild("reset --rebuild", &self.bigquery, &self.clock).await?;
            let rows = journal.state().totals.uploaded;
            match self.json {
                true => writeln!(out, "{}", json!({"reset": true, "rows": rows}))?,
                false => writeln!(out, "The state now says what BigQuery has: {rows} rows.")?,
            }
            return Ok(0);
        }
        let directory = self.project.state_directory();
        let aside = directory.with_file_name(format!(
            "{}.reset-{}",
            directory.file_name().unwrap_or_default().to_string_lossy(),
            self.clock.now().0
        ));
        let kept = match std::fs::rename(&directory, &aside) {
            Ok(()) => Some(aside),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(project::Error::Io { path: directory, source }.into()),
        };
        legacy::never_again(&self.project.directory)?;
        match (self.json, kept) {
            (true, kept) => writeln!(out, "{}", json!({"reset": true, "kept": kept}))?,
            (false, None) => writeln!(out, "There was no state.")?,
            (false, Some(kept)) => writeln!(
                out,
                "The next upload sends everything again; rows that are in BigQuery will be there twice.\n\
                 (`sessync reset --rebuild` takes what BigQuery has as uploaded.)\nThe old state is kept in {}.",
                kept.display()
            )?,
        }
        Ok(0)
    }

    /// Writes the state as `upload-state.json`.
    pub async fn export_state(
        &mut self,
        to: Option<&Path>,
        from_destination: bool,
        out: &mut dyn Write,
    ) -> Result<u8, Error> {
        let mut journal = self.project.journal()?;
        let mut uuids = BTreeSet::new();
        let mut failed = None;
        let set_aside = project::set_aside_uuids(&self.project);
        self.project.each_line(&mut |_, _, _, line| match journal.verdict(Key::of(line)) {
            Ok(Verdict::Known) if !set_aside.contains(line.uuid.as_ref()) => {
                uuids.insert(line.uuid.clone().into_owned());
            }
            Ok(_) => {}
            Err(error) => failed = Some(error),
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if from_destination {
            let patience = project::question(&self.clock);
            let rows = self.bigquery.rows_since(Time(0), self.clock.now(), patience.left(&self.clock)).await?;
            uuids.extend(rows.into_keys());
        }
        let totals = &journal.state().totals;
        let state = UploadState {
            last_upload_timestamp: totals.last_upload.map(|time| time.to_string()),
            uploaded_uuids: uuids.into_iter().collect(),
            last_upload_batch_id: totals.last_batch.clone(),
            total_uploaded: totals.uploaded,
        };
        let default = self.project.directory.join(legacy::FILE);
        match to {
            Some(path) if path == Path::new("-") => {
                serde_json::to_writer_pretty(&mut *out, &state).map_err(io::Error::from)?;
                writeln!(out)?;
            }
            path => {
                let path = path.unwrap_or(&default);
                legacy::export(path, &self.project.directory, &self.project.destination, &state)?;
                match self.json {
                    true => writeln!(out, "{}", json!({"path": path, "uuids": state.uploaded_uuids.len()}))?,
                    false => writeln!(out, "{} uuids in {}", state.uploaded_uuids.len(), path.display())?,
                }
            }
        }
        Ok(0)
    }

    /// Prints the DDL, or runs it.
    pub async fn schema(&mut self, create: bool, out: &mut dyn Write) -> Result<u8, Error> {
        let statements = schema::ddl(&self.project.config.table);
        if !create {
            for statement in statements {
                writeln!(out, "{statement};\n")?;
            }
            return Ok(0);
        }
        for statement in statements {
            let patience = project::question(&self.clock);
            self.bigquery.execute(&statement, self.clock.now(), patience.left(&self.clock)).await?;
        }
        let table = &self.project.config.table;
        match self.json {
            true => writeln!(out, "{}", json!({"table": table.sql(), "view": schema::view(table).sql()}))?,
            false => writeln!(out, "{} and its view {} are there.", table.sql(), schema::view(table).sql())?,
        }
        Ok(0)
    }
}

/// Puts the hook into the project's settings.
pub fn install_hook(
    around: &Surroundings,
    command: Option<&str>,
    json: bool,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let command = command.map_or_else(default_command, str::to_owned);
    let changed = hook::install(&around.directory, &command)?;
    report::hook(&changed, &format!("The hook runs `{command}` at the end of every session."), json, out)?;
    Ok(0)
}

/// Takes it out.
pub fn uninstall_hook(around: &Surroundings, json: bool, out: &mut dyn Write) -> Result<u8, Error> {
    let changed = hook::uninstall(&around.directory)?;
    report::hook(&changed, "The hook is taken out.", json, out)?;
    Ok(0)
}

/// The program by its name alone where the shell finds this very one under it, else by its path. A session may
/// end in another directory than the one it began in.
fn default_command() -> String {
    format!("cd \"${{CLAUDE_PROJECT_DIR:-.}}\" && {} upload --auto", program())
}

fn program() -> String {
    const NAME: &str = "sessync";
    let Ok(this) = std::env::current_exe() else { return NAME.to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(NAME)).find(|path| path.is_file());
    if found.and_then(|found| found.canonicalize().ok()) == this.canonicalize().ok() {
        return NAME.to_owned();
    }
    format!("'{}'", this.to_string_lossy().replace('\'', r"'\''"))
}

/// After how many days Claude Code deletes transcripts.
fn cleanup_days(claude: &Path) -> u64 {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ClaudeSettings {
        cleanup_period_days: Option<u64>,
    }
    std::fs::read_to_string(claude.join("settings.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<ClaudeSettings>(&text).ok()?.cleanup_period_days)
        .unwrap_or(DEFAULT_CLEANUP_DAYS)
}

fn https() -> aws_sdk_dynamodb::config::SharedHttpClient {
    use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
    aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

/// A bar with rate and time left, shown from the moment there is something to read.
#[derive(Debug)]
struct Bar {
    shown: bool,
    bar: Option<ProgressBar>,
    rows: u64,
}

impl Bar {
    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn total(&mut self, bytes: u64) {
        if !self.shown || bytes == 0 {
            return;
        }
        let bar = ProgressBar::new(bytes);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} left, {msg}")
        {
            bar.set_style(style);
        }
        bar.set_message("0 rows uploaded");
        self.bar = Some(bar);
    }

    fn read(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn uploaded(&mut self, rows: u64) {
        self.rows += rows;
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} rows uploaded", self.rows));
        }
    }
}
