//! The realtime protocol over real WebSockets, as AWS describes it in "Building a real-time
//! WebSocket client", <https://docs.aws.amazon.com/appsync/latest/devguide/real-time-websocket-client.html>.
mod support;

use appsync::{Api, Limits};
use serde_json::{Value, json};
use std::time::Duration;
use support::{KEY, Socket, api, authorization, builder, caller, code, code_after, none, serve};

const SDL: &str = "
  type Query { a: Int }
  type Mutation { send(groupId: ID!, text: String, size: Int): Message  other(groupId: ID!): Message  kick(group: ID!): Message }
  type Subscription {
    onSend(groupId: ID!, text: String): Message @aws_subscribe(mutations: [\"send\", \"other\"])
    onAny: Message @aws_subscribe(mutations: [\"send\"])
    onFiltered(least: Int!): Message @aws_subscribe(mutations: [\"send\"])
    onRefused: Message @aws_subscribe(mutations: [\"send\"])
  }
  type Message { groupId: ID!  text: String  size: Int  body: Body }
  type Body { bytes: String  depth: Int! }
";

fn message() -> String {
    code(
        "return { payload: { groupId: ctx.args.groupId, text: ctx.args.text, size: ctx.args.size, body: { bytes: Array(ctx.args.size || 1).fill('x').join(''), depth: 1 } } }",
    )
}

fn units<'a>(codes: &'a [String; 4]) -> Vec<support::Unit<'a>> {
    vec![
        none("Mutation.send", &codes[0]),
        none("Mutation.other", &codes[0]),
        none("Subscription.onFiltered", &codes[1]),
        none("Subscription.onRefused", &codes[2]),
        none("Mutation.kick", &codes[3]),
    ]
}

fn codes() -> [String; 4] {
    [
        message(),
        code_after(
            "extensions.setSubscriptionFilter(util.transform.toSubscriptionFilter({ size: { ge: ctx.args.least } })); \
             extensions.setSubscriptionInvalidationFilter({ filterGroup: [{ filters: [{ fieldName: 'group', operator: 'eq', value: 'g' }] }] })",
        ),
        code("util.error('members only', 'NodeNotFound')"),
        code_after(
            "extensions.invalidateSubscriptions({ subscriptionField: 'onFiltered', payload: { group: ctx.args.group } })",
        ),
    ]
}

fn chat() -> Api {
    api(SDL, &units(&codes()))
}

async fn send(api: &Api, group: &str, text: &str) {
    let query = "mutation ($g: ID!, $t: String) { send(groupId: $g, text: $t) { groupId text body { bytes } } }";
    let response = api.execute(query, json!({"g": group, "t": text}), &caller()).await;
    assert!(response.is_ok(), "{:?}", response.errors);
}

const ON_SEND: &str = "subscription ($g: ID!) { onSend(groupId: $g) { groupId text } }";

#[tokio::test]
async fn a_subscriber_hears_its_group_and_no_other() {
    let api = chat();
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    assert_eq!(socket.start("s1", ON_SEND, json!({"g": "a"})).await, json!({"type": "start_ack", "id": "s1"}));
    send(&api, "b", "not for you").await;
    send(&api, "a", "hello").await;
    let expected =
        json!({"id": "s1", "type": "data", "payload": {"data": {"onSend": {"groupId": "a", "text": "hello"}}}});
    assert_eq!(socket.next().await, expected);
}

#[tokio::test]
async fn messages_arrive_in_the_order_of_their_mutations() {
    let api = chat();
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    socket.start("s", ON_SEND, json!({"g": "a"})).await;
    for n in 0..50 {
        send(&api, "a", &n.to_string()).await;
    }
    for n in 0..50 {
        assert_eq!(socket.next().await["payload"]["data"]["onSend"]["text"], n.to_string());
    }
}

#[tokio::test]
async fn several_subscriptions_share_a_socket_and_end_one_by_one() {
    let api = chat();
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    socket.start("one", ON_SEND, json!({"g": "a"})).await;
    socket.start("two", "subscription { onAny { text } }", json!({})).await;
    assert_eq!(api.subscriptions(), 2);
    send(&api, "a", "both").await;
    let mut ids = [socket.next().await["id"].clone(), socket.next().await["id"].clone()]
        .map(|id| id.as_str().unwrap_or("").to_owned());
    ids.sort();
    assert_eq!(ids, ["one", "two"]);
    socket.send(json!({"type": "stop", "id": "one"})).await;
    assert_eq!(socket.next().await, json!({"type": "complete", "id": "one"}));
    send(&api, "a", "the other").await;
    assert_eq!(socket.next().await["id"], "two");
    assert_eq!(api.subscriptions(), 1);
    socket.send(json!({"type": "stop", "id": "one"})).await;
    assert_eq!(socket.next().await["payload"]["errors"][0]["errorType"], "UnknownOperationError");
}

#[tokio::test]
async fn subscribers_get_only_what_the_mutation_selected() {
    let api = chat();
    let mut subscription = api
        .subscribe("subscription { onAny { t: text size body { depth } __typename groupId } }", Value::Null, &caller())
        .await
        .expect("subscribes");
    // `size` and `body` are not selected, `text` is under an alias.
    let sent = api
        .execute(
            "mutation { x: send(groupId: \"g\", text: \"hi\", size: 3) { words: text groupId } }",
            Value::Null,
            &caller(),
        )
        .await;
    assert_eq!(sent.data(), json!({"x": {"words": "hi", "groupId": "g"}}));
    let heard = subscription.next().await.expect("a message");
    assert_eq!(
        heard["data"],
        json!({"onAny": {"t": "hi", "size": null, "body": null, "__typename": "Message", "groupId": "g"}})
    );
}

#[tokio::test]
async fn a_required_field_that_the_mutation_did_not_select_makes_the_message_null() {
    let api = chat();
    let mut subscription =
        api.subscribe("subscription { onAny { groupId text } }", Value::Null, &caller()).await.expect("subscribes");
    api.execute("mutation { send(groupId: \"g\", text: \"hi\") { text } }", Value::Null, &caller()).await;
    let heard = subscription.next().await.expect("a message");
    assert_eq!(heard["data"], json!({"onAny": null}));
    assert_eq!(
        heard["errors"][0]["message"],
        "Cannot return null for non-nullable type: 'ID' within parent 'Message' (/onAny/groupId)"
    );
}

#[tokio::test]
async fn arguments_are_matched_against_the_selected_fields() {
    let api = chat();
    let mut subscription = api.subscribe(ON_SEND, json!({"g": "a"}), &caller()).await.expect("subscribes");
    // The publisher did not select groupId: nobody is reached.
    api.execute("mutation { send(groupId: \"a\", text: \"lost\") { text } }", Value::Null, &caller()).await;
    send(&api, "a", "heard").await;
    assert_eq!(subscription.next().await.expect("a message")["data"]["onSend"]["text"], "heard");
    let mut null = api
        .subscribe("subscription { onSend(groupId: \"a\", text: null) { groupId } }", Value::Null, &caller())
        .await
        .expect("subscribes");
    send(&api, "a", "has a text").await;
    api.execute("mutation { send(groupId: \"a\") { groupId text } }", Value::Null, &caller()).await;
    assert_eq!(null.next().await.expect("the one without a text")["data"]["onSend"]["groupId"], "a");
}

#[tokio::test]
async fn a_filter_of_the_resolver_decides() {
    let api = chat();
    let mut subscription = api
        .subscribe("subscription { onFiltered(least: 5) { size } }", Value::Null, &caller())
        .await
        .expect("subscribes");
    for size in [1, 5, 9] {
        let query = format!("mutation {{ send(groupId: \"g\", size: {size}) {{ groupId size }} }}");
        assert!(api.execute(&query, Value::Null, &caller()).await.is_ok());
    }
    assert_eq!(subscription.next().await.expect("a message")["data"]["onFiltered"]["size"], 5);
    assert_eq!(subscription.next().await.expect("a message")["data"]["onFiltered"]["size"], 9);
    api.execute("mutation { kick(group: \"other\") { text } }", Value::Null, &caller()).await;
    api.execute("mutation { kick(group: \"g\") { text } }", Value::Null, &caller()).await;
    assert_eq!(subscription.next().await, None, "its invalidation filter matched");
}

#[tokio::test]
async fn a_request_invalidates_in_at_most_five_ways() {
    let api = chat();
    let kicks = |count: usize| {
        let fields: Vec<String> = (0..count).map(|n| format!("k{n}: kick(group: \"{n}\") {{ text }}")).collect();
        format!("mutation {{ {} }}", fields.join(" "))
    };
    assert!(api.execute(&kicks(5), Value::Null, &caller()).await.is_ok());
    let refused = api.execute(&kicks(6), Value::Null, &caller()).await.to_json();
    assert_eq!(refused["errors"][0]["errorType"], "TooManyInvalidations", "{refused}");
    let same = "mutation { a: kick(group: \"g\") { text } b: kick(group: \"g\") { text } c: kick(group: \"g\") { text } \
                d: kick(group: \"g\") { text } e: kick(group: \"g\") { text } f: kick(group: \"g\") { text } }";
    assert!(api.execute(same, Value::Null, &caller()).await.is_ok(), "the same one counts once");
}

#[tokio::test]
async fn extensions_work_only_where_appsync_allows_them() {
    let mut codes = codes();
    codes[1] = code("extensions.setSubscriptionFilter({ filterGroup: [] }); return {}");
    codes[3] = code("extensions.invalidateSubscriptions({ subscriptionField: 'onAny', payload: {} }); return {}");
    let api = api(SDL, &units(&codes));
    let refused = api.subscribe("subscription { onFiltered(least: 5) { size } }", Value::Null, &caller()).await;
    let message = refused.expect_err("in a request handler").to_string();
    assert!(message.contains("only in the response handler of a subscription"), "{message}");
    let refused = api.execute("mutation { kick(group: \"g\") { text } }", Value::Null, &caller()).await.to_json();
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("response handler of a mutation"), "{refused}");
}

#[tokio::test]
async fn a_bad_subscription_is_refused_with_the_reason() {
    let api = chat();
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    for (query, error_type, message) in [
        ("subscription { nothing { text } }", "ValidationError", "nothing"),
        ("subscription { onSend { text } }", "ValidationError", "groupId"),
        (
            "mutation { send(groupId: \"a\") { text } }",
            "UnsupportedOperation",
            "mutation not supported through the realtime channel",
        ),
        ("subscription { onRefused { text } }", "NodeNotFound", "members only"),
        ("subscription {", "ValidationError", "Validation error"),
    ] {
        let answer = socket.start("s", query, json!({})).await;
        assert_eq!(answer["type"], "error", "{query}");
        assert_eq!(answer["id"], "s");
        let error = &answer["payload"]["errors"][0];
        assert_eq!(error["errorType"], error_type, "{query}: {error}");
        assert!(error["message"].as_str().unwrap_or("").contains(message), "{query}: {error}");
    }
    assert_eq!(
        socket.start("s", ON_SEND, json!({"g": "a"})).await["type"],
        "start_ack",
        "the socket is as good as before"
    );
    assert_eq!(
        socket.start("s", ON_SEND, json!({"g": "a"})).await["payload"]["errors"][0]["errorType"],
        "DuplicatedOperationError"
    );
}

#[tokio::test]
async fn a_bad_message_is_answered_and_a_bad_key_refused() {
    let api = chat();
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    for (message, error_type) in [
        (json!({"type": "dance", "id": "1"}), "UnsupportedOperation"),
        (json!({"id": "1"}), "UnsupportedOperation"),
        (json!([1]), "BadRequestException"),
        (json!({"type": "start"}), "BadRequestException"),
        (json!({"type": "start", "id": "1", "payload": {"data": "{"}}), "BadRequestException"),
        (json!({"type": "start", "id": 7}), "BadRequestException"),
        (json!({"type": "stop"}), "UnknownOperationError"),
    ] {
        socket.send(message.clone()).await;
        assert_eq!(socket.next().await["payload"]["errors"][0]["errorType"], error_type, "{message}");
    }
    let mut stranger = Socket::open(address, "wrong").await;
    stranger.send(json!({"type": "connection_init"})).await;
    let refusal = stranger.next().await;
    assert_eq!(refusal["type"], "connection_error");
    assert_eq!(refusal["payload"]["errors"][0]["errorType"], "UnauthorizedException");
    assert_eq!(stranger.maybe().await, None, "and closed");
    let mut rude = Socket::open(address, "wrong").await;
    assert_eq!(
        rude.start("s", ON_SEND, json!({"g": "a"})).await["type"],
        "connection_error",
        "a start does not get past it"
    );
    assert_eq!(rude.maybe().await, None);
    let data = json!({"query": ON_SEND, "variables": {"g": "a"}}).to_string();
    let authorization = json!({"x-api-key": "wrong"});
    socket.send(json!({"id": "x", "type": "start", "payload": {"data": data, "extensions": {"authorization": authorization}}})).await;
    assert_eq!(socket.next().await["payload"]["errors"][0]["errorType"], "UnauthorizedException");
}

#[tokio::test]
async fn both_addresses_and_both_forms_of_authorisation_work() {
    use base64::Engine as _;
    let api = chat();
    let address = serve(&api).await;
    let encoded =
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json!({"host": "x", "x-api-key": KEY}).to_string());
    let in_query = format!("header={}&payload=e30=", authorization(KEY));
    for (path, protocols) in [
        (format!("/graphql?{in_query}"), "graphql-ws".to_owned()),
        (format!("/graphql/realtime?{in_query}"), "graphql-ws".to_owned()),
        ("/graphql/realtime".to_owned(), format!("graphql-ws, header-{encoded}")),
    ] {
        let mut socket = Socket::open_at(address, &path, &protocols).await.expect("an upgrade");
        socket.send(json!({"type": "connection_init"})).await;
        let answer = socket.next().await;
        assert_eq!(
            answer,
            json!({"type": "connection_ack", "payload": {"connectionTimeoutMs": 300_000}}),
            "{path} {protocols}"
        );
    }
    assert!(Socket::open_at(address, "/graphql", "other").await.is_err(), "without the subprotocol there is no socket");
    assert!(
        Socket::open_at(address, "/graphql?header=!", "graphql-ws").await.is_err(),
        "nor with a header that is none"
    );
}

#[tokio::test]
async fn keep_alives_come_by_themselves() {
    let limits = Limits { keep_alive: Duration::from_millis(20), ..Limits::default() };
    let api = builder(SDL, &units(&codes())).limits(limits).build().expect("builds");
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    assert_eq!(socket.next().await, json!({"type": "ka"}));
    assert_eq!(socket.next().await, json!({"type": "ka"}));
}

#[tokio::test]
async fn connections_and_subscriptions_are_bounded() {
    let limits = Limits { connections: 1, subscriptions: 1, ..Limits::default() };
    let api = builder(SDL, &units(&codes())).limits(limits).build().expect("builds");
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    let mut second = Socket::open(address, KEY).await;
    assert_eq!(second.next().await["payload"]["errors"][0]["errorType"], "LimitExceededError");
    assert_eq!(second.maybe().await, None);
    assert_eq!(socket.start("1", ON_SEND, json!({"g": "a"})).await["type"], "start_ack");
    assert_eq!(
        socket.start("2", ON_SEND, json!({"g": "a"})).await["payload"]["errors"][0]["errorType"],
        "MaxSubscriptionsReachedError"
    );
}

#[tokio::test]
async fn a_socket_that_never_reads_is_dropped_and_delays_nobody() {
    let limits = Limits { send_queue: 8, ..Limits::default() };
    let api = builder(SDL, &units(&codes())).limits(limits).build().expect("builds");
    let address = serve(&api).await;
    let mut silent = Socket::greeted(address).await;
    assert_eq!(silent.start("s", "subscription { onAny { body { bytes } } }", json!({})).await["type"], "start_ack");
    let mut reader = Socket::greeted(address).await;
    reader.start("r", "subscription { onAny { size } }", json!({})).await;
    let query = "mutation ($n: Int) { send(groupId: \"g\", size: $n) { groupId size body { bytes } } }";
    // Messages of 200 KB fill every buffer between the server and a client that does not read.
    let mut dropped = false;
    for n in 0..400 {
        assert!(api.execute(query, json!({"n": 200_000 + n}), &caller()).await.is_ok());
        assert_eq!(reader.next().await["payload"]["data"]["onAny"]["size"], 200_000 + n, "the reader is not delayed");
        if api.subscriptions() == 1 {
            dropped = true;
            break;
        }
    }
    assert!(dropped, "the silent one is gone");
}

#[tokio::test]
async fn a_closed_socket_leaves_nothing_behind() {
    let api = chat();
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    socket.start("s", ON_SEND, json!({"g": "a"})).await;
    assert_eq!((api.connections(), api.subscriptions()), (1, 1));
    drop(socket);
    tokio::time::timeout(support::PATIENCE, async {
        while api.connections() > 0 || api.subscriptions() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("all is gone");
    send(&api, "a", "to nobody").await;
}

#[tokio::test]
async fn a_message_that_is_too_large_is_an_error_for_its_subscribers() {
    let api = chat();
    let address = serve(&api).await;
    let mut socket = Socket::greeted(address).await;
    socket.start("s", "subscription { onAny { body { bytes } } }", json!({})).await;
    let response = api
        .execute("mutation { send(groupId: \"g\", size: 250000) { groupId body { bytes } } }", Value::Null, &caller())
        .await;
    assert!(response.is_ok());
    let answer = socket.next().await;
    assert_eq!(answer["type"], "error");
    assert_eq!(answer["payload"]["errors"][0]["errorType"], "PayloadSizeLimitExceeded");
}

#[tokio::test]
async fn an_api_that_is_replaced_tells_its_clients_to_connect_again() {
    let api = chat();
    let mut socket = Socket::greeted(serve(&api).await).await;
    socket.start("1", "subscription { onAny { text } }", json!({})).await;
    assert_eq!(api.subscriptions(), 1);
    api.close();
    assert_eq!(socket.next().await["payload"]["errors"][0]["errorType"], "ServiceRestart");
    assert!(socket.maybe().await.is_none(), "the WebSocket is closed");
    assert_eq!(api.subscriptions(), 0);
}
