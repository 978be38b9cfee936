//! Resolvers of the local AppSync: a request that one of them answers, and the building of an API with all of them.

use appsync::{Api, Caller};
use serde_json::{Value, json};

use super::{Sizes, curve};
use crate::curve::{Curve, Expected};
use crate::measure::Bench;
use crate::prices::{Extras, Prices};
use crate::{Result, progress};

const KEY: &str = "curves-key";
const OPERATION: Extras = &[("appsyncOperation", 1.0)];

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let units = sizes.of(9, 900, 4_500);
    let bench = Bench::of(prices);
    let caller = Caller::api_key(KEY);
    let mut curves = [
        curve("resolvers", "request", "resolvers", "request", Expected::Flat),
        curve("resolvers", "build the API", "resolvers", "resolver", Expected::Flat),
    ];
    for size in sizes.of([1, 2, 4, 8], [1, 10, 100, 1_000], [1, 10, 100, 1_000]) {
        progress(format_args!("resolvers: {size}"));
        let (schema, template) = (schema(size), template(size).to_string());
        let mut built = None;
        let build = async || {
            built = Some(Api::builder().schema(&schema).template(&template, &[]).api_keys([KEY]).build()?);
            Ok(size)
        };
        curves[1].points.push(bench.whole(size, &[], build).await?);
        let api = built.ok_or("no API was built")?;
        let asked = bench.each(size, units, OPERATION, async |n| {
            let field = fastrand::u64(0..size);
            let query = format!("query ($text: String!) {{ echo{field}(text: $text) }}");
            let answer = api.execute(&query, json!({"text": n.to_string()}), &caller).await;
            let told = answer.data()[format!("echo{field}")] == format!("{field}: {n}");
            if told { Ok(()) } else { Err(answer.to_json().to_string().into()) }
        });
        curves[0].points.push(asked.await?);
    }
    Ok(curves.into())
}

fn schema(resolvers: u64) -> String {
    let fields: String = (0..resolvers).map(|n| format!("  echo{n}(text: String!): String!\n")).collect();
    format!("type Query {{\n{fields}}}\n")
}

/// Each field has a resolver with a file of its own.
fn template(resolvers: u64) -> Value {
    let runtime = json!({"Name": "APPSYNC_JS", "RuntimeVersion": "1.0.0"});
    let mut resources = json!({
        "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"Name": "curves", "AuthenticationType": "API_KEY"}},
        "Nothing": {"Type": "AWS::AppSync::DataSource", "Properties": {"Name": "nothing", "Type": "NONE"}},
    });
    for n in 0..resolvers {
        let code = format!(
            "export function request(ctx) {{ return {{ payload: `{n}: ${{ctx.args.text}}` }} }}\nexport function response(ctx) {{ return ctx.result }}\n"
        );
        let properties = json!({
            "TypeName": "Query", "FieldName": format!("echo{n}"), "Kind": "UNIT", "DataSourceName": "nothing",
            "Runtime": runtime, "Code": code,
        });
        resources[format!("Echo{n}")] = json!({"Type": "AWS::AppSync::Resolver", "Properties": properties});
    }
    json!({"Resources": resources})
}
