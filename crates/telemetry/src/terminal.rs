//! Text from outside, as a terminal may show it.
//!
//! Promise: nothing in such a text moves the cursor, changes colours, or turns the direction of writing, so that a line would read as
//! another one; and nothing in it is invisible, so that two names which differ also look different. Such a character is shown as its
//! escape. In [`one_line`], a line break is too, so that no text looks like two lines.
//!
//! Two joiners and the variation selectors are invisible and yet belong to many emoji and to Persian words. [`harmless`] leaves them
//! as they are. [`one_line`], which names, ids and questions are written with, shows them too.

use std::borrow::Cow;

/// Running text with escapes for what a terminal obeys or does not show, but for the ends of lines, tabs, and what joins letters and
/// emoji.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && c != '\n' && c != '\t' && !joins(c), escape)
}

/// The same as one line, for names, ids and questions: the ends of lines are escaped too, and everything that is invisible.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && c != '\t', escape)
}

/// JSON with such escapes. Outside of its strings there is nothing to escape.
pub fn harmless_json(text: &str) -> Cow<'_, str> {
    let escape = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    escaped(text, |c| is_obeyed(c) && c != '\n' && c != '\t', escape)
}

/// Control characters, those that turn the direction of a text or end a line without being control characters, and those that nobody
/// sees.
pub fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() || is_invisible(c)
}

/// Unicode's characters that are ignored where they are shown (`Default_Ignorable_Code_Point`), and those of its category of
/// formatting (`Cf`) that have no shape.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// What is invisible and joins letters or emoji, or keeps them apart.
fn joins(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
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
    fn what_nobody_sees_is_shown_so_that_two_names_which_differ_look_different() {
        let mut ranges = vec![0x00ad..=0x00ad, 0x180e..=0x180e, 0x200b..=0x200f, 0x2028..=0x202e, 0x2060..=0x206f];
        ranges.extend([0xfeff..=0xfeff, 0xfff9..=0xfffb, 0xe0000..=0xe007f]);
        for c in ranges.into_iter().flatten().filter_map(char::from_u32) {
            let name = format!("FILE#{c}T1");
            assert_eq!(one_line(&name), format!("FILE#\\u{{{:x}}}T1", u32::from(c)));
            let json = serde_json::to_string(&name).unwrap();
            let shown = harmless_json(&json);
            assert!(shown.is_ascii(), "{shown}");
            assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), name);
            let joins = ['\u{200c}', '\u{200d}'].contains(&c);
            assert_eq!(harmless(&name) == name, joins, "{name:?}");
        }
        let names = ["👩\u{200d}💻 ❤\u{fe0f}", "می\u{200c}خواهم", "日本 é ß"];
        assert_eq!(names.map(harmless), names, "names that need joiners read as they are written");
        assert_eq!(one_line("a\u{200d}b"), "a\\u{200d}b", "an id needs none");
    }

    #[test]
    fn json_stays_the_same_json() {
        let json = serde_json::to_string_pretty(&[EVIL, "é\n"]).unwrap();
        let shown = harmless_json(&json);
        assert!(!shown.contains(|c| is_obeyed(c) && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [EVIL, "é\n"]);
    }
}
