//! Reads the body of an answer, decompresses it as it arrives, and stops when it is too large.

use std::io::Write;

use flate2::write::MultiGzDecoder;
use reqwest::{Response, header};

use super::{Error, MAX_BYTES};

pub(super) async fn read(mut response: Response, host: &str) -> Result<Vec<u8>, Error> {
    let too_large = || Error::TooLarge { host: host.to_owned() };
    let coding = response.headers().get(header::CONTENT_ENCODING);
    let coding = coding.and_then(|value| value.to_str().ok()).unwrap_or("").trim().to_ascii_lowercase();
    let mut sink = match coding.as_str() {
        "" | "identity" => Sink::Plain(Bounded::default()),
        "gzip" | "x-gzip" => Sink::Gzip(MultiGzDecoder::new(Bounded::default())),
        _ => return Err(Error::Coding { host: host.to_owned(), coding }),
    };
    if response.content_length().is_some_and(|length| length > MAX_BYTES as u64) {
        return Err(too_large());
    }
    let damaged = |reason: String| Error::Damaged { host: host.to_owned(), reason };
    let mut received = 0_usize;
    while let Some(chunk) = response.chunk().await.map_err(|error| damaged(http_client::reason(error)))? {
        received += chunk.len();
        if received > MAX_BYTES {
            return Err(too_large());
        }
        let written = match &mut sink {
            Sink::Plain(body) => body.write_all(&chunk),
            Sink::Gzip(decoder) => decoder.write_all(&chunk),
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => return Err(too_large()),
            Err(error) => return Err(damaged(error.to_string())),
        }
    }
    match sink {
        Sink::Plain(body) => Ok(body.0),
        Sink::Gzip(decoder) => match decoder.finish() {
            Ok(body) => Ok(body.0),
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => Err(too_large()),
            Err(error) => Err(damaged(error.to_string())),
        },
    }
}

enum Sink {
    Plain(Bounded),
    Gzip(MultiGzDecoder<Bounded>),
}

/// Memory that does not grow beyond the limit: gzip can expand to a thousand times its size.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
