//! What the functions call: Lambda, to hand an upload over, and Slack's Web API.

pub mod hand_over;
pub mod web_api;
