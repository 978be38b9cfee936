//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

/// An AWS AppSync on this machine.
#[derive(Debug, Parser)]
#[command(name = "appsync", version)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a schema and its resolvers at /graphql, and load them again when a file changes
    Serve(Serve),
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The schema, in SDL. Without it the schema of the template is used
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// The CloudFormation template with the API, its data sources, functions and resolvers
    #[arg(long, value_name = "FILE")]
    pub(crate) template: PathBuf,
    /// Where the resolver files are that the template names. By default the directory of the schema, else of the template
    #[arg(long, value_name = "DIR")]
    pub(crate) code: Option<PathBuf>,
    /// A value for a parameter of the template; may be repeated
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) parameters: Vec<(String, String)>,
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 20_002)]
    pub(crate) port: u16,
    /// The API key that callers have to send as x-api-key
    #[arg(long, value_name = "KEY", default_value = "da2-local")]
    pub(crate) api_key: String,
    /// A DynamoDB to use. By default one is embedded, with the tables of the template
    #[arg(long, value_name = "URL", conflicts_with = "data", value_parser = loopback::endpoint)]
    pub(crate) dynamodb: Option<String>,
    /// Also use a DynamoDB that is not on this machine. Every program of every user on this machine can then do with the template's
    /// tables what the resolvers can do with your credentials
    #[arg(long, requires = "dynamodb")]
    pub(crate) allow_remote: bool,
    /// The file in which the embedded DynamoDB keeps its tables. By default they are in memory
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// The Lambda Invoke API that has the template's functions, for example that of `cargo lambda watch`
    #[arg(long, value_name = "URL", value_parser = loopback::endpoint)]
    pub(crate) lambda: Option<String>,
}

impl Serve {
    /// The directory of the resolver files.
    pub(crate) fn code_dir(&self) -> PathBuf {
        if let Some(code) = &self.code {
            return code.clone();
        }
        let beside = self.schema.as_deref().unwrap_or(&self.template);
        match beside.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it must be NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Serve, clap::Error> {
        let all = ["appsync", "serve"].into_iter().chain(arguments.iter().copied());
        Options::try_parse_from(all).map(|Options { command: Command::Serve(serve) }| serve)
    }

    #[test]
    fn resolver_files_are_looked_for_beside_the_schema() {
        let of = |arguments: &[&str]| parse(arguments).unwrap().code_dir();
        assert_eq!(of(&["--template", "t.yaml"]), Path::new("."));
        assert_eq!(of(&["--template", "infra/t.yaml"]), Path::new("infra"));
        assert_eq!(of(&["--template", "infra/t.yaml", "--schema", "api/s.graphql"]), Path::new("api"));
        assert_eq!(of(&["--template", "t.yaml", "--schema", "s.graphql", "--code", "x"]), Path::new("x"));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(parse(&[]).unwrap_err().to_string().contains("--template"));
        let error = parse(&["--template", "t.yaml", "--parameter", "Environment"]).unwrap_err().to_string();
        assert!(error.contains("NAME=VALUE"), "{error}");
        assert!(parse(&["--template", "t.yaml", "--dynamodb", "http://127.0.0.1:1", "--data", "x.db"]).is_err());
        for option in ["--dynamodb", "--lambda"] {
            for text in ["banana", "", "http://", "ftp://127.0.0.1"] {
                let error = parse(&["--template", "t.yaml", option, text]).unwrap_err().to_string();
                assert!(error.contains(option) && error.contains("http:// or https://"), "{option} {text}: {error}");
            }
            assert!(parse(&["--template", "t.yaml", option, "http://127.0.0.1:8000"]).is_ok());
        }
    }
}
