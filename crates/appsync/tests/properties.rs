//! Properties: the rule for `null` and the conversion of input agree with small models, and random text given to a reader is
//! at worst an error.
mod support;

use appsync::{Api, LambdaError};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};
use support::{KEY, Socket, caller};

/// The same cases in every run. `PROPTEST_CASES` sets how many.
fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(cases);
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

/// An API whose only resolver is a function that answers what it is given.
fn echoing(sdl: &str) -> Api {
    let unit = support::Unit { field: "Query.root", source: "function", code: "" };
    support::builder(sdl, &[unit])
        .lambda("worker", |context: Value| async move {
            Ok::<_, LambdaError>(context["arguments"].get("in").cloned().unwrap_or(Value::Null))
        })
        .build()
        .unwrap_or_else(|error| panic!("{error}\n{sdl}"))
}

// ---- null propagation -----------------------------------------------------------------------------

/// A type: a leaf, a list or an object, each of which may be required.
#[derive(Debug, Clone)]
struct Shape {
    required: bool,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Leaf,
    List(Box<Shape>),
    Object(Vec<Shape>),
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = any::<bool>().prop_map(|required| Shape { required, kind: Kind::Leaf });
    leaf.prop_recursive(4, 20, 3, |inner| {
        (
            any::<bool>(),
            prop_oneof![
                inner.clone().prop_map(|inner| Kind::List(Box::new(inner))),
                prop::collection::vec(inner, 1..4).prop_map(Kind::Object),
            ],
        )
            .prop_map(|(required, kind)| Shape { required, kind })
    })
}

/// Data of a shape, with some nulls and some values of the wrong kind.
fn data(shape: Shape) -> BoxedStrategy<Value> {
    let right = match shape.kind {
        Kind::Leaf => (0..9_i64).prop_map(Value::from).boxed(),
        Kind::List(inner) => prop::collection::vec(data(*inner), 0..4).prop_map(Value::Array).boxed(),
        Kind::Object(fields) => {
            let fields: Vec<_> = fields.into_iter().map(data).collect();
            fields
                .prop_map(|values| {
                    Value::Object(
                        values.into_iter().enumerate().map(|(index, value)| (format!("f{index}"), value)).collect(),
                    )
                })
                .boxed()
        }
    };
    prop_oneof![8 => right, 1 => Just(Value::Null), 1 => Just(json!("wrong"))].boxed()
}

/// The type in SDL. Adds the definitions of its objects.
fn sdl(shape: &Shape, name: &str, definitions: &mut String) -> String {
    let bare = match &shape.kind {
        Kind::Leaf => "Int".to_owned(),
        Kind::List(inner) => format!("[{}]", sdl(inner, name, definitions)),
        Kind::Object(fields) => {
            let mut body = String::new();
            for (index, field) in fields.iter().enumerate() {
                body.push_str(&format!(" f{index}: {}", sdl(field, &format!("{name}{index}"), definitions)));
            }
            definitions.push_str(&format!("type {name} {{{body} }}\n"));
            name.to_owned()
        }
    };
    if shape.required { format!("{bare}!") } else { bare }
}

fn selection(shape: &Shape) -> String {
    match &shape.kind {
        Kind::Leaf => String::new(),
        Kind::List(inner) => selection(inner),
        Kind::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().enumerate().map(|(index, field)| format!("f{index}{}", selection(field))).collect();
            format!(" {{ {} }}", fields.join(" "))
        }
    }
}

/// The model: the value, or `Err` if `null` is not allowed here.
fn model(shape: &Shape, value: &Value) -> Result<Value, ()> {
    let completed = match (&shape.kind, value) {
        (_, Value::Null) => Err(()),
        (Kind::Leaf, Value::Number(_)) => Ok(value.clone()),
        (Kind::List(inner), Value::Array(items)) => {
            items.iter().map(|item| model(inner, item)).collect::<Result<_, _>>().map(Value::Array)
        }
        (Kind::Object(fields), Value::Object(map)) => fields
            .iter()
            .enumerate()
            .map(|(index, field)| {
                let name = format!("f{index}");
                Ok((name.clone(), model(field, map.get(&name).unwrap_or(&Value::Null))?))
            })
            .collect::<Result<Map<_, _>, _>>()
            .map(Value::Object),
        _ => Err(()),
    };
    match completed {
        Err(()) if !shape.required => Ok(Value::Null),
        other => other,
    }
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn null_is_where_the_model_says((shape, value) in shape().prop_flat_map(|shape| (Just(shape.clone()), data(shape)))) {
        let mut definitions = String::new();
        let root = sdl(&shape, "T", &mut definitions);
        let api = echoing(&format!("{definitions} type Query {{ root(in: AWSJSON): {root} }}"));
        let query = format!("query ($in: AWSJSON) {{ root(in: $in){} }}", selection(&shape));
        let response = run(api.execute(&query, json!({"in": value.to_string()}), &caller()));
        let expected = model(&shape, &value).map_or(Value::Null, |value| json!({ "root": value }));
        prop_assert_eq!(response.data(), expected, "{} {}", root, value);
        // Something is missing exactly if an error says so.
        let clean = model(&strict(&shape), &value).is_ok();
        prop_assert!(!clean || response.is_ok(), "{:?}", response.errors);
    }
}

