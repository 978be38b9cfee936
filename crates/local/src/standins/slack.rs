//! Slack's Web API: `chat.postMessage`, `chat.getPermalink`, `conversations.replies`, `conversations.history`, `files.info`, the
//! upload of a file (`files.getUploadURLExternal`, `files.completeUploadExternal`) and its download, `auth.test`.
//!
//! Statuses, headers and errors are those of Slack. Almost every answer has status 200 and says `ok` in its body; a rate limit
//! has status 429 and `Retry-After`. A caller gets the metadata of messages only if it asks for it. A download without the right
//! token is no error, but a page for signing in.
//!
//! Events name files that nobody has uploaded here. Such a file has a content of its own, made of its id.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use function::BoxFuture;
use serde_json::{Value, json};

use crate::standins::{Answer, Request, StandIn};
use crate::world::outbox::Entry;

/// The most messages that one call returns.
const PAGE: usize = 1_000;
/// The longest text, in bytes.
const MAX_TEXT: usize = 40_000;

/// How many uploaded files are kept, and the largest one. They are in memory only.
const MAX_FILES: usize = 100;
const MAX_FILE_BYTES: usize = 1_000_000;
/// The size of a file that nobody has uploaded.
const MADE_UP_BYTES: usize = 1_024;

/// The stand-in.
#[derive(Debug)]
pub struct Slack {
    token: String,
    bot_id: String,
    bot_user: String,
    /// Held while a request is answered; never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Messages by channel and timestamp.
    channels: BTreeMap<String, BTreeMap<String, Value>>,
    /// The last timestamp that was given, in microseconds. Timestamps are unique in Slack.
    last_us: u64,
    /// Uploaded files by their ids.
    files: BTreeMap<String, File>,
}

#[derive(Debug, Clone)]
struct File {
    name: String,
    content: Bytes,
    /// Until then nobody can see it.
    completed: bool,
}

impl File {
    fn made_up(id: &str) -> Self {
        let content: Vec<u8> = id.bytes().cycle().take(MADE_UP_BYTES).collect();
        Self { name: format!("{id}.txt"), content: content.into(), completed: true }
    }

    fn mimetype(&self) -> &'static str {
        match self.name.rsplit_once('.').map_or("", |(_, end)| end) {
            "html" => "text/html",
            "pdf" => "application/pdf",
            "png" => "image/png",
            "txt" => "text/plain",
            _ => "application/octet-stream",
        }
    }
}

