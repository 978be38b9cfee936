//! IAM's roles and the policies in them. IAM speaks AWS's Query protocol: a form is asked, XML is answered.

use aws_config::{Region, SdkConfig};
use function::aws::call::{self, Answer, Call, Name, Request};
use url::form_urlencoded::Serializer;

use super::pages::{self, Page};
use super::xml::{self, Element};

/// IAM's only version.
const VERSION: &str = "2010-05-08";

/// IAM.
#[derive(Debug, Clone)]
pub(crate) struct Roles(SdkConfig);

impl Roles {
    pub(crate) fn new(config: &SdkConfig) -> Self {
        Self(placed(config))
    }

    /// The names of all roles of the account.
    pub(crate) async fn names(&self) -> Result<Vec<String>, call::Error> {
        pages::all(|marker| self.page("ListRoles", None, marker, roles)).await
    }

    /// The names of the policies that are in a role. Those that are only attached to it are not among them.
    pub(crate) async fn policies(&self, role: &str) -> Result<Vec<String>, call::Error> {
        pages::all(|marker| self.page("ListRolePolicies", Some(role), marker, policies)).await
    }

    /// The document of a policy that is in a role: JSON.
    pub(crate) async fn policy(&self, role: &str, policy: &str) -> Result<String, call::Error> {
        let answer = self.ask("GetRolePolicy", &[("RoleName", role), ("PolicyName", policy)]).await?;
        match document(&answer.body) {
            Ok(document) => Ok(document),
            Err(error) => Err(answer.unreadable(error)),
        }
    }

    async fn page(
        &self,
        operation: &'static str,
        role: Option<&str>,
        marker: Option<String>,
        read: fn(&[u8]) -> Result<Page<String>, xml::Error>,
    ) -> Result<Page<String>, call::Error> {
        let role = role.map(|role| ("RoleName", role));
        let marker = marker.as_deref().map(|marker| ("Marker", marker));
        let parameters: Vec<_> = role.into_iter().chain(marker).collect();
        let answer = self.ask(operation, &parameters).await?;
        match read(&answer.body) {
            Ok(page) => Ok(page),
            Err(error) => Err(answer.unreadable(error)),
        }
    }

    async fn ask(&self, operation: &'static str, parameters: &[(&str, &str)]) -> Result<Answer, call::Error> {
        let mut form = Serializer::new(String::new());
        form.append_pair("Action", operation).append_pair("Version", VERSION).extend_pairs(parameters);
        let headers = vec![("content-type", "application/x-www-form-urlencoded".to_owned())];
        let request = Request { path: "/".to_owned(), headers, body: form.finish().into_bytes() };
        Call::refused_as(&self.0, Name { service: "iam", operation }, xml::refusal).send(request).await
    }
}

