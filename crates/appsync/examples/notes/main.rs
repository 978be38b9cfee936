//! The example of the README: a schema, two resolvers, a template and some lines of Rust.
mod store;

use std::io::Write as _;

use appsync::{Api, Caller};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = Api::builder()
        .schema(include_str!("schema.graphql"))
        .template(include_str!("template.yaml"), &[("Environment", "dev")])
        .code_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/notes"))
        .dynamodb(store::client("notes-dev").await?) // any aws-sdk-dynamodb client
        .api_keys(["da2-local"])
        .build()?;
    let caller = Caller::api_key("da2-local");

    let mut heard = api.subscribe("subscription { onNote { text } }", json!({}), &caller).await?;
    let added = api.execute("mutation { addNote(text: \"hello\") { id text } }", json!({}), &caller).await;
    let id = added.data()["addNote"]["id"].clone();
    let found = api.execute("query ($id: ID!) { note(id: $id) { text } }", json!({ "id": id }), &caller).await;
    let refused = api.execute("mutation { addNote(text: \"\") { id } }", json!({}), &caller).await;

    let mut out = std::io::stdout();
    writeln!(out, "found:   {}", found.to_json())?;
    writeln!(out, "heard:   {}", heard.next().await.unwrap_or_default())?;
    writeln!(out, "refused: {}", refused.errors[0].message)?;
    if std::env::args().any(|argument| argument == "--serve") {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        writeln!(out, "serving: http://{}/graphql", listener.local_addr()?)?;
        axum::serve(listener, api.router()).await?;
    }
    Ok(())
}
