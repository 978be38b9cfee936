//! What the functions call beside Slack's Web API ([`slack_api`]): Lambda, to hand an upload over.

pub mod hand_over;
