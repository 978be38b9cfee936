//! `ichidoctl feeds`.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::client::{answer, http};
use crate::support::ctl::{ctl, platform, tidy};

#[tokio::test]
async fn what_was_rehearsed_since_a_time_is_owed_once_somebody_says_so() {
    let local = platform(&[("GITHUB_NOTIFIER__SHADOW", "on")]);
    let run = || ctl(&local, &["schedules", "run", "github-subscriber"]).code;
    assert_eq!(run(), Some(0), "the first read posts nothing");
    let (status, _) = answer(http().post(format!("{}/feeds/sample/github", local.url))).await;
    assert_eq!((status, run()), (StatusCode::CREATED, Some(0)));
    let resend = |more: &[&str]| ctl(&local, &[&["feeds", "resend", "--rehearsed"], more].concat());
    assert_eq!(resend(&["--yes"]).code, Some(2), "it wants to know since when");
    let none = resend(&["--since", "2999-01-01T00:00:00Z", "--yes"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), "there are no rehearsed entries to send\n"));
    let asked = resend(&["--since", "2026-01-01T00:00:00Z"]);
    assert_eq!(asked.code, Some(2), "it asks: {asked:?}");
    let sent = resend(&["--since", "2026-01-01T00:00:00Z", "--yes", "--json"]);
    let told = sent.json();
    assert_eq!(
        (told.as_array().map(Vec::len), &told[0]["feed"], &told[0]["ok"]),
        (Some(1), &json!("github"), &json!(true))
    );
    assert!(sent.err.contains("by hand"), "it is logged: {sent:?}");
    let shown = local.get("/_local/feeds/github").await;
    let entry = shown["entries"].as_array().expect("entries").iter().find(|entry| entry["id"] == told[0]["id"]);
    assert_eq!(entry.expect("the entry")["state"], "owed");
    assert_eq!(
        ctl(&local, &["feeds", "resend", "github", "--yes"]).out,
        "there are no dead letters of feed github to send\n"
    );
    let unknown = ctl(&local, &["feeds", "resend", "no such feed", "--yes"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}

#[tokio::test]
async fn a_feed_is_shown_as_it_would_be_posted_and_nothing_is() {
    let local = platform(&[]);
    let add = http().post(format!("{}/feeds/sample/notes", local.url)).header("content-type", "application/json");
    let (status, _) = answer(add.body(json!({"title": "Hello @you", "link": "https://x.example/1"}).to_string())).await;
    assert_eq!(status, StatusCode::CREATED);
    let url = format!("{}/feeds/sample/notes.json", local.url);
    let arguments =
        ["feeds", "preview", &url, "--destinations", "mastodon,webhook", "--entries", "1", "--text", "{title} {link}"];
    let shown = ctl(&local, &arguments);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let text = tidy(&shown.out);
    assert!(text.starts_with("JSON Feed, "), "{text}");
    assert!(text.contains("mastodon  Hello @\\u{200b}you https://x.example/1\n"), "{text}");
    assert!(text.contains("webhook  Hello @you https://x.example/1\n"), "{text}");
    let json = ctl(&local, &[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(
        (json["shown"].as_array().map(Vec::len), &json["shown"][0]["posts"][1]["destination"]),
        (Some(1), &json!("webhook"))
    );
    assert_eq!(local.get("/_local/outbox").await, json!([]));
    for (arguments, said) in [
        (vec!["feeds", "preview", "http://169.254.169.254/"], "only https is allowed"),
        (vec!["feeds", "preview", &local.url], "could not read the feed"),
        (vec!["feeds", "preview", &url, "--text", "{titel}"], "{titel}"),
    ] {
        let refused = ctl(&local, &arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(said), "{said} is not in {refused:?}");
    }
}
