//! The XML in which some services answer: elements and their text.
//!
//! Promise: only what the document itself says is read. Entities of its own are refused, nesting has a limit.

use aws_smithy_types::error::ErrorMetadata;
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::Event;

/// How deep elements may be nested. The deepest that is read has five around it.
const MOST_DEPTH: usize = 32;

/// Why a text is not a document.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("it is not XML")]
    Syntax(#[from] quick_xml::Error),
    #[error("it is not UTF-8")]
    Encoding(#[from] std::str::Utf8Error),
    #[error("it has no element, or does not end")]
    Incomplete,
    #[error("its elements are nested more than {MOST_DEPTH} deep")]
    Depth,
    #[error("it refers to an entity that XML does not have")]
    Entity,
    #[error("it has no {0}")]
    Missing(&'static str),
}

/// An element without its attributes. The text is only its own, not that of the elements in it.
#[derive(Debug, Default)]
pub(super) struct Element {
    name: String,
    pub text: String,
    children: Vec<Element>,
}

impl Element {
    /// Reads a document: its outermost element.
    pub(super) fn read(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::from_str(std::str::from_utf8(body)?);
        // The first one is around the document.
        let mut open = vec![Element::default()];
        loop {
            let event = reader.read_event()?;
            let depth = open.len();
            let inner = open.last_mut().ok_or(Error::Incomplete)?;
            match event {
                Event::Start(_) if depth > MOST_DEPTH => return Err(Error::Depth),
                Event::Start(start) => open.push(Element::named(start.local_name().as_ref())),
                Event::Empty(start) => inner.children.push(Element::named(start.local_name().as_ref())),
                Event::End(_) => {
                    let ended = open.pop().ok_or(Error::Incomplete)?;
                    open.last_mut().ok_or(Error::Incomplete)?.children.push(ended);
                }
                Event::Text(text) => inner.text.push_str(&text.xml10_content()),
                Event::CData(text) => inner.text.push_str(&text.xml10_content()),
                Event::GeneralRef(name) => match name.resolve_char_ref()? {
                    Some(character) => inner.text.push(character),
                    None => inner.text.push_str(resolve_xml_entity(&name).ok_or(Error::Entity)?),
                },
                Event::Eof => break,
                _ => {}
            }
        }
        match (open.len(), open.pop().and_then(|document| document.children.into_iter().next())) {
            (1, Some(root)) => Ok(root),
            _ => Err(Error::Incomplete),
        }
    }

    fn named(name: &str) -> Self {
        Element { name: name.to_owned(), ..Element::default() }
    }

    /// The first element of this name in it.
    pub(super) fn child(&self, name: &'static str) -> Result<&Element, Error> {
        self.children.iter().find(|child| child.name == name).ok_or(Error::Missing(name))
    }

    /// The members of the list of this name.
    pub(super) fn members(&self, list: &'static str) -> Result<impl Iterator<Item = &Element>, Error> {
        Ok(self.child(list)?.children.iter().filter(|child| child.name == "member"))
    }
}

/// AWS's code and message: `<ErrorResponse><Error><Code>…`. What is neither has none.
pub(super) fn refusal(_: Option<&str>, body: &[u8]) -> ErrorMetadata {
    let mut meta = ErrorMetadata::builder();
    if let Ok(document) = Element::read(body)
        && let Ok(error) = document.child("Error")
    {
        if let Ok(code) = error.child("Code") {
            meta = meta.code(code.text.trim());
        }
        if let Ok(message) = error.child("Message") {
            meta = meta.message(message.text.trim());
        }
    }
    meta.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> (Option<String>, Option<String>) {
        let meta = refusal(None, body.as_bytes());
        (meta.code().map(str::to_owned), meta.message().map(str::to_owned))
    }

    #[test]
    fn text_is_what_the_document_says() {
        let text =
            "<?xml version=\"1.0\"?>\n<!-- a --><a xmlns=\"urn:b\"><b:c>1 &lt; 2 &#x26; <![CDATA[3 < 4]]></b:c></a>\n";
        let document = Element::read(text.as_bytes()).unwrap();
        assert_eq!((document.name.as_str(), document.child("c").unwrap().text.as_str()), ("a", "1 < 2 & 3 < 4"));
        assert_eq!(document.child("d").unwrap_err().to_string(), "it has no d");
    }

    #[test]
    fn a_list_may_be_empty_but_not_absent() {
        let document = Element::read(b"<a><b/><c></c><d><member>1</member><other/><member/></d></a>").unwrap();
        let texts = |name| document.members(name).map(|all| all.map(|each| each.text.as_str()).collect::<Vec<_>>());
        assert!(texts("b").unwrap().is_empty() && texts("c").unwrap().is_empty());
        assert_eq!(texts("d").unwrap(), ["1", ""]);
        assert!(texts("e").is_err());
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>";
        let file = "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>";
        for text in [
            "",
            " ",
            "a",
            "{}",
            "<a>",
            "<a><b></a></b>",
            "</a>",
            "<a",
            "<a>&#0;</a>",
            "<a>&#xD800;</a>",
            &deep,
            bomb,
            file,
        ] {
            assert!(Element::read(text.as_bytes()).is_err(), "{}", &text[..text.len().min(80)]);
        }
        assert!(matches!(Element::read(b"<a>\xff</a>"), Err(Error::Encoding(_))));
    }

    #[test]
    fn a_refusal_has_awss_code_and_message() {
        let denied = "<ErrorResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><Error><Type>Sender</Type><Code>AccessDenied</Code>\
            <Message>User: x is not authorized to perform: iam:ListRoles &amp; more</Message></Error><RequestId>1</RequestId></ErrorResponse>";
        let message = "User: x is not authorized to perform: iam:ListRoles & more";
        assert_eq!(refused(denied), (Some("AccessDenied".to_owned()), Some(message.to_owned())));
        for other in
            ["", "<html><body>502</body></html>", "<ErrorResponse><Error/></ErrorResponse>", "{\"message\": \"no\"}"]
        {
            assert_eq!(refused(other), (None, None), "{other}");
        }
    }
}
