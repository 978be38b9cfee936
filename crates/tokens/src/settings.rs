//! Every variable that the function reads, typed. One error names everything that is missing or wrong.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use function::Env;
use function::env;

use crate::amount::{self, Amount, Rate};
use crate::identity::did::Did;
use crate::identity::jwt::Expectations;
use crate::ledger::MAX_SHARDS;

/// Every variable that the function reads.
pub const VARIABLES: &[&str] = &[
    "TOKENS_TABLE_NAME",
    "JWT_ISSUER",
    "JWT_AUDIENCE",
    "JWT_KEYS_PARAMETER",
    "TREASURY_DID",
    "TREASURY_SHARDS",
    "TAX_RATE",
    "TRANSFER_LIMIT",
    "DAILY_LIMIT",
    "INITIAL_GRANT",
    "IDEMPOTENCY_WINDOW",
];

/// The shortest time for which an idempotency record is kept. Clients repeat requests for hours.
pub(crate) const SHORTEST_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// How long it is kept by default.
pub(crate) const DEFAULT_WINDOW: Window = Window::For(Duration::from_secs(7 * 24 * 60 * 60));

/// What may move, what it costs, and how new accounts begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The DID of the treasury.
    pub treasury: Did,
    /// Over how many items its balance is spread.
    pub treasury_shards: u8,
    pub tax_rate: Rate,
    /// The most that one transfer may move.
    pub transfer_limit: Amount,
    /// The most that one sender may send on one UTC day.
    pub daily_limit: Amount,
    /// What a new account begins with.
    pub initial_grant: Amount,
    /// How long a key is remembered.
    pub window: Window,
}

/// How long an idempotency record is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    For(Duration),
    Never,
}

/// Why a text is not a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it must be a number of days or hours from 24h to 36500d, such as 7d, or `never`")]
pub struct WindowError;

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        /// A century. Whoever wants more can say `never`.
        const LONGEST_DAYS: u64 = 36_500;
        const HOUR: u64 = 60 * 60;
        if text == "never" {
            return Ok(Window::Never);
        }
        let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(WindowError)?;
        let seconds = match unit {
            "d" => 24 * HOUR,
            "h" => HOUR,
            _ => return Err(WindowError),
        };
        let number: u64 = number.parse().map_err(|_| WindowError)?;
        let window = Duration::from_secs(number.checked_mul(seconds).ok_or(WindowError)?);
        if window < SHORTEST_WINDOW || window.as_secs() > LONGEST_DAYS * 24 * HOUR {
            Err(WindowError)
        } else {
            Ok(Window::For(window))
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::For(window) => write!(f, "{}h", window.as_secs() / 3600),
            Window::Never => f.write_str("never"),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        let treasury = "did:ichido:treasury".parse();
        #[expect(clippy::expect_used, reason = "a constant that every test uses")]
        let treasury = treasury.expect("the treasury's default name is a DID");
        Rules {
            treasury,
            treasury_shards: 8,
            tax_rate: Rate::default(),
            transfer_limit: Amount::from_units(100_000 * amount::UNITS),
            daily_limit: Amount::from_units(1_000_000 * amount::UNITS),
            initial_grant: Amount::from_units(1_000 * amount::UNITS),
            window: DEFAULT_WINDOW,
        }
    }
}

/// Everything that the function reads from its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub table_name: String,
    pub rules: Rules,
    pub expectations: Expectations,
    /// The name of the parameter that holds the issuers' public keys (JWKS).
    pub keys_parameter: String,
}

impl Settings {
    pub fn read(env: &Env) -> Result<Self, env::Error> {
        let mut vars = env.reader();
        let defaults = Rules::default();
        let table_name = vars.required("TOKENS_TABLE_NAME");
        let issuer = vars.required("JWT_ISSUER");
        let audience = vars.required("JWT_AUDIENCE");
        let keys_parameter = vars.required("JWT_KEYS_PARAMETER");
        let rules = Rules {
            treasury: vars.parsed("TREASURY_DID", defaults.treasury),
            treasury_shards: vars.parsed("TREASURY_SHARDS", defaults.treasury_shards),
            tax_rate: vars.parsed("TAX_RATE", defaults.tax_rate),
            transfer_limit: vars.parsed("TRANSFER_LIMIT", defaults.transfer_limit),
            daily_limit: vars.parsed("DAILY_LIMIT", defaults.daily_limit),
            initial_grant: vars.parsed("INITIAL_GRANT", defaults.initial_grant),
            window: vars.parsed("IDEMPOTENCY_WINDOW", defaults.window),
        };
        if !(1..=MAX_SHARDS).contains(&rules.treasury_shards) {
            vars.invalid("TREASURY_SHARDS", format_args!("it must be from 1 to {MAX_SHARDS}"));
        }
        vars.finish()?;
        Ok(Settings { table_name, rules, expectations: Expectations { issuer, audience }, keys_parameter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_from_a_day_to_never() {
        assert_eq!("7d".parse(), Ok(DEFAULT_WINDOW));
        assert_eq!("24h".parse(), Ok(Window::For(SHORTEST_WINDOW)));
        assert_eq!("never".parse(), Ok(Window::Never));
        for text in ["", "d", "23h", "0d", "7", "7w", "-1d", "1.5d", "99999999999999999999d", "40000d", "é"] {
            assert_eq!(text.parse::<Window>(), Err(WindowError), "{text}");
        }
    }

    #[test]
    fn everything_wrong_is_named_at_once() {
        let env: Env = [
            ("JWT_ISSUER", "https://issuer.example"),
            ("TAX_RATE", "2"),
            ("TREASURY_SHARDS", "17"),
            ("IDEMPOTENCY_WINDOW", "1h"),
        ]
        .into_iter()
        .collect();
        let error = Settings::read(&env).unwrap_err().to_string();
        for name in [
            "TOKENS_TABLE_NAME",
            "JWT_AUDIENCE",
            "JWT_KEYS_PARAMETER",
            "TAX_RATE",
            "TREASURY_SHARDS",
            "IDEMPOTENCY_WINDOW",
        ] {
            assert!(error.contains(name), "{error}");
        }
        assert!(!error.contains("JWT_ISSUER"), "{error}");
    }
}
