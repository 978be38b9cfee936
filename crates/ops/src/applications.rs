//! Where each application keeps its things: its records, its functions and its dead letters.
//!
//! The names are those of production; elsewhere they end in the environment's name. A test compares them with the
//! templates and fails if a table, a queue or a function is not here.

use clap::ValueEnum;
use function::operation::Operations;
use ichido::dynamodb::Table;

/// An application with state on AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Application {
    Slack,
    Github,
    Hatebu,
    /// All feeds of the list together.
    Feeds,
    Tokens,
    Mesh,
}

/// A queue for the events that a function could not handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    pub queue: &'static str,
    pub function: &'static str,
}

/// How a table is restored from a copy that shows an earlier time (docs/restoring.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restoring {
    /// What is missing is added. A record more never repeats an effect.
    Add,
    /// What is missing is added, and marked as doubtful: destinations are asked before anything is posted.
    AddInDoubt,
    /// What is missing is added; if the ledger does not agree with itself then, all of it is made as the copy shows it.
    AddOrReplace,
    /// Not at all: everything in it expires before a restore is done.
    Never,
}

const SLACK: &[Failures] = &[Failures { queue: "slack-files-failures", function: "slack-files" }];
const GITHUB: &[Failures] = &[Failures { queue: "github-subscriber-failures", function: "github-subscriber" }];
const HATEBU: &[Failures] = &[Failures { queue: "hatebu-subscriber-failures", function: "hatebu-subscriber" }];
const FEEDS: &[Failures] = &[Failures { queue: "feeds-subscriber-failures", function: "feeds-subscriber" }];
const MESH: &[Failures] = &[Failures { queue: "mesh-resolver-failures", function: "mesh-resolver" }];

impl Application {
    pub const ALL: [Self; 6] = [Self::Slack, Self::Github, Self::Hatebu, Self::Feeds, Self::Tokens, Self::Mesh];

    pub fn name(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Github => "github",
            Self::Hatebu => "hatebu",
            Self::Feeds => "feeds",
            Self::Tokens => "tokens",
            Self::Mesh => "mesh",
        }
    }

    /// The table that holds its records.
    pub fn table(self) -> &'static str {
        match self {
            Self::Slack => "slack-classify-bot-processed-events",
            Self::Github => "masutaka-feed-github-state",
            Self::Hatebu => "masutaka-feed-hatebu-state",
            Self::Feeds => "feeds-state",
            Self::Tokens => "tokens-ledger",
            Self::Mesh => "MeshV2Table",
        }
    }

    /// Where the records are in that table.
    pub fn records(self, table: &str) -> Table {
        match self {
            Self::Slack => slack::table::records(table),
            Self::Github | Self::Hatebu | Self::Feeds => feeds::table::records(table),
            Self::Tokens => tokens::table::records(table),
            Self::Mesh => mesh::table::records(table),
        }
    }

    /// Where that table keeps what operators did by hand.
    pub(crate) fn operations(self, table: &str) -> Operations {
        match self {
            Self::Slack => slack::table::operations(table),
            Self::Github | Self::Hatebu | Self::Feeds => feeds::table::operations(table),
            Self::Tokens => tokens::table::operations(table),
            Self::Mesh => mesh::table::operations(table),
        }
    }

    /// The application of a function, which is named without the end of the environment.
    pub(crate) fn of_function(function: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|application| application.functions().contains(&function))
    }

    /// The attributes that describe, in one line, an item which is not a record. Only the tables of feeds have such
    /// items where records are looked up.
    pub(crate) fn summary_attributes(self) -> &'static [&'static str] {
        match self {
            Self::Github | Self::Hatebu | Self::Feeds => feeds::table::SUMMARY_ATTRIBUTES,
            Self::Slack | Self::Tokens | Self::Mesh => &[],
        }
    }

    /// The namespace of its keys that have no prefix.
    pub fn unprefixed(self) -> Option<&'static str> {
        match self {
            Self::Slack => Some("events"),
            Self::Github | Self::Hatebu | Self::Feeds | Self::Tokens | Self::Mesh => None,
        }
    }

    pub fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Slack => &["slack-events", "slack-files"],
            Self::Github => &["github-subscriber", "github-notifier"],
            Self::Hatebu => &["hatebu-subscriber", "hatebu-notifier"],
            Self::Feeds => &["feeds-subscriber", "feeds-notifier"],
            Self::Tokens => &["tokens-api"],
            Self::Mesh => &["mesh-resolver"],
        }
    }

    /// Where Lambda puts the events that its functions could not handle, and Scheduler the runs that it could not start.
    pub fn failures(self) -> &'static [Failures] {
        match self {
            Self::Slack => SLACK,
            Self::Github => GITHUB,
            Self::Hatebu => HATEBU,
            Self::Feeds => FEEDS,
            Self::Mesh => MESH,
            Self::Tokens => &[],
        }
    }

    pub fn restoring(self) -> Restoring {
        match self {
            Self::Slack => Restoring::Add,
            Self::Github | Self::Hatebu | Self::Feeds => Restoring::AddInDoubt,
            Self::Tokens => Restoring::AddOrReplace,
            Self::Mesh => Restoring::Never,
        }
    }

    /// The function that lists, resends and drops the dead letters in the application's table
    /// (`{"command": "dead-letters"}`).
    pub fn dead_letter_function(self) -> Option<&'static str> {
        match self {
            Self::Github => Some("github-subscriber"),
            Self::Hatebu => Some("hatebu-subscriber"),
            Self::Feeds => Some("feeds-subscriber"),
            Self::Slack | Self::Tokens | Self::Mesh => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use template::Template;

    use super::*;

    #[test]
    fn every_table_queue_and_function_of_the_templates_is_here() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/templates");
        let (mut tables, mut queues, mut functions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for file in std::fs::read_dir(directory).expect("the templates") {
            let text = std::fs::read_to_string(file.expect("a file").path()).expect("a template");
            let template = Template::read(&text, &BTreeMap::new()).expect("a template");
            tables.extend(template.tables().into_iter().map(|table| table.name));
            queues.extend(template.queues().into_iter().map(|queue| queue.name));
            functions.extend(template.functions().into_iter().map(|function| function.name));
        }
        let all = Application::ALL;
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(tables, owned(all.map(Application::table).to_vec()));
        assert_eq!(queues, owned(all.iter().flat_map(|of| of.failures()).map(|failures| failures.queue).collect()));
        assert_eq!(functions, owned(all.iter().flat_map(|of| of.functions()).copied().collect()));
    }
}
