//! Lines of session logs: sessync looks at all of them, uploads them, and looks again when there is nothing new.
//!
//! Each run is a process of its own. Lines have about 250 bytes here, a quarter of real ones, so that ten million of them fit on a disk.

use std::fs;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::usage;
use uuid::Uuid;

use super::{Sizes, curve};
use crate::curve::{Curve, Expected, Point};
use crate::measure::{Bench, Used};
use crate::prices::Prices;
use crate::store::Asked;
use crate::{Result, child, progress};

const LINES_PER_FILE: u64 = 10_000;
/// Free space that is wanted per line, so that a run does not fill the disk: the log, the journal, and as much again for others.
const FREE_BYTES: u64 = 1_000;
/// Short runs are repeated until they have taken so much CPU: that of a process is counted in steps of 10 ms.
const ENOUGH: Duration = Duration::from_millis(200);
/// Where the CPU of a process is not counted, runs are repeated for so long.
const LONG_ENOUGH: Duration = Duration::from_secs(10);

pub(super) fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let of = "lines";
    let mut curves = [
        curve("lines", "scan (status)", of, "line", Expected::Flat),
        curve("lines", "upload", of, "line", Expected::Flat),
        curve(
            "lines",
            "run with nothing new",
            of,
            "run",
            Expected::linear("it looks at each file, and at none of the lines"),
        ),
    ];
    let bench = Bench::of(prices);
    let sink = serve()?;
    for size in sizes.decades(100_000, 10_000_000) {
        progress(format_args!("lines: writing {size}"));
        let home = Home::with(size, &sink)?;
        progress(format_args!("lines: {size}"));
        curves[0].points.push(point(&bench, size, size, &repeat(|| home.run(&["status"]))?)?);
        // A home is uploaded once, so every further upload needs a fresh one.
        let (mut fresh, mut home) = (Some(home), None);
        let uploads = repeat(|| {
            let home = home.insert(match fresh.take() {
                Some(home) => home,
                None => Home::with(size, &sink)?,
            });
            home.run(&[])
        })?;
        curves[1].points.push(point(&bench, size, size, &uploads)?);
        let home = home.ok_or("nothing was uploaded")?;
        // The first run after an upload reads the files again that had just changed.
        home.run(&[])?;
        curves[2].points.push(point(&bench, size, 1, &repeat(|| home.run(&[]))?)?);
    }
    Ok(curves.into())
}

struct Ran {
    used: Used,
    peak: u64,
}

/// Repeats a run until all of them have taken enough CPU to be counted.
fn repeat(mut run: impl FnMut() -> Result<Ran>) -> Result<Vec<Ran>> {
    let (started, mut cpu, mut runs) = (Instant::now(), Duration::ZERO, Vec::new());
    while cpu < ENOUGH && (runs.is_empty() || started.elapsed() < LONG_ENOUGH) {
        let ran = run()?;
        cpu += ran.used.cpu;
        runs.push(ran);
    }
    Ok(runs)
}

fn point(bench: &Bench<'_>, size: u64, units: u64, runs: &[Ran]) -> Result<Point> {
    let peak = runs.iter().map(|ran| ran.peak).max().unwrap_or_default();
    // The CPU of one short run is less than a step. That of all of them is not.
    let count = u32::try_from(runs.len().max(1))?;
    let mean = Used {
        time: runs.iter().map(|ran| ran.used.time).sum::<Duration>() / count,
        cpu: runs.iter().map(|ran| ran.used.cpu).sum::<Duration>() / count,
        asked: Asked::default(),
    };
    bench.point(size, units, peak, &[mean], &[])
}

/// The home of a user with one project.
struct Home {
    directory: tempfile::TempDir,
    project: PathBuf,
    sink: String,
}

