//! Changes of schedules.

use aws_sdk_scheduler::Client;
use aws_sdk_scheduler::operation::get_schedule::GetScheduleOutput;
use aws_sdk_scheduler::operation::update_schedule::builders::UpdateScheduleFluentBuilder;

/// An update that changes nothing yet. An update replaces the whole schedule, so it begins with everything that is there.
pub(crate) fn unchanged(client: &Client, there: &GetScheduleOutput) -> UpdateScheduleFluentBuilder {
    client
        .update_schedule()
        .set_name(there.name.clone())
        .set_group_name(there.group_name.clone())
        .set_schedule_expression(there.schedule_expression.clone())
        .set_schedule_expression_timezone(there.schedule_expression_timezone.clone())
        .set_start_date(there.start_date)
        .set_end_date(there.end_date)
        .set_description(there.description.clone())
        .set_state(there.state.clone())
        .set_kms_key_arn(there.kms_key_arn.clone())
        .set_target(there.target.clone())
        .set_flexible_time_window(there.flexible_time_window.clone())
        .set_action_after_completion(there.action_after_completion.clone())
}
