//! Lists that AWS answers page by page.

use aws_sdk_lambda::error::SdkError;
use function::aws::call;
use serde_json::Value;

/// How many pages of a list are read at most: twice as many as the roles or the log groups of a large account have.
const MOST_PAGES: usize = 200;

/// A part of a list, and the token of the next part.
pub(super) type Page<T> = (Vec<T>, Option<String>);

/// All items. A list that does not end is an error, because half a list would look like a whole one.
pub(super) async fn all<T, F>(mut page: impl FnMut(Option<String>) -> F) -> Result<Vec<T>, call::Error>
where
    F: Future<Output = Result<Page<T>, call::Error>>,
{
    let (mut found, mut next) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let (items, token) = page(next).await?;
        found.extend(items);
        next = token.filter(|token| !token.is_empty());
        if next.is_none() {
            return Ok(found);
        }
    }
    Err(SdkError::construction_failure(format!("the list has more than {MOST_PAGES} pages")))
}

/// The request for the page of this token.
pub(super) fn after(mut request: Value, name: &str, token: Option<String>) -> Value {
    if let Some(token) = token {
        request[name] = Value::from(token);
    }
    request
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::outside::error::message;

    #[tokio::test]
    async fn a_list_is_read_to_its_end_and_an_empty_token_is_one() {
        let page = |next: Option<String>| match next.as_deref() {
            None => ready(Ok((vec![1, 2], Some("b".to_owned())))),
            Some("b") => ready(Ok((vec![], Some("c".to_owned())))),
            _ => ready(Ok((vec![3], Some(String::new())))),
        };
        assert_eq!(all(page).await.unwrap(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn a_list_without_an_end_is_an_error() {
        let error = all(|_| ready(Ok((vec![1], Some("again".to_owned()))))).await.unwrap_err();
        assert!(message(&error).contains("the list has more than 200 pages"), "{}", message(&error));
    }
}
