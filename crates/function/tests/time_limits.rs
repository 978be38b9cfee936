//! The time limits of calls to DynamoDB: no call has a limit that never ends anything. Each limit is a timer, and each timer wakes the
//! runtime.

use std::time::Duration;

use function::Aws;
use ichido::dynamodb::bounded;

#[test]
fn an_attempt_has_a_limit_only_if_it_is_shorter_than_that_of_all_attempts() {
    let client = Aws::at("http://127.0.0.1:9").dynamodb();
    let limits = |client: &aws_sdk_dynamodb::Client| {
        let limits = client.config().timeout_config().expect("limits").clone();
        (limits.operation_attempt_timeout(), limits.operation_timeout())
    };
    let (of_attempt, _) = limits(&client);
    let of_attempt = of_attempt.expect("a limit for one attempt");
    for (total, expected) in
        [(of_attempt * 2, Some(of_attempt)), (of_attempt, None), (Duration::from_millis(700), None)]
    {
        assert_eq!(limits(&bounded(&client, 3, total)), (expected, Some(total)));
    }
}
