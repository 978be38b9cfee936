use serde_json::{Value, json};

use crate::Template;
use crate::json::{is_true, name_of, text_of};

/// `AWS::DynamoDB::Table`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub logical_id: String,
    pub name: String,
    /// The `CreateTable` request in DynamoDB's JSON: keys, attributes and indexes.
    pub create: Value,
    /// The name of the attribute with the time at which an item expires.
    pub ttl: Option<String>,
}

impl Template {
    /// The tables of the template.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        const SHARED: [&str; 4] =
            ["AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "LocalSecondaryIndexes"];
        let table = |(id, properties): (&str, &Value)| {
            let name = name_of(id, &properties["TableName"]);
            let mut create = json!({"TableName": name, "BillingMode": "PAY_PER_REQUEST"});
            for property in SHARED {
                if let Some(value) = properties.get(property) {
                    create[property] = value.clone();
                }
            }
            let ttl = &properties["TimeToLiveSpecification"];
            let ttl = if is_true(&ttl["Enabled"]) { text_of(&ttl["AttributeName"]) } else { None };
            Table { logical_id: id.to_owned(), name, create, ttl }
        };
        self.of_kind("AWS::DynamoDB::Table").map(table).collect()
    }
}