impl Slack {
    /// A workspace whose bot has this token.
    pub fn new(token: impl Into<String>, bot_id: impl Into<String>, bot_user: impl Into<String>) -> Self {
        Self { token: token.into(), bot_id: bot_id.into(), bot_user: bot_user.into(), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        telemetry::lock(&self.state)
    }

    fn post(&self, request: &Request) -> Answer {
        let Some(channel) = request.parameter("channel").filter(|channel| !channel.is_empty()) else {
            return refused("channel_not_found");
        };
        let text = request.parameter("text").unwrap_or_default();
        if text.is_empty() && request.body["blocks"].is_null() && request.body["attachments"].is_null() {
            return refused("no_text");
        }
        if text.len() > MAX_TEXT {
            return refused("msg_too_long");
        }
        let metadata = match &request.body["metadata"] {
            // In a form it is JSON in a string.
            Value::String(text) => match serde_json::from_str(text) {
                Ok(metadata) => metadata,
                Err(_) => return refused("invalid_metadata_format"),
            },
            other => other.clone(),
        };
        if !metadata.is_null() && (metadata["event_type"].as_str().is_none() || !metadata["event_payload"].is_object())
        {
            return refused("invalid_metadata_schema");
        }
        let mut state = self.lock();
        // A reply is always younger than the message that it replies to, also if a test has made up that message's time.
        let thread = request.parameter("thread_ts").and_then(|ts| ts.replace('.', "").parse::<u64>().ok());
        let after_thread = thread.filter(|us| *us < (request.now_ms + 60_000) * 1_000).map_or(0, |us| us + 1);
        state.last_us = (request.now_ms * 1_000).max(state.last_us + 1).max(after_thread);
        let ts = format!("{}.{:06}", state.last_us / 1_000_000, state.last_us % 1_000_000);
        let mut message = json!({
            "type": "message", "subtype": "bot_message", "text": text, "ts": ts,
            "user": self.bot_user, "bot_id": self.bot_id,
        });
        if let Some(thread) = request.parameter("thread_ts") {
            message["thread_ts"] = Value::from(thread);
        }
        if !metadata.is_null() {
            message["metadata"] = metadata;
        }
        state.channels.entry(channel.clone()).or_default().insert(ts.clone(), message.clone());
        let mut shown = message.clone();
        if let Some(members) = shown.as_object_mut() {
            members.remove("metadata");
        }
        Answer::json(200, json!({"ok": true, "channel": channel, "ts": ts, "message": shown}))
            .with_effect(json!({"channel": channel, "message": message}))
    }

    fn replies(&self, request: &Request) -> Answer {
        let (Some(channel), Some(thread)) = (request.parameter("channel"), request.parameter("ts")) else {
            return refused("invalid_arguments");
        };
        let all_metadata =
            request.parameter("include_all_metadata").is_some_and(|asked| asked == "true" || asked == "1");
        let limit = request.parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(PAGE).clamp(1, PAGE);
        let after = request.parameter("cursor").filter(|cursor| !cursor.is_empty());
        let oldest = request.parameter("oldest").unwrap_or_default();
        let state = self.lock();
        let messages = state.channels.get(&channel).into_iter().flatten().map(|(_, message)| message);
        let in_thread =
            messages.filter(|message| message["thread_ts"] == thread.as_str() || message["ts"] == thread.as_str());
        let newer = |message: &&Value| {
            let ts = message["ts"].as_str().unwrap_or_default();
            ts >= oldest.as_str() && after.as_deref().is_none_or(|after| ts > after)
        };
        let mut page: Vec<Value> = in_thread.filter(newer).take(limit + 1).cloned().collect();
        let more = page.len() > limit;
        page.truncate(limit);
        let last = page.last().and_then(|message| message["ts"].as_str()).unwrap_or_default().to_owned();
        for message in &mut page {
            if !all_metadata && let Some(members) = message.as_object_mut() {
                members.remove("metadata");
            }
        }
        // The first message of the thread is the upload itself, which the stand-in never received.
        if after.is_none() && !page.iter().any(|message| message["ts"] == thread.as_str()) {
            page.insert(
                0,
                json!({"type": "message", "text": "", "ts": thread, "thread_ts": thread, "user": "U0LOCAL"}),
            );
        }
        let mut body = json!({"ok": true, "messages": page, "has_more": more});
        if more {
            body["response_metadata"] = json!({"next_cursor": last});
        }
        Answer::json(200, body)
    }

    /// The messages of a channel that are in no thread, newest first.
    fn history(&self, request: &Request) -> Answer {
        let Some(channel) = request.parameter("channel") else { return refused("invalid_arguments") };
        let all_metadata =
            request.parameter("include_all_metadata").is_some_and(|asked| asked == "true" || asked == "1");
        let limit = request.parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(100).clamp(1, PAGE);
        let before = request.parameter("cursor").filter(|cursor| !cursor.is_empty());
        let oldest = request.parameter("oldest").unwrap_or_default();
        let state = self.lock();
        let messages = state.channels.get(&channel).into_iter().flatten().rev().map(|(_, message)| message);
        let wanted = messages.filter(|message| {
            let ts = message["ts"].as_str().unwrap_or_default();
            message["thread_ts"].is_null()
                && ts >= oldest.as_str()
                && before.as_deref().is_none_or(|before| ts < before)
        });
        let mut page: Vec<Value> = wanted.take(limit + 1).cloned().collect();
        let more = page.len() > limit;
        page.truncate(limit);
        let last = page.last().and_then(|message| message["ts"].as_str()).unwrap_or_default().to_owned();
        for message in &mut page {
            if !all_metadata && let Some(members) = message.as_object_mut() {
                members.remove("metadata");
            }
        }
        let mut body = json!({"ok": true, "messages": page, "has_more": more});
        if more {
            body["response_metadata"] = json!({"next_cursor": last});
        }
        Answer::json(200, body)
    }

    /// The address of a message. Messages of users never came here, so each timestamp of the right form is one.
    fn permalink(&self, request: &Request) -> Answer {
        let Some(channel) = request.parameter("channel").filter(|channel| !channel.is_empty()) else {
            return refused("channel_not_found");
        };
        let ts = request.parameter("message_ts").unwrap_or_default();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !ts.split_once('.').is_some_and(|(seconds, micros)| is_number(seconds) && is_number(micros)) {
            return refused("message_not_found");
        }
        let mut permalink = format!("https://local.slack.com/archives/{channel}/p{}", ts.replace('.', ""));
        let state = self.lock();
        let message = state.channels.get(&channel).and_then(|messages| messages.get(&ts));
        if let Some(thread) = message.and_then(|message| message["thread_ts"].as_str()) {
            permalink.push_str(&format!("?thread_ts={thread}&cid={channel}"));
        }
        Answer::json(200, json!({"ok": true, "channel": channel, "permalink": permalink}))
    }

    /// What can be seen of a file.
    fn visible(&self, id: &str) -> Option<File> {
        match self.lock().files.get(id) {
            Some(file) => file.completed.then(|| file.clone()),
            None => id.starts_with('F').then(|| File::made_up(id)),
        }
    }

    fn file(&self, request: &Request) -> Answer {
        let id = request.parameter("file").unwrap_or_default();
        let Some(file) = self.visible(&id) else { return refused("file_not_found") };
        Answer::json(200, json!({"ok": true, "file": about(&id, &file, request)}))
    }

    /// Begins an upload. Its content is then sent to the address that this returns.
    fn begin_upload(&self, request: &Request) -> Answer {
        let length = request.parameter("length").and_then(|length| length.parse::<usize>().ok());
        let (Some(name), Some(length)) = (request.parameter("filename"), length) else {
            return refused("invalid_arguments");
        };
        if length > MAX_FILE_BYTES {
            return refused("file_upload_size_restricted");
        }
        let id = format!("F{}", &uuid::Uuid::new_v4().simple().to_string().to_uppercase()[..10]);
        let mut state = self.lock();
        if state.files.len() >= MAX_FILES {
            state.files.pop_first();
        }
        state.files.insert(id.clone(), File { name, content: Bytes::new(), completed: false });
        let upload_url = format!("{}/upload/v1/{id}", own_address(request));
        Answer::json(200, json!({"ok": true, "upload_url": upload_url, "file_id": id}))
    }

    /// Takes the content of an upload. The address is secret, so it needs no token.
    fn upload(&self, id: &str, request: &Request) -> Answer {
        let mut state = self.lock();
        match state.files.get_mut(id).filter(|file| !file.completed) {
            Some(file) if request.raw.len() <= MAX_FILE_BYTES => {
                file.content = request.raw.clone();
                Answer::of(200, "text/plain", format!("OK - {}", file.content.len()))
            }
            Some(_) => Answer::of(413, "text/plain", "too large"),
            None => Answer::of(404, "text/plain", "there is no such upload"),
        }
    }

    fn complete_upload(&self, request: &Request) -> Answer {
        let files = match &request.body["files"] {
            // In a form it is JSON in a string.
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            other => other.clone(),
        };
        let ids: Vec<&str> = files.as_array().into_iter().flatten().filter_map(|file| file["id"].as_str()).collect();
        if ids.is_empty() {
            return refused("invalid_arguments");
        }
        let mut state = self.lock();
        if !ids.iter().all(|id| state.files.contains_key(*id)) {
            return refused("file_not_found");
        }
        for id in &ids {
            if let Some(file) = state.files.get_mut(*id) {
                file.completed = true;
            }
        }
        let files: Vec<Value> = ids.iter().map(|id| about(id, &state.files[*id], request)).collect();
        Answer::json(200, json!({"ok": true, "files": files}))
    }

    /// `T0LOCAL-F1/download/report.pdf`. Whoever may not read it gets a page.
    fn download(&self, path: &str, request: &Request) -> Answer {
        match request.bearer() {
            None => {
                return Answer::of(302, "text/html", "<a href=\"/\">Found</a>.")
                    .header("location", "https://local.slack.com/");
            }
            Some(token) if token != self.token => {
                return Answer::of(
                    200,
                    "text/html; charset=utf-8",
                    "<!DOCTYPE html><html><body>Sign in to Slack</body></html>",
                );
            }
            Some(_) => {}
        }
        let id = path.split('/').next().and_then(|of| of.strip_prefix("T0LOCAL-")).unwrap_or_default();
        match self.visible(id) {
            Some(file) => Answer::of(200, file.mimetype(), file.content),
            None => Answer::of(404, "text/html", "<html>not found</html>"),
        }
    }
}

impl StandIn for Slack {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn asks_for_effect(&self, request: &Request) -> bool {
        request.path == "/api/chat.postMessage"
    }

