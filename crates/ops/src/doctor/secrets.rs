//! Whether the secrets that the templates name are there and encrypted.
//!
//! Promise: no value is read. SSM and Secrets Manager are asked for descriptions, which hold none.

use std::collections::BTreeSet;

use aws_sdk_secretsmanager::operation::describe_secret::DescribeSecretOutput;
use function::aws::SECRETS_MANAGER;
use template::Template;

use super::Finding;
use crate::outside::error::message;
use crate::outside::parameters::{ENCRYPTED, NAMES_PER_FILTER, Parameters};

/// One finding per secret that the template names.
pub(super) async fn secret_findings(
    parameters: &Parameters,
    manager: &aws_sdk_secretsmanager::Client,
    template: &Template,
) -> Vec<Finding> {
    let names: BTreeSet<&str> = template
        .parameters
        .iter()
        .filter(|(parameter, _)| parameter.ends_with("Parameter"))
        .filter_map(|(_, name)| name.as_str())
        .collect();
    let (managed, stored): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| name.starts_with(SECRETS_MANAGER));
    let mut found = Vec::new();
    for some in stored.chunks(NAMES_PER_FILTER) {
        let types = parameters.types(some).await;
        found.extend(some.iter().map(|name| match &types {
            Ok(types) => parameter_finding(name, types.get(*name).map(String::as_str)),
            Err(error) => Finding::wrong("secret", *name, message(error)),
        }));
    }
    for name in managed {
        let id = name.strip_prefix(SECRETS_MANAGER).unwrap_or(name);
        found.push(match manager.describe_secret().secret_id(id).send().await {
            Ok(answer) => managed_finding(name, Some(&answer)),
            Err(error) if error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception()) => {
                managed_finding(name, None)
            }
            Err(error) => Finding::wrong("secret", name, message(&error)),
        });
    }
    found
}

fn parameter_finding(name: &str, kind: Option<&str>) -> Finding {
    match kind {
        None => Finding::wrong("secret", name, "it does not exist; `make secrets` sets it"),
        Some(ENCRYPTED) => Finding::well("secret", name),
        Some(kind) => Finding::wrong(
            "secret",
            name,
            format!("it is stored in plain text, as a {kind}; set it again with `make secrets`"),
        ),
    }
}

/// Secrets Manager encrypts every secret. One that is scheduled for deletion can no longer be read.
fn managed_finding(name: &str, described: Option<&DescribeSecretOutput>) -> Finding {
    match described {
        None => Finding::wrong("secret", name, "Secrets Manager has no secret of this name; create it there"),
        Some(there) if there.deleted_date().is_some() => {
            Finding::wrong("secret", name, "it is scheduled for deletion; `aws secretsmanager restore-secret` keeps it")
        }
        Some(_) => Finding::well("secret", name),
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_types::DateTime;

    use super::*;

    #[test]
    fn a_parameter_is_well_only_if_it_exists_and_is_encrypted() {
        let finding = |kind: Option<&str>| parameter_finding("/ichido/prod/slack/bot-token", kind);
        assert!(finding(Some("SecureString")).ok);
        assert!(!finding(None).ok);
        let plain = finding(Some("String"));
        assert!(!plain.ok && plain.notes[0].contains("in plain text, as a String"), "{plain:?}");
    }

    #[test]
    fn a_secret_of_secrets_manager_is_well_only_if_it_exists_and_stays() {
        let name = "/aws/reference/secretsmanager/ichido/prod/slack-bot";
        let there = DescribeSecretOutput::builder().name("ichido/prod/slack-bot");
        let leaving = there.clone().deleted_date(DateTime::from_secs(1_800_000_000));
        assert!(managed_finding(name, Some(&there.build())).ok);
        assert!(!managed_finding(name, None).ok);
        let leaving = managed_finding(name, Some(&leaving.build()));
        assert!(!leaving.ok && leaving.notes[0].contains("scheduled for deletion"), "{leaving:?}");
    }
}
