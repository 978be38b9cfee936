//! Templates as their readers see them: the resources of a small one, and all templates of this project.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use template::{Document, Error, REGION, Template, arn, function_name};

const SMALL: &str = r#"
Parameters:
  Environment: { Type: String, Default: local }
  Suffix: { Type: String, Default: "" }
  EventsTableName: { Type: String, Default: events }
Conditions:
  IsProd: { Fn::Equals: [{ Ref: Environment }, prod] }
  IsNotProd: { Fn::Not: [{ Condition: IsProd }] }
Resources:
  EventsTable:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: { Ref: EventsTableName }
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }, { AttributeName: gsi, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
      GlobalSecondaryIndexes:
        - IndexName: GSI1
          KeySchema: [{ AttributeName: gsi, KeyType: HASH }]
          Projection: { ProjectionType: ALL }
      TimeToLiveSpecification: { AttributeName: ttl, Enabled: true }
      DeletionProtectionEnabled: { Fn::If: [IsProd, true, { Ref: AWS::NoValue }] }
  OnlyInProd:
    Type: AWS::SQS::Queue
    Condition: IsProd
  WorkFunction:
    Type: AWS::Lambda::Function
    Properties:
      FunctionName: { Fn::Sub: "work${Suffix}" }
      Timeout: 60
      Environment:
        Variables:
          TABLE_NAME: { Ref: EventsTable }
          NEXT: { Ref: WorkAlias }
          RETRIES: 3
          JOINED: { Fn::Join: ["-", [a, { Ref: Environment }]] }
  WorkAlias:
    Type: AWS::Lambda::Alias
    Properties: { Name: live, FunctionName: { Ref: WorkFunction }, FunctionVersion: "1" }
  WorkFailures:
    Type: AWS::SQS::Queue
    Properties: { QueueName: { Fn::Sub: "work-failures${Suffix}" }, MessageRetentionPeriod: 1209600 }
  WorkInvokeConfig:
    Type: AWS::Lambda::EventInvokeConfig
    Properties:
      FunctionName: { Ref: WorkFunction }
      Qualifier: live
      MaximumRetryAttempts: 1
      DestinationConfig: { OnFailure: { Destination: { Fn::GetAtt: [WorkFailures, Arn] } } }
  WorkIntegration:
    Type: AWS::ApiGatewayV2::Integration
    Properties: { IntegrationUri: { Ref: WorkAlias }, TimeoutInMillis: 3500 }
  WorkRoute:
    Type: AWS::ApiGatewayV2::Route
    Properties: { RouteKey: POST /work, Target: { Fn::Sub: "integrations/${WorkIntegration}" } }
  WorkSchedule:
    Type: AWS::Scheduler::Schedule
    Properties:
      Name: work-schedule
      ScheduleExpression: rate(5 minutes)
      FlexibleTimeWindow: { Mode: "OFF" }
      Target: { Arn: { Ref: WorkAlias }, RoleArn: { Fn::GetAtt: [WorkRole, Arn] }, Input: '{"from":"schedule"}' }
  WorkRole: { Type: AWS::IAM::Role }
  WorkAlarm:
    Type: AWS::CloudWatch::Alarm
    Properties:
      AlarmName: { Fn::Sub: "work-errors${Suffix}" }
      Namespace: AWS/Lambda
      MetricName: Errors
      Dimensions: [{ Name: Resource, Value: { Fn::Sub: "${WorkFunction}:live" } }]
      Statistic: Sum
      Period: 300
      EvaluationPeriods: 3
      ComparisonOperator: GreaterThanThreshold
      Threshold: 0.5
Outputs:
  TableArn: { Value: { Fn::GetAtt: [EventsTable, Arn] } }
"#;

fn small() -> Template {
    Template::read(SMALL, &BTreeMap::new()).expect("a template")
}

#[test]
fn a_table_is_what_create_table_takes() {
    let tables = small().tables();
    let [table] = tables.as_slice() else { panic!("one table: {tables:?}") };
    assert_eq!((table.name.as_str(), table.ttl.as_deref()), ("events", Some("ttl")));
    assert_eq!(table.create["GlobalSecondaryIndexes"][0]["IndexName"], "GSI1");
    assert_eq!(table.create.get("TimeToLiveSpecification"), None);
}

#[test]
fn a_function_has_its_variables_as_text_and_knows_where_its_failures_go() {
    let functions = small().functions();
    let [function] = functions.as_slice() else { panic!("one function: {functions:?}") };
    let expected = [
        ("JOINED", "a-local"),
        ("NEXT", "arn:aws:lambda:ap-northeast-1:000000000000:function:work:live"),
        ("RETRIES", "3"),
        ("TABLE_NAME", "events"),
    ];
    assert_eq!(function.environment, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    assert_eq!((function.timeout, function.retries), (Duration::from_secs(60), 1));
    assert_eq!(function.on_failure.as_deref(), Some("arn:aws:sqs:ap-northeast-1:000000000000:work-failures"));
}

#[test]
fn schedules_and_routes_lead_to_functions_by_name() {
    let template = small();
    let schedules = template.schedules().expect("schedules");
    assert_eq!((schedules[0].name.as_str(), schedules[0].function.as_str()), ("work-schedule", "work"));
    assert_eq!(schedules[0].input, json!({"from": "schedule"}));
    let routes = template.routes().expect("routes");
    assert_eq!((routes[0].key.as_str(), routes[0].function.as_str()), ("POST /work", "work"));
    assert_eq!(routes[0].timeout, Duration::from_millis(3_500));
}

#[test]
fn an_alarm_needs_every_period_unless_it_says_how_many() {
    let alarms = small().alarms().expect("alarms");
    assert_eq!((alarms[0].evaluation_periods, alarms[0].datapoints_to_alarm), (3, 3));
    assert_eq!(alarms[0].dimensions["Resource"], "work:live");
    assert_eq!(alarms[0].missing_data, "missing");
}

#[test]
fn conditions_decide_what_is_there() {
    let template = small();
    assert!(!template.resources.contains_key("OnlyInProd"));
    assert_eq!(template.resources["EventsTable"].properties.get("DeletionProtectionEnabled"), None);
    let prod = BTreeMap::from([("Environment".to_owned(), json!("prod")), ("Suffix".to_owned(), json!("-x"))]);
    let template = Template::read(SMALL, &prod).expect("a template");
    assert!(template.resources.contains_key("OnlyInProd"));
    assert_eq!(template.resources["EventsTable"].properties["DeletionProtectionEnabled"], true);
    assert_eq!(template.functions()[0].name, "work-x");
}

#[test]
fn a_reference_to_nothing_says_where_it_is() {
    let text = SMALL.replace("{ Ref: EventsTable }", "{ Ref: Nothing }");
    let error = Template::read(&text, &BTreeMap::new()).expect_err("an error");
    assert_eq!(error.to_string(), "WorkFunction refers to Nothing, which the template does not have");
    let text = SMALL.replace("Fn::Join: [\"-\"", "Fn::Select: [\"-\"");
    assert!(matches!(Template::read(&text, &BTreeMap::new()), Err(Error::NotUnderstood { .. })));
}

#[test]
fn references_that_double_at_every_step_are_refused_instead_of_followed() {
    let condition =
        |at: u32| format!("  C{at}: {{ Fn::And: [{{ Condition: C{0} }}, {{ Condition: C{0} }}] }}\n", at + 1);
    let conditions = (0..20).map(condition).collect::<String>();
    let text = format!(
        "Conditions:\n{conditions}  C20: {{ Fn::Equals: [a, a] }}\nResources:\n  X: {{ Type: T, Condition: C0 }}\n"
    );
    let error = Template::read(&text, &BTreeMap::new()).unwrap_err().to_string();
    assert_eq!(error, "X: cannot resolve so many references");
}

#[test]
fn lists_are_split_and_chosen_from_and_mappings_looked_up() {
    let text = r#"
Parameters: { Environment: { Type: String }, Unused: { Type: String } }
Mappings: { Settings: { dev: { Interval: 15 }, prod: { Interval: 30 } } }
Resources:
  Queue:
    Type: AWS::SQS::Queue
    Properties:
      Second: { Fn::Select: [1, { Fn::Split: [".", "a.b.c"] }] }
      Interval: { Fn::FindInMap: [Settings, { Ref: Environment }, Interval] }
  Other: { Type: AWS::SQS::Queue, Properties: { Name: { Ref: Unused } } }
"#;
    let given = BTreeMap::from([("Environment".to_owned(), json!("prod"))]);
    let document = Document::read(text, &given).expect("a document");
    assert_eq!(document.properties("Queue").expect("what is asked for"), json!({"Second": "b", "Interval": 30}));
    assert!(matches!(document.properties("Other"), Err(Error::NoValue(name)) if name == "Unused"));
    assert!(matches!(Template::read(text, &given), Err(Error::NoValue(name)) if name == "Unused"));
    let outside = text.replace("[1, {", "[7, {");
    let document = Document::read(&outside, &given).expect("a document");
    assert!(matches!(document.properties("Queue"), Err(Error::NotUnderstood { .. })));
}

#[test]
fn a_function_goes_by_its_name_its_logical_id_and_its_aliases() {
    let document = Document::read(SMALL, &BTreeMap::new()).expect("a document");
    let names = document.function_names(&arn("lambda", "function:work:live")).expect("names");
    assert_eq!(names, ["work", "WorkFunction", "WorkAlias"]);
}

#[test]
fn every_template_of_the_project_can_be_read() {
    let templates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/templates");
    let mut read = 0;
    for entry in std::fs::read_dir(templates).expect("infra/templates") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a template");
        let template =
            Template::read(&text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parts = (template.schedules(), template.routes(), template.alarms());
        assert!(parts.0.is_ok() && parts.1.is_ok() && parts.2.is_ok(), "{}: {parts:?}", path.display());
        read += 1;
    }
    assert!(read > 0, "there are templates");
}

#[test]
fn a_function_is_found_by_name_arn_alias_and_integration() {
    let arn = arn("lambda", "function:work:live");
    let integration = format!("arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/{arn}/invocations");
    for reference in ["work", "work:live", &arn, &integration] {
        assert_eq!(function_name(&Value::from(reference)), "work", "{reference}");
    }
}
