//! What Slack sends: signature and envelope.
//!
//! The input is the two signature headers, one per line, and the body.

use std::collections::HashSet;

use function::Secret;
use ichido::Timestamp;
use serde_json::Value;
use slack::event::{self, MAX_LABEL_CHARS, Own, Received, Upload};
use slack::signature::{sign, verify};

const NOW: u64 = 1_700_000_000;
const MAX_AGE: u64 = 300;
const SECRETS: [&str; 2] = ["the old one", "the new one"];

pub(crate) fn check(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let mut header = || std::str::from_utf8(parts.next().unwrap_or_default()).ok();
    let (timestamp, signature) = (header(), header());
    let body = parts.next().unwrap_or_default();
    signatures(timestamp, signature, body);
    envelope(body);
}

fn signatures(timestamp: Option<&str>, signature: Option<&str>, body: &[u8]) {
    let secrets = SECRETS.map(Secret::new);
    let accepts = |timestamp: Option<&str>, signature: Option<&str>, body: &[u8]| {
        verify(&secrets, timestamp, signature, body, Timestamp::from_secs(NOW)).is_ok()
    };
    // Nobody can guess a signature. What is accepted was signed: the same digest, at a time around now.
    if accepts(timestamp, signature, body) {
        let at: u64 = timestamp.and_then(|at| at.parse().ok()).expect("a time that was accepted is a number");
        let given = signature.map(str::to_ascii_lowercase);
        assert!(SECRETS.iter().any(|secret| Some(sign(secret, at, body)) == given), "a signature that nobody made");
    }
    let at = timestamp.and_then(|at| at.parse::<u64>().ok()).unwrap_or(NOW);
    for secret in SECRETS {
        let signed = sign(secret, at, body);
        let timestamp = at.to_string();
        assert_eq!(accepts(Some(&timestamp), Some(&signed), body), at.abs_diff(NOW) <= MAX_AGE, "signed at {at}");
        let longer = [body, b" "].concat();
        assert!(!accepts(Some(&timestamp), Some(&signed), &longer), "a signature of another body");
        assert!(!accepts(Some(&(at ^ 1).to_string()), Some(&signed), body), "a signature of another time");
    }
}

fn envelope(body: &[u8]) {
    let own = Own { bot_id: "B0OWN".to_owned(), user_id: "U0OWN".to_owned() };
    let read = event::read(body, &own);
    // Every JSON object can be read, except a request for a challenge that has none.
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let challenged = value["type"] == "url_verification";
    let has_challenge = value["challenge"].as_str().is_some_and(|challenge| !challenge.is_empty());
    assert_eq!(read.is_ok(), value.is_object() && (!challenged || has_challenge), "{read:?}");
    match read {
        Ok(Received::Upload(upload)) => assert_sound(&upload, &own, &value),
        Ok(Received::Challenge(challenge)) => assert_eq!(value["challenge"], challenge.as_str()),
        Ok(Received::Ignored { why, .. }) => assert!(!why.name().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn assert_sound(upload: &Upload, own: &Own, envelope: &Value) {
    assert!(upload.user.as_ref() != Some(&own.user_id), "the app's own upload");
    let texts = [&upload.event_key, &upload.team, &upload.channel, &upload.ts];
    assert!(texts.into_iter().all(|text| !text.is_empty()), "{upload:?}");
    assert!(!upload.thread().is_empty());
    let mut ids = HashSet::new();
    assert!(!upload.files.is_empty(), "an upload without files");
    for file in &upload.files {
        assert!(!file.id.is_empty() && ids.insert(&file.id), "two files have the id {:?}", file.id);
        let labels = [&file.name, &file.mimetype].into_iter().flatten();
        assert!(labels.into_iter().all(|label| label.chars().count() <= MAX_LABEL_CHARS), "{file:?}");
    }
    // None of the files is lost.
    let named = envelope["event"]["files"].as_array().into_iter().flatten().filter_map(|file| file["id"].as_str());
    assert!(named.filter(|id| !id.is_empty()).all(|id| ids.iter().any(|known| *known == id)), "a file is missing");
    // It is handed over to another function as JSON.
    let handed_over = serde_json::to_vec(upload).expect("an upload is JSON");
    assert_eq!(&serde_json::from_slice::<Upload>(&handed_over).expect("an upload can be read again"), upload);
}
