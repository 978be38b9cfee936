//! What can be said on the command line.

use std::path::PathBuf;

use clap::Parser;

/// The whole of ichido on one machine: functions, store, schedules, front door, stand-ins and console.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "ichido-local",
    version,
    args_override_self = true,
    after_help = "A variable that functions read applies to all of them (FIRST_RUN=all), with a function's name in front \
                  to that one (GITHUB_SUBSCRIBER__FIRST_RUN=all).\n\nExamples:\n  \
                  make dev ARGS=\"--memory --port 9001\"          nothing is kept, another port\n  \
                  make dev ARGS=\"--retry-scale 1\"               retries as slow as Lambda's\n  \
                  FIRST_RUN=last:3 make dev ARGS=\"--memory --github-feed https://github.com/torvalds.atom\"\n\n\
                  What it serves where is printed at the start; crates/local/README.md has the rest."
)]
pub struct Options {
    /// Port of the console, the front door and the AWS endpoint; 0 takes a free one
    #[arg(long, default_value_t = 8787)]
    pub port: u16,
    /// Port of the DynamoDB endpoint for tools; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8788)]
    pub dynamodb_port: u16,
    /// Port of the same as --port over TLS; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8789)]
    pub tls_port: u16,
    /// Where everything is kept; survives restarts and kill -9
    #[arg(long, value_name = "DIR", default_value = ".ichido")]
    pub data: PathBuf,
    /// Keep nothing: all data is gone when the process ends
    #[arg(long, conflicts_with = "data")]
    pub memory: bool,
    /// No sample data, no sample feeds growing
    #[arg(long)]
    pub no_demo: bool,
    /// Read this feed instead of the sample of GitHub's
    #[arg(long, value_name = "URL")]
    pub github_feed: Option<String>,
    /// Read this feed instead of the sample of Hatena Bookmark's
    #[arg(long, value_name = "URL")]
    pub hatebu_feed: Option<String>,
    /// How long asynchronous retries wait, as a share of Lambda's 1 and 2 minutes
    #[arg(long, value_name = "FACTOR", default_value_t = 0.02, value_parser = scale)]
    pub retry_scale: f64,
    /// Print as JSON every function, its crate and the variables that it reads, and exit
    #[arg(long)]
    pub functions: bool,
    /// Print every log line of the functions
    #[arg(long, short)]
    pub verbose: bool,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale.is_finite() && (0.0..=1.0).contains(&scale) => Ok(scale),
        _ => Err("a number from 0 to 1".to_owned()),
    }
}

/// The options of this process, or the one sentence to say instead, and the exit code.
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
