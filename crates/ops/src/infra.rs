//! What an environment is supposed to be: its settings from `infra/environments.ts`, and the templates resolved with them.
//!
//! The templates are compiled into the binary; `make rollout` builds it from the tree that was deployed. The settings come from
//! that tree (`infra/cli/describe.ts` prints them), or from a file. The local platform has no settings and uses the
//! templates' defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use serde_json::Value;
use template::Template;

use crate::context::{Context, Environment, Error, failed};

/// Every template by its name.
pub(crate) const TEMPLATES: [(&str, &str); 6] = [
    ("shared", include_str!("../../../infra/templates/shared.yaml")),
    ("slack", include_str!("../../../infra/templates/slack.yaml")),
    ("feeds", include_str!("../../../infra/templates/feeds.yaml")),
    ("tokens", include_str!("../../../infra/templates/tokens.yaml")),
    ("mesh", include_str!("../../../infra/templates/mesh.yaml")),
    ("sessync", include_str!("../../../infra/templates/sessync.yaml")),
];

/// The settings of an environment that concern its operation.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub name: String,
    pub region: String,
    pub suffix: String,
    pub rollout: Rollout,
    /// By the function's name without the suffix; other functions use the account's pool.
    #[serde(default)]
    pub reserved_concurrency: BTreeMap<String, i32>,
}

/// How a rollout moves traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    pub steps: Vec<u8>,
    pub bake_seconds: u64,
    /// Alarms that every rollout watches, without the environment's suffix.
    pub alarms: Vec<String>,
}

/// What `infra/cli/describe.ts` prints.
#[derive(Deserialize)]
struct Description {
    environment: Settings,
    /// The parameters of each template.
    parameters: BTreeMap<String, BTreeMap<String, Value>>,
}

/// An environment with its templates resolved.
#[derive(Debug)]
pub struct Described {
    pub settings: Settings,
    pub templates: Vec<(&'static str, Template)>,
}

impl Described {
    /// Describes the chosen environment, from `file` or from the source tree.
    pub async fn of(context: &Context<'_>, file: Option<&Path>) -> Result<Self, Error> {
        let text = match (file, context.environment()?) {
            (Some(file), _) => std::fs::read_to_string(file)
                .map_err(|error| failed(format!("could not read {}", file.display()), error))?,
            (None, Environment::Local) if context.suffix()?.is_empty() => return Self::of_local_platform(),
            (None, environment) => ask_tree(environment).await?,
        };
        let described = Self::read(&text)?;
        let Settings { name, region, .. } = &described.settings;
        match context.aws.config().region() {
            Some(there) if there.as_ref() != region => Err(Error::Refused(format!(
                "{name} is in {region}, but the region is set to {there}; set AWS_REGION={region}"
            ))),
            _ => Ok(described),
        }
    }

    /// Reads a description.
    pub fn read(text: &str) -> Result<Self, Error> {
        let description: Description = serde_json::from_str(text).map_err(|error| {
            failed("this is not a description of an environment (infra/cli/describe.ts prints one)", error)
        })?;
        let none = BTreeMap::new();
        let templates = TEMPLATES.iter().map(|(name, text)| {
            let parameters = description.parameters.get(*name).unwrap_or(&none);
            resolve(name, text, parameters).map(|template| (*name, template))
        });
        Ok(Described { templates: templates.collect::<Result<_, _>>()?, settings: description.environment })
    }

    fn of_local_platform() -> Result<Self, Error> {
        let settings = Settings {
            name: "local".to_owned(),
            region: template::REGION.to_owned(),
            suffix: String::new(),
            rollout: Rollout { steps: vec![100], bake_seconds: 0, alarms: Vec::new() },
            reserved_concurrency: BTreeMap::new(),
        };
        Ok(Described { settings, templates: with_suffix("")? })
    }

    /// Whether this is the local platform, which has the names of production.
    pub fn on_local_platform(&self) -> bool {
        self.settings.name == "local" && self.settings.suffix.is_empty()
    }

    /// The deployed names of all functions.
    pub fn functions(&self) -> Vec<String> {
        function_names(&self.templates)
    }
}

/// The templates with no other parameter than the suffix, which is enough for the names of functions.
pub(crate) fn with_suffix(suffix: &str) -> Result<Vec<(&'static str, Template)>, Error> {
    let parameters = BTreeMap::from([("Suffix".to_owned(), Value::from(suffix))]);
    TEMPLATES.iter().map(|(name, text)| resolve(name, text, &parameters).map(|template| (*name, template))).collect()
}

/// The deployed names of all functions.
pub(crate) fn function_names(templates: &[(&str, Template)]) -> Vec<String> {
    templates.iter().flat_map(|(_, template)| template.functions()).map(|function| function.name).collect()
}

/// Whether schedules alone invoke a function. Whatever else invokes it (a route, an API, another function) names its alias `live`.
pub(crate) fn is_only_scheduled(templates: &[(&str, Template)], function: &str) -> bool {
    let live = format!(":function:{function}:live");
    let mut resources = templates.iter().flat_map(|(_, template)| template.resources.values());
    !resources.any(|resource| {
        // Roles name what they may invoke; the resource that uses the role is looked at too.
        !["AWS::Scheduler::Schedule", "AWS::IAM::Role"].contains(&resource.kind.as_str())
            && resource.properties.to_string().contains(&live)
    })
}

fn resolve(name: &str, text: &str, parameters: &BTreeMap<String, Value>) -> Result<Template, Error> {
    Template::read(text, parameters)
        .map_err(|error| failed(format!("could not read infra/templates/{name}.yaml"), error))
}

async fn ask_tree(environment: Environment) -> Result<String, Error> {
    let tree = find_tree().ok_or_else(|| {
        Error::Refused(
            "the settings of environments are in infra/environments.ts; run this in the project's source tree, or name a file with --settings"
                .to_owned(),
        )
    })?;
    let tsx = tree.join("infra/node_modules/.bin/tsx");
    if !tsx.exists() {
        return Err(Error::Refused("infra/node_modules is missing; scripts/setup-infra installs it".to_owned()));
    }
    let output = tokio::process::Command::new(tsx)
        .arg(tree.join("infra/cli/describe.ts"))
        .env("ENV", environment.name())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .await
        .map_err(|error| failed("could not start node", error))?;
    if !output.status.success() {
        return Err(Error::Refused(format!(
            "infra/cli/describe.ts failed ({}); its messages are above",
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The project's source tree: this directory or one above it.
pub(crate) fn find_tree() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().find(|directory| directory.join("infra/environments.ts").exists()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_functions_that_read_feeds_are_invoked_by_schedules_alone() {
        let templates = with_suffix("-dev").unwrap();
        let functions = function_names(&templates);
        let only: Vec<&String> = functions.iter().filter(|name| is_only_scheduled(&templates, name)).collect();
        assert_eq!(only, ["feeds-subscriber-dev", "github-subscriber-dev", "hatebu-subscriber-dev"]);
    }

    #[test]
    fn every_template_is_in_the_binary() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/templates");
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
        let mut known: Vec<String> = TEMPLATES.iter().map(|(name, _)| format!("{name}.yaml")).collect();
        files.sort();
        known.sort();
        assert_eq!(files, known);
    }
}
