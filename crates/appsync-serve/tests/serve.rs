//! The program as its users start it: its own process on a free port, with files that change.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Far longer than needed, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const SCHEMA: &str = "type Query { shelf(id: ID!): Shelf  greeting: String  counted: Int }
type Mutation { addShelf(id: ID!, label: String!): Shelf }
type Subscription { onShelf: Shelf @aws_subscribe(mutations: [\"addShelf\"]) }
type Shelf { id: ID! label: String! }
";
const TEMPLATE: &str = r#"
Parameters:
  Stage: { Type: String }
Resources:
  Shelves:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: { "Fn::Sub": "shelves-${Stage}" }
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
  Api:
    Type: AWS::AppSync::GraphQLApi
    Properties: { Name: library, AuthenticationType: API_KEY }
  ShelvesSource:
    Type: AWS::AppSync::DataSource
    Properties: { Name: shelves, Type: AMAZON_DYNAMODB, DynamoDBConfig: { TableName: { Ref: Shelves } } }
  NoSource:
    Type: AWS::AppSync::DataSource
    Properties: { Name: none, Type: NONE }
  Counter:
    Type: AWS::AppSync::DataSource
    Properties:
      Name: counter
      Type: AWS_LAMBDA
      LambdaConfig: { LambdaFunctionArn: "arn:aws:lambda:local:000000000000:function:counter" }
  ShelfResolver:
    Type: AWS::AppSync::Resolver
    Properties: { TypeName: Query, FieldName: shelf, DataSourceName: shelves, Runtime: { Name: APPSYNC_JS, RuntimeVersion: 1.0.0 }, CodeS3Location: s3://code/shelf.js }
  AddResolver:
    Type: AWS::AppSync::Resolver
    Properties: { TypeName: Mutation, FieldName: addShelf, DataSourceName: shelves, Runtime: { Name: APPSYNC_JS, RuntimeVersion: 1.0.0 }, CodeS3Location: s3://code/addShelf.js }
  GreetingResolver:
    Type: AWS::AppSync::Resolver
    Properties: { TypeName: Query, FieldName: greeting, DataSourceName: none, Runtime: { Name: APPSYNC_JS, RuntimeVersion: 1.0.0 }, CodeS3Location: s3://code/greeting.js }
  CountedResolver:
    Type: AWS::AppSync::Resolver
    Properties: { TypeName: Query, FieldName: counted, DataSourceName: counter }
"#;
const RESPONSE: &str = "export function response(ctx) { return ctx.result }\n";

fn greeting(text: &str) -> String {
    format!("export function request() {{ return {{ payload: '{text}' }} }}\n{RESPONSE}")
}

/// A directory with a small API that has nothing to do with any application.
fn library() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let utils = "import { get, put } from '@aws-appsync/utils/dynamodb'\n";
    let get = "export function request(ctx) { return get({ key: { id: ctx.args.id } }) }\n";
    let put =
        "export function request(ctx) { return put({ key: { id: ctx.args.id }, item: { label: ctx.args.label } }) }\n";
    for (name, text) in [
        ("schema.graphql", SCHEMA.to_owned()),
        ("template.yaml", TEMPLATE.to_owned()),
        ("shelf.js", format!("{utils}{get}{RESPONSE}")),
        ("addShelf.js", format!("{utils}{put}{RESPONSE}")),
        ("greeting.js", greeting("hello")),
    ] {
        std::fs::write(directory.path().join(name), text).expect("a file");
    }
    directory
}

struct Program {
    child: Child,
    lines: Receiver<String>,
    url: String,
    announcement: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(directory: &Path, more: &[&str]) -> Self {
        Self::start_with(directory, "template.yaml", more)
    }

    fn start_with(directory: &Path, template: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_appsync"));
        command.args(["serve", "--schema", "schema.graphql", "--template", template, "--port", "0"]);
        command.args(["--parameter", "Stage=test"]).args(more).current_dir(directory);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program");
        let stdout = child.stdout.take().expect("its output");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut program = Self { child, lines, url: String::new(), announcement: String::new() };
        let first = program.wait_for("appsync serves ");
        program.url = first.trim_start_matches("appsync serves ").trim_end_matches("/graphql").to_owned();
        program.announcement = program.wait_for("watching");
        program
    }

    /// The first line with this text. What was printed before it is lost.
    fn wait_for(&self, text: &str) -> String {
        self.until(text).pop().expect("a line")
    }

    /// The lines up to the first one with this text.
    fn until(&self, text: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        while !lines.last().is_some_and(|line| line.contains(text)) {
            lines.push(self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line has {text:?}: {lines:?}")));
        }
        lines
    }

    async fn ask(&self, query: &str) -> Value {
        self.ask_with(query, "da2-local", &[]).await.1
    }

    async fn ask_with(&self, query: &str, key: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut request = client().post(format!("{}/graphql", self.url)).header("x-api-key", key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.body(json!({ "query": query }).to_string()).send().await.expect("an answer");
        (response.status().as_u16(), serde_json::from_str(&response.text().await.expect("a body")).expect("JSON"))
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

#[tokio::test]
async fn a_schema_and_a_template_are_served_with_an_embedded_store() {
    let directory = library();
    let program = Program::start(directory.path(), &[]);
    assert!(program.url.starts_with("http://127.0.0.1:"), "{}", program.url);
    let added = program.ask("mutation { addShelf(id: \"a\", label: \"Rust\") { id label } }").await;
    assert_eq!(added, json!({"data": {"addShelf": {"id": "a", "label": "Rust"}}}));
    let found = program.ask("query Find { shelf(id: \"a\") { label } }").await;
    assert_eq!(found, json!({"data": {"shelf": {"label": "Rust"}}}));
    let line = program.wait_for("query Find");
    assert!(line.contains(" ms  query Find: shelf") && !line.contains('"'), "{line}");
    // A function that nobody serves fails its own field, and says what to do.
    let counted = program.ask("{ counted greeting }").await;
    assert_eq!(counted["data"], json!({"counted": null, "greeting": "hello"}));
    assert!(counted["errors"][0]["message"].as_str().is_some_and(|why| why.contains("--lambda")), "{counted}");
    assert!(program.wait_for("error at counted").contains("there is no function counter"));
    let (status, _) = program.ask_with("{ greeting }", "another key", &[]).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn a_change_is_served_and_a_mistake_leaves_everything_as_it_was() {
    let directory = library();
    let program = Program::start(directory.path(), &["--data", "tables.db"]);
    program.ask("mutation { addShelf(id: \"a\", label: \"Rust\") { id } }").await;
    let resolver = directory.path().join("greeting.js");
    std::fs::write(&resolver, greeting("good morning")).expect("a file");
    program.wait_for("reloaded");
    assert_eq!(program.ask("{ greeting }").await, json!({"data": {"greeting": "good morning"}}));

    std::fs::write(&resolver, "export function request() { while (true) {} }").expect("a file");
    let why = program.wait_for("not reloaded");
    assert!(why.contains("the API is as it was") && why.contains("greeting.js"), "{why}");
    assert_eq!(program.ask("{ greeting }").await, json!({"data": {"greeting": "good morning"}}));

    std::fs::write(directory.path().join("schema.graphql"), "type Query { oops").expect("a file");
    program.wait_for("not reloaded");
    assert_eq!(program.ask("{ greeting }").await, json!({"data": {"greeting": "good morning"}}));

    std::fs::write(&resolver, greeting("good evening")).expect("a file");
    std::fs::write(directory.path().join("schema.graphql"), SCHEMA.replace("greeting: String", "greeting: String!"))
        .expect("a file");
    program.wait_for("reloaded: ");
    assert_eq!(program.ask("{ greeting shelf(id: \"a\") { label } }").await["data"]["greeting"], "good evening");
    drop(program);
    // What was written is still there, in a file that nobody else can read.
    let program = Program::start(directory.path(), &["--data", "tables.db"]);
    assert_eq!(program.ask("{ shelf(id: \"a\") { label } }").await, json!({"data": {"shelf": {"label": "Rust"}}}));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(directory.path().join("tables.db")).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn whatever_the_template_names_is_watched_also_where_it_was_looked_for_and_not_found() {
    let directory = library();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("template.yaml"), TEMPLATE.replace("greeting.js", "greeting.resolver")).expect("a file");
    std::fs::rename(path("greeting.js"), path("greeting.resolver")).expect("a file");
    // Nothing names these.
    std::fs::write(path("unused.js"), "").expect("a file");
    std::fs::write(path("unused.graphql"), "").expect("a file");
    let program = Program::start(directory.path(), &[]);
    assert!(program.announcement.contains("watching    5 files"), "{}", program.announcement);
    std::fs::write(path("greeting.resolver"), greeting("good morning")).expect("a file");
    program.wait_for("reloaded: ");
    assert_eq!(program.ask("{ greeting }").await["data"]["greeting"], "good morning");
    // The template names `code/greeting.resolver`, so that file comes first.
    std::fs::create_dir(path("code")).expect("a directory");
    std::fs::write(path("code/greeting.resolver"), greeting("good evening")).expect("a file");
    program.wait_for("reloaded: ");
    assert_eq!(program.ask("{ greeting }").await["data"]["greeting"], "good evening");
    // An editor may take a file away for a moment.
    std::fs::remove_file(path("shelf.js")).expect("a file");
    assert!(program.wait_for("not reloaded").contains("shelf.js"));
    std::fs::write(path("shelf.js"), format!("export function request() {{ return {{}} }}\n{RESPONSE}"))
        .expect("a file");
    program.wait_for("reloaded: ");
}

#[tokio::test]
async fn another_dynamodb_is_used_where_one_is_named() {
    let directory = library();
    // It has the wrong answers, but it is asked.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let answer = || async { axum::Json(json!({"Item": {"id": {"S": "z"}, "label": {"S": "elsewhere"}}})) };
    tokio::spawn(
        async move { axum::serve(listener, axum::Router::new().route("/", axum::routing::post(answer))).await },
    );
    let program = Program::start(directory.path(), &["--dynamodb", &url]);
    let found = program.ask("{ shelf(id: \"z\") { label } }").await;
    assert_eq!(found, json!({"data": {"shelf": {"label": "elsewhere"}}}));
}

#[tokio::test]
async fn functions_are_invoked_where_they_are_served() {
    let directory = library();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let function = axum::routing::post(|body: String| async move {
        let context: Value = serde_json::from_str(&body).expect("a context");
        if context["info"]["fieldName"] == "counted" { "42" } else { "0" }
    });
    let router = axum::Router::new().route("/2015-03-31/functions/counter/invocations", function);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let program = Program::start(directory.path(), &["--lambda", &url]);
    assert_eq!(program.ask("{ counted }").await, json!({"data": {"counted": 42}}));
}

#[tokio::test]
async fn the_query_page_asks_nobody_else_and_strangers_are_refused() {
    let directory = library();
    let program = Program::start(directory.path(), &["--api-key", "mine"]);
    let page = client().get(&program.url).send().await.expect("the page");
    let policy = page.headers()["content-security-policy"].to_str().expect("a policy").to_owned();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws://"),
        "{policy}"
    );
    let page = page.text().await.expect("a page");
    for file in ["/page.js", "/page.css"] {
        assert!(page.contains(file));
        let text = client().get(format!("{}{file}", program.url)).send().await.expect("a file").text().await;
        let text = text.expect("a text");
        assert!(!text.contains("http://") && !text.contains("https://"), "{file} leads elsewhere");
    }
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script>"), "{page}");
    let config = client().get(format!("{}/config.json", program.url)).send().await.expect("the configuration");
    assert_eq!(config.text().await.expect("a body"), r#"{"apiKey":"mine"}"#);
    for (name, value) in [
        ("origin", "https://example.com"),
        ("origin", "http://localhost:80@evil.example"),
        ("origin", "http://[::1].evil.example"),
        ("host", "rebound.example"),
    ] {
        let (status, body) = program.ask_with("{ greeting }", "mine", &[(name, value)]).await;
        assert_eq!(status, 403, "{name}: {value}: {body}");
        let config = client().get(format!("{}/config.json", program.url)).header(name, value).send().await;
        assert_eq!(config.expect("an answer").status(), 403);
    }
    let (status, _) = program.ask_with("{ greeting }", "mine", &[("origin", "http://localhost:3000")]).await;
    assert_eq!(status, 200);
}

#[test]
fn a_mistake_at_the_start_is_one_sentence_that_names_the_file() {
    let directory = library();
    std::fs::write(directory.path().join("shelf.js"), "export function request() { return {} }").expect("a file");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_appsync"));
        let ended = command.arg("serve").args(arguments).current_dir(directory.path()).output().expect("the program");
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let (code, said) = run(&["--template", "missing.yaml"]);
    assert_eq!((code, said.contains("could not read missing.yaml")), (Some(1), true), "{said}");
    let remote = ["--template", "template.yaml", "--dynamodb", "https://dynamodb.eu-west-1.amazonaws.com"];
    let (code, said) = run(&remote);
    assert_eq!((code, said.contains("--allow-remote")), (Some(1), true), "{said}");
    // Allowed, it gets as far as the next mistake.
    let (code, said) = run(&[&remote[..], &["--allow-remote"]].concat());
    assert_eq!((code, said.contains("Stage")), (Some(1), true), "{said}");
    let (code, said) = run(&["--template", "template.yaml", "--dynamodb", "banana"]);
    assert_eq!((code, said.contains("--dynamodb")), (Some(2), true), "{said}");
    let (code, said) = run(&["--template", "template.yaml", "--schema", "schema.graphql"]);
    assert_eq!((code, said.contains("Stage")), (Some(1), true), "{said}");
    let given = ["--template", "template.yaml", "--schema", "schema.graphql", "--parameter", "Stage=test"];
    let (code, said) = run(&given);
    assert_eq!((code, said.contains("shelf.js")), (Some(1), true), "{said}");
}

#[tokio::test]
async fn what_a_caller_or_a_file_says_cannot_write_to_the_terminal() {
    const CLEAR: &str = "\u{1b}[2J";
    let clean = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
    let directory = library();
    let template = format!("template{CLEAR}.yaml");
    std::fs::rename(directory.path().join("template.yaml"), directory.path().join(&template)).expect("a file");
    // A file that is wrong at the start.
    let mut command = Command::new(env!("CARGO_BIN_EXE_appsync"));
    let ended =
        command.args(["serve", "--template", &template]).current_dir(directory.path()).output().expect("the program");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("template\\u{1b}[2J.yaml") && clean(&said), "{said:?}");
    // A caller.
    let data = format!("tables{CLEAR}.db");
    let program = Program::start_with(directory.path(), &template, &["--data", &data]);
    program.ask(&format!("query Q {{ greeting(wrong: \"{CLEAR}\") a{CLEAR}: greeting }} # {CLEAR}")).await;
    program.ask(&format!("mutation {{ addShelf(id: \"{CLEAR}\") {{ id }} }}")).await;
    // A file that is wrong later.
    std::fs::write(directory.path().join(&template), format!("Resources: [{CLEAR}")).expect("a file");
    let lines = program.until("not reloaded");
    assert!(lines.iter().all(|line| clean(line)), "{lines:?}");
    assert!(lines.last().is_some_and(|line| line.contains("template\\u{1b}[2J.yaml")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("query Q")), "{lines:?}");
}
