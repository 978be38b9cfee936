//! Amounts of money: decimal strings outside, integers inside.
//!
//! One token is [`UNITS`] units, and an [`Amount`] is a number of units. There is no float on the way from a request to the
//! table and back: a text is read digit by digit, and becomes either the exact number or an [`Error`] that says what is
//! wrong with the text.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Decimal places of a token.
pub(crate) const PLACES: u32 = 8;

/// Units in one token.
pub const UNITS: u64 = 10_u64.pow(PLACES);

/// The largest amount: ten billion tokens, which fits a signed 64-bit integer.
pub const MAX: Amount = Amount(10_000_000_000 * UNITS);

/// The longest text that is read. The longest valid one has 11 + 1 + 8 characters. A longer one is too large.
const MAX_TEXT: usize = 40;

/// A number of units, zero included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(u64);

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("amount is empty; write a decimal number such as \"12.5\"")]
    Empty,
    #[error("amount must be a string such as \"12.5\", not a JSON {0}")]
    NotText(&'static str),
    #[error("amount must be greater than zero")]
    Zero,
    #[error("amount must not have a sign")]
    Signed,
    #[error("amount must consist of digits with at most one point between them; {0:?} is not allowed")]
    Character(char),
    #[error("amount needs digits before and after the point")]
    Point,
    #[error("amount must not have leading zeros")]
    LeadingZero,
    #[error("amount has {0} decimal places; at most {PLACES} are allowed")]
    Places(usize),
    #[error("amount is larger than the largest allowed one, {MAX}")]
    TooLarge,
}

impl Amount {
    pub const ZERO: Amount = Amount(0);

    /// An amount from its units.
    pub const fn from_units(units: u64) -> Self {
        Amount(units)
    }

    /// Whole tokens; `None` above [`MAX`].
    pub const fn whole(tokens: u64) -> Option<Self> {
        match tokens.checked_mul(UNITS) {
            Some(units) if units <= MAX.0 => Some(Amount(units)),
            _ => None,
        }
    }

    pub const fn units(self) -> u64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn checked_add(self, other: Amount) -> Option<Amount> {
        self.0.checked_add(other.0).map(Amount)
    }

    pub fn checked_sub(self, other: Amount) -> Option<Amount> {
        self.0.checked_sub(other.0).map(Amount)
    }

    /// Reads a text that may also be zero.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::Empty);
        }
        if text.starts_with(['-', '+']) {
            return Err(Error::Signed);
        }
        // Exponents, spaces, separators and digits of other scripts are refused here.
        if let Some(other) = text.chars().find(|c| !c.is_ascii_digit() && *c != '.') {
            return Err(Error::Character(other));
        }
        let (whole, fraction) = match text.split_once('.') {
            None => (text, ""),
            Some(("", _) | (_, "")) => return Err(Error::Point),
            Some((_, fraction)) if fraction.contains('.') => return Err(Error::Character('.')),
            Some(parts) => parts,
        };
        if fraction.len() > PLACES as usize {
            return Err(Error::Places(fraction.len()));
        }
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(Error::LeadingZero);
        }
        if text.len() > MAX_TEXT {
            return Err(Error::TooLarge);
        }
        let digits =
            whole.bytes().chain(fraction.bytes()).chain(std::iter::repeat_n(b'0', PLACES as usize - fraction.len()));
        let mut units = 0_u64;
        for digit in digits {
            units = units
                .checked_mul(10)
                .and_then(|units| units.checked_add(u64::from(digit - b'0')))
                .filter(|units| *units <= MAX.0)
                .ok_or(Error::TooLarge)?;
        }
        Ok(Amount(units))
    }

    /// Reads an amount that can be sent, which is more than zero.
    pub(crate) fn parse_positive(text: &str) -> Result<Self, Error> {
        match Self::parse(text)? {
            Amount::ZERO => Err(Error::Zero),
            amount => Ok(amount),
        }
    }
}

impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

/// Writes an amount in its only form: no trailing zeros, no point without a fraction.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_units(f, u128::from(self.0))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A signed number of units: the change of a balance, or a sum over many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Delta(pub i128);

impl Delta {
    pub(crate) fn credit(amount: Amount) -> Self {
        Delta(i128::from(amount.0))
    }

    pub fn debit(amount: Amount) -> Self {
        Delta(-i128::from(amount.0))
    }
}

impl std::ops::Add for Delta {
    type Output = Delta;

    fn add(self, other: Delta) -> Delta {
        Delta(self.0 + other.0)
    }
}

impl std::ops::AddAssign for Delta {
    fn add_assign(&mut self, other: Delta) {
        self.0 += other.0;
    }
}

impl std::iter::Sum for Delta {
    fn sum<I: Iterator<Item = Delta>>(iter: I) -> Delta {
        iter.fold(Delta(0), |sum, delta| sum + delta)
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write_units(f, self.0.unsigned_abs())
    }
}

impl Serialize for Delta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// Fees

/// The part of an amount that goes to the treasury: a number of [`UNITS`]ths, less than the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate(u64);

/// Why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it must be a decimal number from 0 to less than 1 with at most {PLACES} places, such as 0.025")]
pub struct RateError;

