//! The families of secrets that have a shape of their own: a prefix, and what follows it.
//!
//! The prefixes and lengths are those that the issuers document and that secret scanners look for.

/// What follows a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// `A-Z a-z 0-9`
    Alnum,
    /// `A-Z 0-9`
    Upper,
    /// `0-9 a-f`
    Hex,
    /// letters, digits, `_` and `-`
    Word,
    /// the same and `.`
    Dotted,
    /// letters, digits, `+`, `/`, `=`, `_` and `-`
    Base64,
    /// what `crypt` makes: letters, digits, `.`, `/`, `$`, `=`, `,` and `+`, with at least one `$`
    Crypt,
}

impl Body {
    pub(super) const fn has(self, byte: u8) -> bool {
        match self {
            Body::Alnum => byte.is_ascii_alphanumeric(),
            Body::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Body::Hex => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b'A'..=b'F'),
            Body::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Body::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Body::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-'),
            Body::Crypt => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/' | b'$' | b'=' | b',' | b'+' | b'-')
            }
        }
    }
}

/// A family.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) kind: &'static str,
    pub(super) prefix: &'static str,
    pub(super) body: Body,
    /// How many bytes follow the prefix, at least and at most. One that is longer is another thing.
    pub(super) least: usize,
    pub(super) most: usize,
    /// The prefix is an ordinary beginning of a word, so the rest must look random.
    pub(super) ordinary: bool,
}

const ANY: usize = usize::MAX;

const fn from(kind: &'static str, prefix: &'static str, body: Body, least: usize) -> Family {
    Family { kind, prefix, body, least, most: ANY, ordinary: false }
}

const fn exact(kind: &'static str, prefix: &'static str, body: Body, length: usize) -> Family {
    Family { kind, prefix, body, least: length, most: length, ordinary: false }
}

const fn random(kind: &'static str, prefix: &'static str, body: Body, least: usize) -> Family {
    Family { kind, prefix, body, least, most: ANY, ordinary: true }
}

use Body::{Alnum, Base64, Crypt, Dotted, Hex, Upper, Word};

