//! The DynamoDB data source, against an embedded DynamoDB: requests, results and errors in AppSync's shapes.
mod support;

use serde_json::{Value, json};
use support::{Unit, caller, code, stored, stored_api};

/// A mutation and a query that return JSON.
const SDL: &str = "type Query { a(in: AWSJSON): AWSJSON  b(in: AWSJSON): AWSJSON } type Mutation { put(in: AWSJSON): AWSJSON  act(in: AWSJSON): AWSJSON }";

/// Returns the result and the error of the data source.
fn raw(request: &str) -> String {
    format!(
        "import {{ util }} from '@aws-appsync/utils'\nimport * as ddb from '@aws-appsync/utils/dynamodb'\n\
         export function request(ctx) {{ {request} }}\n\
         export function response(ctx) {{ return {{ result: ctx.result, error: ctx.error }} }}"
    )
}

struct Store {
    api: appsync::Api,
}

impl Store {
    /// `put` writes an item, `act` does what the test is about.
    async fn new(act: &str) -> Self {
        let put = raw("const { pk, sk, ...rest } = ctx.args.in; return ddb.put({ key: { pk, sk }, item: rest })");
        let act = raw(act);
        let units: [Unit<'_>; 2] = [stored("Mutation.put", &put), stored("Mutation.act", &act)];
        let (api, _) = stored_api(SDL, &units).await;
        Self { api }
    }

    async fn run(&self, field: &str, input: Value) -> Value {
        let query = format!("mutation ($in: AWSJSON) {{ {field}(in: $in) }}");
        let response = self.api.execute(&query, json!({"in": input.to_string()}), &caller()).await;
        match response.data()[field].as_str() {
            Some(text) => serde_json::from_str(text).expect("JSON"),
            None => panic!("{:?}", response.errors),
        }
    }

    async fn put(&self, item: Value) {
        let answer = self.run("put", item).await;
        assert_eq!(answer["error"], Value::Null, "{answer}");
    }

    async fn act(&self, input: Value) -> Value {
        self.run("act", input).await
    }
}

#[tokio::test]
async fn get_item_gives_the_item_in_plain_json_or_null() {
    let store = Store::new(
        "return { operation: 'GetItem', key: util.dynamodb.toMapValues(ctx.args.in), consistentRead: true }",
    )
    .await;
    store.put(json!({"pk": "a", "sk": "1", "n": 1.5, "whole": 7, "flag": true, "none": null, "list": [1, "x"], "map": {"k": [true]}})).await;
    let answer = store.act(json!({"pk": "a", "sk": "1"})).await;
    assert_eq!(
        answer["result"],
        json!({"pk": "a", "sk": "1", "n": 1.5, "whole": 7, "flag": true, "none": null, "list": [1, "x"], "map": {"k": [true]}})
    );
    assert_eq!(store.act(json!({"pk": "a", "sk": "2"})).await, json!({"result": null, "error": null}));
}

#[tokio::test]
async fn a_projection_gives_only_what_it_names() {
    let store = Store::new("return ddb.get({ key: ctx.args.in, projection: ['name', 'map.inner'] })").await;
    store.put(json!({"pk": "a", "sk": "1", "name": "x", "other": 1, "map": {"inner": 2, "outer": 3}})).await;
    assert_eq!(store.act(json!({"pk": "a", "sk": "1"})).await["result"], json!({"name": "x", "map": {"inner": 2}}));
}

#[tokio::test]
async fn a_failed_condition_is_an_error_with_the_item_as_it_is() {
    let store = Store::new(
        "const { pk, sk, name } = ctx.args.in
         return { operation: 'PutItem', key: util.dynamodb.toMapValues({ pk, sk }), attributeValues: util.dynamodb.toMapValues({ name }),
                  condition: { expression: 'attribute_not_exists(pk)' } }",
    )
    .await;
    assert_eq!(store.act(json!({"pk": "a", "sk": "1", "name": "first"})).await["error"], Value::Null);
    let answer = store.act(json!({"pk": "a", "sk": "1", "name": "second"})).await;
    assert_eq!(answer["error"]["type"], "DynamoDB:ConditionalCheckFailedException");
    assert!(
        answer["error"]["message"]
            .as_str()
            .expect("a message")
            .starts_with("The conditional request failed (Service: DynamoDb"),
        "{answer}"
    );
    assert_eq!(answer["result"]["name"], "first");
}

#[tokio::test]
async fn a_failed_condition_on_an_equal_item_counts_as_success() {
    let store = Store::new(
        "const { pk, sk, ...rest } = ctx.args.in
         return { operation: 'PutItem', key: util.dynamodb.toMapValues({ pk, sk }), attributeValues: util.dynamodb.toMapValues(rest),
                  condition: { expression: 'attribute_not_exists(pk)', equalsIgnore: ['version'] } }",
    )
    .await;
    let item = json!({"pk": "a", "sk": "1", "name": "same", "version": 1});
    assert_eq!(store.act(item.clone()).await["error"], Value::Null);
    let again = store.act(json!({"pk": "a", "sk": "1", "name": "same", "version": 2})).await;
    assert_eq!(again["error"], Value::Null, "only the ignored attribute differs");
    assert_eq!(again["result"], item, "what is stored comes back");
    let other = store.act(json!({"pk": "a", "sk": "1", "name": "other", "version": 1})).await;
    assert_eq!(other["error"]["type"], "DynamoDB:ConditionalCheckFailedException");
}

#[tokio::test]
async fn deleting_what_is_gone_under_a_condition_counts_as_success() {
    let store = Store::new("return ddb.remove({ key: { pk: ctx.args.in.pk, sk: ctx.args.in.sk }, condition: { owner: { eq: ctx.args.in.owner } } })").await;
    assert_eq!(store.act(json!({"pk": "a", "sk": "1", "owner": "me"})).await, json!({"result": null, "error": null}));
    store.put(json!({"pk": "a", "sk": "1", "owner": "you"})).await;
    let answer = store.act(json!({"pk": "a", "sk": "1", "owner": "me"})).await;
    assert_eq!(answer["error"]["type"], "DynamoDB:ConditionalCheckFailedException");
    assert_eq!(answer["result"]["owner"], "you");
    let answer = store.act(json!({"pk": "a", "sk": "1", "owner": "you"})).await;
    assert_eq!(answer["result"], json!({"pk": "a", "sk": "1", "owner": "you"}), "the deleted item comes back");
}

#[tokio::test]
async fn update_item_gives_the_item_afterwards() {
    let store = Store::new(
        "const { pk, sk } = ctx.args.in
         return { operation: 'UpdateItem', key: util.dynamodb.toMapValues({ pk, sk }),
                  update: { expression: 'SET #c = if_not_exists(#c, :zero) + :one', expressionNames: { '#c': 'count' },
                            expressionValues: util.dynamodb.toMapValues({ ':zero': 0, ':one': 1 }) },
                  condition: { expression: 'attribute_not_exists(#c) OR #c < :most', expressionNames: { '#c': 'count' },
                               expressionValues: util.dynamodb.toMapValues({ ':most': 2 }) } }",
    )
    .await;
    let key = json!({"pk": "a", "sk": "1"});
    assert_eq!(store.act(key.clone()).await["result"]["count"], 1);
    assert_eq!(store.act(key.clone()).await["result"]["count"], 2);
    let answer = store.act(key).await;
    assert_eq!(answer["error"]["type"], "DynamoDB:ConditionalCheckFailedException");
    assert_eq!(answer["result"]["count"], 2);
}

#[tokio::test]
async fn the_update_helper_writes_each_operation() {
    let store = Store::new(
        "const { operations } = ddb
         return ddb.update({ key: { pk: 'a', sk: '1' }, update: {
           name: 'new', count: operations.increment(2), left: operations.decrement(), list: operations.append(['c']), front: operations.prepend([0]),
           gone: operations.remove(), whole: operations.replace({ only: 1 }), nested: { changed: true }, items: [operations.updateListItem('B', 1)],
           added: operations.add(['n']) } })",
    )
    .await;
    store
        .put(json!({"pk": "a", "sk": "1", "name": "old", "count": 1, "left": 5, "list": ["a", "b"], "front": [1], "gone": 1,
            "whole": {"a": 1}, "nested": {"changed": false, "kept": 1}, "items": ["a", "b"]}))
        .await;
    assert_eq!(
        store.act(json!({})).await["result"],
        json!({"pk": "a", "sk": "1", "name": "new", "count": 3, "left": 4, "list": ["a", "b", "c"], "front": [0, 1],
            "whole": {"only": 1}, "nested": {"changed": true, "kept": 1}, "items": ["a", "B"], "added": ["n"]})
    );
}

#[tokio::test]
async fn a_query_pages_with_tokens_that_neither_skip_nor_repeat() {
    let store = Store::new(
        "return ddb.query({ query: { pk: { eq: 'a' }, sk: { beginsWith: 'x' } }, limit: ctx.args.in.limit, nextToken: ctx.args.in.token,
                            scanIndexForward: false, consistentRead: true })",
    )
    .await;
    for n in 0..5 {
        store.put(json!({"pk": "a", "sk": format!("x{n}")})).await;
    }
    store.put(json!({"pk": "a", "sk": "y"})).await;
    let mut seen = Vec::new();
    let mut token = Value::Null;
    for _ in 0..10 {
        let page = store.act(json!({"limit": 2, "token": token})).await["result"].clone();
        seen.extend(
            page["items"].as_array().expect("items").iter().map(|item| item["sk"].as_str().expect("a key").to_owned()),
        );
        token = page["nextToken"].clone();
        if token.is_null() {
            break;
        }
    }
    assert_eq!(seen, ["x4", "x3", "x2", "x1", "x0"]);
}

