//! `ichidoctl slack`.

use aws_sdk_dynamodb::types::AttributeValue;
use ichido::{Clock as _, SystemClock};
use insta::assert_snapshot;
use ops::applications::Application;

use crate::support::client::{aws, eventually};
use crate::support::ctl::{ctl, platform};
use crate::support::process::Local;
use crate::support::slack;

/// Puts an hour of the past into the history.
async fn past(local: &Local, hours_ago: u64, handled: u64) {
    let hour = SystemClock.now().as_secs() / 3_600 - hours_ago;
    let number = |number: u64| AttributeValue::N(number.to_string());
    let put = aws(&local.url).dynamodb().put_item().table_name(Application::Slack.table());
    let put = put.item("event_key", AttributeValue::S(format!("HISTORY#{hour}#C1")));
    let put = put.item("hour", number(hour)).item("channel_id", AttributeValue::S("C1".into()));
    put.item("handled", number(handled)).item("ttl", number((hour + 2_160) * 3_600)).send().await.expect("written");
}

#[tokio::test]
async fn a_report_tells_what_happened_and_which_duplicates_came_why() {
    let local = platform(&[]);
    for _ in 0..3 {
        assert_eq!(slack::upload(&local, "1").await, 200);
    }
    let told = eventually("the history", || async {
        let said = ctl(&local, &["slack", "report", "--json"]);
        let report = said.json();
        (report["total"]["handled"] == 1 && report["total"]["duplicates"]["atOnce"] == 2).then_some((said.code, report))
    })
    .await;
    let (code, report) = told;
    assert_eq!((code, &report["days"], &report["anomalies"]), (Some(0), &7.into(), &serde_json::json!([])), "{report}");
    assert_eq!(report["byDay"].as_array().map(Vec::len), Some(7));
    assert_eq!((&report["byHour"][0]["channel"], &report["byHour"][0]["handled"]), (&"C1".into(), &1.into()));
    let said = ctl(&local, &["slack", "report", "--days", "1"]);
    let lines: Vec<&str> = said.out.lines().skip(3).collect();
    assert_snapshot!(crate::support::ctl::tidy(&lines.join("\n")), @r"
    CHANNEL  HANDLED  FOUND  FAILED  REFUSED  RETRY  AT ONCE  ENVELOPE  OUTAGE  EARLIER  SAME
    C1  1  0  0  0  0  2  0  0  0  0
    all  1  0  0  0  0  2  0  0  0  0

    nothing is judged yet: 0 weeks are known, and 3 are needed
    ");
    let keys = ctl(&local, &["keys", "list", "slack"]);
    assert!(!keys.out.contains("HISTORY#"), "it is no record: {keys:?}");
}

#[tokio::test]
async fn a_report_finds_a_silence_writes_a_page_and_says_that_somebody_should_look() {
    let local = platform(&[]);
    for week in 1..=5 {
        for hours in 2..=6 {
            past(&local, week * 168 + hours, 10).await;
        }
    }
    past(&local, 5 * 168 + 30, 1).await;
    let page = std::env::temp_dir().join(format!("ichido-report-{}.html", std::process::id()));
    let page = page.to_str().expect("a path");
    let said = ctl(&local, &["slack", "report", "--days", "2", "--html", page]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("all channels: nothing arrived; the same hours of the"), "{said:?}");
    let html = std::fs::read_to_string(page).expect("a page");
    let _ = std::fs::remove_file(page);
    assert!(html.contains("<svg") && html.contains("nothing arrived") && !html.contains("http"), "{html}");
    assert_eq!(ctl(&local, &["slack", "report", "--days", "91"]).code, Some(2), "no more than are kept");
}

#[tokio::test]
async fn what_cannot_be_read_or_written_is_said_before_the_history_is_read() {
    let local = platform(&[]);
    let other = Application::Tokens.table();
    let said = ctl(&local, &["slack", "report", "--table", other]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains(&format!("{other} is not a table of processed events")), "{said:?}");
    let own = ctl(&local, &["slack", "report", "--table", Application::Slack.table()]);
    assert_eq!(own.code, Some(0), "{own:?}");
    let said = ctl(&local, &["slack", "report", "--html", "/nowhere/report.html"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
    assert!(said.err.contains("could not write /nowhere/report.html"), "{said:?}");
    let said = ctl(&local, &["slack", "report", "--html", "-"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("the page is not printed; name a file"), "{said:?}");
    let said = ctl(&local, &["slack", "report", "--endpoint-url", "http://127.0.0.1:1"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.starts_with("ichidoctl: http://127.0.0.1:1 does not answer"), "{said:?}");
    assert!(!said.err.contains("permission"), "{said:?}");
}
