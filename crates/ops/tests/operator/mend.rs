//! `ichidoctl mend`.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TimeToLiveSpecification,
};

use crate::support::client::aws;
use crate::support::ctl::{ctl, platform};

const GITHUB: &str = "github-feed-subscriber-schedule";

#[tokio::test]
async fn what_a_hand_changed_is_set_back_and_the_doctor_agrees_again() {
    let local = platform(&[]);
    assert_eq!(ctl(&local, &["mend", "--yes"]).out, "everything agrees with the templates\n");

    assert_eq!(ctl(&local, &["schedules", "pause", GITHUB]).code, Some(0));
    assert_eq!(ctl(&local, &["schedules", "rate", GITHUB, "1 hour"]).code, Some(0));
    let scheduler = aws_sdk_scheduler::Client::new(aws(&local.url).config());
    let read = async || scheduler.get_schedule().name(GITHUB).send().await.expect("the schedule");
    let changed = read().await;
    let mut target = changed.target.clone().expect("a target");
    (target.retry_policy, target.dead_letter_config) = (None, None);
    target.arn = target.arn.replace("github-subscriber", "hatebu-subscriber");
    let update = scheduler.update_schedule().name(GITHUB).set_schedule_expression(changed.schedule_expression.clone());
    let update = update.set_state(changed.state.clone()).set_description(changed.description.clone());
    let update = update.set_flexible_time_window(changed.flexible_time_window.clone()).target(target);
    update.send().await.expect("changed");
    let dynamodb = aws(&local.url).dynamodb();
    let off = TimeToLiveSpecification::builder().enabled(false).attribute_name("ttl").build().expect("complete");
    let update = dynamodb.update_time_to_live().table_name("tokens-ledger").time_to_live_specification(off);
    update.send().await.expect("changed");

    let planned = ctl(&local, &["mend", "--plan", "--json"]);
    assert_eq!(planned.code, Some(1));
    assert_eq!(ctl(&local, &["mend", "--plan", "--json"]).out, planned.out, "a plan changes nothing");
    let kinds = planned.json();
    let of =
        |kind: &str| kinds["mended"].as_array().expect("a list").iter().filter(|each| each["kind"] == kind).count();
    assert_eq!((of("schedule"), of("ttl")), (1, 1), "{kinds:#}");
    assert!(of("alarm") > 0, "{kinds:#}");

    assert_eq!(ctl(&local, &["mend"]).code, Some(2), "it asks");
    assert_eq!(ctl(&local, &["mend", "--plan", "--json"]).out, planned.out);
    let mended = ctl(&local, &["mend", "--yes"]);
    assert_eq!(mended.code, Some(0), "{mended:?}");
    assert!(mended.err.contains(&format!("ichidoctl mend set back schedule {GITHUB}")), "it is logged: {mended:?}");
    let kept = ctl(&local, &["operations", "github", "--json"]).json();
    let last = kept["operations"].as_array().and_then(|all| all.last()).expect("an operation");
    assert_eq!((&last["operation"], &last["on"]), (&"mend".into(), &GITHUB.into()), "the pause is over: {kept:#}");
    assert_eq!(ctl(&local, &["doctor"]).code, Some(0));
    let back = read().await.target.expect("a target");
    assert!(back.arn.ends_with(":github-subscriber:live") && back.dead_letter_config.is_some(), "{back:?}");
    assert_eq!(back.retry_policy.and_then(|policy| policy.maximum_retry_attempts), Some(2));
}

#[tokio::test]
async fn a_table_with_other_keys_is_named_and_nothing_is_offered_for_it() {
    const TABLE: &str = "tokens-ledger";
    let local = platform(&[]);
    let dynamodb = aws(&local.url).dynamodb();
    dynamodb.delete_table().table_name(TABLE).send().await.expect("deleted");
    let planned = ctl(&local, &["mend", "--plan"]);
    assert!(planned.out.contains("if the table is gone, see docs/restoring.md"), "{planned:?}");

    let attribute = AttributeDefinition::builder().attribute_name("other").attribute_type(ScalarAttributeType::S);
    let key = KeySchemaElement::builder().attribute_name("other").key_type(KeyType::Hash);
    let create = dynamodb.create_table().table_name(TABLE).billing_mode(BillingMode::PayPerRequest);
    let create = create.attribute_definitions(attribute.build().expect("complete"));
    create.key_schema(key.build().expect("complete")).send().await.expect("created");
    let planned = ctl(&local, &["mend", "--plan", "--json"]).json();
    let of = |list: &str| {
        let listed = planned[list].as_array().expect("a list").iter();
        listed.filter(|each| each["kind"] == "table" && each["name"] == TABLE).count()
    };
    assert_eq!((of("mended"), of("left")), (0, 1), "{planned:#}");
}
