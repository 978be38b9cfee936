//! What the functions call: Lambda, to hand an upload over, and Slack's Web API ([`slack_api`]) within its rate limits.

pub mod hand_over;
pub mod paced;
