//! One engine: a QuickJS runtime with the prelude in it, and the Rust functions that the prelude uses.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rquickjs::context::EvalOptions;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Exception, Function, Object, Runtime};

use super::{Error, Script};
use crate::host::Host;
use crate::limits::{Limits, MAX_APPENDED_ERRORS, MAX_LOG_LINES, SCRIPT_STACK};
use crate::lock::lock;

const PRELUDE: &str = include_str!("prelude.js");
/// Compiled patterns of `util.matches` per engine.
const CACHED_PATTERNS: usize = 64;
/// The runtime asks about every ten thousand steps whether to go on. A call that was asked fewer times than this has hardly run.
const LEAST_ASKED: u64 = 10;
/// The largest compiled pattern.
const PATTERN_BYTES: usize = 1024 * 1024;

/// One engine. Nothing outside refers to its runtime, so it can move between threads.
pub(super) struct Instance {
    /// The scripts whose factories the prelude has.
    compiled: HashSet<usize>,
    context: Context,
    clock: Arc<Deadline>,
    limits: Limits,
    pub(super) calls: u32,
}

/// When the running call must end. The interrupt handler reads this while the call runs, so all of it is atomic.
struct Deadline {
    start: Instant,
    /// Microseconds after `start`. Zero while no call runs.
    at: AtomicU64,
    passed: AtomicBool,
    /// How often the runtime asked during the running call. If it asked only a few times, a busy machine delayed the call; the call
    /// itself did not loop.
    asked: AtomicU64,
}

impl Deadline {
    fn micros(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn is_over(&self) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let over = at != 0 && asked >= LEAST_ASKED && self.micros() > at;
        if over {
            self.passed.store(true, Ordering::Relaxed);
        }
        over
    }
}

fn engine_error(error: impl std::fmt::Display) -> Error {
    Error::Engine(error.to_string())
}

impl Instance {
    pub(super) fn new(host: &Arc<Host>, limits: &Limits) -> Result<Self, Error> {
        let runtime = Runtime::new().map_err(engine_error)?;
        runtime.set_memory_limit(limits.script_memory);
        runtime.set_max_stack_size(SCRIPT_STACK);
        let clock = Arc::new(Deadline {
            start: Instant::now(),
            at: AtomicU64::new(0),
            passed: AtomicBool::new(false),
            asked: AtomicU64::new(0),
        });
        let handler = Arc::clone(&clock);
        runtime.set_interrupt_handler(Some(Box::new(move || handler.is_over())));
        let context = Context::full(&runtime).map_err(engine_error)?;
        context.with(|ctx| {
            let start = || -> rquickjs::Result<()> {
                let mut options = EvalOptions::default();
                options.filename = Some("appsync-prelude.js".to_owned());
                let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, options)?;
                prelude.call((host_object(&ctx, host)?,))
            };
            start().catch(&ctx).map_err(|error| engine_error(describe(&error)))
        })?;
        Ok(Self { compiled: HashSet::new(), context, clock, limits: limits.clone(), calls: 0 })
    }

    /// Compiles a script, unless this engine has it already.
    pub(super) fn compile(&mut self, index: usize, script: &Script) -> Result<(), Error> {
        if self.compiled.contains(&index) {
            return Ok(());
        }
        self.context.with(|ctx| {
            let compile = || -> rquickjs::Result<()> {
                let mut options = EvalOptions::default();
                options.filename = Some(script.name.clone());
                let factory: Function<'_> = ctx.eval_with_options(script.factory.as_str(), options)?;
                let define: Function<'_> = ctx.globals().get("__appsync_define")?;
                define.call((index, factory))
            };
            compile().catch(&ctx).map_err(|error| {
                let errors = vec![super::CodeError::of_engine(line_of(&error), &describe(&error))];
                Error::Script(super::ScriptError::Code { file: script.name.clone(), errors })
            })
        })?;
        self.compiled.insert(index);
        Ok(())
    }

    pub(super) fn call(
        &mut self,
        index: usize,
        script: &Script,
        handler: &str,
        auth_type: &str,
        json: &str,
    ) -> Result<String, Error> {
        self.compile(index, script)?;
        self.calls += 1;
        let budget = u64::try_from(self.limits.script_time.as_micros()).unwrap_or(u64::MAX);
        self.clock.passed.store(false, Ordering::Relaxed);
        self.clock.asked.store(0, Ordering::Relaxed);
        self.clock.at.store(self.clock.micros().saturating_add(budget).max(1), Ordering::Relaxed);
        let answer = self.context.with(|ctx| {
            let call = || -> rquickjs::Result<String> {
                let run: Function<'_> = ctx.globals().get("__appsync_run")?;
                run.call((index, handler, auth_type, json))
            };
            call().catch(&ctx).map_err(|error| {
                let (file, handler) = (script.name.clone(), handler.to_owned());
                if self.clock.passed.load(Ordering::Relaxed) {
                    Error::Timeout { file, handler }
                } else if is_out_of_memory(&error) {
                    Error::Memory { file, handler }
                } else {
                    Error::Runtime { file, handler, message: describe(&error) }
                }
            })
        });
        self.clock.at.store(0, Ordering::Relaxed);
        answer
    }
}

