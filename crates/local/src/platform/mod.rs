//! The running platform. It starts in two steps, because handlers read their secrets over HTTP while they start:
//! [`Platform::build`] reads the tenants' templates and opens the data, then the listeners begin to serve, then
//! [`Platform::start`] starts functions, schedules and interrupted invocations.

pub(crate) mod clock;
pub(crate) mod data;
pub(crate) mod journal;
pub(crate) mod listeners;
pub(crate) mod options;
pub(crate) mod process;
pub(crate) mod router;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use emulator::{Outside, dynamodb};
use function::{Aws, Env};
use serde_json::{Map, Value, json};
use telemetry::Sink;
use telemetry::trace::Trace;
use template::{Route, Template};
use tokio::sync::watch;

use crate::platform::data::Data;
use crate::standins::StandIns;
use crate::tenants::{Ground, Panel, Tenant};
use crate::world::alarms::{self, Alarms, State};
use crate::world::faults::Faults;
use crate::world::functions::{DoesNotStart, Function, Functions, Invoked};
use crate::world::invocations::{Invocations, Pending};
use crate::world::live::{LAMBDA_LOGS, Live};
use crate::world::metric_filters::{self, MetricFilters};
use crate::world::metrics::Metrics;
use crate::world::outbox::Outbox;
use crate::world::queues::Queues;
use crate::world::schedules::{Schedule, Schedules};
use crate::world::store::Store;
use crate::world::throttles::Throttles;
use crate::world::{schedules, store};