/// The families. A longer prefix stands before a shorter one that it begins with.
pub(super) const FAMILIES: &[Family] = &[
    // Clouds
    exact("aws-access-key-id", "AKIA", Upper, 16),
    exact("aws-access-key-id", "ASIA", Upper, 16),
    exact("aws-access-key-id", "ABIA", Upper, 16),
    exact("aws-access-key-id", "ACCA", Upper, 16),
    from("aws-bedrock-key", "ABSK", Base64, 100),
    exact("google-api-key", "AIza", Word, 35),
    from("google-oauth-token", "ya29.", Dotted, 20),
    from("google-oauth-secret", "GOCSPX-", Word, 20),
    from("google-refresh-token", "1//0", Word, 30),
    from("alibaba-key", "LTAI", Alnum, 12),
    from("tencent-key", "AKID", Alnum, 28),
    random("yandex-key", "AQVN", Word, 34),
    from("digitalocean-token", "dop_v1_", Hex, 40),
    from("digitalocean-token", "doo_v1_", Hex, 40),
    from("digitalocean-token", "dor_v1_", Hex, 40),
    from("heroku-key", "HRKU-", Word, 30),
    from("vercel-token", "vercel_blob_rw_", Word, 30),
    from("fly-token", "fo1_", Word, 30),
    from("fly-token", "fm1_", Base64, 40),
    from("fly-token", "fm2_", Base64, 40),
    from("netlify-token", "nfp_", Alnum, 30),
    from("scaleway-key", "SCW", Upper, 17),
    from("planetscale-token", "pscale_tkn_", Dotted, 30),
    from("planetscale-token", "pscale_pw_", Dotted, 30),
    from("planetscale-token", "pscale_oauth_", Dotted, 30),
    from("supabase-key", "sbp_", Hex, 36),
    from("supabase-key", "sb_secret_", Word, 20),
    from("databricks-token", "dapi", Hex, 32),
    from("snowflake-token", "ver:1-hint:", Base64, 40),
    from("cloudflare-key", "v1.0-", Word, 60),
    from("tailscale-key", "tskey-", Word, 16),
    from("pulumi-token", "pul-", Hex, 40),
    from("doppler-token", "dp.pt.", Alnum, 40),
    from("doppler-token", "dp.st.", Dotted, 40),
    from("infracost-key", "ico-", Alnum, 32),
    // Secrets managers and keys
    from("vault-token", "hvs.", Word, 20),
    from("vault-token", "hvb.", Word, 20),
    from("vault-token", "hvr.", Word, 20),
    exact("vault-token", "s.", Alnum, 24),
    from("one-password-token", "ops_eyJ", Base64, 40),
    from("age-key", "AGE-SECRET-KEY-1", Upper, 50),
    exact("one-password-key", "A3-", Word, 31),
    from("password-hash", "2a$", Crypt, 50),
    from("password-hash", "2b$", Crypt, 50),
    from("password-hash", "2y$", Crypt, 50),
    from("password-hash", "apr1$", Crypt, 25),
    from("password-hash", "argon2id$", Crypt, 40),
    from("password-hash", "argon2i$", Crypt, 40),
    from("password-hash", "6$", Crypt, 60),
    from("password-hash", "5$", Crypt, 45),
    from("password-hash", "1$", Crypt, 27),
    // Code hosts, registries, builds
    from("github-token", "github_pat_", Word, 22),
    from("github-token", "ghp_", Alnum, 36),
    from("github-token", "gho_", Alnum, 36),
    from("github-token", "ghu_", Alnum, 36),
    from("github-token", "ghs_", Alnum, 36),
    from("github-token", "ghr_", Alnum, 36),
    from("gitlab-token", "glpat-", Dotted, 20),
    from("gitlab-token", "gldt-", Word, 20),
    from("gitlab-token", "glrt-", Word, 20),
    from("gitlab-token", "glcbt-", Word, 20),
    from("gitlab-token", "glptt-", Word, 40),
    from("gitlab-token", "glft-", Word, 20),
    from("gitlab-token", "glsoat-", Word, 20),
    from("gitlab-token", "glimt-", Word, 20),
    from("gitlab-token", "glagent-", Word, 40),
    from("gitlab-token", "gloas-", Word, 40),
    from("gitlab-token", "GR1348941", Word, 20),
    from("atlassian-token", "ATATT3xFf", Base64, 60),
    from("atlassian-token", "ATCTT3xFf", Base64, 60),
    random("bitbucket-token", "ATBB", Alnum, 24),
    exact("npm-token", "npm_", Alnum, 36),
    from("pypi-token", "pypi-", Word, 50),
    from("rubygems-key", "rubygems_", Hex, 48),
    exact("crates-io-token", "cio", Alnum, 32),
    from("nuget-key", "oy2", Alnum, 43),
    from("docker-token", "dckr_pat_", Word, 20),
    from("docker-token", "dckr_oat_", Word, 20),
    random("artifactory-key", "AKCp", Alnum, 40),
    from("circleci-token", "CCIPAT_", Word, 30),
    from("buildkite-token", "bkua_", Hex, 40),
    from("terraform-token", "atlasv1.", Word, 40),
    from("sourcegraph-token", "sgp_", Word, 40),
    from("sonarqube-token", "sqp_", Hex, 40),
    from("sonarqube-token", "squ_", Hex, 40),
    from("sonarqube-token", "sqa_", Hex, 40),
    from("postman-key", "PMAK-", Word, 40),
    // Models
    from("anthropic-key", "sk-ant-", Word, 20),
    from("openai-key", "sk-proj-", Word, 32),
    from("openai-key", "sk-svcacct-", Word, 32),
    from("openai-key", "sk-admin-", Word, 32),
    from("openrouter-key", "sk-or-v1-", Hex, 40),
    random("openai-key", "sk-", Word, 32),
    from("hugging-face-token", "hf_", Alnum, 30),
    from("hugging-face-token", "api_org_", Alnum, 30),
    from("groq-key", "gsk_", Alnum, 40),
    from("xai-key", "xai-", Alnum, 60),
    from("perplexity-key", "pplx-", Alnum, 40),
    random("replicate-token", "r8_", Alnum, 30),
    from("langsmith-key", "lsv2_", Word, 32),
    // Messages, work, observation
    from("slack-token", "xoxb-", Word, 10),
    from("slack-token", "xoxp-", Word, 10),
    from("slack-token", "xoxa-", Word, 10),
    from("slack-token", "xoxc-", Word, 10),
    from("slack-token", "xoxd-", Base64, 10),
    from("slack-token", "xoxe-", Word, 10),
    from("slack-token", "xoxe.xox", Word, 10),
    from("slack-token", "xoxr-", Word, 10),
    from("slack-token", "xoxs-", Word, 10),
    from("slack-token", "xapp-", Word, 12),
    from("sendgrid-key", "SG.", Dotted, 33),
    from("mailgun-key", "key-", Hex, 32),
    from("brevo-key", "xkeysib-", Word, 40),
    from("brevo-key", "xsmtpsib-", Word, 40),
    from("linear-key", "lin_api_", Alnum, 32),
    from("notion-token", "ntn_", Alnum, 40),
    random("notion-token", "secret_", Alnum, 40),
    from("figma-token", "figd_", Word, 30),
    from("typeform-token", "tfp_", Base64, 40),
    from("hubspot-token", "pat-na1-", Word, 30),
    from("hubspot-token", "pat-eu1-", Word, 30),
    from("airtable-token", "pat", Dotted, 79),
    from("grafana-token", "glsa_", Word, 36),
    from("grafana-token", "glc_", Base64, 40),
    from("new-relic-key", "NRAK-", Upper, 27),
    from("new-relic-key", "NRJS-", Hex, 19),
    from("sentry-token", "sntrys_", Base64, 40),
    from("sentry-token", "sntryu_", Hex, 40),
    from("dynatrace-token", "dt0c01.", Dotted, 60),
    from("prefect-key", "pnu_", Alnum, 36),
    from("posthog-key", "phx_", Alnum, 40),
    from("frame-io-token", "fio-u-", Word, 60),
    from("readme-key", "rdme_", Alnum, 60),
    from("launchdarkly-key", "sdk-", Hex, 36),
    // Money and shops
    from("stripe-key", "sk_live_", Alnum, 16),
    from("stripe-key", "sk_test_", Alnum, 16),
    from("stripe-key", "rk_live_", Alnum, 16),
    from("stripe-key", "rk_test_", Alnum, 16),
    from("stripe-webhook-secret", "whsec_", Base64, 24),
    from("shopify-token", "shpat_", Hex, 32),
    from("shopify-token", "shpss_", Hex, 32),
    from("shopify-token", "shpca_", Hex, 32),
    from("shopify-token", "shppa_", Hex, 32),
    from("square-token", "sq0atp-", Word, 22),
    from("square-token", "sq0csp-", Word, 40),
    random("square-token", "EAAA", Word, 56),
    from("razorpay-key", "rzp_live_", Alnum, 14),
    from("razorpay-key", "rzp_test_", Alnum, 14),
    from("braintree-token", "access_token$production$", Alnum, 16),
    from("shippo-token", "shippo_live_", Hex, 40),
    from("easypost-key", "EZAK", Alnum, 54),
    random("facebook-token", "EAA", Alnum, 60),
    exact("twilio-key", "SK", Hex, 32),
];

/// Longest prefix and shortest rest of all families: a shorter word is none of them.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_prefix_stands_before_the_one_it_begins_with() {
        for (at, family) in FAMILIES.iter().enumerate() {
            let hidden = FAMILIES[at + 1..]
                .iter()
                .find(|later| later.prefix.starts_with(family.prefix) && later.prefix != family.prefix);
            // A later, longer prefix would never be tried if the shorter one matched first; it must be stricter then.
            if let Some(later) = hidden {
                assert!(
                    family.ordinary || family.least > later.least || later.kind == family.kind,
                    "{} hides {}",
                    family.prefix,
                    later.prefix
                );
            }
        }
    }
}