/// IAM has one address for all regions of a partition, and signatures for it name one region.
fn placed(config: &SdkConfig) -> SdkConfig {
    if config.endpoint_url().is_some() {
        return config.clone();
    }
    let (address, region) = match config.region().map_or("", Region::as_ref) {
        region if region.starts_with("cn-") => ("https://iam.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        region if region.starts_with("us-gov-") => ("https://iam.us-gov.amazonaws.com", "us-gov-west-1"),
        _ => ("https://iam.amazonaws.com", "us-east-1"),
    };
    config.clone().into_builder().endpoint_url(address).region(Region::from_static(region)).build()
}

fn roles(body: &[u8]) -> Result<Page<String>, xml::Error> {
    let document = Element::read(body)?;
    let result = document.child("ListRolesResult")?;
    let name = |role: &Element| role.child("RoleName").map(|name| name.text.clone());
    Ok((result.members("Roles")?.map(name).collect::<Result<_, _>>()?, marker(result)?))
}

fn policies(body: &[u8]) -> Result<Page<String>, xml::Error> {
    let document = Element::read(body)?;
    let result = document.child("ListRolePoliciesResult")?;
    Ok((result.members("PolicyNames")?.map(|name| name.text.clone()).collect(), marker(result)?))
}

fn document(body: &[u8]) -> Result<String, xml::Error> {
    let document = Element::read(body)?;
    let encoded = &document.child("GetRolePolicyResult")?.child("PolicyDocument")?.text;
    Ok(function::http::decode(encoded, false))
}

/// Where the next page begins, if there is one. A list that goes on must say where: its beginning would look like all of it.
fn marker(result: &Element) -> Result<Option<String>, xml::Error> {
    if !result.child("IsTruncated").is_ok_and(|truncated| truncated.text.trim() == "true") {
        return Ok(None);
    }
    match &result.child("Marker")?.text {
        marker if marker.is_empty() => Err(xml::Error::Missing("Marker")),
        marker => Ok(Some(marker.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::captured::Service;
    use crate::outside::error::message;

    const FIRST: &str = r#"<ListRolesResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/">
  <ListRolesResult>
    <IsTruncated>true</IsTruncated>
    <Marker>a+b/c==</Marker>
    <Roles>
      <member>
        <Path>/</Path>
        <RoleName>ichido-prod-slack-SlackEventsRole-1</RoleName>
        <AssumeRolePolicyDocument>%7B%22Version%22%3A%222012-10-17%22%7D</AssumeRolePolicyDocument>
        <Tags><member><Key>RoleName</Key><Value>not-a-role</Value></member></Tags>
      </member>
    </Roles>
  </ListRolesResult>
  <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
</ListRolesResponse>"#;
    const LAST: &str = "<ListRolesResponse><ListRolesResult><IsTruncated>false</IsTruncated><Roles><member>\
        <RoleName>admin</RoleName></member></Roles></ListRolesResult></ListRolesResponse>";

    #[tokio::test]
    async fn roles_are_listed_to_the_last_page() {
        let service = Service::answering(&[(200, FIRST), (200, LAST)]);
        let names = Roles::new(&service.config("ap-northeast-1")).names().await.unwrap();
        assert_eq!(names, ["ichido-prod-slack-SlackEventsRole-1", "admin"]);
        let [first, second] = &service.sent()[..] else { panic!("two requests") };
        assert_eq!(first.address, "https://iam.amazonaws.com/");
        assert_eq!(first.signed_for(), ("us-east-1", "iam"));
        assert_eq!(first.header("content-type"), "application/x-www-form-urlencoded");
        assert_eq!(first.body, "Action=ListRoles&Version=2010-05-08");
        assert_eq!(second.body, "Action=ListRoles&Version=2010-05-08&Marker=a%2Bb%2Fc%3D%3D");
    }

    #[tokio::test]
    async fn a_policy_is_read_as_it_was_written() {
        let answer = "<GetRolePolicyResponse><GetRolePolicyResult><RoleName>r</RoleName><PolicyName>p</PolicyName>\
            <PolicyDocument>%7B%22Statement%22%3A%5B%7B%22Sid%22%3A%22a+b%20%26%22%7D%5D%7D</PolicyDocument>\
            </GetRolePolicyResult></GetRolePolicyResponse>";
        let list = "<ListRolePoliciesResponse><ListRolePoliciesResult><PolicyNames><member>p</member><member>by-hand</member>\
            </PolicyNames><IsTruncated>false</IsTruncated></ListRolePoliciesResult></ListRolePoliciesResponse>";
        let service = Service::answering(&[(200, answer), (200, list)]);
        let roles = Roles::new(&service.config("ap-northeast-1"));
        assert_eq!(roles.policy("r", "p & q").await.unwrap(), r#"{"Statement":[{"Sid":"a+b &"}]}"#);
        assert_eq!(roles.policies("r").await.unwrap(), ["p", "by-hand"]);
        let [policy, policies] = &service.sent()[..] else { panic!("two requests") };
        assert_eq!(policy.body, "Action=GetRolePolicy&Version=2010-05-08&RoleName=r&PolicyName=p+%26+q");
        assert_eq!(policies.body, "Action=ListRolePolicies&Version=2010-05-08&RoleName=r");
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_request_is_repeated_and_a_refusal_says_what_aws_says() {
        let error = |code: &str, text: &str| {
            format!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{text}</Message></Error></ErrorResponse>"
            )
        };
        let (throttled, denied) = (error("Throttling", "Rate exceeded"), error("AccessDenied", "not you"));
        let service = Service::answering(&[(400, &throttled), (200, LAST), (403, &denied)]);
        let roles = Roles::new(&service.config("ap-northeast-1"));
        assert_eq!(roles.names().await.unwrap(), ["admin"]);
        assert_eq!(service.sent().len(), 2);
        assert_eq!(message(&roles.policies("r").await.unwrap_err()), "AccessDenied: not you");
    }

    #[tokio::test]
    async fn an_answer_that_is_something_else_is_not_an_account_without_roles() {
        let endless = "<ListRolesResponse><ListRolesResult><Roles/><IsTruncated>true</IsTruncated></ListRolesResult></ListRolesResponse>";
        for answer in ["", "<html><body>Sign in</body></html>", endless] {
            let service = Service::answering(&[(200, answer)]);
            let error = Roles::new(&service.config("ap-northeast-1")).names().await.unwrap_err();
            assert!(message(&error).starts_with("response error: HTTP 200: "), "{}", message(&error));
        }
    }

    #[test]
    fn iam_has_one_address_per_partition() {
        let service = Service::answering(&[]);
        let place = |region| {
            let config = placed(&service.config(region));
            (config.endpoint_url().unwrap().to_owned(), config.region().unwrap().to_string())
        };
        let of = |address: &str, region: &str| (address.to_owned(), region.to_owned());
        assert_eq!(place("ap-northeast-1"), of("https://iam.amazonaws.com", "us-east-1"));
        assert_eq!(place("cn-northwest-1"), of("https://iam.cn-north-1.amazonaws.com.cn", "cn-north-1"));
        assert_eq!(place("us-gov-east-1"), of("https://iam.us-gov.amazonaws.com", "us-gov-west-1"));
        let named = service.config("eu-west-1").into_builder().endpoint_url("http://127.0.0.1:4566").build();
        let named = placed(&named);
        assert_eq!(named.endpoint_url(), Some("http://127.0.0.1:4566"));
        assert_eq!(named.region().map(Region::as_ref), Some("eu-west-1"));
    }
}
