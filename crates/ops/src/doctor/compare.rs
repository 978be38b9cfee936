//! Compares what a template says with what is there, both as JSON of the same shape. Pure functions.

use std::collections::BTreeSet;

use serde_json::Value;

/// Stands in a template for what only AWS knows, such as the id of an API.
pub(super) const ANYTHING: &str = "*";

/// The differences, one sentence each. Only what `expected` mentions is compared. The order of lists does not matter.
pub(super) fn differences(expected: &Value, actual: &Value) -> Vec<String> {
    let mut found = Vec::new();
    differ("", expected, actual, &mut found);
    found
}

fn differ(at: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(members), _) => {
            for (name, expected) in members {
                let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                differ(&at, expected, &actual[name], found);
            }
        }
        (Value::Array(wanted), _) => {
            let none = Vec::new();
            let there = actual.as_array().unwrap_or(&none);
            let fits = |wanted: &Value, there: &Value| differences(wanted, there).is_empty();
            let missing = wanted.iter().filter(|wanted| !there.iter().any(|there| fits(wanted, there)));
            found.extend(missing.map(|value| format!("{at} lacks {}", said(value))));
            let more = there.iter().filter(|there| !wanted.iter().any(|wanted| fits(wanted, there)));
            found.extend(more.map(|value| format!("{at} has {}, which the template does not", said(value))));
        }
        _ if matches(&said(expected), &said(actual)) => {}
        _ => found.push(format!("{at} is {}, the template says {}", said(actual), said(expected))),
    }
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => place_independent(text),
        Value::Null => "nothing".to_owned(),
        // 5 and 5.0 are the same threshold.
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
        other => other.to_string(),
    }
}

/// An ARN with placeholders for the partition, the region and the account, which a template does not know.
pub(super) fn place_independent(text: &str) -> String {
    let mut parts: Vec<&str> = text.splitn(6, ':').collect();
    if parts.len() < 6 || parts[0] != "arn" {
        return text.to_owned();
    }
    for (index, placeholder) in [(1, "aws"), (3, template::REGION), (4, template::ACCOUNT)] {
        if !parts[index].is_empty() && parts[index] != ANYTHING {
            parts[index] = placeholder;
        }
    }
    parts.join(":")
}

/// An ARN of a template with the partition, the region and the account of `like`, an ARN of the environment.
pub(super) fn placed(arn: &str, like: &str) -> String {
    let (mut parts, like): (Vec<&str>, Vec<&str>) = (arn.splitn(6, ':').collect(), like.splitn(6, ':').collect());
    if parts.len() < 6 || like.len() < 6 || parts[0] != "arn" {
        return arn.to_owned();
    }
    for place in [1, 3, 4] {
        if !parts[place].is_empty() {
            parts[place] = like[place];
        }
    }
    parts.join(":")
}

/// Whether a text fits a pattern with `*`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(found) => rest = &rest[found + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// Replaces the values that only AWS knows, which a template resolves to a logical id (`MeshApi.ApiId`), by [`ANYTHING`].
pub(super) fn unknowns_are_anything(value: &Value, ids: &BTreeSet<&str>) -> Value {
    match value {
        Value::String(text) => {
            let id = text.split_once('.').map_or(text.as_str(), |(id, _)| id);
            let role = text.rsplit_once(":role/").is_some_and(|(_, id)| ids.contains(id));
            if ids.contains(id) || role { Value::from(ANYTHING) } else { value.clone() }
        }
        Value::Array(list) => list.iter().map(|each| unknowns_are_anything(each, ids)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, each)| (name.clone(), unknowns_are_anything(each, ids))).collect()
        }
        other => other.clone(),
    }
}

/// A statement of a policy with all values as lists, so that one value and a list of one value are the same. A secret that the
/// environment does without has no name, and a deployment leaves it out; `None` if nothing else is in the statement.
pub(super) fn statement(value: &Value) -> Option<Value> {
    let list = |value: &Value| match value {
        Value::Array(_) => value.clone(),
        Value::Null => Value::Array(Vec::new()),
        one => Value::Array(vec![one.clone()]),
    };
    let mut resources = list(&value["Resource"]);
    let named = |arn: &Value| arn.as_str().is_none_or(|arn| !arn.ends_with(":parameter"));
    if let Value::Array(arns) = &mut resources {
        arns.retain(named);
        if arns.is_empty() && !value["Resource"].is_null() {
            return None;
        }
    }
    Some(serde_json::json!({
        "Effect": value["Effect"],
        "Action": list(&value["Action"]),
        "Resource": resources,
        "Condition": if value["Condition"].is_null() { String::new() } else { value["Condition"].to_string() },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_that_an_environment_does_without_is_in_no_statement() {
        let of = |resources: Value| {
            statement(&json!({"Effect": "Allow", "Action": "ssm:GetParameters", "Resource": resources}))
        };
        let (named, nameless) = ("arn:aws:ssm:eu-west-1:1:parameter/x", "arn:aws:ssm:eu-west-1:1:parameter");
        assert_eq!(of(json!([named, nameless])), of(json!(named)));
        assert_eq!(of(json!([nameless])), None);
    }

    #[test]
    fn only_what_differs_is_said() {
        let expected = json!({"Period": 300, "Threshold": 5, "Dimensions": [{"Name": "a", "Value": "*"}]});
        let same = json!({"Period": 300, "Threshold": 5.0, "Dimensions": [{"Name": "a", "Value": "x"}], "More": 1});
        assert_eq!(differences(&expected, &same), Vec::<String>::new());
        let other = json!({"Period": 60, "Threshold": 5.0, "Dimensions": []});
        let said = ["Dimensions lacks {\"Name\":\"a\",\"Value\":\"*\"}", "Period is 60, the template says 300"];
        assert_eq!(differences(&expected, &other), said);
        assert_eq!(differences(&json!({"a": [1]}), &json!({"a": [2, 1]})), ["a has 2, which the template does not"]);
        assert_eq!(differences(&json!({"ttl": "ttl"}), &json!({})), ["ttl is nothing, the template says ttl"]);
    }

    #[test]
    fn an_arn_is_the_same_in_every_account() {
        let there = "arn:aws-cn:sqs:cn-north-1:123456789012:slack-files-failures";
        assert_eq!(place_independent(there), "arn:aws:sqs:ap-northeast-1:000000000000:slack-files-failures");
        assert_eq!(place_independent("slack-events:live"), "slack-events:live");
    }

    #[test]
    fn an_arn_of_a_template_is_placed_in_the_account_of_another() {
        let like = "arn:aws-cn:lambda:cn-north-1:123456789012:function:slack-files:live";
        let wanted = "arn:aws-cn:sqs:cn-north-1:123456789012:slack-files-failures";
        assert_eq!(placed("arn:aws:sqs:ap-northeast-1:000000000000:slack-files-failures", like), wanted);
        assert_eq!(placed("slack-files-failures", like), "slack-files-failures");
    }

    #[test]
    fn a_star_is_anything_and_the_rest_is_itself() {
        assert!(matches("a*c*", "abbbcd") && matches("*", "") && matches("abc", "abc") && matches("a*bc", "abcbc"));
        assert!(!matches("abc", "abcd") && !matches("a*c", "ab") && !matches("arn:*", "*") && !matches("a*a", "a"));
    }
}
