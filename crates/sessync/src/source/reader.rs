//! The lines of a log file, read with an amount of memory that does not depend on the file's size.
//!
//! A line ends with a newline. What follows the last newline is still being written; the next run reads it.
//! A line longer than [`MAX_LINE_BYTES`] is skipped without being kept in memory, and reported.

use std::io::{self, Read};

/// The longest line that is read. BigQuery accepts no row of this size.
pub(crate) const MAX_LINE_BYTES: usize = 10 * 1024 * 1024;

/// How much is read at a time. It is also the size of the buffer while lines are shorter than that.
const CHUNK_BYTES: usize = 256 * 1024;

/// A line's bytes and its place in the file.
#[derive(Debug, PartialEq, Eq)]
pub struct RawLine<'a> {
    /// Where the line begins.
    pub start: u64,
    /// Where the next one begins.
    pub end: u64,
    /// Without its newline. `None`: the line is too long.
    pub text: Option<&'a [u8]>,
}

/// Splits what it reads into lines.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    /// `buffer[begin..filled]` has not been returned yet.
    begin: usize,
    filled: usize,
    /// There is no newline in `buffer[begin..searched]`.
    searched: usize,
    /// The place of `begin` in the file.
    offset: u64,
    /// How many bytes are still to be read.
    left: u64,
    /// Where the line began that is being skipped because it is too long.
    skipping: Option<u64>,
    limit: usize,
}

impl<R: Read> Lines<R> {
    /// Reads from `offset`, where `from` must stand, up to `end` and not further, even if the file grows meanwhile.
    pub fn new(from: R, offset: u64, end: u64) -> Self {
        Self::with_limit(from, offset, end, MAX_LINE_BYTES)
    }

    fn with_limit(from: R, offset: u64, end: u64, limit: usize) -> Self {
        Lines {
            from,
            buffer: Vec::new(),
            begin: 0,
            filled: 0,
            searched: 0,
            offset,
            left: end.saturating_sub(offset),
            skipping: None,
            limit,
        }
    }

    /// Where the next line begins, complete or not.
    pub fn offset(&self) -> u64 {
        self.skipping.unwrap_or(self.offset)
    }

    /// The next complete line.
    pub fn next_line(&mut self) -> io::Result<Option<RawLine<'_>>> {
        loop {
            let unsearched = &self.buffer[self.searched..self.filled];
            if let Some(at) = memchr::memchr(b'\n', unsearched) {
                let newline = self.searched + at;
                let begin = std::mem::replace(&mut self.begin, newline + 1);
                self.searched = newline + 1;
                let start = self.skipping.take();
                let line_start = start.unwrap_or(self.offset);
                self.offset += (newline + 1 - begin) as u64;
                let fits = start.is_none() && newline - begin <= self.limit;
                return Ok(Some(RawLine {
                    start: line_start,
                    end: self.offset,
                    text: fits.then(|| &self.buffer[begin..newline]),
                }));
            }
            self.searched = self.filled;
            if self.filled - self.begin > self.limit {
                self.skipping.get_or_insert(self.offset);
            }
            if self.skipping.is_some() {
                // Nothing of this line is needed.
                self.offset += (self.filled - self.begin) as u64;
                self.begin = self.filled;
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Reads more. False: there is no more.
    fn fill(&mut self) -> io::Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.filled, 0);
            self.filled -= self.begin;
            self.searched -= self.begin;
            self.begin = 0;
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        // Small files get small buffers.
        let wanted = self.filled + left.min(CHUNK_BYTES);
        if wanted > self.buffer.len() {
            // Doubles for a long line, up to one chunk over the limit.
            let size = wanted.max((self.buffer.len() * 2).min(self.limit + CHUNK_BYTES));
            if self.buffer.is_empty() {
                self.buffer = vec![0; size];
            } else {
                self.buffer.resize(size, 0);
            }
        }
        let room = (self.buffer.len() - self.filled).min(left);
        let read = loop {
            match self.from.read(&mut self.buffer[self.filled..self.filled + room]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.filled += read;
        // A file that shrank ends here.
        self.left = if read == 0 { 0 } else { self.left - read as u64 };
        Ok(read > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Start, end, text.
    type Read = (u64, u64, Option<Vec<u8>>);

    fn all(bytes: &[u8], limit: usize) -> (Vec<Read>, u64) {
        let mut lines = Lines::with_limit(bytes, 0, bytes.len() as u64, limit);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push((line.start, line.end, line.text.map(<[u8]>::to_vec)));
        }
        (found, lines.offset())
    }

    #[test]
    fn a_half_written_last_line_is_left_for_next_time() {
        let (found, rest) = all(b"one\ntwo\nthr", 100);
        assert_eq!(found, [(0, 4, Some(b"one".to_vec())), (4, 8, Some(b"two".to_vec()))]);
        assert_eq!(rest, 8);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_one_read() {
        let mut bytes = vec![b'x'; 3 * CHUNK_BYTES];
        bytes.extend_from_slice(b"\nok\n");
        let (found, rest) = all(&bytes, 1000);
        let long = 3 * CHUNK_BYTES as u64 + 1;
        assert_eq!(found, [(0, long, None), (long, long + 3, Some(b"ok".to_vec()))]);
        assert_eq!(rest, long + 3);
    }

    #[test]
    fn a_long_line_that_is_still_being_written_is_left_where_it_began() {
        let mut bytes = b"ok\n".to_vec();
        bytes.extend_from_slice(&vec![b'x'; 3 * CHUNK_BYTES]);
        let (found, rest) = all(&bytes, 1000);
        assert_eq!(found.len(), 1);
        assert_eq!(rest, 3);
    }

    #[test]
    fn nothing_is_read_beyond_the_size_it_was_told() {
        let mut lines = Lines::new(&b"a\nb\nc\n"[..], 0, 4);
        assert!(lines.next_line().unwrap().is_some());
        assert!(lines.next_line().unwrap().is_some());
        assert!(lines.next_line().unwrap().is_none());
        assert_eq!(lines.offset(), 4);
    }

    #[test]
    fn any_bytes_split_as_the_plain_way_of_splitting_says() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let limit = rng.usize(1..40);
            let bytes: Vec<u8> =
                (0..rng.usize(0..400)).map(|_| if rng.u8(0..9) == 0 { b'\n' } else { rng.u8(..) }).collect();
            let mut expected = Vec::new();
            let mut start = 0;
            for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
                let text = &bytes[start..at];
                expected.push((start as u64, at as u64 + 1, (text.len() <= limit).then(|| text.to_vec())));
                start = at + 1;
            }
            assert_eq!(all(&bytes, limit), (expected, start as u64), "seed {seed}");
        }
    }
}