#[tokio::test]
async fn a_query_on_an_index_with_a_filter() {
    let store = Store::new(
        "return { operation: 'Query', index: 'by-sort', query: { expression: 'sk = :s', expressionValues: util.dynamodb.toMapValues({ ':s': 's' }) },
                  filter: JSON.parse(util.transform.toDynamoDBFilterExpression({ or: [{ n: { gt: 2 } }, { name: { contains: 'z' } }], gone: { attributeExists: false } })) }",
    )
    .await;
    for (pk, n, name) in [("a", 1, "x"), ("b", 3, "x"), ("c", 1, "zz")] {
        store.put(json!({"pk": pk, "sk": "s", "n": n, "name": name})).await;
    }
    store.put(json!({"pk": "d", "sk": "s", "n": 9, "name": "z", "gone": 1})).await;
    let answer = store.act(json!({})).await;
    let keys: Vec<&str> =
        answer["result"]["items"].as_array().expect("items").iter().filter_map(|item| item["pk"].as_str()).collect();
    assert_eq!(keys, ["b", "c"]);
    assert_eq!(answer["result"]["scannedCount"], 4);
}

#[tokio::test]
async fn a_scan_reads_everything() {
    let store = Store::new("return ddb.scan({ filter: { n: { between: [2, 3] } }, projection: ['n'] })").await;
    for n in 1..=4 {
        store.put(json!({"pk": format!("{n}"), "sk": "s", "n": n})).await;
    }
    let answer = store.act(json!({})).await;
    let mut found: Vec<i64> =
        answer["result"]["items"].as_array().expect("items").iter().filter_map(|item| item["n"].as_i64()).collect();
    found.sort_unstable();
    assert_eq!(found, [2, 3]);
}

