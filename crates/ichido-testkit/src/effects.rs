//! Asserts that effects happened as often as they should.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

/// What happened at a destination, for example every charge at a bank. [`effects`] makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects {
    happened: BTreeMap<String, usize>,
}

/// Counts what happened, as the destination tells it: effects with the same text are the same effect.
///
/// ```
/// # use ichido_testkit::effects;
/// let charged = ["order-7", "order-8"]; // asked of the bank
/// effects(charged).each_once(["order-7", "order-8"]);
/// ```
pub fn effects(happened: impl IntoIterator<Item = impl Display>) -> Effects {
    Effects { happened: count(happened) }
}

impl Effects {
    /// Asserts that each of these effects happened exactly once, and no other.
    ///
    /// # Panics
    /// If not. The message lists every effect that was lost, repeated or not expected.
    #[track_caller]
    pub fn each_once(&self, expected: impl IntoIterator<Item = impl Display>) {
        let expected = count(expected);
        self.none(self.lost(&expected) + &self.repeated() + &self.unexpected(&expected));
    }

    /// Asserts that each of these effects happened, once or more often. That is what a destination gets that can neither be
    /// asked nor recognise a repetition.
    ///
    /// # Panics
    /// If not. The message lists every effect that was lost.
    #[track_caller]
    pub fn none_lost(&self, expected: impl IntoIterator<Item = impl Display>) {
        self.none(self.lost(&count(expected)));
    }

    /// Asserts that no effect happened more than once.
    ///
    /// # Panics
    /// If not. The message lists every effect that was repeated.
    #[track_caller]
    pub fn none_repeated(&self) {
        self.none(self.repeated());
    }

    #[track_caller]
    fn none(&self, wrong: String) {
        assert!(wrong.is_empty(), "effects are not as promised:\n{wrong}");
    }

    fn lost(&self, expected: &BTreeMap<String, usize>) -> String {
        let lost = expected.keys().filter(|effect| !self.happened.contains_key(*effect));
        lost.fold(String::new(), |text, effect| line(text, format_args!("lost: {effect}")))
    }

    fn repeated(&self) -> String {
        let repeated = self.happened.iter().filter(|(_, times)| **times > 1);
        repeated
            .fold(String::new(), |text, (effect, times)| line(text, format_args!("happened {times} times: {effect}")))
    }

    fn unexpected(&self, expected: &BTreeMap<String, usize>) -> String {
        let unexpected = self.happened.keys().filter(|effect| !expected.contains_key(*effect));
        unexpected.fold(String::new(), |text, effect| line(text, format_args!("not expected: {effect}")))
    }
}

fn line(mut text: String, args: std::fmt::Arguments<'_>) -> String {
    let _ = writeln!(text, "  {args}");
    text
}

fn count(effects: impl IntoIterator<Item = impl Display>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for effect in effects {
        *counted.entry(effect.to_string()).or_default() += 1;
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: [&str; 0] = [];

    #[test]
    fn each_once_in_any_order_is_fine() {
        effects(["b", "a"]).each_once(["a", "b"]);
        effects(NOTHING).each_once(NOTHING);
        effects(["a", "a"]).none_lost(["a"]);
        effects(["c"]).none_repeated();
    }

    #[test]
    fn the_message_lists_all_that_is_wrong() {
        let effects = effects(["a", "a", "c"]);
        let panic = std::panic::catch_unwind(|| effects.each_once(["a", "b"])).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        let expected = "effects are not as promised:\n  lost: b\n  happened 2 times: a\n  not expected: c\n";
        assert_eq!(message, expected);
    }

    #[test]
    #[should_panic(expected = "lost: a")]
    fn a_lost_effect_is_found() {
        effects(NOTHING).none_lost(["a"]);
    }

    #[test]
    #[should_panic(expected = "happened 3 times: a")]
    fn a_repeated_effect_is_found() {
        effects(["a", "a", "a"]).none_repeated();
    }
}
