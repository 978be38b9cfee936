//! A history as a table in plain text: one column per worker, one row per step.
//!
//! Whoever looks for a fault reads down one column to see what one worker did, and across to see what the others did
//! meanwhile.
//!
//! ```
//! # use ichido_testkit::lanes::Lanes;
//! let mut lanes = Lanes::new(["worker 1", "worker 2"]);
//! lanes.step(0, "charge order-7: done, answer lost");
//! lanes.note("the lease of worker 1 ends");
//! lanes.step(1, "charge order-7: done");
//! let expected = "
//!     worker 1                           worker 2
//!  1  charge order-7: done, answer lost
//!  2  -- the lease of worker 1 ends --
//!  3                                     charge order-7: done
//! ";
//! assert_eq!(format!("\n{lanes}"), expected);
//! ```

use std::fmt;

/// How many columns of a terminal a table takes, unless [`Lanes::with_width`] says otherwise.
pub const WIDTH: usize = 120;

/// What is kept of the text of one step, in characters. The rest is cut, and `…` says so.
pub const MAX_TEXT: usize = 400;

/// No lane is narrower, so a table of many lanes is wider than [`WIDTH`] rather than unreadable.
const MIN_LANE: usize = 12;

/// Between two columns.
const GAP: usize = 2;

/// A table of steps. [`Display`](fmt::Display) draws it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    names: Vec<String>,
    rows: Vec<Row>,
    width: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// `None`: a note, which concerns all lanes.
    lane: Option<usize>,
    text: String,
}

impl Lanes {
    /// An empty table with one lane per name.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { names: names.into_iter().map(|name| printable(name.as_ref())).collect(), rows: Vec::new(), width: WIDTH }
    }

    /// Draws the table in this many columns of a terminal, if its lanes are not too many for that.
    #[must_use]
    pub fn with_width(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    /// Adds a step of one worker. Lanes count from 0, in the order of their names.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn step(&mut self, lane: usize, text: impl AsRef<str>) {
        assert!(lane < self.names.len(), "there is no lane {lane}: there are {}", self.names.len());
        self.rows.push(Row { lane: Some(lane), text: printable(text.as_ref()) });
    }

    /// Adds a row that concerns all workers, for example that time passes.
    pub fn note(&mut self, text: impl AsRef<str>) {
        self.rows.push(Row { lane: None, text: printable(text.as_ref()) });
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing has happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How wide each lane is drawn: as wide as its longest text, but no wider than its share of the table.
    fn widths(&self, numbers: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.names.iter().map(|name| width_of(name)).collect();
        for row in &self.rows {
            if let Some(lane) = row.lane {
                widths[lane] = widths[lane].max(width_of(&row.text));
            }
        }
        // What narrow lanes leave over goes to the wide ones: the narrowest lane takes first.
        let mut left = self.width.saturating_sub(numbers);
        let mut by_width: Vec<usize> = (0..widths.len()).collect();
        by_width.sort_by_key(|&lane| widths[lane]);
        for (taken, &lane) in by_width.iter().enumerate() {
            let share = (left / (widths.len() - taken)).saturating_sub(GAP).max(MIN_LANE);
            widths[lane] = widths[lane].min(share);
            left = left.saturating_sub(widths[lane] + GAP);
        }
        widths
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.rows.len().to_string().len().max(2);
        let widths = self.widths(numbers);
        let names = self.names.iter().zip(&widths).map(|(name, width)| wrapped(name, *width)).collect();
        lines(f, &" ".repeat(numbers), &widths, names)?;
        for (index, row) in self.rows.iter().enumerate() {
            let number = format!("{:>numbers$}", index + 1);
            let Some(lane) = row.lane else {
                let whole = self.width.saturating_sub(numbers + GAP).max(MIN_LANE);
                lines(f, &number, &[whole], vec![wrapped(&format!("-- {} --", row.text), whole)])?;
                continue;
            };
            let mut cells = vec![Vec::new(); widths.len()];
            cells[lane] = wrapped(&row.text, widths[lane]);
            lines(f, &number, &widths, cells)?;
        }
        Ok(())
    }
}