/// The shape with everything required: data that fits it has neither null nor mistake.
fn strict(shape: &Shape) -> Shape {
    let kind = match &shape.kind {
        Kind::Leaf => Kind::Leaf,
        Kind::List(inner) => Kind::List(Box::new(strict(inner))),
        Kind::Object(fields) => Kind::Object(fields.iter().map(strict).collect()),
    };
    Shape { required: true, kind }
}

// ---- coercion ---------------------------------------------------------------------------------------

/// An input type: one of the scalars, an enum, a list or an input object.
#[derive(Debug, Clone)]
enum Input {
    Scalar(&'static str),
    Enum,
    List(Box<Input>, bool),
    Object,
}

fn input() -> impl Strategy<Value = (Input, bool)> {
    let named = prop_oneof![
        prop::sample::select(vec!["Int", "Float", "String", "Boolean", "ID"]).prop_map(Input::Scalar),
        Just(Input::Enum),
        Just(Input::Object),
    ];
    let any_type = named.prop_recursive(2, 4, 1, |inner| {
        (inner, any::<bool>()).prop_map(|(inner, required)| Input::List(Box::new(inner), required))
    });
    (any_type, any::<bool>())
}

fn input_sdl(input: &Input) -> String {
    match input {
        Input::Scalar(name) => (*name).to_owned(),
        Input::Enum => "Colour".to_owned(),
        Input::Object => "Point".to_owned(),
        Input::List(inner, required) => format!("[{}{}]", input_sdl(inner), if *required { "!" } else { "" }),
    }
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![0_i64, -1, 7, 2_147_483_647, 2_147_483_648, -2_147_483_649]).prop_map(Value::from),
        prop::sample::select(vec![0.5_f64, -1e10]).prop_map(Value::from),
        prop::sample::select(vec!["", "RED", "red", "7", "true"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map(prop::sample::select(vec!["x", "y", "z"]), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
        ]
    })
}

/// The model: the value as a resolver gets it, or nothing. `input Point { x: Int!, y: String = "d" }`.
fn coerced(input: &Input, required: bool, value: &Value) -> Option<Value> {
    if value.is_null() {
        return (!required).then_some(Value::Null);
    }
    match input {
        Input::Scalar("Int") => value.as_i64().filter(|n| i32::try_from(*n).is_ok()).map(Value::from),
        Input::Scalar("Float") => value.is_number().then(|| value.clone()),
        Input::Scalar("Boolean") => value.is_boolean().then(|| value.clone()),
        Input::Scalar("ID") => {
            value.as_i64().map(|n| json!(n.to_string())).or_else(|| value.is_string().then(|| value.clone()))
        }
        Input::Scalar(_) => value.is_string().then(|| value.clone()),
        Input::Enum => (value == "RED").then(|| value.clone()),
        Input::List(inner, required) => match value {
            Value::Array(items) => {
                items.iter().map(|item| coerced(inner, *required, item)).collect::<Option<_>>().map(Value::Array)
            }
            one => coerced(inner, *required, one).map(|one| json!([one])),
        },
        Input::Object => {
            let map = value.as_object()?;
            let x = coerced(&Input::Scalar("Int"), true, map.get("x")?)?;
            let y = map.get("y").map_or(Some(json!("d")), |y| coerced(&Input::Scalar("String"), false, y))?;
            (!map.contains_key("z")).then(|| json!({"x": x, "y": y}))
        }
    }
}

proptest! {
    #![proptest_config(config(192))]

    #[test]
    fn variables_are_coerced_as_the_model_says((input, required) in input(), value in anything()) {
        let ty = format!("{}{}", input_sdl(&input), if required { "!" } else { "" });
        let api = echoing(&format!(
            "enum Colour {{ RED }} input Point {{ x: Int!  y: String = \"d\" }} type Query {{ root(in: {ty}): AWSJSON }}"
        ));
        let response = run(api.execute(&format!("query ($v: {ty}) {{ root(in: $v) }}"), json!({"v": value}), &caller()));
        match coerced(&input, required, &value) {
            None => prop_assert!(!response.is_ok(), "{} takes {}: {}", ty, value, response.to_json()),
            Some(expected) => {
                prop_assert!(response.is_ok(), "{} refuses {}: {:?}", ty, value, response.errors);
                let text = response.data()["root"].as_str().map(ToOwned::to_owned);
                let got: Value = text.map_or(Value::Null, |text| if expected.is_string() { json!(text) } else { serde_json::from_str(&text).unwrap_or(Value::Null) });
                // AWSJSON shows a text that is JSON as it is; nothing else can be told apart here.
                if !expected.is_string() {
                    prop_assert_eq!(got, expected);
                }
            }
        }
    }
}

