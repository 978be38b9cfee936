//! The bytes of a feed as text.
//!
//! The encoding is the byte order mark's; without one, the one that the Content-Type names in `charset`; else the XML declaration's;
//! else UTF-8. Bytes that are not valid in the encoding become U+FFFD, and the rest of the feed is read.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// How far into the document an XML declaration is looked for.
const DECLARATION_WITHIN: usize = 256;

pub(super) fn decode<'a>(body: &'a [u8], charset: Option<&str>) -> Result<Cow<'a, str>, super::Error> {
    if let Some((encoding, mark)) = Encoding::for_bom(body) {
        return Ok(encoding.decode_without_bom_handling(&body[mark..]).0);
    }
    if let Some(encoding) = without_mark(body) {
        return Ok(encoding.decode_without_bom_handling(body).0);
    }
    let header = charset.map(str::trim).filter(|charset| !charset.is_empty()).map(str::to_owned);
    let encoding = match (header.as_deref().and_then(label), declared(body)) {
        (Some(encoding), _) => encoding,
        // A header that names no encoding says nothing, if the document does.
        (None, Some(name)) => label(&name).ok_or(super::Error::Encoding { name })?,
        (None, None) => match header {
            Some(name) => return Err(super::Error::Encoding { name }),
            None => UTF_8,
        },
    };
    // A document whose declaration can be read as ASCII is not UTF-16, whatever it says.
    let encoding = if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding };
    Ok(encoding.decode_without_bom_handling(body).0)
}

fn label(name: &str) -> Option<&'static Encoding> {
    Encoding::for_label(name.as_bytes())
}

/// UTF-16 without a byte order mark is recognised by the first two characters, `<` and one more.
fn without_mark(body: &[u8]) -> Option<&'static Encoding> {
    match body {
        [b'<', 0, _, 0, ..] => Some(UTF_16LE),
        [0, b'<', 0, _, ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// The encoding that `<?xml … encoding="…"?>` names.
fn declared(body: &[u8]) -> Option<String> {
    let head = &body[..body.len().min(DECLARATION_WITHIN)];
    let head = String::from_utf8_lossy(head);
    let declaration = head.trim_start().strip_prefix("<?xml")?;
    let declaration = &declaration[..declaration.find("?>")?];
    let value = declaration[declaration.find("encoding")? + "encoding".len()..].trim_start().strip_prefix('=')?;
    let value = value.trim_start();
    let quote = value.chars().next().filter(|c| *c == '"' || *c == '\'')?;
    let value = &value[1..];
    Some(value[..value.find(quote)?].to_owned())
}