/// Writes one row, which has as many lines as its longest cell. Only the first line is numbered.
fn lines(f: &mut fmt::Formatter<'_>, number: &str, widths: &[usize], cells: Vec<Vec<String>>) -> fmt::Result {
    let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
    for line in 0..height {
        let mut text = if line == 0 { number.to_owned() } else { " ".repeat(number.len()) };
        for (cell, width) in cells.iter().zip(widths) {
            let part = cell.get(line).map_or("", String::as_str);
            text.push_str(&" ".repeat(GAP));
            text.push_str(part);
            text.push_str(&" ".repeat(width.saturating_sub(width_of(part))));
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Splits at spaces, and inside a word only if the word is wider than a line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let wide = width_of(word);
        if used > 0 && used + 1 + wide > width {
            lines.push(String::new());
            used = 0;
        } else if used > 0 {
            lines.last_mut().expect("there is a line").push(' ');
            used += 1;
        }
        for char in word.chars() {
            if used > 0 && used + width_of_char(char) > width {
                lines.push(String::new());
                used = 0;
            }
            lines.last_mut().expect("there is a line").push(char);
            used += width_of_char(char);
        }
    }
    lines
}

/// Texts may come from outside. What would move the cursor, change the direction of text or not be seen is escaped.
fn printable(text: &str) -> String {
    let mut kept = String::new();
    for (index, char) in text.chars().enumerate() {
        if index == MAX_TEXT {
            kept.push('…');
            break;
        }
        match char {
            '"' | '\'' | '\\' => kept.push(char),
            _ => kept.extend(char.escape_debug()),
        }
    }
    kept
}

fn width_of(text: &str) -> usize {
    text.chars().map(width_of_char).sum()
}

/// Chinese, Japanese and Korean characters and most emoji take two columns of a terminal.
fn width_of_char(char: char) -> usize {
    match u32::from(char) {
        0x1100..=0x115F
        | 0x2E80..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_wrap_inside_their_lane() {
        let mut lanes = Lanes::new(["worker 1", "worker 2"]).with_width(44);
        lanes.step(0, "claim payment/order-7: won with fence 1");
        lanes.step(1, "waits");
        lanes.step(0, "0123456789012345678901234567890123456789");
        let expected = "
    worker 1                        worker 2
 1  claim payment/order-7: won
    with fence 1
 2                                  waits
 3  012345678901234567890123456789
    0123456789
";
        assert_eq!(format!("\n{lanes}"), expected);
    }

    #[test]
    fn no_lane_is_too_narrow_to_read_and_no_text_is_endless() {
        let mut lanes = Lanes::new((0..40).map(|worker| format!("worker {worker}"))).with_width(1);
        lanes.step(39, "x".repeat(1_000_000));
        let drawn = lanes.to_string();
        assert!(drawn.contains("xxxxxxxxxxxx\n") && drawn.contains('…'), "{drawn}");
        assert!(drawn.len() < 100_000);
    }

    #[test]
    fn what_a_worker_says_cannot_forge_a_row_or_hide() {
        let mut lanes = Lanes::new(["worker\t1"]);
        lanes.step(0, "a\n 2  forged \u{1b}[2J \u{202e}backwards \"quoted\" C:\\");
        let drawn = lanes.to_string();
        assert_eq!(drawn.lines().count(), 2, "{drawn}");
        assert!(drawn.contains(r#"a\n 2 forged \u{1b}[2J \u{202e}backwards "quoted" C:\"#), "{drawn}");
        assert!(drawn.contains(r"worker\t1"), "{drawn}");
    }

    #[test]
    fn wide_characters_keep_the_columns_straight() {
        let mut lanes = Lanes::new(["一", "二"]);
        lanes.step(0, "注文を確定");
        lanes.step(1, "待つ");
        let drawn = lanes.to_string();
        let columns: Vec<usize> =
            drawn.lines().filter_map(|line| line.find(['二', '待']).map(|at| width_of(&line[..at]))).collect();
        assert_eq!(columns, [16, 16], "{drawn}");
    }

    #[test]
    fn an_empty_table_is_its_head() {
        assert_eq!(Lanes::new(["a", "b"]).to_string(), "    a  b\n");
        assert!(Lanes::new(["a"]).is_empty());
        assert_eq!(Lanes::new([""; 0]).to_string(), "\n");
    }

    #[test]
    #[should_panic(expected = "there is no lane 2")]
    fn a_step_belongs_to_a_lane() {
        Lanes::new(["a", "b"]).step(2, "lost");
    }
}