    fn answer(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            if let Some(path) = request.path.strip_prefix("/files-pri/") {
                return self.download(path, &request);
            }
            if let Some(id) = request.path.strip_prefix("/upload/v1/") {
                return self.upload(id, &request);
            }
            let token = request.bearer().map(str::to_owned).or_else(|| request.parameter("token"));
            let answer = match token {
                None => refused("not_authed"),
                Some(token) if token != self.token => refused("invalid_auth"),
                Some(_) => match request.path.as_str() {
                    "/api/chat.postMessage" => self.post(&request),
                    "/api/chat.getPermalink" => self.permalink(&request),
                    "/api/conversations.replies" => self.replies(&request),
                    "/api/conversations.history" => self.history(&request),
                    "/api/files.info" => self.file(&request),
                    "/api/files.getUploadURLExternal" => self.begin_upload(&request),
                    "/api/files.completeUploadExternal" => self.complete_upload(&request),
                    "/api/auth.test" => Answer::json(
                        200,
                        json!({"ok": true, "team_id": "T0LOCAL", "user_id": self.bot_user, "bot_id": self.bot_id}),
                    ),
                    _ => refused("unknown_method"),
                },
            };
            answer.header("x-slack-req-id", uuid::Uuid::new_v4().simple().to_string())
        })
    }

    fn refusal(&self, status: u16) -> Answer {
        match status {
            429 => Answer::json(429, json!({"ok": false, "error": "ratelimited"})).header("retry-after", "1"),
            200 => refused("internal_error"),
            _ => Answer::of(status, "text/html", "<html>upstream error</html>"),
        }
    }

    fn restore(&self, accepted: &[Entry]) {
        let mut state = self.lock();
        for entry in accepted {
            let message = &entry.note["message"];
            if let (Some(channel), Some(ts)) = (entry.note["channel"].as_str(), message["ts"].as_str()) {
                let us = ts.replace('.', "").parse().unwrap_or(0);
                state.last_us = state.last_us.max(us);
                state.channels.entry(channel.to_owned()).or_default().insert(ts.to_owned(), message.clone());
            }
        }
    }
}