impl Rate {
    /// The fee on an amount: `amount × rate`, exact, **rounded down** to the eighth place. The sender never pays more than
    /// the rate says, and a fee is always less than its amount.
    pub fn of(self, amount: Amount) -> Amount {
        let product = u128::from(amount.0) * u128::from(self.0) / u128::from(UNITS);
        // The rate is less than 1, so the product is less than the amount and fits.
        Amount(u64::try_from(product).unwrap_or(amount.0))
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        match Amount::parse(text) {
            Ok(Amount(parts)) if parts < UNITS => Ok(Rate(parts)),
            _ => Err(RateError),
        }
    }
}

fn write_units(f: &mut fmt::Formatter<'_>, units: u128) -> fmt::Result {
    let (whole, fraction) = (units / u128::from(UNITS), units % u128::from(UNITS));
    if fraction == 0 {
        return write!(f, "{whole}");
    }
    let digits = format!("{fraction:0width$}", width = PLACES as usize);
    write!(f, "{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units(text: &str) -> Result<u64, Error> {
        Amount::parse_positive(text).map(Amount::units)
    }

    #[test]
    fn decimal_strings_become_exact_units() {
        assert_eq!(units("1"), Ok(100_000_000));
        assert_eq!(units("0.1"), Ok(10_000_000));
        assert_eq!(units("0.00000001"), Ok(1));
        assert_eq!(units("100.00"), units("100"));
        assert_eq!(units("10000000000"), Ok(MAX.units()));
        // 0.1 + 0.2 is not 0.3 in floats; here it is
        assert_eq!(units("0.1").unwrap() + units("0.2").unwrap(), units("0.3").unwrap());
    }

    #[test]
    fn what_is_not_an_amount_says_what_is_wrong() {
        for (text, error) in [
            ("", Error::Empty),
            ("0", Error::Zero),
            ("0.00000000", Error::Zero),
            ("-1", Error::Signed),
            ("+1", Error::Signed),
            ("1e3", Error::Character('e')),
            ("100abc", Error::Character('a')),
            ("1,5", Error::Character(',')),
            (" 1", Error::Character(' ')),
            ("1\n", Error::Character('\n')),
            ("0x10", Error::Character('x')),
            ("NaN", Error::Character('N')),
            ("٣", Error::Character('٣')),
            ("１", Error::Character('１')),
            (".5", Error::Point),
            ("5.", Error::Point),
            (".", Error::Point),
            ("1.2.3", Error::Character('.')),
            ("1..3", Error::Character('.')),
            ("007", Error::LeadingZero),
            ("0.123456789", Error::Places(9)),
            ("1.000000000", Error::Places(9)),
            ("10000000000.00000001", Error::TooLarge),
            ("18446744073709551616", Error::TooLarge),
            ("99999999999999999999999999999999999999999999999999", Error::TooLarge),
        ] {
            assert_eq!(units(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn fees_are_rounded_down_at_the_eighth_place() {
        let rate: Rate = "0.025".parse().unwrap();
        assert_eq!(rate.of(Amount::parse("100").unwrap()).to_string(), "2.5");
        assert_eq!(rate.of(Amount::parse("0.00000039").unwrap()).to_string(), "0");
        assert_eq!(rate.of(Amount::parse("0.00000040").unwrap()).to_string(), "0.00000001");
        assert_eq!("0.99999999".parse::<Rate>().unwrap().of(MAX).to_string(), "9999999900");
        for text in ["1", "-0.1", "1e-3", "", "0.000000001", "2"] {
            assert_eq!(text.parse::<Rate>(), Err(RateError), "{text:?}");
        }
    }

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn written_and_read_again_an_amount_is_the_same(units in 0..=MAX.units()) {
                let amount = Amount::from_units(units);
                prop_assert_eq!(Amount::parse(&amount.to_string()), Ok(amount));
            }

            #[test]
            fn any_text_is_an_amount_or_an_error_never_a_panic(text in any::<String>()) {
                if let Ok(amount) = Amount::parse(&text) {
                    prop_assert!(amount <= MAX);
                    // an accepted text differs from the canonical one by trailing zeros at most
                    let canonical = amount.to_string();
                    prop_assert!(text.starts_with(&canonical));
                    prop_assert!(text[canonical.len()..].chars().all(|c| c == '0' || c == '.'));
                }
            }

            #[test]
            fn number_like_texts_are_read_as_the_integer_they_spell(text in "[0-9]{1,13}(\\.[0-9]{1,10})?|[-+0-9.eE_ ]{0,24}") {
                if let Ok(amount) = Amount::parse(&text) {
                    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
                    let spelled: u128 = format!("{whole}{fraction:0<8}").parse().unwrap();
                    prop_assert_eq!(u128::from(amount.units()), spelled);
                }
            }

            #[test]
            fn a_fee_is_the_floor_of_the_exact_product(units in 0..=MAX.units(), parts in 0..UNITS) {
                let (amount, rate) = (Amount::from_units(units), Rate(parts));
                let exact = u128::from(units) * u128::from(parts);
                let fee = u128::from(rate.of(amount).units());
                prop_assert!(fee * u128::from(UNITS) <= exact && exact < (fee + 1) * u128::from(UNITS));
                prop_assert!(rate.of(amount) <= amount);
            }
        }
    }
}