impl Home {
    fn with(lines: u64, sink: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let free = rustix::fs::statvfs(directory.path())?;
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        let wanted = lines * FREE_BYTES;
        if free < wanted {
            let at = directory.path().display();
            return Err(
                format!("{at} has {free} bytes free, and {wanted} are wanted: set TMPDIR to another disk").into()
            );
        }
        let project = directory.path().canonicalize()?.join("project");
        let settings = project.join(".claude/sessync");
        fs::create_dir_all(&settings)?;
        let config = json!({"project_id": "p", "dataset": "d", "table": "t", "developer_id": "me", "user_email": "me@example.com"});
        fs::write(settings.join("config.json"), config.to_string())?;
        let name = sessync::source::files::names(&project).into_iter().next().ok_or("the project has no name")?;
        write_logs(&directory.path().join(".claude/projects").join(name), &project, lines)?;
        Ok(Self { directory, project, sink: sink.to_owned() })
    }

    /// Runs sessync and watches its memory.
    fn run(&self, arguments: &[&str]) -> Result<Ran> {
        let mut command = child::sessync()?;
        command.args(arguments).current_dir(&self.project).env("HOME", self.directory.path());
        command.env("BIGQUERY_EMULATOR_HOST", &self.sink).env("SESSYNC_TRUST", "1");
        let (started, cpu) = (Instant::now(), usage::cpu_of_children());
        let peak = watch(&mut command)?;
        let cpu = usage::cpu_of_children().saturating_sub(cpu);
        Ok(Ran { used: Used { time: started.elapsed(), cpu, asked: Asked::default() }, peak })
    }
}

/// Runs a command to its end. Returns the most memory that it had.
fn watch(command: &mut Command) -> Result<u64> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn()?;
    let (started, mut peak) = (Instant::now(), 0);
    loop {
        peak = usage::peak_of(child.id()).max(peak);
        if let Some(ended) = child.try_wait()? {
            return if ended.success() { Ok(peak) } else { Err(format!("sessync failed: {ended}").into()) };
        }
        std::thread::sleep(Duration::from_micros(if started.elapsed().as_millis() < 200 { 200 } else { 5_000 }));
    }
}

/// Lines with all that a row needs, and little more.
fn write_logs(directory: &Path, project: &Path, lines: u64) -> Result<()> {
    fs::create_dir_all(directory)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut uuid = || Uuid::from_u128(random.u128(..));
    let cwd = json!(project).to_string();
    let mut written = 0;
    while written < lines {
        let session = uuid();
        let mut file = BufWriter::with_capacity(1 << 20, fs::File::create(directory.join(format!("{session}.jsonl")))?);
        for n in written..lines.min(written + LINES_PER_FILE) {
            let at = sessync::clock::Time(1_790_000_000_000 + i64::try_from(n)? * 100);
            // Only the first line of a file has to say whose it is.
            let cwd = if n == written { format!(r#""cwd":{cwd},"#) } else { String::new() };
            writeln!(
                file,
                r#"{{"uuid":"{}","sessionId":"{session}",{cwd}"type":"assistant","timestamp":"{at}","message":{{"role":"assistant","content":"Line {n} of a long history, which nobody reads twice."}}}}"#,
                uuid(),
            )?;
        }
        file.flush()?;
        written = lines.min(written + LINES_PER_FILE);
    }
    Ok(())
}

/// A BigQuery that accepts every row and keeps none.
fn serve() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::Builder::new().name("sink".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away ends its connection, and nothing else.
            std::thread::spawn(move || drop(accept(stream)));
        }
    })?;
    Ok(address)
}

fn accept(mut stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(256 * 1024, stream.try_clone()?);
    loop {
        let (mut length, mut is_query) = (0, false);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            is_query |= line.starts_with("post") && line.contains("/queries");
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        io::copy(&mut (&mut reader).take(length), &mut io::sink())?;
        let body = match is_query {
            true => r#"{"kind":"bigquery#queryResponse","jobComplete":true,"rows":[]}"#,
            false => r#"{"kind":"bigquery#tableDataInsertAllResponse"}"#,
        };
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")?;
    }
}
