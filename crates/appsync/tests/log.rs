//! The log of an API: what AppSync would write to CloudWatch Logs at the level that the template asks for.

use std::sync::{Arc, Mutex};

use appsync::{Api, Caller};
use serde_json::{Value, json};

const TEMPLATE: &str = r#"
Parameters:
  Level: { Type: String }
Resources:
  Api:
    Type: AWS::AppSync::GraphQLApi
    Properties:
      Name: notes
      AuthenticationType: API_KEY
      LogConfig: { CloudWatchLogsRoleArn: arn, FieldLogLevel: { Ref: Level } }
  Nothing:
    Type: AWS::AppSync::DataSource
    Properties: { ApiId: { "Fn::GetAtt": [Api, ApiId] }, Name: none, Type: NONE }
  Resolver:
    Type: AWS::AppSync::Resolver
    Properties:
      ApiId: { "Fn::GetAtt": [Api, ApiId] }
      TypeName: Query
      FieldName: note
      DataSourceName: none
      Code: |
        import { util } from '@aws-appsync/utils'
        export function request(ctx) {
          console.log('asked for a note')
          if (ctx.args.id === 'lost') {
            console.error(`no answer for ${ctx.args.id}`)
            util.error('Try again.', 'Unavailable')
          }
          return { payload: ctx.args.id }
        }
        export function response(ctx) {
          return ctx.result
        }
"#;

/// The lines that a query leaves in the log of an API with this level.
async fn logged(level: &str, id: &str) -> Vec<String> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    let api = Api::builder()
        .schema("type Query { note(id: ID!): String }")
        .template(TEMPLATE, &[("Level", level)])
        .log(move |line| kept.lock().unwrap().push(line.to_owned()))
        .api_keys(["key"])
        .build()
        .unwrap();
    api.execute("query ($id: ID!) { note(id: $id) }", json!({ "id": id }), &Caller::api_key("key")).await;
    let lines = lines.lock().unwrap();
    lines.clone()
}

#[tokio::test]
async fn what_a_handler_calls_an_error_is_logged_and_so_are_the_errors_of_the_answer() {
    let lines = logged("ERROR", "lost").await;
    assert_eq!((lines.len(), lines[0].as_str()), (2, "no answer for lost"));
    let errors: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(errors["errors"][0]["errorType"], "Unavailable");
}

#[tokio::test]
async fn nothing_else_is_logged() {
    assert_eq!(logged("ERROR", "n1").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_api_without_a_log_level_logs_nothing() {
    assert_eq!(logged("NONE", "lost").await, Vec::<String>::new());
}
