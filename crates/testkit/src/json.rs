//! JSON that nobody expected.

use proptest::prelude::*;
use serde_json::Value;

/// Any JSON, not too deep. Half of what it holds are `texts`; the members of its objects have `names`.
pub fn any_json(
    texts: impl Strategy<Value = String> + 'static,
    names: impl Strategy<Value = String> + 'static,
) -> impl Strategy<Value = Value> {
    let names = names.boxed();
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        4 => texts.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}
