//! Text from outside, as a terminal may show it.
//!
//! Promise: nothing in such a text moves the cursor, changes colours, or turns the direction of writing, so that a line would read as
//! another one. Such a character is shown as its escape. In [`one_line`], a line break is too, so that no text looks like two lines.

use std::borrow::Cow;

/// The text with escapes for what a terminal obeys, but for the ends of lines and tabs.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && c != '\n' && c != '\t', escape)
}

/// The same as one line: the ends of lines are escaped too.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && c != '\t', escape)
}

/// JSON with such escapes. Outside of its strings there is nothing to escape.
pub fn harmless_json(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && c != '\n' && c != '\t', |c| format!("\\u{:04x}", u32::from(c)))
}

/// Control characters, and those that turn the direction of a text or end a line without being control characters.
pub fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control()
}

fn escape(c: char) -> String {
    c.escape_default().to_string()
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_escaped(c) { escape(c) } else { c.to_string() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A colour in two ways, DEL, and every character that turns the direction of writing or ends a line.
    const EVIL: &str =
        "a\u{1b}[31m\u{9b}31m\u{7f}\r\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}b";

    #[test]
    fn what_a_terminal_obeys_is_shown_as_what_it_is() {
        let shown = "a\\u{1b}[31m\\u{9b}31m\\u{7f}\\r\\u{61c}\\u{200e}\\u{200f}\\u{2028}\\u{2029}\\u{202a}\\u{202e}\\u{2066}\\u{2069}b";
        assert_eq!((harmless(EVIL).as_ref(), one_line(EVIL).as_ref()), (shown, shown));
        assert_eq!((harmless("é\n\tあ").as_ref(), one_line("é\n\tあ").as_ref()), ("é\n\tあ", "é\\n\tあ"));
    }

    #[test]
    fn json_stays_the_same_json() {
        let json = serde_json::to_string_pretty(&[EVIL, "é\n"]).unwrap();
        let shown = harmless_json(&json);
        assert!(!shown.contains(|c| is_obeyed(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [EVIL, "é\n"]);
    }
}
