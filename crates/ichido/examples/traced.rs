//! What a tracing backend sees of a payment that is delivered three times, and whose first worker gives up in doubt.
//!
//! The library emits `tracing` events and spans by itself; their names and fields are part of its API. Any subscriber gets
//! them, for example `tracing-opentelemetry`. This one prints them. Each call stores the id of its trace beside the record, so
//! a duplicate finds the trace of the call that recorded the outcome: a span link in OpenTelemetry's words.
//! `cargo run -p ichido --example traced` runs it on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Failure, Namespace, Once, Probed};
use testkit::Dynamo;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

type BoxError = Box<dyn Error + Send + Sync>;

/// Prints what the library emits: spans when they end, events when they happen, indented by the spans around them.
struct Printer;

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() != "message" {
            let _ = write!(self.0, " {}={value:?}", field.name());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Printer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let depth = context.event_scope(event).map_or(0, |scope| scope.count());
        println!("  {:indent$}event {}{}", "", event.metadata().name(), fields.0, indent = 2 * depth);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id) {
            let depth = span.scope().skip(1).count();
            let extensions = span.extensions();
            let fields = extensions.get::<Fields>().map_or("", |fields| &fields.0);
            println!("  {:indent$}span  {}{fields}", "", span.name(), indent = 2 * depth);
        }
    }
}

/// A payment provider that can be asked. The answer to its first charge is lost.
#[derive(Default)]
struct Provider(AtomicU32);

impl Provider {
    async fn charge(&self) -> Result<String, Failure<BoxError>> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Failure::Uncertain("the provider's answer was lost".into())),
            n => Ok(format!("charge-{}", n + 1)),
        }
    }

    async fn find(&self) -> Result<Probed<String>, BoxError> {
        Ok(if self.0.load(Ordering::SeqCst) > 0 { Probed::Done("charge-1".into()) } else { Probed::NotDone })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::registry()
        .with(
            Printer
                .with_filter(tracing_subscriber::filter::Targets::new().with_target("ichido", tracing::Level::DEBUG)),
        )
        .init();
    let mut db = Dynamo::empty();
    db.simple_table("payments", "id", None, "ttl");
    let store = DynamoDb::new(db.client(), Table::new("payments", "id"));
    let once = Once::builder(store).clock(db.clock().clone()).build();
    let key = Namespace::new("payment").lease(Duration::from_secs(30)).key(["order-7"])?;
    let provider = Provider::default();

    for delivery in 1..=3 {
        let trace = format!("00-{:032x}-{:016x}-01", 0xa11ce + delivery, delivery);
        println!("delivery {delivery}, traceparent {trace}");
        let done = once
            .run(&key)
            .attribute("traceparent", trace)
            .probe(|_claim| provider.find())
            .work(|_claim| provider.charge())
            .await;
        match done {
            Ok(done) => {
                let link = done.first.iter().find(|(name, _)| name == "traceparent").map(|(_, id)| id.to_string());
                println!("  => {} ({:?}), link to {}", done.value, done.how, link.as_deref().unwrap_or("nothing"));
            }
            Err(error) => println!("  => {error}"),
        }
    }
    let charged = provider.0.load(Ordering::SeqCst);
    println!("charged 1, doubled {}, lost {}", charged.saturating_sub(1), u32::from(charged == 0));
    Ok(())
}
