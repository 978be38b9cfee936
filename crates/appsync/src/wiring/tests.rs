use super::*;

const TEMPLATE: &str = r#"
Parameters:
  Environment: { Type: String, AllowedValues: [dev, prod] }
  CodeBucket: { Type: String, Default: code }
Conditions:
  IsProd: { "Fn::Equals": [{ Ref: Environment }, prod] }
Mappings:
  Settings:
    dev: { Interval: 15 }
    prod: { Interval: 30 }
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: { "Fn::If": [IsProd, Notes, { "Fn::Sub": "Notes-${Environment}" }] }
  Function:
    Type: AWS::Lambda::Function
    Properties: { FunctionName: { "Fn::Sub": "notes-resolver-${Environment}" } }
  Live:
    Type: AWS::Lambda::Alias
    Properties: { Name: live, FunctionName: { Ref: Function } }
  Api:
    Type: AWS::AppSync::GraphQLApi
    Properties:
      Name: notes
      AuthenticationType: API_KEY
      AdditionalAuthenticationProviders: [{ AuthenticationType: AWS_IAM }]
      EnvironmentVariables:
        TABLE: { Ref: Table }
        INTERVAL: { "Fn::FindInMap": [Settings, { Ref: Environment }, Interval] }
        UNSET: { Ref: "AWS::NoValue" }
  Notes:
    Type: AWS::AppSync::DataSource
    Properties:
      ApiId: { "Fn::GetAtt": [Api, ApiId] }
      Name: notes
      Type: AMAZON_DYNAMODB
      DynamoDBConfig: { AwsRegion: { Ref: "AWS::Region" }, TableName: { Ref: Table } }
  Compute:
    Type: AWS::AppSync::DataSource
    Properties:
      ApiId: { "Fn::GetAtt": Api.ApiId }
      Name: compute
      Type: AWS_LAMBDA
      LambdaConfig: { LambdaFunctionArn: { Ref: Live } }
  Check:
    Type: AWS::AppSync::FunctionConfiguration
    Properties:
      ApiId: { "Fn::GetAtt": [Api, ApiId] }
      Name: check
      DataSourceName: { "Fn::GetAtt": [Notes, Name] }
      Runtime: { Name: APPSYNC_JS, RuntimeVersion: 1.0.0 }
      CodeS3Location: { "Fn::Sub": "s3://${CodeBucket}/appsync/functions/check.js" }
  Get:
    Type: AWS::AppSync::Resolver
    Properties:
      ApiId: { "Fn::GetAtt": [Api, ApiId] }
      TypeName: Query
      FieldName: get
      Kind: PIPELINE
      PipelineConfig: { Functions: [{ "Fn::GetAtt": [Check, FunctionId] }] }
      Runtime: { Name: APPSYNC_JS, RuntimeVersion: 1.0.0 }
      Code: "export function request() { return {} } export function response(ctx) { return ctx.prev.result }"
"#;

#[test]
fn a_template_becomes_the_wiring_it_describes() {
    let wiring = Wiring::read(TEMPLATE, &[("Environment", "dev")]).expect("reads");
    assert_eq!(wiring.sources["notes"], Source::DynamoDb { table: "Notes-dev".to_owned() });
    let Source::Lambda { names } = &wiring.sources["compute"] else { panic!("a function") };
    for name in ["notes-resolver-dev", "Function", "Live"] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
    assert_eq!(wiring.modes, [Mode::ApiKey, Mode::Iam]);
    let environment: HashMap<_, _> = wiring.environment.into_iter().collect();
    assert_eq!(environment["TABLE"], "Notes-dev");
    assert_eq!(environment["INTERVAL"], "15");
    assert!(!environment.contains_key("UNSET"));
    let [Resolver { kind: Kind::Pipeline { functions, .. }, .. }] = wiring.resolvers.as_slice() else {
        panic!("a pipeline")
    };
    assert_eq!(functions[0].source, "notes");
    assert_eq!(functions[0].code, Some(Code::Path("s3://code/appsync/functions/check.js".to_owned())));
}

#[test]
fn conditions_choose() {
    let wiring = Wiring::read(TEMPLATE, &[("Environment", "prod")]).expect("reads");
    assert_eq!(wiring.sources["notes"], Source::DynamoDb { table: "Notes".to_owned() });
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    assert_eq!(Wiring::read(TEMPLATE, &[]).expect_err("no environment"), Error::Parameter("Environment".to_owned()));
    assert!(matches!(Wiring::read("a: [", &[]), Err(Error::Syntax(_))));
    assert_eq!(Wiring::read("Resources: { A: { Type: X } }", &[]).expect_err("no API"), Error::Apis(0));
    let broken = |from: &str, to: &str| {
        let text = TEMPLATE.replace(from, to);
        assert_ne!(text, TEMPLATE);
        Wiring::read(&text, &[("Environment", "dev")]).expect_err("is refused").to_string()
    };
    assert!(broken("AMAZON_DYNAMODB", "AMAZON_OPENSEARCH_SERVICE").contains("AMAZON_OPENSEARCH_SERVICE"));
    assert!(
        broken("RuntimeVersion: 1.0.0 }\n      CodeS3", "RuntimeVersion: 2.0.0 }\n      CodeS3")
            .contains("APPSYNC_JS 2.0.0")
    );
    assert!(broken("AWS_IAM", "AMAZON_COGNITO_USER_POOLS").contains("AMAZON_COGNITO_USER_POOLS"));
    assert!(broken("[Check, FunctionId]", "[Chuck, FunctionId]").contains("Chuck"));
    assert!(broken("Code: \"", "RequestMappingTemplate: \"").contains("VTL"));
}

#[test]
fn a_circle_of_references_is_an_error() {
    let yaml = "
Resources:
  Api: { Type: AWS::AppSync::GraphQLApi, Properties: { AuthenticationType: { Ref: A } } }
  A: { Type: AWS::DynamoDB::Table, Properties: { TableName: { Ref: B } } }
  B: { Type: AWS::DynamoDB::Table, Properties: { TableName: { Ref: A } } }";
    assert!(matches!(Wiring::read(yaml, &[]), Err(Error::Unsupported { .. })));
}