/// QuickJS reports that it ran out of memory as the exception `null`, or as an error of the allocator.
fn is_out_of_memory(error: &CaughtError<'_>) -> bool {
    match error {
        CaughtError::Value(value) => value.is_null(),
        CaughtError::Error(error) => matches!(error, rquickjs::Error::Allocation),
        CaughtError::Exception(exception) => exception.message().is_some_and(|text| text.contains("out of memory")),
    }
}

fn describe(error: &CaughtError<'_>) -> String {
    match error {
        CaughtError::Exception(exception) => {
            let name: String = exception.as_object().get("name").unwrap_or_default();
            let message = exception.message().unwrap_or_default();
            let place = exception.stack().and_then(|stack| stack.lines().next().map(|line| line.trim().to_owned()));
            match place {
                Some(place) if !place.is_empty() && !place.contains("appsync-prelude") => {
                    format!("{name}: {message} ({place})")
                }
                _ => format!("{name}: {message}"),
            }
        }
        CaughtError::Value(value) => format!("{value:?}"),
        CaughtError::Error(error) => error.to_string(),
    }
}

/// The line in a stack like `at <anonymous> (file.js:3:7)`.
fn line_of(error: &CaughtError<'_>) -> usize {
    let CaughtError::Exception(exception) = error else { return 1 };
    let stack = exception.stack().unwrap_or_default();
    let mut numbers = stack.lines().next().unwrap_or_default().rsplit(':');
    let _column = numbers.next();
    numbers.next().and_then(|line| line.parse().ok()).unwrap_or(1)
}

fn host_object<'js>(ctx: &Ctx<'js>, host: &Arc<Host>) -> rquickjs::Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("maxErrors", MAX_APPENDED_ERRORS)?;
    object.set("maxLogs", MAX_LOG_LINES)?;
    let now = Arc::clone(host);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double")]
    object.set("now", Function::new(ctx.clone(), move || now.now_ms() as f64)?)?;
    let random = Arc::clone(host);
    object.set("random", Function::new(ctx.clone(), move || random.fraction())?)?;
    let uuid = Arc::clone(host);
    object.set("uuid", Function::new(ctx.clone(), move || uuid.uuid())?)?;
    object.set("base64Encode", Function::new(ctx.clone(), |text: String| STANDARD.encode(text))?)?;
    object.set(
        "base64Decode",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, text: String| -> rquickjs::Result<String> {
            match STANDARD.decode(text.as_bytes()) {
                Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Err(_) => Err(Exception::throw_type(&ctx, "util.base64Decode: not base64")),
            }
        })?,
    )?;
    let log = Arc::clone(host);
    object.set(
        "log",
        Function::new(ctx.clone(), move |level: String, text: String| match level.as_str() {
            "error" if log.logs_errors() => log.log_error(|| text),
            "error" => tracing::error!(target: "appsync::console", "{text}"),
            _ => tracing::info!(target: "appsync::console", "{text}"),
        })?,
    )?;
    let patterns: Arc<Mutex<HashMap<String, regex::Regex>>> = Arc::default();
    object.set(
        "matches",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, pattern: String, text: String| -> rquickjs::Result<bool> {
            let mut patterns = lock(&patterns);
            if let Some(pattern) = patterns.get(&pattern) {
                return Ok(pattern.is_match(&text));
            }
            // AppSync's documentation refers to Java's `Pattern`, whose `matches` compares the whole text.
            match regex::RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(PATTERN_BYTES).build() {
                Ok(compiled) => {
                    let answer = compiled.is_match(&text);
                    if patterns.len() >= CACHED_PATTERNS {
                        patterns.clear();
                    }
                    patterns.insert(pattern, compiled);
                    Ok(answer)
                }
                Err(error) => Err(Exception::throw_type(&ctx, &format!("util.matches: {error}"))),
            }
        })?,
    )?;
    Ok(object)
}