#[tokio::test]
async fn batches_answer_in_the_order_asked() {
    let store = Store::new(
        "const { kind } = ctx.args.in
         const keys = [{ pk: 'b', sk: '1' }, { pk: 'zz', sk: '1' }, { pk: 'a', sk: '1' }]
         if (kind === 'put') return ddb.batchPut({ tables: { [ctx.env.TABLE]: [{ pk: 'a', sk: '1', n: 1 }, { pk: 'b', sk: '1', n: 2 }] } })
         if (kind === 'delete') return ddb.batchDelete({ tables: { things: [{ pk: 'a', sk: '1' }] } })
         return ddb.batchGet({ tables: { things: { keys, consistentRead: true } } })",
    )
    .await;
    let put = store.act(json!({"kind": "put"})).await;
    assert_eq!(
        put["result"],
        json!({"data": {"things": [{"pk": "a", "sk": "1", "n": 1}, {"pk": "b", "sk": "1", "n": 2}]}, "unprocessedItems": {"things": []}})
    );
    let got = store.act(json!({"kind": "get"})).await;
    assert_eq!(
        got["result"],
        json!({"data": {"things": [{"pk": "b", "sk": "1", "n": 2}, null, {"pk": "a", "sk": "1", "n": 1}]}, "unprocessedKeys": {"things": []}})
    );
    let deleted = store.act(json!({"kind": "delete"})).await;
    assert_eq!(
        deleted["result"],
        json!({"data": {"things": [{"pk": "a", "sk": "1"}]}, "unprocessedKeys": {"things": []}})
    );
    assert_eq!(store.act(json!({"kind": "get"})).await["result"]["data"]["things"][2], Value::Null);
}

