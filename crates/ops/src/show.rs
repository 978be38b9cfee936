//! How things are written for people: ages, durations, tables. A [`Timestamp`] prints itself.

use std::time::Duration;

use ichido::Timestamp;
use telemetry::terminal;

use crate::context::{Context, Error};

/// `3 min`, `2 h`, `5 d`: rounded down as people do it.
pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `3 min ago`, `in 3 min`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", age(at.since(now))) } else { format!("{} ago", age(now.since(at))) }
}

/// `15 min`, `90 s`, `2 min 5 s`: to the second.
pub(crate) fn exactly(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Columns under their names. What is escaped in a line counts with its escape.
pub(crate) fn table<const N: usize>(
    context: &mut Context<'_>,
    head: [&str; N],
    rows: &[[String; N]],
) -> Result<(), Error> {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| terminal::one_line(cell).into_owned())).collect();
    let mut widths = head.map(|name| name.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut write = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.into_iter().zip(widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        context.line(line.trim_end())
    };
    write(head)?;
    for row in &rows {
        write(std::array::from_fn(|column| row[column].as_str()))?;
    }
    Ok(())
}

/// A text from outside as one line of at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= most {
        return text;
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_rounded_as_people_do_it() {
        let of = |seconds| age(Duration::from_secs(seconds));
        assert_eq!(
            [of(0), of(119), of(120), of(7_199), of(7_200), of(172_800)],
            ["0 s", "119 s", "2 min", "119 min", "2 h", "2 d"]
        );
        let at = Timestamp::from_secs;
        assert_eq!((relative(at(10), at(30)), relative(at(200), at(0))), ("20 s ago".into(), "in 3 min".into()));
        assert_eq!(at(1_800_000_000).to_string(), "2027-01-15T08:00:00.000Z");
    }

    #[test]
    fn a_text_of_many_lines_becomes_one_line_and_is_cut() {
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line("ああああ", 3), "ああ…");
    }
}