/// How often the lengths of queues are measured and the alarms are evaluated.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// Why the platform does not start. Each message is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Data(#[from] data::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the template of {tenant} cannot be read: {source}")]
    Template { tenant: &'static str, source: template::Error },
    #[error(transparent)]
    Schedule(#[from] schedules::Error),
    #[error(transparent)]
    MetricFilter(#[from] metric_filters::Error),
    #[error(transparent)]
    Function(#[from] DoesNotStart),
}

/// The running platform. All clones are the same platform.
#[derive(Clone)]
pub struct Platform(Arc<Inner>);

struct Inner {
    ground: Ground,
    tenants: Vec<Arc<dyn Tenant>>,
    store: Store,
    functions: Arc<Functions>,
    invocations: Invocations,
    /// Invocations that a restart interrupted; taken by `start`.
    pending: Mutex<Option<Pending>>,
    queues: Arc<Queues>,
    schedules: Schedules,
    routes: Vec<Route>,
    throttles: Throttles,
    alarms: Alarms,
    stand_ins: StandIns,
    faults: Faults,
    outbox: Outbox,
    live: Arc<Live>,
    metrics: Arc<Metrics>,
    logs: Arc<Logs>,
    /// The log groups that the templates name.
    log_groups: BTreeSet<String>,
    parameters: BTreeMap<String, String>,
    config: Map<String, Value>,
    ready: OnceLock<Instant>,
    stop: watch::Sender<bool>,
    /// Holds the lock on the data directory until everything else is dropped.
    _data: Data,
}

impl std::fmt::Debug for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Platform").field("ground", &self.0.ground).finish_non_exhaustive()
    }
}

impl Platform {
    /// Reads the templates, creates the tables and opens the data. `environment` is the environment of the process: its
    /// variables override those of the templates.
    pub(crate) fn build(
        tenants: Vec<Arc<dyn Tenant>>,
        ground: Ground,
        data: Data,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let store = Store::open(&data)?;
        let live = Arc::new(Live::default());
        let metrics = Arc::new(Metrics::default());
        let logs = Arc::new(Logs { live: live.clone(), metrics: metrics.clone(), filters: OnceLock::new() });
        let mut functions = Functions::new(metrics.clone(), sink(logs.clone(), ground.options.verbose));
        let (mut filters, mut log_groups) = (Vec::new(), BTreeSet::new());
        let (mut routes, mut alarms, mut queues, mut scheduled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut stand_ins, mut parameters, mut config) = (Vec::new(), BTreeMap::new(), Map::new());
        let aws =
            Aws::at(&ground.url).with_dynamodb_http(dynamodb::http_client(store.faulty().clone(), Outside::new()));
        let shared = include_str!("../../../../infra/templates/shared.yaml");
        for tenant in &tenants {
            let of_tenant = |source| Error::Template { tenant: tenant.name(), source };
            let given: BTreeMap<String, Value> =
                tenant.parameters(&ground).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let definitions = tenant.functions();
            for text in tenant.templates() {
                let template = Template::read(text, &given).map_err(of_tenant)?;
                for table in template.tables() {
                    store.make(&table)?;
                }
                for declared in template.functions() {
                    let Some(definition) = definitions.iter().find(|definition| definition.name == declared.name)
                    else {
                        continue;
                    };
                    let env = variables(&declared, &tenant.variables(&ground), environment);
                    functions.add(declared, *definition, env, aws.clone());
                }
                routes.extend(template.routes().map_err(of_tenant)?);
                alarms.extend(template.alarms().map_err(of_tenant)?);
                queues.extend(template.queues());
                scheduled.extend(template.schedules().map_err(of_tenant)?);
                filters.extend(template.metric_filters().map_err(of_tenant)?);
                let named =
                    template.of_kind("AWS::Logs::LogGroup").filter_map(|(_, group)| group["LogGroupName"].as_str());
                log_groups.extend(named.map(str::to_owned));
            }
            scheduled.extend(tenant.schedules(&ground));
            stand_ins.extend(tenant.stand_ins(&ground));
            parameters.extend(tenant.secrets(&ground));
            config.extend(tenant.config(&ground));
        }
        let of_shared = |source| Error::Template { tenant: "shared", source };
        let template = Template::read(shared, &BTreeMap::new()).map_err(of_shared)?;
        alarms.extend(template.alarms().map_err(of_shared)?);
        let throttles = if ground.options.throttle { template.throttles() } else { BTreeMap::new() };
        let _ = logs.filters.set(MetricFilters::new(filters)?);
        let functions = Arc::new(functions);
        let queues = Arc::new(Queues::open(data.file("messages.jsonl").as_deref(), queues)?);
        let (invocations, pending) = Invocations::open(
            data.file("invocations.jsonl").as_deref(),
            functions.clone(),
            queues.clone(),
            live.clone(),
            ground.options.retry_scale,
        )?;
        let outbox = Outbox::open(data.file("outbox.jsonl").as_deref())?;
        let stand_ins = StandIns::new(stand_ins);
        stand_ins.restore(&outbox);
        let mut breakable = stand_ins.names();
        breakable.extend(tenants.iter().flat_map(|tenant| tenant.services()));
        let faults = Faults::new(store.faulty().faults().clone(), breakable);
        let schedules = Schedules::new(scheduled, data.file("schedules.json"))?;
        Ok(Self(Arc::new(Inner {
            ground,
            tenants,
            store,
            functions,
            invocations,
            pending: Mutex::new(Some(pending)),
            queues,
            schedules,
            routes,
            throttles: Throttles::new(throttles),
            alarms: Alarms::new(alarms),
            stand_ins,
            faults,
            outbox,
            live,
            metrics,
            logs,
            log_groups,
            parameters,
            config,
            ready: OnceLock::new(),
            stop: watch::Sender::new(false),
            _data: data,
        })))
    }

    /// Starts functions, schedules and interrupted invocations. The listeners must already serve.
    pub(crate) async fn start(&self) -> Result<(), Error> {
        self.0.functions.start().await?;
        let pending = telemetry::lock(&self.0.pending).take();
        if let Some(pending) = pending {
            self.0.invocations.resume(pending);
        }
        tokio::spawn(self.clone().until_stopped(self.0.store.clone().sweep()));
        tokio::spawn(self.clone().until_stopped(self.clone().fire()));
        tokio::spawn(self.clone().until_stopped(self.clone().measure()));
        let _ = self.0.ready.set(Instant::now());
        if !self.0.ground.options.no_demo {
            for tenant in &self.0.tenants {
                tokio::spawn(self.clone().until_stopped(tenant.demo(self.clone())));
            }
        }
        Ok(())
    }

    /// Does background work until the platform stops.
    pub(crate) async fn until_stopped(self, work: impl Future<Output = ()>) {
        let mut stopped = self.stopped();
        tokio::select! {
            () = work => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }

    async fn fire(self) {
        loop {
            for schedule in self.0.schedules.due().await {
                let declared = &schedule.declared;
                let id = uuid::Uuid::new_v4().to_string();
                let Ok(function) = self.target_of(&schedule, &id) else { continue };
                let trace = Trace::of_request(&id);
                match self.0.invocations.accept(&function, declared.input.clone(), id, &trace) {
                    Ok(()) => self.0.live.tell("schedule", json!({"name": schedule.name(), "by": "time"})),
                    Err(error) => tracing::error!(
                        error = %error,
                        schedule = declared.name,
                        function = declared.function,
                        "schedule {} could not start its function", declared.name
                    ),
                }
            }
        }
    }

    /// The function that a schedule invokes. If there is none, the run goes to the dead-letter queue of the schedule.
    fn target_of(&self, schedule: &Schedule, id: &str) -> Result<Arc<Function>, schedules::Error> {
        let target = schedule.target["Arn"].as_str().unwrap_or_default();
        let qualifier = target.split(":function:").nth(1).and_then(|name| name.split_once(':')).map(|(_, it)| it);
        let known = qualifier.is_none_or(|qualifier| qualifier == "live");
        if let Some(function) = self.0.functions.find(target).filter(|_| known) {
            return Ok(function);
        }
        let name = &schedule.declared.name;
        let why = format!("Function not found: {target}");
        let sent = match schedule.dead_letter(id, "ResourceNotFoundException", &why) {
            Some((queue, body, attributes)) if self.0.queues.has(&queue) => {
                self.0.live.tell("dead-letter", json!({"queue": queue, "schedule": name, "requestId": id}));
                self.0.queues.send(&queue, body, attributes).map_err(|error| error.to_string())
            }
            _ => Err("it has no dead-letter queue".to_owned()),
        };
        let lost = sent.err();
        tracing::error!(schedule = name, error = why, lost, "schedule {name} could not start its function: {why}");
        Err(schedules::Error::NoTarget(target.to_owned()))
    }

    async fn measure(self) {
        loop {
            self.evaluate_alarms();
            tokio::time::sleep(MEASURE_EVERY).await;
        }
    }

    /// Records the metrics that SQS would report of the queues.
    pub(crate) fn measure_queues(&self) {
        for queue in self.0.queues.names() {
            self.0.metrics.queue(queue, self.0.queues.count(queue).0);
        }
    }

    /// Evaluates all alarms, and tells the console which of them started or stopped ringing.
    pub(crate) fn evaluate_alarms(&self) -> Vec<alarms::Status> {
        self.measure_queues();
        let all = self.0.alarms.evaluate_all(&self.0.metrics, self.0.metrics.now_ms());
        for changed in &all {
            let rang = changed.state == State::Alarm || changed.was == Some(State::Alarm);
            if rang && changed.actions_enabled {
                self.tell_alarm(changed);
            }
        }
        all
    }

    fn tell_alarm(&self, status: &alarms::Status) {
        let Some(was) = status.was else { return };
        self.0.live.tell(
            "alarm",
            json!({
                "name": status.alarm.name, "state": status.state.as_str(), "was": was.as_str(), "runbook": status.runbook(),
                "description": status.alarm.description,
            }),
        );
    }

    /// Runs the function of a schedule now and waits for it.
    pub async fn run_schedule(&self, name: &str) -> Result<Invoked, schedules::Error> {
        let schedule: Schedule = self.0.schedules.find(name)?;
        let function = self.target_of(&schedule, &uuid::Uuid::new_v4().to_string())?;
        self.0.schedules.ran(&schedule.declared.name);
        self.0.live.tell("schedule", json!({"name": schedule.name(), "by": "hand"}));
        Ok(self.invoke(&function, schedule.declared.input.clone(), None).await)
    }

    /// Invokes a function and waits for it.
    pub async fn invoke(&self, function: &Arc<Function>, payload: Value, trace: Option<Trace>) -> Invoked {
        let id = uuid::Uuid::new_v4().to_string();
        let trace = trace.unwrap_or_else(|| Trace::of_request(&id));
        let invoked = self.0.functions.invoke(function, payload, id, Some(trace.clone())).await;
        let failure = invoked.outcome.as_ref().err();
        self.0.live.tell(
            "invocation",
            json!({
                "function": function.declared.name, "type": "RequestResponse", "requestId": invoked.request_id,
                "ms": clock::shown_ms(invoked.duration), "attempt": 1,
                "error": failure.map(|failure| failure.kind.clone()),
                "message": failure.map(|failure| failure.message.clone()), "traceId": trace.id(),
            }),
        );
        invoked
    }

    /// Stops schedules, demos and the other background work. The listeners let running requests end.
    pub(crate) fn stop(&self) {
        let _ = self.0.stop.send(true);
    }

    /// Becomes true when the platform stops.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.0.stop.subscribe()
    }

    /// Whether everything has started.
    pub(crate) fn is_ready(&self) -> bool {
        self.0.ready.get().is_some()
    }

    pub fn ground(&self) -> &Ground {
        &self.0.ground
    }

    pub(crate) fn tenants(&self) -> &[Arc<dyn Tenant>] {
        &self.0.tenants
    }

    /// The panels of the console: name, title, script.
    pub(crate) fn panels(&self) -> Vec<(&'static str, Panel)> {
        self.0.tenants.iter().filter_map(|tenant| Some((tenant.name(), tenant.panel()?))).collect()
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    pub fn functions(&self) -> &Arc<Functions> {
        &self.0.functions
    }

    pub(crate) fn invocations(&self) -> &Invocations {
        &self.0.invocations
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.0.queues
    }

    pub(crate) fn schedules(&self) -> &Schedules {
        &self.0.schedules
    }

    pub(crate) fn alarms(&self) -> &Alarms {
        &self.0.alarms
    }

    pub(crate) fn routes(&self) -> &[Route] {
        &self.0.routes
    }

    pub(crate) fn throttles(&self) -> &Throttles {
        &self.0.throttles
    }

    pub(crate) fn stand_ins(&self) -> &StandIns {
        &self.0.stand_ins
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.0.faults
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    pub fn live(&self) -> &Live {
        &self.0.live
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Writes a line to a log group that is not a function's.
    pub(crate) fn log(&self, group: &str, line: &str) {
        self.0.logs.line(group, line, &Value::Null);
    }

    pub(crate) fn has_log_group(&self, group: &str) -> bool {
        self.0.log_groups.contains(group)
    }

    /// An SSM parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.0.parameters.get(name).map(String::as_str)
    }

    /// What `/_local/config` tells clients.
    pub(crate) fn config(&self) -> &Map<String, Value> {
        &self.0.config
    }
}

/// CloudWatch Logs: keeps lines, and finds metrics in them.
struct Logs {
    live: Arc<Live>,
    metrics: Arc<Metrics>,
    /// Set when all templates are read, before the first line.
    filters: OnceLock<MetricFilters>,
}

impl Logs {
    fn line(&self, group: &str, line: &str, read: &Value) {
        self.live.line(group, line, read);
        if let Some(filters) = self.filters.get() {
            filters.line(group, line, &self.metrics);
        }
    }
}

/// Takes the lines that functions write: metrics go to the metrics, other lines to the log, and with `verbose` all of them
/// also to the terminal.
fn sink(logs: Arc<Logs>, verbose: bool) -> Sink {
    let terminal = telemetry::stdout();
    Arc::new(move |line| {
        let Ok(read) = serde_json::from_str::<Value>(line) else { return };
        logs.live.about_key(line, &read);
        if only_for_lives(&read) {
            return;
        }
        let group = |name: &str| format!("{LAMBDA_LOGS}{}", read[name].as_str().unwrap_or_default());
        if logs.metrics.line(&read) {
            logs.live.numbers(group("FunctionName"), line);
        } else {
            logs.line(&group("function"), line, &read);
        }
        if verbose {
            terminal(line);
        }
    })
}

/// Whether a line is written here only so that the console can draw the lives of keys. In a deployed environment, functions write
/// these lines only with `LOG_LEVEL=debug`.
fn only_for_lives(read: &Value) -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    let of_watch = read["target"] == telemetry::WATCH_TARGET && matches!(read["level"].as_str(), Some("DEBUG"));
    of_watch && !*WANTED.get_or_init(|| process::log_level() >= telemetry::Level::DEBUG)
}

/// The variables of a function. A variable of the template is overridden by the tenant's, by the environment of the
/// process, and by the environment with the function's name in front, in this order.
fn variables(
    declared: &template::Function,
    tenants: &[(&'static str, String)],
    environment: &BTreeMap<String, String>,
) -> Env {
    let mut all = declared.environment.clone();
    all.extend(tenants.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let own = format!("{}__", declared.name.to_uppercase().replace('-', "_"));
    // AWS variables of the person's shell belong to their account, not to this platform.
    let general = environment.iter().filter(|(name, _)| !name.starts_with("AWS_") && !name.contains("__"));
    all.extend(general.map(|(name, value)| (name.clone(), value.clone())));
    let specific =
        environment.iter().filter_map(|(name, value)| Some((name.strip_prefix(&own)?.to_owned(), value.clone())));
    all.extend(specific.collect::<Vec<_>>());
    all.insert("AWS_LAMBDA_FUNCTION_NAME".to_owned(), declared.name.clone());
    all.insert("AWS_LAMBDA_FUNCTION_VERSION".to_owned(), "1".to_owned());
    all.insert("AWS_LAMBDA_FUNCTION_MEMORY_SIZE".to_owned(), declared.memory_mb.to_string());
    all.insert("AWS_REGION".to_owned(), template::REGION.to_owned());
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_variable_wins_over_the_template_and_one_for_a_function_over_both() {
        let declared = template::Function {
            logical_id: "F".into(),
            name: "github-subscriber".into(),
            environment: BTreeMap::from([("FIRST_RUN".into(), "mark".into()), ("TABLE".into(), "t".into())]),
            timeout: Duration::from_secs(3),
            memory_mb: 128,
            retries: 2,
            event_age: Duration::from_secs(60),
            on_failure: None,
        };
        let of = |pairs: &[(&str, &str)]| {
            let person = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            variables(&declared, &[("LOCAL", "yes".to_owned())], &person)
        };
        assert_eq!(of(&[]).get("FIRST_RUN"), Some("mark"));
        assert_eq!(of(&[("FIRST_RUN", "all")]).get("FIRST_RUN"), Some("all"));
        let both = of(&[("FIRST_RUN", "all"), ("GITHUB_SUBSCRIBER__FIRST_RUN", "last:3"), ("OTHER__TABLE", "x")]);
        assert_eq!((both.get("FIRST_RUN"), both.get("TABLE")), (Some("last:3"), Some("t")));
        let account = of(&[("AWS_REGION", "us-east-1"), ("AWS_PROFILE", "mine")]);
        assert_eq!((account.get("AWS_REGION"), account.get("AWS_PROFILE")), (Some("ap-northeast-1"), None));
        assert_eq!(of(&[]).get("LOCAL"), Some("yes"));
    }
}
