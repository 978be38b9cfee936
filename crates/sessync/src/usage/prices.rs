//! What tokens cost, by model and day. Anthropic's list prices in US dollars, for calls without discounts and within
//! the usual context.

use serde::Serializer;

use super::Tokens;
use crate::clock::Time;

/// Millionths of a millionth of a dollar: what one token costs is a whole number of them.
pub(crate) type Cost = u128;

const DOLLAR: f64 = 1e12;

/// What a model costs from a day on.
#[derive(Debug)]
pub(crate) struct Price {
    /// Without the date of the version and without a provider's prefix.
    pub(crate) model: &'static str,
    /// `YYYY-MM-DD`
    pub(crate) since: &'static str,
    /// Thousandths of a dollar per million tokens.
    pub(crate) input: u64,
    pub(crate) output: u64,
}

const fn price(model: &'static str, since: &'static str, input: u64, output: u64) -> Price {
    Price { model, since, input, output }
}

/// The prices. Of several for one model, the last whose day has come counts.
pub(crate) const PRICES: &[Price] = &[
    price("claude-3-haiku", "2024-03-13", 250, 1_250),
    price("claude-3-opus", "2024-02-29", 15_000, 75_000),
    price("claude-3-sonnet", "2024-02-29", 3_000, 15_000),
    price("claude-3-5-sonnet", "2024-06-20", 3_000, 15_000),
    price("claude-3-5-haiku", "2024-11-04", 1_000, 5_000),
    price("claude-3-5-haiku", "2024-12-10", 800, 4_000),
    price("claude-3-7-sonnet", "2025-02-24", 3_000, 15_000),
    price("claude-sonnet-4", "2025-05-22", 3_000, 15_000),
    price("claude-opus-4", "2025-05-22", 15_000, 75_000),
    price("claude-opus-4-1", "2025-08-05", 15_000, 75_000),
    price("claude-sonnet-4-5", "2025-09-29", 3_000, 15_000),
    price("claude-haiku-4-5", "2025-10-15", 1_000, 5_000),
    price("claude-opus-4-5", "2025-11-24", 5_000, 25_000),
];

/// A cache costs these hundredths of the input: written for five minutes, for an hour, read.
pub(crate) const CACHE_MINUTES: u64 = 125;
pub(crate) const CACHE_HOUR: u64 = 200;
pub(crate) const CACHE_READ: u64 = 10;

/// What the tokens of one response cost. `None`: the price of the model is not known.
pub(crate) fn cost(model: &str, at: Time, tokens: &Tokens) -> Option<Cost> {
    let name = base(model);
    let day = at.to_string();
    let of_model = || PRICES.iter().filter(|price| price.model == name);
    // A model that was used before its first price, on a preview, costs that.
    let price = of_model().rfind(|price| price.since <= day.as_str()).or_else(|| of_model().next())?;
    let hour = tokens.hour_tokens.min(tokens.cache_creation_tokens);
    let minutes = tokens.cache_creation_tokens - hour;
    // Thousandths of a dollar per million tokens, in hundredths: 10 units per token.
    let wide = u128::from;
    let input = wide(tokens.input_tokens) * 100
        + wide(minutes) * wide(CACHE_MINUTES)
        + wide(hour) * wide(CACHE_HOUR)
        + wide(tokens.cache_read_tokens) * wide(CACHE_READ);
    Some(input * wide(price.input) * 10 + wide(tokens.output_tokens) * wide(price.output) * 1000)
}

/// The model's name without what providers add: `us.anthropic.claude-sonnet-4-5-20250929-v1:0`.
fn base(model: &str) -> &str {
    let name = model.find("claude-").map_or(model, |at| &model[at..]);
    let end = name.find(['@', '[', ':']).unwrap_or(name.len());
    let name = &name[..end];
    let name = name.strip_suffix("-latest").unwrap_or(name);
    let is_date = |part: &str| part.len() == 8 && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut at = 0;
    for part in name.split('-') {
        if at > 0 && (is_date(part) || part.starts_with('v') && part[1..].bytes().all(|byte| byte.is_ascii_digit())) {
            return &name[..at - 1];
        }
        at += part.len() + 1;
    }
    name.strip_suffix("-0").unwrap_or(name)
}

/// In dollars, for people and programs.
pub(crate) fn dollars(cost: Cost) -> f64 {
    cost as f64 / DOLLAR
}

pub(super) fn as_dollars<S: Serializer>(cost: &Cost, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((dollars(*cost) * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_one_price_whatever_a_provider_calls_it() {
        for name in [
            "claude-sonnet-4-5-20250929",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "anthropic/claude-sonnet-4-5",
            "claude-sonnet-4-5@20250929",
            "claude-sonnet-4-5[1m]",
            "claude-sonnet-4-5-latest",
        ] {
            assert_eq!(base(name), "claude-sonnet-4-5", "{name}");
        }
        assert_eq!(base("claude-opus-4-20250514"), "claude-opus-4");
        assert_eq!(base("claude-opus-4-0"), "claude-opus-4");
        assert_eq!(base("claude-opus-4-9"), "claude-opus-4-9", "an unknown version has no price of another");
    }

    #[test]
    fn the_price_of_the_day_counts() {
        let tokens = Tokens { input_tokens: 1_000_000, ..Tokens::default() };
        let at = |day: &str| dollars(cost("claude-3-5-haiku-20241022", Time::parse(day).unwrap(), &tokens).unwrap());
        assert_eq!(
            (at("2024-11-20T00:00:00Z"), at("2024-12-20T00:00:00Z"), at("2024-01-01T00:00:00Z")),
            (1.0, 0.8, 1.0)
        );
        assert_eq!(cost("nobody", Time(0), &tokens), None);
    }

    #[test]
    fn prices_of_one_model_stand_in_the_order_of_their_days() {
        for pair in PRICES.windows(2).filter(|pair| pair[0].model == pair[1].model) {
            assert!(pair[0].since < pair[1].since, "{}", pair[0].model);
        }
    }
}