// ---- readers ----------------------------------------------------------------------------------------

/// A text with pieces cut out, doubled and replaced.
fn mangled(text: &'static str) -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "{", "}", "\"", "(", ")", "$", "...", "fragment", ":", "!", "\u{0}", "é", "[", "null", "-", "&a *a", "\n", "#",
    ]);
    prop::collection::vec((0..text.len(), 0..12_usize, pieces), 0..5).prop_map(move |edits| {
        let mut out = text.to_owned();
        for (at, length, piece) in edits {
            let boundary =
                |index: usize| (0..=index.min(out.len())).rev().find(|index| out.is_char_boundary(*index)).unwrap_or(0);
            let (start, end) = (boundary(at), boundary(at + length));
            out.replace_range(start..end.max(start), piece);
        }
        out
    })
}

const QUERY: &str = "query Q($a: Int = 1, $b: [P!]) @d { x: root(in: $a) { id ...f @include(if: true) } } fragment f on T { name(in: {x: 1, y: [\"s\"]}) }";
const TEMPLATE: &str = "Parameters: { E: { Type: String, Default: dev } }
Conditions: { C: { \"Fn::Equals\": [{ Ref: E }, prod] } }
Resources:
  Api: { Type: AWS::AppSync::GraphQLApi, Properties: { AuthenticationType: API_KEY, EnvironmentVariables: { T: { \"Fn::Sub\": \"t-${E}\" } } } }
  None: { Type: AWS::AppSync::DataSource, Properties: { Name: none, Type: NONE } }
  R: { Type: AWS::AppSync::Resolver, Properties: { TypeName: Query, FieldName: root, DataSourceName: { \"Fn::GetAtt\": [None, Name] }, Code: x } }
";
const MESSAGE: &str = r#"{"type":"start","id":"1","payload":{"data":"{\"query\":\"subscription { on { id } }\",\"variables\":{\"a\":1}}","extensions":{"authorization":{"x-api-key":"k"}}}}"#;
const SCRIPT: &str = "import { util as u } from '@aws-appsync/utils'\nexport function request(ctx) { return `a ${ctx.args.a / 2} ${[1].map((x) => ({ in: x }))}` }\nexport const response = (ctx) => { for (const k in ctx) { u.error('x') } }";

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn no_query_is_more_than_an_error(query in prop_oneof![mangled(QUERY), ".{0,80}"]) {
        let api = echoing("input P { x: Int } type T { id: ID  name(in: AWSJSON): String } type Query { root(in: Int): T }");
        let _ = run(api.execute(&query, Value::Null, &caller())).to_json();
    }

    #[test]
    fn no_template_is_more_than_an_error(template in prop_oneof![mangled(TEMPLATE), ".{0,80}"]) {
        let _ = Api::builder().schema("type Query { root: Int }").template(template, &[]).build().map(drop);
    }

    #[test]
    fn no_resolver_file_is_more_than_an_error(script in prop_oneof![mangled(SCRIPT), ".{0,80}"]) {
        // The second resolver is for a field that does not exist: the file is read, but not compiled.
        let template = json!({"Resources": {
            "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"AuthenticationType": "API_KEY"}},
            "None": {"Type": "AWS::AppSync::DataSource", "Properties": {"Name": "none", "Type": "NONE"}},
            "RA": {"Type": "AWS::AppSync::Resolver", "Properties": {"TypeName": "Query", "FieldName": "root", "DataSourceName": "none", "Code": script}},
            "RB": {"Type": "AWS::AppSync::Resolver", "Properties": {"TypeName": "Query", "FieldName": "gone", "DataSourceName": "none", "Code": script}},
        }});
        let built = Api::builder().schema("type Query { root: Int }").template(template.to_string(), &[]).build();
        prop_assert!(built.is_err());
    }
}

/// Whatever a client sends, the server answers or closes the socket, and goes on.
#[test]
fn no_message_is_more_than_an_error() {
    let mut runner = proptest::test_runner::TestRunner::new(config(200));
    run(async {
        let api = echoing(
            "type T { id: ID } type Query { root: Int } type Mutation { m: T } type Subscription { on: T @aws_subscribe(mutations: [\"m\"]) }",
        );
        let address = support::serve(&api).await;
        let mut socket = Socket::greeted(address).await;
        for _ in 0..200 {
            let text = prop_oneof![mangled(MESSAGE), ".{0,60}"].new_tree(&mut runner).expect("a message").current();
            if futures::SinkExt::send(
                &mut socket.stream,
                tokio_tungstenite::tungstenite::Message::Text(text.clone().into()),
            )
            .await
            .is_err()
            {
                socket = Socket::greeted(address).await;
                continue;
            }
            if socket.maybe().await.is_none() {
                socket = Socket::greeted(address).await;
            }
        }
        let mut last = Socket::open(address, KEY).await;
        last.send(json!({"type": "connection_init"})).await;
        assert_eq!(last.next().await["type"], "connection_ack");
    });
}