#[tokio::test]
async fn a_transaction_writes_all_or_says_why_not() {
    let store = Store::new(
        "const table = 'things'
         return ddb.transactWrite({ items: [
           { putItem: { table, key: { pk: 't', sk: ctx.args.in.sk }, item: { n: 1 }, condition: { pk: { attributeExists: false } } } },
           { updateItem: { table, key: { pk: 'counter', sk: '1' }, update: { n: ddb.operations.increment(1) } } },
           { conditionCheck: { table, key: { pk: 'guard', sk: '1' }, condition: { open: { eq: true } } } },
           { deleteItem: { table, key: { pk: 'old', sk: '1' } } } ] })",
    )
    .await;
    for (pk, extra) in [("counter", json!({"n": 0})), ("guard", json!({"open": true})), ("old", json!({}))] {
        let mut item = extra;
        item["pk"] = json!(pk);
        item["sk"] = json!("1");
        store.put(item).await;
    }
    let answer = store.act(json!({"sk": "1"})).await;
    assert_eq!(answer["error"], Value::Null, "{answer}");
    assert_eq!(
        answer["result"],
        json!({"keys": [{"pk": "t", "sk": "1"}, {"pk": "counter", "sk": "1"}, {"pk": "guard", "sk": "1"}, {"pk": "old", "sk": "1"}],
               "cancellationReasons": null})
    );
    store.put(json!({"pk": "guard", "sk": "1", "open": false})).await;
    let answer = store.act(json!({"sk": "2"})).await;
    assert_eq!(answer["error"]["type"], "DynamoDB:TransactionCanceledException");
    assert_eq!(answer["result"]["keys"], Value::Null);
    let reasons = answer["result"]["cancellationReasons"].as_array().expect("reasons");
    let types: Vec<&str> = reasons.iter().filter_map(|reason| reason["type"].as_str()).collect();
    assert_eq!(types, ["None", "None", "ConditionalCheckFailed", "None"]);
    assert_eq!(reasons[2]["item"], json!({"pk": "guard", "sk": "1", "open": false}), "what made it fail");
    assert_eq!(
        store.act(json!({"sk": "2"})).await["error"]["type"],
        "DynamoDB:TransactionCanceledException",
        "nothing was written"
    );
}

#[tokio::test]
async fn a_transaction_reads_a_consistent_view() {
    let store = Store::new(
        "return { operation: 'TransactGetItems', transactItems: [
           { table: 'things', key: util.dynamodb.toMapValues({ pk: 'a', sk: '1' }) }, { table: 'things', key: util.dynamodb.toMapValues({ pk: 'b', sk: '1' }) }] }",
    )
    .await;
    store.put(json!({"pk": "a", "sk": "1", "n": 1})).await;
    assert_eq!(
        store.act(json!({})).await["result"],
        json!({"items": [{"pk": "a", "sk": "1", "n": 1}, null], "cancellationReasons": null})
    );
}

#[tokio::test]
async fn sets_and_bytes_survive() {
    let store = Store::new(
        "if (ctx.args.in.put) return ddb.put({ key: { pk: 'a', sk: '1' }, item: { s: ddb.toStringSet(['x']), n: ddb.toNumberSet([1]), b: util.dynamodb.toBinary('AQID') } })
         return ddb.get({ key: { pk: 'a', sk: '1' } })",
    )
    .await;
    store.act(json!({"put": true})).await;
    assert_eq!(store.act(json!({})).await["result"], json!({"pk": "a", "sk": "1", "s": ["x"], "n": [1], "b": "AQID"}));
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_by_name() {
    for (request, message) in [
        ("return {}", "'$[operation]' not found"),
        ("return { operation: 'Sync' }", "Unsupported operation 'Sync'"),
        ("return { operation: 'GetItem' }", "'$[key]' not found"),
        ("return { operation: 'GetItem', key: { pk: 'a' } }", "not a typed value"),
        ("return { operation: 'PutItem', key: {}, _version: 1 }", "_version"),
        ("return { operation: 'Query', query: { expression: 'pk = :p' }, nextToken: 'x' }", "pagination token"),
        (
            "return { operation: 'PutItem', key: {}, condition: { expression: 'a', conditionalCheckFailedHandler: { strategy: 'Custom' } } }",
            "Custom",
        ),
    ] {
        let act = code(request);
        let (api, _) = stored_api(SDL, &[stored("Mutation.act", &act)]).await;
        let response = api.execute("mutation { act }", Value::Null, &caller()).await;
        let error = response.errors.first().unwrap_or_else(|| panic!("{request} is refused"));
        assert!(error.message.contains(message), "{request}: {}", error.message);
        assert_eq!(error.error_type(), Some("MappingTemplate"));
    }
}

#[tokio::test]
async fn a_store_that_is_down_is_an_error_of_the_data_source() {
    let act = raw("return ddb.get({ key: { pk: 'a', sk: '1' } })");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let client = support::client(&format!("http://{address}"));
    let api = support::builder(SDL, &[stored("Mutation.act", &act)]).dynamodb(client).build().expect("builds");
    let response = api.execute("mutation { act }", Value::Null, &caller()).await;
    let answer: Value = serde_json::from_str(response.data()["act"].as_str().expect("JSON")).expect("JSON");
    assert_eq!(answer["error"]["type"], "DynamoDB:SdkClientException");
    assert!(!answer.to_string().contains(&address.port().to_string()), "nothing internal leaks: {answer}");
}
