//! SSM's parameters: what is known of them, never their values.

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use function::aws::call::{self, Name};
use serde::Deserialize;
use serde_json::json;

use super::pages::{self, Page};

const DESCRIBE: Name = Name { service: "ssm", operation: "DescribeParameters" };
/// How many names one filter of `DescribeParameters` may have.
pub(crate) const NAMES_PER_FILTER: usize = 50;
/// The type of a parameter that is encrypted.
pub(crate) const ENCRYPTED: &str = "SecureString";

/// SSM.
#[derive(Debug, Clone)]
pub(crate) struct Parameters(SdkConfig);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    parameters: Option<Vec<Parameter>>,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    name: Option<String>,
    r#type: Option<String>,
}

impl Parameters {
    pub(crate) fn new(config: &SdkConfig) -> Self {
        Self(config.clone())
    }

    /// The types of those parameters that exist, by their names. At most [`NAMES_PER_FILTER`] names.
    pub(crate) async fn types(&self, names: &[&str]) -> Result<BTreeMap<String, String>, call::Error> {
        let found = pages::all(|next| self.page(names, next)).await?;
        Ok(found.into_iter().filter_map(|parameter| Some((parameter.name?, parameter.r#type?))).collect())
    }

    async fn page(&self, names: &[&str], next: Option<String>) -> Result<Page<Parameter>, call::Error> {
        let filter = json!({"Key": "Name", "Option": "Equals", "Values": names});
        let request = pages::after(json!({"ParameterFilters": [filter]}), "NextToken", next);
        let page: Described = call::json(&self.0, DESCRIBE, "AmazonSSM", &request).await?;
        Ok((page.parameters.unwrap_or_default(), page.next_token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::captured::Service;
    use crate::outside::error::message;

    #[tokio::test]
    async fn parameters_are_asked_for_by_their_names_and_page_by_page() {
        let service = Service::answering(&[
            (200, r#"{"Parameters": [{"Name": "/a", "Type": "SecureString", "Version": 1}], "NextToken": "more"}"#),
            (200, r#"{"Parameters": [{"Name": "/b", "Type": "String"}, {"Name": "/c"}]}"#),
        ]);
        let types = Parameters::new(&service.config("ap-northeast-1")).types(&["/a", "/b", "/d"]).await.unwrap();
        let expected = [("/a", ENCRYPTED), ("/b", "String")].map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        assert_eq!(types, BTreeMap::from(expected));
        let [first, second] = &service.sent()[..] else { panic!("two requests") };
        assert_eq!(first.address, "https://ssm.ap-northeast-1.amazonaws.com/");
        assert_eq!(first.signed_for(), ("ap-northeast-1", "ssm"));
        assert_eq!(first.header("x-amz-target"), "AmazonSSM.DescribeParameters");
        let filters = json!([{"Key": "Name", "Option": "Equals", "Values": ["/a", "/b", "/d"]}]);
        assert_eq!(first.json(), json!({"ParameterFilters": filters}));
        assert_eq!(second.json(), json!({"ParameterFilters": filters, "NextToken": "more"}));
    }

    #[tokio::test]
    async fn a_refusal_says_what_aws_says() {
        let denied = r#"{"__type": "AccessDeniedException", "Message": "User: x may not ssm:DescribeParameters"}"#;
        let service = Service::answering(&[(400, denied)]);
        let error = Parameters::new(&service.config("ap-northeast-1")).types(&["/a"]).await.unwrap_err();
        assert_eq!(message(&error), "AccessDeniedException: User: x may not ssm:DescribeParameters");
    }
}
