//! Subscribers of the local AppSync: a mutation that reaches all of them, one that reaches one of them, and one who comes and goes.
//! The memory is that of the subscriptions.

use appsync::{Api, Caller, Subscription};
use serde_json::json;
use testkit::usage::resident;

use super::groups::received;
use super::{Sizes, curve};
use crate::curve::{Curve, Expected, Point};
use crate::measure::Bench;
use crate::prices::{Extras, Prices};
use crate::{Result, progress};

const KEY: &str = "curves-key";
const SDL: &str = "
type Query { nothing: Int }
type Mutation { send(room: ID!, text: String!): Message }
type Subscription { onSend(room: ID!): Message @aws_subscribe(mutations: [\"send\"]) }
type Message { room: ID!  text: String! }";
const SEND: &str = "mutation ($room: ID!, $text: String!) { send(room: $room, text: $text) { room text } }";
const ON_SEND: &str = "subscription ($room: ID!) { onSend(room: $room) { room text } }";
const RESOLVER: &str = "export function request(ctx) { return { payload: ctx.args } }\nexport function response(ctx) { return ctx.result }\n";
const OPERATION: Extras = &[("appsyncOperation", 1.0)];
const DELIVERY: Extras = &[("appsyncUpdate", 1.0)];
const OPERATION_AND_DELIVERY: Extras = &[("appsyncOperation", 1.0), ("appsyncUpdate", 1.0)];

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let bench = Bench::of(prices);
    let of = "subscribers";
    let mut curves = [
        curve("subscribers", "mutation to all", of, "delivery", Expected::Flat),
        curve("subscribers", "mutation to one of them", of, "mutation", Expected::Flat),
        curve("subscribers", "subscribe and leave", of, "subscription", Expected::Flat),
    ];
    for size in sizes.decades(10_000, 10_000) {
        progress(format_args!("subscribers: {size}"));
        let room = Room::new()?;
        let (mut together, before) = (Vec::new(), resident());
        for _ in 0..size {
            together.push(room.subscribe("everybody").await?);
        }
        let memory = resident().saturating_sub(before) as f64;
        let sent = bench.each(size, sizes.of(9, 18, 90), OPERATION, async |n| {
            room.send("everybody", n).await?;
            received(&mut together).await
        });
        let mut sent = sent.await?.per(size);
        let deliveries = prices.per_million(0.0, 0.0, DELIVERY)?.unwrap_or_default();
        sent.dollars = sent.dollars.map(|dollars| dollars + deliveries);
        curves[0].points.push(Point { memory, ..sent });
        drop((together, room));

        let room = Room::new()?;
        let (mut apart, before) = (Vec::new(), resident());
        for number in 0..size {
            apart.push(room.subscribe(&number.to_string()).await?);
        }
        let memory = resident().saturating_sub(before) as f64;
        let sent = bench.each(size, sizes.of(9, 450, 1_800), OPERATION_AND_DELIVERY, async |n| {
            let one = fastrand::usize(0..apart.len());
            room.send(&one.to_string(), n).await?;
            received(&mut apart[one..=one]).await
        });
        curves[1].points.push(Point { memory, ..sent.await? });
        let came = bench.each(size, sizes.of(9, 450, 900), &[], async |n| {
            drop(room.subscribe(&format!("guest-{n}")).await?);
            Ok(())
        });
        curves[2].points.push(came.await?);
    }
    Ok(curves.into())
}

/// An API whose mutation returns its arguments, and which has no store.
struct Room {
    api: Api,
    caller: Caller,
}

impl Room {
    fn new() -> Result<Self> {
        let template = json!({"Resources": {
            "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"Name": "curves", "AuthenticationType": "API_KEY"}},
            "Nothing": {"Type": "AWS::AppSync::DataSource", "Properties": {"Name": "nothing", "Type": "NONE"}},
            "Send": {"Type": "AWS::AppSync::Resolver", "Properties": {
                "TypeName": "Mutation", "FieldName": "send", "Kind": "UNIT", "DataSourceName": "nothing",
                "Runtime": {"Name": "APPSYNC_JS", "RuntimeVersion": "1.0.0"}, "Code": RESOLVER,
            }},
        }});
        let api = Api::builder().schema(SDL).template(template.to_string(), &[]).api_keys([KEY]).build()?;
        Ok(Self { api, caller: Caller::api_key(KEY) })
    }

    async fn send(&self, room: &str, n: u32) -> Result<()> {
        let answer = self.api.execute(SEND, json!({"room": room, "text": n.to_string()}), &self.caller).await;
        if answer.is_ok() { Ok(()) } else { Err(answer.to_json().to_string().into()) }
    }

    async fn subscribe(&self, room: &str) -> Result<Subscription> {
        Ok(self.api.subscribe(ON_SEND, json!({"room": room}), &self.caller).await?)
    }
}
