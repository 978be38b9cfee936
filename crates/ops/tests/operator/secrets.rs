//! `ichidoctl doctor` looks for secrets where the environment keeps them.

use serde_json::json;

use crate::support::ctl::{ctl, platform};

#[tokio::test]
async fn the_doctor_asks_secrets_manager_for_what_is_kept_there_and_ssm_for_the_rest() {
    let local = platform(&[]);
    let settings = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor-secrets.json");
    let managed = "/aws/reference/secretsmanager/ichido/local/slack-bot";
    let description = json!({
        "environment": {
            "name": "local", "region": "ap-northeast-1", "suffix": "",
            "rollout": {"steps": [100], "bakeSeconds": 0, "alarms": []},
        },
        "parameters": {"slack": {"SlackBotTokenParameter": managed, "SlackSigningSecretParameter": "/ichido/local/nothing"}},
    });
    std::fs::write(&settings, description.to_string()).expect("written");
    let file = settings.display().to_string();
    let said = ctl(&local, &["doctor", "--json", "--settings", &file]);
    let found = said.json();
    let secret = |name: &str| {
        let mut all = found.as_array().expect("findings").iter();
        all.find(|each| each["kind"] == "secret" && each["name"] == name).expect("a finding").clone()
    };
    assert_eq!(secret(managed)["notes"][0], "Secrets Manager has no secret of this name; create it there");
    assert_eq!(secret("/ichido/local/nothing")["notes"][0], "it does not exist; `make secrets` sets it");
    assert_eq!(secret("/ichido/local/feeds/pushover-token")["ok"], true);
    assert_eq!(said.code, Some(1));
}
