//! AWS's documentation, page by page. See `tests/conformance/README.md`.
mod support;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use appsync::{Api, Caller, IamCaller, LambdaError, Subscription};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{KEY, dynamodb, table};

#[derive(Deserialize)]
struct Page {
    source: String,
    schema: String,
    #[serde(default)]
    tables: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    functions: BTreeMap<String, Code>,
    resolvers: BTreeMap<String, Code>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Code {
    on: Option<String>,
    code: Option<String>,
    functions: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Step {
    request: Option<String>,
    #[serde(default)]
    variables: Value,
    caller: Option<String>,
    subscribe: Option<String>,
    heard: Option<String>,
    #[serde(default)]
    expect: Value,
}

impl Page {
    fn template(&self) -> String {
        let mut resources = json!({
            "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"AuthenticationType": "API_KEY",
                "AdditionalAuthenticationProviders": [{"AuthenticationType": "AWS_IAM"}]}},
            "SourceNone": {"Type": "AWS::AppSync::DataSource", "Properties": {"Name": "none", "Type": "NONE"}},
            "SourceFunction": {"Type": "AWS::AppSync::DataSource", "Properties": {"Name": "function", "Type": "AWS_LAMBDA",
                "LambdaConfig": {"LambdaFunctionArn": "arn:aws:lambda:local:000000000000:function:worker"}}},
        });
        for name in self.tables.keys() {
            resources[format!("Source{name}")] = json!({"Type": "AWS::AppSync::DataSource",
                "Properties": {"Name": name, "Type": "AMAZON_DYNAMODB", "DynamoDBConfig": {"TableName": name}}});
        }
        for (name, function) in &self.functions {
            resources[format!("Function{name}")] = json!({"Type": "AWS::AppSync::FunctionConfiguration",
                "Properties": {"Name": name, "DataSourceName": function.on, "Code": function.code}});
        }
        for (field, resolver) in &self.resolvers {
            let (type_name, name) = field.split_once('.').expect("Type.field");
            let mut properties = json!({"TypeName": type_name, "FieldName": name});
            if let Some(code) = &resolver.code {
                properties["Code"] = json!(code);
            }
            match &resolver.functions {
                Some(functions) => {
                    properties["Kind"] = json!("PIPELINE");
                    let ids: Vec<Value> = functions
                        .iter()
                        .map(|name| json!({"Fn::GetAtt": [format!("Function{name}"), "FunctionId"]}))
                        .collect();
                    properties["PipelineConfig"] = json!({ "Functions": ids });
                }
                None => properties["DataSourceName"] = json!(resolver.on),
            }
            resources[format!("Resolver{type_name}{name}")] =
                json!({"Type": "AWS::AppSync::Resolver", "Properties": properties});
        }
        json!({ "Resources": resources }).to_string()
    }

    async fn api(&self) -> Api {
        let client = dynamodb().await;
        for (name, keys) in &self.tables {
            table(&client, name, &keys[0], keys.get(1).map(String::as_str)).await;
        }
        Api::builder()
            .schema(&self.schema)
            .template(self.template(), &[])
            .dynamodb(client)
            .api_keys([KEY])
            .lambda("worker", |payload: Value| async move {
                let fails = payload["fail"] == true || payload["info"]["fieldName"] == "failing";
                if fails { Err(LambdaError::new("it failed")) } else { Ok(payload) }
            })
            .build()
            .unwrap_or_else(|error| panic!("{}: {error}", self.source))
    }
}

/// Whether an answer is what a page promises.
fn matches(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(text), _) if text == "<any>" => true,
        (Value::String(text), Value::String(found)) if text.starts_with("<starts>") => {
            found.starts_with(&text["<starts>".len()..])
        }
        (Value::Object(expected), Value::Object(found)) => {
            expected.len() == found.len()
                && expected.iter().all(|(key, value)| found.get(key).is_some_and(|found| matches(value, found)))
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected.iter().zip(found).all(|(expected, found)| matches(expected, found))
        }
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => expected == found,
    }
}

async fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(file);
    let text = std::fs::read_to_string(&path).expect("the page");
    let page: Page = serde_yaml_ng::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(page.source.contains("https://docs.aws.amazon.com/"), "{file} names its source");
    let api = page.api().await;
    let mut subscriptions: HashMap<String, Subscription> = HashMap::new();
    for (number, step) in page.steps.iter().enumerate() {
        let caller = match step.caller.as_deref() {
            Some("iam") => Caller::iam(IamCaller::role("123456789012", "reader")),
            _ => Caller::api_key(KEY),
        };
        let found = match (&step.subscribe, &step.heard, &step.request) {
            (Some(name), _, Some(request)) => {
                let subscription = api.subscribe(request, step.variables.clone(), &caller).await;
                subscriptions.insert(
                    name.clone(),
                    subscription.unwrap_or_else(|errors| panic!("{file} step {number}: {errors:?}")),
                );
                continue;
            }
            (_, Some(name), _) => {
                let subscription = subscriptions.get_mut(name).expect("a subscription of this name");
                let heard = tokio::time::timeout(support::PATIENCE, subscription.next()).await;
                heard.unwrap_or_else(|_| panic!("{file} step {number}: {name} hears nothing")).expect("it goes on")
            }
            (_, _, Some(request)) => api.execute(request, step.variables.clone(), &caller).await.to_json(),
            _ => panic!("{file} step {number}: neither a request nor a subscription"),
        };
        assert!(
            matches(&step.expect, &found),
            "{}\nstep {number}: {}\nexpected: {}\nfound:    {found}",
            page.source,
            step.request.as_deref().or(step.heard.as_deref()).unwrap_or_default(),
            step.expect
        );
    }
}

macro_rules! pages {
    ($($name:ident: $file:literal),* $(,)?) => {
        $(#[tokio::test] async fn $name() { check($file).await })*

        #[test]
        fn every_page_is_checked() {
            let mut found: Vec<String> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance"))
                .expect("the directory")
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| name.ends_with(".yaml"))
                .collect();
            found.sort();
            let mut listed = vec![$($file.to_owned()),*];
            listed.sort();
            assert_eq!(found, listed);
        }
    };
}

pages! {
    authorization: "authorization.yaml",
    batch_operations: "batch-operations.yaml",
    context: "context.yaml",
    condition_expressions: "condition-expressions.yaml",
    errors: "errors.yaml",
    lambda: "lambda.yaml",
    pipelines: "pipelines.yaml",
    one_table: "table.yaml",
    subscriptions: "subscriptions.yaml",
    transactions: "transactions.yaml",
}
