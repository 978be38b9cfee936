//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Runs all of ichido on one machine: functions, DynamoDB, schedules, the HTTP API, stand-ins for outside services, and a console.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "ichido-local",
    version,
    args_override_self = true,
    after_help = "Set a variable of the functions in the environment: FIRST_RUN=all applies to every function, \
                  GITHUB_SUBSCRIBER__FIRST_RUN=all to github-subscriber only.\n\nExamples:\n  \
                  ichido-local --memory --port 9001          keeps no data and uses another port\n  \
                  ichido-local --retry-scale 1               waits as long as Lambda before retries\n  \
                  FIRST_RUN=last:3 ichido-local --memory --github-feed https://github.com/torvalds.atom\n\n\
                  In a checkout, make dev ARGS=\"--memory\" builds and runs it.\n\
                  It prints its addresses when it starts. crates/local/README.md describes the rest."
)]
pub struct Options {
    /// Port of the console, the HTTP API and the AWS endpoint; 0 takes a free port
    #[arg(long, default_value_t = 8787)]
    pub port: u16,
    /// Port of the DynamoDB endpoint for tools; 0 takes a free port
    #[arg(long, value_name = "PORT", default_value_t = 8788)]
    pub dynamodb_port: u16,
    /// Port that serves the same as --port over TLS; 0 takes a free port
    #[arg(long, value_name = "PORT", default_value_t = 8789)]
    pub tls_port: u16,
    /// Directory for all data; it survives restarts and kill -9
    #[arg(long, value_name = "DIR", default_value = ".ichido")]
    pub data: PathBuf,
    /// Keep all data in memory; it is lost when the process ends
    #[arg(long, conflicts_with = "data")]
    pub memory: bool,
    /// Start without sample data; the sample feeds do not grow
    #[arg(long)]
    pub no_demo: bool,
    /// Read this feed instead of the GitHub sample
    #[arg(long, value_name = "URL")]
    pub github_feed: Option<String>,
    /// Read this feed instead of the Hatena Bookmark sample
    #[arg(long, value_name = "URL")]
    pub hatebu_feed: Option<String>,
    /// Read the feeds of this list too, instead of the sample list; crates/feeds/README.md describes it
    #[arg(long, value_name = "FILE")]
    pub feeds: Option<PathBuf>,
    /// Factor for the 1 and 2 minutes that Lambda waits before it retries an asynchronous invocation
    #[arg(long, value_name = "FACTOR", default_value_t = 0.02, value_parser = scale)]
    pub retry_scale: f64,
    /// Throttle the routes of the HTTP API as API Gateway would, by the templates' defaults
    #[arg(long)]
    pub throttle: bool,
    /// Print every function with its crate and its variables as JSON, then exit
    #[arg(long)]
    pub functions: bool,
    /// Print every log line of the functions
    #[arg(long, short)]
    pub verbose: bool,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale.is_finite() && (0.0..=1.0).contains(&scale) => Ok(scale),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
}

/// Reads the arguments. If the process should end instead, returns the text to print and the exit code.
pub(super) fn read(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Options, (String, u8)> {
    Options::try_parse_from(arguments).map_err(|error| {
        use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
        let text = error.render().to_string();
        match error.kind() {
            DisplayHelp | DisplayVersion => (text, 0),
            _ => {
                let sentence = text.lines().next().unwrap_or_default();
                let sentence = sentence.strip_prefix("error: ").unwrap_or(sentence);
                (format!("ichido-local: {sentence}; see --help\n"), 1)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Result<Options, (String, u8)> {
        read(std::iter::once("ichido-local").chain(arguments.iter().copied()).map(Into::into))
    }

    #[test]
    fn the_defaults_are_the_documented_addresses() {
        let options = of(&[]).expect("defaults");
        assert_eq!((options.port, options.dynamodb_port, options.tls_port), (8787, 8788, 8789));
        assert_eq!(options.data, PathBuf::from(".ichido"));
    }

    #[test]
    fn an_unknown_option_is_one_sentence_and_exit_code_1() {
        let (sentence, code) = of(&["--frobnicate"]).expect_err("unknown");
        assert_eq!(sentence, "ichido-local: unexpected argument '--frobnicate' found; see --help\n");
        assert_eq!(code, 1);
    }

    #[test]
    fn help_is_no_error() {
        let (text, code) = of(&["--help"]).expect_err("help");
        assert!(text.contains("--retry-scale"));
        assert_eq!(code, 0);
    }
}