/// Where this stand-in is, as its caller knows it.
fn own_address(request: &Request) -> String {
    format!("http://{}/standins/slack", request.header("host").unwrap_or("127.0.0.1"))
}

/// A file as `files.info` describes it.
fn about(id: &str, file: &File, request: &Request) -> Value {
    let name: String = url::form_urlencoded::byte_serialize(file.name.as_bytes()).collect();
    let address = format!("{}/files-pri/T0LOCAL-{id}", own_address(request));
    json!({
        "id": id, "name": file.name, "title": file.name, "mimetype": file.mimetype(), "size": file.content.len(),
        "mode": "hosted", "is_external": false, "user": "U0LOCAL", "channels": [],
        "url_private": format!("{address}/{name}"), "url_private_download": format!("{address}/download/{name}"),
    })
}

/// An error of Slack: status 200, with the error in the body.
fn refused(error: &str) -> Answer {
    Answer::json(200, json!({"ok": false, "error": error}))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;

    fn request(path: &str, body: Value) -> Request {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer token".parse().expect("a header"));
        Request {
            method: Method::POST,
            path: path.to_owned(),
            query: Vec::new(),
            headers,
            raw: body.to_string().into(),
            body,
            now_ms: 1_700_000_000_000,
        }
    }

    async fn ask(slack: &Slack, path: &str, body: Value) -> (Answer, Value) {
        let answer = slack.answer(request(path, body)).await;
        let body = serde_json::from_slice(&answer.body).expect("JSON");
        (answer, body)
    }

    fn slack() -> Slack {
        Slack::new("token", "B1", "U1")
    }

    #[tokio::test]
    async fn a_reply_is_found_in_its_thread_with_its_metadata_by_those_who_ask_for_it() {
        let slack = slack();
        let metadata = json!({"event_type": "ichido", "event_payload": {"key": "k"}});
        let post = json!({"channel": "C1", "text": "got it", "thread_ts": "1.000001", "metadata": metadata});
        let (answer, posted) = ask(&slack, "/api/chat.postMessage", post).await;
        assert!(answer.effect.is_some() && posted["ok"] == true);
        let asked = json!({"channel": "C1", "ts": "1.000001", "include_all_metadata": true});
        let (_, with) = ask(&slack, "/api/conversations.replies", asked).await;
        assert_eq!(with["messages"][1]["metadata"], metadata);
        let (_, without) = ask(&slack, "/api/conversations.replies", json!({"channel": "C1", "ts": "1.000001"})).await;
        assert_eq!(without["messages"][1].get("metadata"), None);
        let (_, other) = ask(&slack, "/api/conversations.replies", json!({"channel": "C1", "ts": "2.000000"})).await;
        assert_eq!(other["messages"].as_array().map(Vec::len), Some(1), "only the thread's own first message");
    }

    #[tokio::test]
    async fn a_channel_shows_its_messages_newest_first_page_by_page() {
        let slack = slack();
        for n in 0..3 {
            let metadata = json!({"event_type": "ichido", "event_payload": {"key": n}});
            ask(&slack, "/api/chat.postMessage", json!({"channel": "C1", "text": "t", "metadata": metadata})).await;
        }
        ask(&slack, "/api/chat.postMessage", json!({"channel": "C1", "text": "in a thread", "thread_ts": "1.0"})).await;
        let asked = json!({"channel": "C1", "limit": "2", "include_all_metadata": "true"});
        let (_, page) = ask(&slack, "/api/conversations.history", asked).await;
        let key = |page: &Value, n: usize| page["messages"][n]["metadata"]["event_payload"]["key"].clone();
        assert_eq!((key(&page, 0), key(&page, 1)), (json!(2), json!(1)));
        let cursor = page["response_metadata"]["next_cursor"].clone();
        let (_, rest) = ask(&slack, "/api/conversations.history", json!({"channel": "C1", "cursor": cursor})).await;
        assert_eq!(
            (rest["messages"].as_array().map(Vec::len), &rest["messages"][0]["metadata"]),
            (Some(1), &Value::Null)
        );
    }

    #[tokio::test]
    async fn what_is_wrong_is_a_200_that_says_so_and_has_no_effect() {
        let slack = slack();
        for (path, body, error) in [
            ("/api/chat.postMessage", json!({"text": "x"}), "channel_not_found"),
            ("/api/chat.postMessage", json!({"channel": "C1"}), "no_text"),
            ("/api/files.info", json!({"file": "nothing"}), "file_not_found"),
            ("/api/files.getUploadURLExternal", json!({"filename": "a.txt"}), "invalid_arguments"),
            (
                "/api/files.getUploadURLExternal",
                json!({"filename": "a", "length": 2_000_000}),
                "file_upload_size_restricted",
            ),
            ("/api/files.completeUploadExternal", json!({"files": [{"id": "F0"}]}), "file_not_found"),
            ("/api/chat.getPermalink", json!({"message_ts": "1.000001"}), "channel_not_found"),
            ("/api/chat.getPermalink", json!({"channel": "C1", "message_ts": "soon"}), "message_not_found"),
            ("/api/nonsense", json!({}), "unknown_method"),
        ] {
            let (answer, body) = ask(&slack, path, body).await;
            assert_eq!((answer.status, answer.effect, &body["error"]), (200, None, &json!(error)));
        }
        let mut foreign = request("/api/chat.postMessage", json!({"channel": "C1", "text": "x"}));
        foreign.headers.insert("authorization", "Bearer other".parse().expect("a header"));
        let answer = slack.answer(foreign).await;
        assert!(String::from_utf8_lossy(&answer.body).contains("invalid_auth"));
    }

    fn download_path(info: &Value) -> String {
        let address = info["url_private_download"].as_str().expect("an address");
        address.split_once("/standins/slack").expect("an address of this stand-in").1.to_owned()
    }

    #[tokio::test]
    async fn a_file_is_uploaded_as_to_slack_and_read_only_with_the_token() {
        let slack = slack();
        let asked = json!({"filename": "a b.pdf", "length": 3});
        let (_, begun) = ask(&slack, "/api/files.getUploadURLExternal", asked).await;
        let id = begun["file_id"].as_str().expect("an id");
        let mut content = request(&format!("/upload/v1/{id}"), Value::Null);
        content.raw = "abc".into();
        assert_eq!(slack.answer(content.clone()).await.status, 200);
        let (_, hidden) = ask(&slack, "/api/files.info", json!({"file": id})).await;
        assert_eq!(hidden["error"], "file_not_found", "until it is completed");
        ask(&slack, "/api/files.completeUploadExternal", json!({"files": [{"id": id, "title": "a"}]})).await;
        assert_eq!(slack.answer(content).await.status, 404, "completed once");
        let (_, info) = ask(&slack, "/api/files.info", json!({"file": id})).await;
        assert_eq!((&info["file"]["size"], &info["file"]["mimetype"]), (&json!(3), &json!("application/pdf")));
        let mut download = request(&download_path(&info["file"]), Value::Null);
        let answer = slack.answer(download.clone()).await;
        assert_eq!((answer.status, answer.content_type, &answer.body[..]), (200, "application/pdf", &b"abc"[..]));
        download.headers.insert("authorization", "Bearer other".parse().expect("a header"));
        let page = slack.answer(download.clone()).await;
        assert_eq!((page.status, page.content_type), (200, "text/html; charset=utf-8"));
        download.headers.remove("authorization");
        assert_eq!(slack.answer(download).await.status, 302);
    }

    #[tokio::test]
    async fn a_file_that_nobody_uploaded_has_the_size_that_is_told_and_a_content_of_its_own() {
        let slack = slack();
        let mut contents = Vec::new();
        for id in ["F1", "F2"] {
            let (_, info) = ask(&slack, "/api/files.info", json!({"file": id})).await;
            let content = slack.answer(request(&download_path(&info["file"]), Value::Null)).await.body;
            assert_eq!(info["file"]["size"], content.len());
            contents.push(content);
        }
        assert_ne!(contents[0], contents[1]);
    }

    #[tokio::test]
    async fn a_message_has_an_address_and_one_in_a_thread_names_the_thread() {
        let slack = slack();
        let asked = json!({"channel": "C1", "message_ts": "1700000000.000100"});
        let (_, answer) = ask(&slack, "/api/chat.getPermalink", asked).await;
        assert_eq!(answer["permalink"], "https://local.slack.com/archives/C1/p1700000000000100");
        let post = json!({"channel": "C1", "text": "t", "thread_ts": "1.000001"});
        let (_, posted) = ask(&slack, "/api/chat.postMessage", post).await;
        let (_, answer) =
            ask(&slack, "/api/chat.getPermalink", json!({"channel": "C1", "message_ts": posted["ts"]})).await;
        assert!(answer["permalink"].as_str().is_some_and(|address| address.ends_with("?thread_ts=1.000001&cid=C1")));
    }

    #[tokio::test]
    async fn a_thread_is_read_page_by_page_and_survives_a_restart() {
        let (first, second) = (slack(), slack());
        let mut accepted = Vec::new();
        for id in 0..5_u64 {
            let post = json!({"channel": "C1", "text": format!("{id}"), "thread_ts": "1.000001"});
            let (answer, _) = ask(&first, "/api/chat.postMessage", post.clone()).await;
            accepted.push(Entry {
                id,
                at: String::new(),
                sink: "slack".into(),
                path: "/api/chat.postMessage".into(),
                request: post,
                status: 200,
                accepted: true,
                note: answer.effect.expect("an effect"),
            });
        }
        second.restore(&accepted);
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        for _ in 0..4 {
            let asked = json!({"channel": "C1", "ts": "1.000001", "limit": 2, "cursor": cursor});
            let (_, page) = ask(&second, "/api/conversations.replies", asked).await;
            let texts = page["messages"].as_array().expect("messages").iter().map(|message| message["text"].clone());
            seen.extend(texts.filter(|text| text != ""));
            cursor = page["response_metadata"]["next_cursor"].as_str().unwrap_or_default().to_owned();
            if page["has_more"] == false {
                break;
            }
        }
        assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    }
}
