//! What is redacted and what is not: every secret of this corpus is hidden (recall 1.0), and at most 3 % of what is
//! hidden is none (precision 0.97).
//!
//! The secrets are made when the test runs, from prefixes and a generator, so that no file of this repository contains
//! anything that looks like one.

use serde_json::{Value, json};
use sessync::redact::{Counts, Redactor};

/// A row's JSON and the secrets in it.
struct Case {
    what: String,
    json: String,
    secrets: Vec<String>,
}

/// Text that looks random, always the same for the same number.
fn fake(seed: u64, class: &str, length: usize) -> String {
    let alphabet: &[u8] = match class {
        "upper" => b"ABCDEFGHJKLMNPQRSTUVWXYZ234567",
        "hex" => b"0123456789abcdef",
        "digit" => b"0123456789",
        "lower" => b"abcdefghijkmnpqrstuvwxyz23456789",
        "base64" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        "word" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
        _ => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    };
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| alphabet[rng.usize(0..alphabet.len())] as char).collect()
}

/// Where a secret can stand in a text.
const PLACES: &[&str] = &[
    "see @ there",
    "@",
    "my token is @.",
    "first line\n@\nlast line",
    "`@`",
    "(@)",
    "\"@\"",
    "value='@';",
    "curl https://api.example.com/v1?x=@&page=2",
    "\u{1b}[32m@\u{1b}[0m",
    "     7\u{2192}@",
    "{\"output\":\"first\\n@\\nlast\"}",
    "{\\\"nested\\\":\\\"@\\\"}",
    "<b>@</b>",
    "+@",
    "a%3D@",
    "|@|",
    "- @",
    "user: @ ",
    "@, and more",
];

fn message(text: &str) -> String {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]}).to_string()
}

fn case(what: &str, text: &str, secrets: &[&str]) -> Case {
    Case {
        what: what.to_owned(),
        json: message(text),
        secrets: secrets.iter().map(|secret| (*secret).to_owned()).collect(),
    }
}

fn of_json(what: &str, value: Value, secrets: &[&str]) -> Case {
    Case {
        what: what.to_owned(),
        json: value.to_string(),
        secrets: secrets.iter().map(|secret| (*secret).to_owned()).collect(),
    }
}

/// The families that have a shape: prefix, what follows, how long.
const SHAPES: &[(&str, &str, usize)] = &[
    ("AKIA", "upper", 16),
    ("ASIA", "upper", 16),
    ("ABIA", "upper", 16),
    ("ACCA", "upper", 16),
    ("ABSK", "base64", 120),
    ("AIza", "word", 35),
    ("ya29.", "word", 60),
    ("GOCSPX-", "word", 28),
    ("1//0", "word", 60),
    ("LTAI", "alnum", 20),
    ("AKID", "alnum", 32),
    ("AQVN", "word", 36),
    ("dop_v1_", "hex", 64),
    ("doo_v1_", "hex", 64),
    ("dor_v1_", "hex", 64),
    ("HRKU-", "word", 36),
    ("fo1_", "word", 43),
    ("fm2_", "base64", 80),
    ("nfp_", "alnum", 36),
    ("pscale_tkn_", "word", 43),
    ("pscale_pw_", "word", 43),
    ("sbp_", "hex", 40),
    ("sb_secret_", "word", 31),
    ("dapi", "hex", 32),
    ("tskey-auth-", "alnum", 30),
    ("pul-", "hex", 40),
    ("dp.pt.", "alnum", 43),
    ("ico-", "alnum", 32),
    ("hvs.", "word", 90),
    ("hvb.", "word", 120),
    ("hvr.", "word", 90),
    ("s.", "alnum", 24),
    ("AGE-SECRET-KEY-1", "upper", 58),
    ("github_pat_", "alnum", 82),
    ("ghp_", "alnum", 36),
    ("gho_", "alnum", 36),
    ("ghu_", "alnum", 36),
    ("ghs_", "alnum", 36),
    ("ghr_", "alnum", 36),
    ("glpat-", "word", 20),
    ("gldt-", "word", 20),
    ("glrt-", "word", 20),
    ("glcbt-64_", "word", 20),
    ("glptt-", "hex", 40),
    ("glft-", "word", 20),
    ("glsoat-", "word", 20),
    ("glimt-", "word", 25),
    ("glagent-", "word", 50),
    ("gloas-", "hex", 64),
    ("GR1348941", "word", 20),
    ("ATATT3xFf", "word", 180),
    ("ATBB", "alnum", 32),
    ("npm_", "alnum", 36),
    ("pypi-", "word", 160),
    ("rubygems_", "hex", 48),
    ("cio", "alnum", 32),
    ("oy2", "lower", 43),
    ("dckr_pat_", "word", 27),
    ("dckr_oat_", "word", 32),
    ("AKCp", "alnum", 69),
    ("CCIPAT_", "alnum", 44),
    ("bkua_", "hex", 40),
    ("x.atlasv1.", "word", 67),
    ("sgp_", "hex", 40),
    ("sqp_", "hex", 40),
    ("PMAK-", "hex", 59),
    ("sk-ant-", "word", 90),
    ("sk-proj-", "word", 90),
    ("sk-svcacct-", "word", 90),
    ("sk-or-v1-", "hex", 64),
    ("sk-", "alnum", 48),
    ("hf_", "alnum", 34),
    ("gsk_", "alnum", 52),
    ("xai-", "alnum", 80),
    ("pplx-", "alnum", 48),
    ("r8_", "alnum", 37),
    ("lsv2_pt_", "hex", 40),
    ("xoxb-", "word", 50),
    ("xoxp-", "word", 60),
    ("xoxc-", "word", 60),
    ("xoxd-", "base64", 80),
    ("xoxe-", "word", 60),
    ("xoxs-", "word", 40),
    ("xoxr-", "word", 40),
    ("xapp-1-", "word", 60),
    ("key-", "hex", 32),
    ("xkeysib-", "hex", 64),
    ("lin_api_", "alnum", 40),
    ("ntn_", "alnum", 46),
    ("secret_", "alnum", 43),
    ("figd_", "word", 40),
    ("tfp_", "word", 59),
    ("pat-na1-", "hex", 36),
    ("glsa_", "alnum", 41),
    ("glc_", "base64", 60),
    ("NRAK-", "upper", 27),
    ("sntrys_", "base64", 120),
    ("sntryu_", "hex", 64),
    ("dt0c01.", "upper", 90),
    ("pnu_", "alnum", 36),
    ("rdme_", "lower", 70),
    ("sk_live_", "alnum", 24),
    ("sk_test_", "alnum", 24),
    ("rk_live_", "alnum", 24),
    ("whsec_", "base64", 32),
    ("shpat_", "hex", 32),
    ("shpss_", "hex", 32),
    ("shpca_", "hex", 32),
    ("sq0atp-", "word", 22),
    ("sq0csp-", "word", 43),
    ("EAAA", "alnum", 60),
    ("rzp_live_", "alnum", 14),
    ("EZAK", "alnum", 54),
    ("SK", "hex", 32),
    ("SCW", "upper", 17),
    ("phx_", "alnum", 43),
    ("vercel_blob_rw_", "alnum", 47),
    ("fio-u-", "word", 64),
];

/// Names and how their values are given. `@` is the value.
const NAMED: &[(&str, &str, usize)] = &[
    ("export DB_PASSWORD=@", "alnum", 12),
    ("PGPASSWORD=@ psql -h db", "alnum", 10),
    ("MYSQL_PWD=@", "alnum", 10),
    ("SECRET_KEY=@", "alnum", 32),
    ("SECRET_KEY = '@'", "base64", 50),
    ("AWS_SESSION_TOKEN=@", "base64", 300),
    ("AWS_SECRET_ACCESS_KEY=@", "base64", 40),
    ("aws_secret_access_key = @", "base64", 40),
    ("x-api-key: @", "alnum", 20),
    ("X-Api-Key: @", "hex", 32),
    ("-H 'x-api-key: @'", "alnum", 40),
    ("Authorization: Bearer @", "word", 30),
    ("authorization: token @", "hex", 40),
    ("\"Authorization\": \"Bearer @\"", "word", 30),
    ("Proxy-Authorization: Basic @", "alnum", 24),
    ("password: @", "alnum", 12),
    ("password: \"@\"", "alnum", 12),
    ("password = \"@\"", "alnum", 12),
    ("password='@'", "alnum", 9),
    ("\"password\": \"@\"", "alnum", 8),
    ("{\\\"password\\\":\\\"@\\\"}", "alnum", 8),
    ("{\\\\\\\"password\\\\\\\":\\\\\\\"@\\\\\\\"}", "alnum", 8),
    ("api_key=@", "alnum", 24),
    ("apiKey: '@'", "alnum", 24),
    ("API_KEY: @", "hex", 32),
    ("client_secret=@&grant_type=x", "word", 30),
    ("clientSecret: \"@\"", "word", 30),
    ("access_token=@", "alnum", 40),
    ("refresh_token: @", "alnum", 40),
    ("\"id_token\":\"@\"", "alnum", 40),
    ("auth_token := \"@\"", "alnum", 32),
    ("_authToken=@", "alnum", 36),
    ("//registry.example.com/:_authToken=@", "alnum", 36),
    ("_password=\"@\"", "base64", 24),
    ("AccountKey=@==;EndpointSuffix=core.example", "base64", 86),
    ("SharedAccessKey=@=", "base64", 43),
    ("--password @", "alnum", 10),
    ("--password=@", "alnum", 10),
    ("--token @", "alnum", 24),
    ("--api-key '@'", "alnum", 24),
    ("--client-secret \"@\"", "alnum", 24),
    ("[\"--password\", \"@\"]", "alnum", 10),
    ("redis://:@@cache:6379/0", "alnum", 16),
    ("postgres://app:@@db:5432/x", "alnum", 12),
    ("mongodb+srv://me:@@c.example.net/", "alnum", 14),
    ("amqp://guest:@@mq", "alnum", 8),
    ("https://me:@@example.com/a.git", "alnum", 20),
    ("https://@@github.example/a.git", "alnum", 36),
    ("mysql://root:@@127.0.0.1/db?x=1", "alnum", 10),
    ("smtp://u%40example.com:@@mail:587", "alnum", 10),
    ("<password>@</password>", "alnum", 10),
    ("<apiKey>@</apiKey>", "hex", 32),
    ("| SecretAccessKey | @ |", "base64", 40),
    ("|  SessionToken  |  @  |", "base64", 200),
    (".password(\"@\")", "alnum", 12),
    ("setApiKey('@')", "alnum", 24),
    ("with_secret(\"@\")", "alnum", 24),
    ("curl -u admin:@ https://h", "alnum", 10),
    ("curl -u 'admin:@' https://h", "alnum", 10),
    ("mysql -uroot -p@ app", "alnum", 10),
    ("sshpass -p @ ssh host", "alnum", 10),
    ("docker login -u me -p @ registry", "alnum", 12),
    ("machine h login me password @", "alnum", 12),
    ("CREATE USER x WITH PASSWORD '@'", "alnum", 12),
    ("ALTER USER x IDENTIFIED BY '@'", "alnum", 12),
    ("requirepass @", "alnum", 20),
    ("ConvertTo-SecureString \"@\" -AsPlainText", "alnum", 12),
    ("ENV API_KEY @", "alnum", 24),
    ("ARG NPM_TOKEN @", "alnum", 24),
    ("- name: DB_PASSWORD\n  value: @", "alnum", 12),
    ("\"name\": \"API_SECRET\", \"value\": \"@\"", "alnum", 12),
    ("Cookie: session=@; theme=dark", "alnum", 32),
    ("Set-Cookie: sid=@; Path=/", "hex", 40),
    ("signing_key: @", "hex", 64),
    ("ENCRYPTION_KEY=@", "hex", 64),
    ("JWT_SECRET=@", "alnum", 40),
    ("SESSION_SECRET=@", "hex", 48),
    ("private_key = \"@\"", "base64", 60),
    ("webhook_secret: @", "hex", 40),
    ("MASTER_KEY=@", "hex", 32),
    ("RAILS_MASTER_KEY=@", "hex", 32),
    ("service_role_key: \"@\"", "alnum", 60),
    ("DD_API_KEY=@", "hex", 32),
    ("TF_VAR_db_password=@", "alnum", 12),
    ("spring.datasource.password=@", "alnum", 12),
    ("db.password: @", "alnum", 12),
    ("ansible_become_pass: '@'", "alnum", 12),
    ("ftp_pass=\"@\"", "alnum", 12),
    ("smtp_pass: \"@\"", "alnum", 12),
    ("credentials=\"@\"", "alnum", 30),
    ("GH_TOKEN=@", "alnum", 40),
    ("NPM_TOKEN=@", "alnum", 36),
    ("CI_JOB_TOKEN=@", "alnum", 24),
    ("token: \"@\"", "alnum", 32),
    ("key = \"@\"", "alnum", 32),
    ("MY_KEY=@", "alnum", 32),
    ("bot_token='@'", "alnum", 40),
    ("os.environ[\"API_KEY\"] = \"@\"", "alnum", 24),
    ("config['secret'] = '@'", "alnum", 24),
    ("$env:API_KEY = \"@\"", "alnum", 24),
    ("'password' => '@'", "alnum", 12),
    ("password: string = \"@\"", "alnum", 12),
    ("const apiKey: string = '@'", "alnum", 24),
    ("subscription-key: @", "hex", 32),
    ("passphrase: \"@\"", "alnum", 14),
    ("X-Vault-Token: @", "alnum", 26),
    ("X-Amz-Security-Token=@", "base64", 200),
    ("sig=@", "alnum", 44),
    ("password\\u003d@", "alnum", 12),
    ("\\u0070assword: \\\"@\\\"", "alnum", 12),
    ("storage_key=@", "base64", 88),
    ("admin_pass=\"@\"", "alnum", 12),
    ("Password1: x, password: @", "alnum", 12),
    ("PASSWORD=@\\nOTHER=1", "alnum", 12),
    // The word that counts is not the last one.
    ("SECRET_KEY_BASE: @", "hex", 64),
    ("DB_PASSWORD_PROD=@", "alnum", 20),
    ("password1=@", "alnum", 20),
    ("API_TOKEN_1=@", "alnum", 20),
    ("MY_API_KEYS=@", "alnum", 20),
    ("\"SecretString\": \"@\"", "alnum", 20),
    ("aws secretsmanager put-secret-value --secret-id x --secret-string @", "alnum", 20),
    ("//artifactory.example.com/:_auth=@\nalways-auth=true", "base64", 24),
    ("X-Amz-Signature=@&x=1", "hex", 64),
    ("Passwort: @", "alnum", 12),
    ("psk=\"@\"", "alnum", 20),
    ("Server=x;Uid=u;Pwd=@;", "alnum", 16),
    ("https://meet.example.com/j/8123?pwd=@", "alnum", 20),
    // The value is on the next line.
    ("{\n  \"password\":\n    \"@\"\n}", "alnum", 20),
    ("db_password: |\n  @\nother: x", "alnum", 20),
    ("db_password: >-\n  @\nother: x", "alnum", 20),
    ("db_password = <<EOT\n@\nEOT", "alnum", 20),
    ("Password:\n@\n", "alnum", 20),
    // Tables and columns.
    ("| DB_PASSWORD | @ |", "alnum", 12),
    ("| DB_PASSWORD | `@` |", "alnum", 12),
    ("\u{2502} DB_PASSWORD \u{2502} @ \u{2502}", "alnum", 12),
    ("Key         Value\n---         -----\npassword    @\nusername    bob", "alnum", 20),
    ("ENV DB_PASSWORD @", "alnum", 12),
    // Pairs.
    ("\"Name\": \"/prod/db/password\", \"Type\": \"SecureString\", \"Value\": \"@\"", "alnum", 20),
    // Arguments and wrappers.
    ("define('DB_PASSWORD', '@');", "alnum", 12),
    ("define( 'AUTH_KEY',         '@#^x' );", "alnum", 30),
    ("os.getenv(\"DB_PASSWORD\", \"@\")", "alnum", 12),
    ("os.environ.setdefault(\"DB_PASSWORD\", \"@\")", "alnum", 12),
    ("ENV.fetch('DB_PASSWORD', '@')", "alnum", 20),
    ("Config { user: \"x\", password: Some(\"@\") }", "alnum", 20),
    ("let password = SecretString::from(\"@\");", "alnum", 20),
    // Command lines.
    ("curl --user=admin:@ https://h", "alnum", 14),
    ("curl --user admin:@ https://h", "alnum", 14),
    ("curl -uadmin:@ https://h", "alnum", 14),
    ("http -a bob:@ GET https://h", "alnum", 14),
    ("redis-cli -h r -a @ ping", "alnum", 14),
    ("ldapsearch -x -D cn=admin,dc=x -w @ -b dc=x", "alnum", 14),
    ("smbclient //h/s -U bob%@", "alnum", 14),
    ("sqlplus scott/@@db", "alnum", 14),
    ("jdbc:oracle:thin:scott/@@//db:1521/x", "alnum", 14),
    ("keytool -list -keystore k.jks -storepass @", "alnum", 14),
    ("zip -P @ a.zip f", "alnum", 14),
    ("ssh-keygen -t ed25519 -N '@' -f k", "alnum", 20),
    ("gh secret set DB_PASSWORD --body @", "alnum", 20),
    ("gh secret set DB_PASSWORD -b\"@\"", "alnum", 20),
    ("aws ssm put-parameter --name /db/password --type SecureString --value @", "alnum", 20),
    ("echo 'bob:@' | chpasswd", "alnum", 14),
    ("echo @ | sudo -S apt update", "alnum", 14),
    ("db.internal:5432:app:appuser:@\n", "alnum", 14),
    ("az devops login <<< @", "lower", 52),
    // Quotes that are escaped in other ways.
    ("&quot;password&quot;:&quot;@&quot;", "alnum", 20),
    ("%22password%22%3A%22@%22", "alnum", 20),
    ("\\u0022password\\u0022:\\u0022@\\u0022", "alnum", 20),
    // Prose.
    ("the password is @", "alnum", 12),
    ("use token @ please", "alnum", 20),
    ("Here's my API key: @", "alnum", 20),
    ("\u{1b}[32mDB_PASSWORD\u{1b}[0m=\u{1b}[33m@\u{1b}[0m", "alnum", 20),
];

fn truths() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, (prefix, class, length)) in SHAPES.iter().enumerate() {
        let secret = format!("{prefix}{}", fake(at as u64, class, *length));
        let place = PLACES[at % PLACES.len()];
        cases.push(case(prefix, &place.replace('@', &secret), &[secret.trim_start_matches("x.")]));
    }
    for (at, (template, class, length)) in NAMED.iter().enumerate() {
        let secret = fake(1000 + at as u64, class, *length);
        // The last `@` of a URL belongs to it.
        let text =
            if template.contains("@@") { template.replacen('@', &secret, 1) } else { template.replace('@', &secret) };
        cases.push(case(template, &text, &[&secret]));
    }
    cases.extend(structures());
    cases.extend(shapes_without_prefix());
    cases
}

/// Secrets that the structure of the JSON tells.
fn structures() -> Vec<Case> {
    let s = |seed: u64, length: usize| fake(seed, "alnum", length);
    let line = |seed: u64| fake(seed, "base64", 64);
    let head = |kind: &str| format!("-----BEGIN {kind}PRIVATE{}", " KEY-----");
    let tail = |kind: &str| format!("-----END {kind}PRIVATE{}", " KEY-----");
    let (a, b, c) = (line(1), line(2), line(3));
    let basic = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(format!("user:{}", s(9, 12)))
    };
    let encoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(format!("export DB_PASSWORD={}\n", s(10, 12)))
    };
    let wrapped: Vec<String> = {
        use base64::Engine as _;
        let key = format!("{}\n{a}\n{b}\n{c}\n{}\n", head("EC "), tail("EC "));
        let text = base64::engine::general_purpose::STANDARD.encode(key).into_bytes();
        text.chunks(76).map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    };
    let web = format!("eyJ{}.eyJ{}.{}", s(11, 30), s(12, 60), fake(13, "word", 43));
    vec![
        of_json(
            "the output of the AWS CLI",
            json!({"Credentials": {"AccessKeyId": format!("ASIA{}", fake(20, "upper", 16)), "SecretAccessKey": fake(21, "base64", 40), "SessionToken": fake(22, "base64", 300)}}),
            &[&fake(21, "base64", 40), &fake(22, "base64", 300)],
        ),
        of_json(
            "the same as text",
            json!({"stdout": json!({"SecretAccessKey": fake(23, "base64", 40), "SessionToken": fake(24, "base64", 300)}).to_string()}),
            &[&fake(23, "base64", 40), &fake(24, "base64", 300)],
        ),
        of_json(
            "pretty-printed in a string",
            json!({"stdout": serde_json::to_string_pretty(&json!({"password": s(25, 12)})).unwrap()}),
            &[&s(25, 12)],
        ),
        of_json(
            "twice nested",
            json!({"a": json!({"b": json!({"password": s(26, 12)}).to_string()}).to_string()}),
            &[&s(26, 12)],
        ),
        of_json(
            "three times nested",
            json!({"z": json!({"a": json!({"b": json!({"api_key": s(27, 24)}).to_string()}).to_string()}).to_string()}),
            &[&s(27, 24)],
        ),
        of_json("a short password", json!({"password": "hunter2"}), &["hunter2"]),
        case("a weak password of a service", "POSTGRES_PASSWORD: letmein", &["letmein"]),
        case("a weak password", "user: x\npassword: letmein\nport: 1", &["letmein"]),
        case("a weak password of an option", "tool --password letmein --verbose", &["letmein"]),
        case("a weak password of a connection", "host=db password=letmein dbname=x", &["letmein"]),
        case("a number", "password: 4921", &["4921"]),
        case("words", "password: \"correct horse battery staple\"", &["correct horse", "staple"]),
        case("words of an option", "tool --password 'correct horse battery staple'", &["correct horse"]),
        of_json("words in JSON", json!({"password": "correct horse battery staple"}), &["horse"]),
        case("a space and symbols", "DB_PASSWORD='p#ss w$rd'", &["p#ss"]),
        case("four times four letters", "app password: abcd efgh ijkm nopq", &["abcd efgh"]),
        case("a mnemonic", "MNEMONIC=\"access absent abstract accident about absorb\"", &["abstract"]),
        of_json("letters only", json!({"password": "hunterhunter"}), &["hunterhunter"]),
        of_json("a number", json!({"password": 48151623}), &["48151623"]),
        of_json("with quotes in it", json!({"password": "a\"b\\c'd9"}), &["b\\\\c'd9"]),
        of_json("nested with quotes in it", json!({"t": json!({"password": "zq\"xw9vk"}).to_string()}), &["xw9vk"]),
        of_json(
            "headers",
            json!({"headers": {"x-api-key": s(28, 20), "Authorization": format!("Basic {basic}")}}),
            &[&s(28, 20), &basic],
        ),
        of_json(
            "headers in lists",
            json!({"headers": [["x-api-key", s(29, 20)], ["accept", "application/json"]]}),
            &[&s(29, 20)],
        ),
        of_json(
            "names and values",
            json!({"env": [{"name": "DB_PASSWORD", "value": "tulip-9-field"}, {"name": "MODE", "value": "prod"}]}),
            &["tulip-9-field"],
        ),
        of_json("keys and values", json!([{"Key": "client_secret", "Value": s(30, 20)}]), &[&s(30, 20)]),
        of_json(
            "parameters",
            json!([{"ParameterKey": "DbPassword", "ParameterValue": "tulip-8-field"}]),
            &["tulip-8-field"],
        ),
        of_json("a value before its name", json!([{"value": s(110, 20), "name": "API_SECRET"}]), &[&s(110, 20)]),
        of_json(
            "a value before its name, in a string",
            json!({"stdout": json!([{"value": s(111, 20), "tags": {"a": "b"}, "name": "API_SECRET"}]).to_string()}),
            &[&s(111, 20)],
        ),
        of_json(
            "a parameter with its path",
            json!({"stdout": serde_json::to_string_pretty(&json!({"Parameter": {"Name": "/prod/db/password", "Type": "SecureString", "Value": s(112, 20)}})).unwrap()}),
            &[&s(112, 20)],
        ),
        of_json("a list of passwords", json!({"passwords": ["a", s(113, 20)]}), &[&s(113, 20)]),
        of_json("an object of secrets", json!({"secrets": {"db": s(114, 20)}}), &[&s(114, 20)]),
        of_json(
            "a password of MySQL in a list",
            json!({"args": ["mysql", "-uroot", format!("-p{}", s(115, 20))]}),
            &[&s(115, 20)],
        ),
        of_json("nested eight times", deep(json!({"secrets": {"db": s(116, 20)}}), 8), &[&s(116, 20)]),
        of_json("arguments", json!({"args": ["login", "--password", "tulip7", "--verbose"]}), &["tulip7"]),
        of_json("docker's config", json!({"auths": {"registry.example.com": {"auth": basic}}}), &[&basic]),
        of_json(
            "a private key in one string",
            json!({"t": format!("{}\n{a}\n{b}\n{}\n", head("RSA "), tail("RSA "))}),
            &[&a, &b],
        ),
        of_json(
            "a private key of OpenSSH",
            json!({"t": format!("{}\n{a}\n{}\n", head("OPENSSH "), tail("OPENSSH "))}),
            &[&a],
        ),
        of_json(
            "a private key in a variable",
            json!({"t": format!("KEY=\"{}\\n{a}\\n{b}\\n{}\\n\"", head(""), tail(""))}),
            &[&a, &b],
        ),
        of_json(
            "a private key with line numbers",
            json!({"t": format!("     1\u{2192}{}\n     2\u{2192}{a}\n     3\u{2192}{b}\n     4\u{2192}{}", head("EC "), tail("EC "))}),
            &[&a, &b],
        ),
        of_json("a private key that is cut off", json!({"t": format!("{}\n{a}\n{b}", head("RSA "))}), &[&a, &b]),
        of_json("a private key over a list", json!({"lines": [head("RSA "), a, b, c, tail("RSA ")]}), &[&a, &b, &c]),
        of_json(
            "a private key in a patch",
            json!({"lines": [format!("+{}", head("")), format!("+{a}"), format!("+{b}"), format!("+{}", tail(""))]}),
            &[&a, &b],
        ),
        of_json("a private key over a list, cut off", json!({"lines": [head("RSA "), a, b]}), &[&a, &b]),
        case("a private key without its beginning", &format!("{a}\n{b}\n{c}\n{}", tail("")), &[&a, &b, &c]),
        case(
            "the end of a numbered private key",
            &format!("   8\u{2192}{a}\n   9\u{2192}{b}\n  10\u{2192}{}", tail("EC ")),
            &[&a, &b],
        ),
        case("the end of a private key in a variable", &format!("{a}\\n{b}\\n{}\\n\"", tail("RSA ")), &[&a, &b]),
        case(
            "a key of PuTTY",
            &format!(
                "Public-Lines: 1\nAAAAB3NzaC1yc2E\nPrivate-Lines: 3\n{a}\n{b}\n{c}\nPrivate-MAC: {}",
                fake(90, "hex", 64)
            ),
            &[&a, &b, &c],
        ),
        case("a private key in base64 of 76 columns", &wrapped.join("\n"), &[&wrapped[0], &wrapped[1], &wrapped[2]]),
        of_json("a private key over members", json!({"1": head("RSA "), "2": a, "3": b, "4": tail("RSA ")}), &[&a, &b]),
        of_json(
            "a service account",
            json!({"type": "service_account", "private_key": format!("{}\n{a}\n{}\n", head(""), tail("")), "client_email": "x@example.com"}),
            &[&a],
        ),
        case(
            "a PGP key",
            &format!(
                "-----BEGIN PGP PRIVATE{} BLOCK-----\n\n{a}\n{b}\n-----END PGP PRIVATE{} BLOCK-----",
                " KEY", " KEY"
            ),
            &[&a, &b],
        ),
        case("basic", &format!("Authorization: Basic {basic}"), &[&basic]),
        case("basic in a command", &format!("curl -H 'Authorization: Basic {basic}' https://h"), &[&basic]),
        case("base64 of a secret", &format!("echo {encoded} | base64 -d"), &[&encoded]),
        case("a web token", &format!("token {web}"), &[&web]),
        case("a web token in a cookie", &format!("Cookie: jwt={web}"), &[&web]),
        case("a web token in a URL", &format!("https://h/cb?id={web}&x=1"), &[&web]),
        of_json(
            "escaped letters",
            serde_json::from_str("{\"t\":\"\\u0070assword=\\u0074ulip-6-field\"}").unwrap(),
            &["tulip-6-field"],
        ),
        Case {
            what: "escaped letters of the name".into(),
            json: "{\"p\\u0061ssword\":\"tulip-5-field\"}".into(),
            secrets: vec!["tulip-5-field".into()],
        },
        Case {
            what: "an escaped value".into(),
            json: format!("{{\"t\":\"gh\\u0070_{}\"}}", s(31, 36)),
            secrets: vec![s(31, 36)],
        },
        Case {
            what: "escaped slashes".into(),
            json: format!("{{\"t\":\"AWS_SECRET_ACCESS_KEY={}\\/{}\"}}", s(32, 20), s(33, 19)),
            secrets: vec![s(32, 20), s(33, 19)],
        },
    ]
}

/// JSON in this many strings of JSON.
fn deep(value: Value, times: usize) -> Value {
    (0..times).fold(value, |value, _| json!({ "inner": value.to_string() }))
}

fn shapes_without_prefix() -> Vec<Case> {
    let s = |seed: u64, length: usize| fake(seed, "alnum", length);
    let slack = format!("T0{}/B0{}/{}", fake(40, "upper", 8), fake(41, "upper", 8), s(42, 24));
    let discord = format!("{}/{}", fake(43, "digit", 18), fake(44, "word", 68));
    let telegram = format!("AA{}", fake(45, "word", 33));
    let azure = format!("{}8Q~{}", s(46, 3), s(47, 34));
    let bot = format!("M{}.G{}.{}", s(48, 25), s(49, 5), fake(50, "word", 38));
    let aws = fake(51, "base64", 40);
    let one_password = {
        let part = |seed: u64, length: usize| fake(seed, "upper", length);
        format!("A3-{}-{}-{}-{}-{}", part(100, 6), part(101, 6), part(102, 5), part(103, 5), part(104, 5))
    };
    vec![
        case("a Slack webhook", &format!("https://hooks.slack.com/services/{slack}"), &[&slack]),
        case("a Slack workflow", &format!("post to https://hooks.slack.com/workflows/{slack} please"), &[&slack]),
        case("a Discord webhook", &format!("https://discord.com/api/webhooks/{discord}"), &[&discord]),
        case(
            "a Teams webhook",
            &format!("https://acme.webhook.office.com/webhookb2/{}@x/IncomingWebhook/{}", s(60, 36), s(61, 32)),
            &[&s(60, 36)],
        ),
        case("a Telegram bot", &format!("bot {}:{telegram}", fake(52, "digit", 10)), &[&telegram]),
        case("an Azure application", &format!("secret value {azure} expires"), &[&azure]),
        case("a Discord bot", &format!("client.login {bot}"), &[&bot]),
        case("an AWS secret alone", &format!("keys\n{aws}\n"), &[&aws]),
        case("an AWS secret after its name", &format!("aws configure set aws_secret_access_key {aws}"), &[&aws]),
        case("random letters and digits", &format!("use {} for it", s(53, 40)), &[&s(53, 40)]),
        case("a bcrypt hash", &format!("hash $2b$12${}", s(91, 53)), &[&s(91, 53)]),
        case("a line of shadow", &format!("root:$6${}${}:19000:0:99999:7:::", s(92, 8), s(93, 86)), &[&s(93, 86)]),
        case("a line of htpasswd", &format!("bob:$apr1${}${}", s(94, 8), s(95, 22)), &[&s(95, 22)]),
        case("a key of 1Password", &format!("1P {one_password}"), &[&one_password]),
        case("Firebase", &format!("AAAA{}:{}", s(98, 7), s(99, 134)), &[&s(99, 134)]),
        case("SendGrid", &format!("SG.{}.{}", fake(54, "word", 22), fake(55, "word", 43)), &[&fake(55, "word", 43)]),
        case("Airtable", &format!("pat{}.{}", s(56, 14), fake(57, "hex", 64)), &[&fake(57, "hex", 64)]),
        case(
            "Braintree",
            &format!("access_token$production${}${}", fake(58, "lower", 16), fake(59, "hex", 32)),
            &[&fake(58, "lower", 16)],
        ),
    ]
}

/// Texts without a secret.
const INNOCENT: &[&str] = &[
    "fix the token parser in src/token.rs",
    "the password is wrong",
    "password: required",
    "Password:",
    "Enter your password: ",
    "forgot password?",
    "password: string;",
    "password: String,",
    "let password = get_password();",
    "password = os.environ[\"DB_PASSWORD\"]",
    "password=${DB_PASSWORD}",
    "password: $DB_PASSWORD",
    "password: <your password>",
    "password: ********",
    "password: xxxxxxxx",
    "PASSWORD=changeme",
    "password = None",
    "password=True",
    "self.password = password",
    "user.password = req.body.password",
    "api_key = config.api_key",
    "apiKey: process.env.API_KEY,",
    "const apiKey = import.meta.env.VITE_API_KEY",
    "api_key=YOUR_API_KEY",
    "API_KEY=<api-key>",
    "x-api-key: {{api_key}}",
    "Authorization: Bearer ${token}",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "headers: { Authorization: `Bearer ${token}` }",
    "authorization: \"required\"",
    "secret: my-secret-name",
    "secretName: db-credentials",
    "secretKeyRef:\n  name: db\n  key: password",
    "key: value",
    "\"key\": \"Enter\"",
    "primary_key: id",
    "primaryKey: \"userId\"",
    "PRIMARY KEY (id)",
    "foreign_key = 'user_id'",
    "partition_key=\"tenant#42\"",
    "sort key: created_at",
    "cache_key = f\"user:{id}\"",
    "key=lambda x: x[1]",
    "sorted(a, key=len)",
    "for key, value in items:",
    "keyboard: qwerty",
    "monkey: banana123456789",
    "hotkey: \"ctrl+shift+p\"",
    "i18nKey: \"settings.password.title\"",
    "publicKey: \"MFkwEwYHKoZIzj0CAQYI\"",
    "next_token = page.next_token",
    "nextPageToken: \"CAUQAA1b2C3d4E5f6G7h8J9k0\"",
    "max_tokens=4096",
    "input_tokens: 12345678",
    "cancellationToken: CancellationToken",
    "token: Token",
    "token = self.next_token()",
    "let token = tokens.peek();",
    "tokenizer.eos_token = '<|endoftext|>'",
    "csrf token mismatch",
    "token expired",
    "the bearer of this letter",
    "bearer authentication-required",
    "basic usage",
    "Basic understanding",
    "Bearer token",
    "git checkout 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "commit 1f2e3d4c5b6a79880123456789abcdef01234567",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "uuid 550e8400-e29b-41d4-a716-446655440000",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    "\"integrity\": \"sha512-Fd1sR0S4OGxXTQqYzl1XcZ5vEJ0kF8mX3Gr6NwqWdHb7YkJ2mP9sT4uVwXyZaBcDeFgHiJkLmNoPqRsTuVwX1w==\"",
    "github.com/a/b v1.2.3 h1:Abc1Def2Ghi3Jkl4Mno5Pqr6Stu7Vwx8Yz90aBcDeF0=",
    "SHA256:Abc1Def2Ghi3Jkl4Mno5Pqr6Stu7Vwx8Yz90aBcDeF0",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAbc1Def2Ghi3Jkl4Mno5Pqr6Stu7Vwx8Yz90aBcDeF0 me@host",
    "toolu_01A1b2C3d4E5f6G7h8J9k0L1m2",
    "msg_01XFDUDYJgAACzvnptvVoYEL",
    "req_011CSHoEeqs5C35K2UUqR7Fy",
    "model: claude-opus-4-1-20250805",
    "cus_NffrFeUfNV2Hib1A2b3C4d5E6f7G8h9",
    "https://example.com:8080/a@b",
    "https://docs.example.com/d/1A2b3C4d5E6f7G8h9J0kLmNoPqRsTuVwXyZ1234567/edit",
    "ssh://git@github.com/a/b.git",
    "git@github.com:a/b.git",
    "postgres://localhost/db",
    "postgres://user:$PASSWORD@host/db",
    "redis://:${REDIS_PASSWORD}@host",
    "https://user@example.com/",
    "mailto:me@example.com",
    "/nix/store/8ha1dhmx807czjczmwy078s4r9s254il-hello-2.12",
    "target/debug/deps/sessync-6654d98cb3c8fcc2",
    "src/components/UserPasswordResetFormContainer2.tsx",
    "getUserNameFromDatabaseByIdAndEmail2024",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128",
    "AWS_REGION=eu-west-1",
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set",
    "set ANTHROPIC_API_KEY before you start",
    "export PATH=$PATH:/usr/local/bin",
    "PWD=/home/me/src/app1",
    "OLDPWD=/home/me/src/app2",
    "the key is under the mat",
    "a secret garden",
    "top secret: nothing",
    "type Secret = string;",
    "struct Password(String);",
    "Vec<Secret>::new()",
    "fn password(&self) -> &str",
    "impl Token {",
    "enum TokenKind { Key, Secret }",
    "getPassword(\"user\")",
    "expect(password).toBe(\"\")",
    "label=\"Password\"",
    "placeholder=\"Enter your password\"",
    "<label>Password</label>",
    "<Password>{value}</Password>",
    "name=\"password\" type=\"password\"",
    "aria-label=\"Show password\"",
    "password_hint: \"your first pet\"",
    "passwordHash VARCHAR(255)",
    "password VARCHAR(255) NOT NULL",
    "validatePassword(\"must be 8 characters\")",
    "--password-stdin",
    "--token TOKEN",
    "the --token flag is deprecated",
    "mysql -u root -p",
    "docker run -p 8080:80 nginx",
    "curl -u user https://h",
    "ls -p /tmp",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\nRTESMBAGA1UEChMJQmFsdGltb3JlMRMwEQYDVQQLEwpDeWJlclRydXN0MSIwIAYD\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    "look for -----BEGIN RSA PRIVATE KEY----- in the repository, then stop",
    "sk-estimator-doc-link-fitted-hover-button-container",
    "sk-learn",
    "key-value store",
    "pat-terns",
    "SG.UI.Controls",
    "eyJ is how they begin",
    "xoxb- tokens begin so",
    "ghp_ is the prefix",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-ant-your-api-key-here-please-replace-it",
    "AKIA is the prefix",
    "npm_config_registry=https://registry.example.com/",
    "hf_hub_download(repo_id)",
    "pypi-server version",
    "s.startsWith('x')",
    "dapi version",
    "ver:1-hint: none",
    "12:34:56 password reset mail sent",
    "2026-11-01T00:00:00Z",
    "192.168.0.1:8080",
    "[::1]:6379",
    "a == b && c != d",
    "x := y",
    "if (token === undefined) return",
    "token?: string",
    "secret ? 1 : 2",
    "authToken: null",
    "\"api_key\": null",
    "\"token\": \"\"",
    "data:image/png;base64,iVBORw0KGgo=",
    "0x9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "sessionId=s1",
    "session: \"main\"",
    "cookie: none",
    "Set-Cookie: theme=dark; Path=/",
    "\"hash\": \"9f86d081884c7d65\"",
    "salt and pepper",
    "auth: true",
    "auth: required",
    "pass: 12, fail: 0",
    "pass=5 fail=1",
    "tests pass: all",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "password:\n  type: string",
    "Password:\nSorry, try again.",
    "password: incorrect",
    "password    required",
    "password\n--------\nNo result",
    "| key | default | meaning |\n|---|---|---|\n| `token` | none | what is sent |",
    "| password | required | the password of the user |",
    "the --password option is deprecated",
    "--password prompt",
    "os.getenv(\"DB_PASSWORD\", \"\")",
    "getenv('API_KEY', None)",
    "t(\"password\", \"Password\")",
    "password: Some(password)",
    "password: Some(\"password\".into())",
    "max_tokens_default: 4096",
    "database: production",
    "PWD=/srv/app-4f2a9c/Build7",
    "src/main.rs:5432:12:error:mismatched",
    "12:34:56:78:90",
    "cat a | sudo -S tee b",
    "ls -a src; git push -u origin main",
    "&quot;password&quot; is a word",
    "https://example.com/?q=%22password%22%3A%22%22",
    "the password is case-sensitive",
    "the token is expired",
    "API key: where is it stored?",
    "password: \"Enter the new one twice please\"",
];

fn innocents() -> Vec<Case> {
    let mut cases: Vec<Case> = INNOCENT.iter().map(|text| case(text, text, &[])).collect();
    let wrapped: String = (0..6).map(|at| fake(70 + at, "base64", 76) + "\n").collect();
    cases.push(case("wrapped data", &wrapped, &[]));
    cases.push(case("a picture", &fake(80, "base64", 5000), &[]));
    cases.push(of_json(
        "a signature",
        json!({"type": "thinking", "thinking": "hm", "signature": fake(81, "base64", 400)}),
        &[],
    ));
    cases.push(of_json(
        "usage",
        json!({"usage": {"input_tokens": 12, "cache_creation_input_tokens": 3, "service_tier": "standard"}}),
        &[],
    ));
    cases.push(of_json("a list of names", json!({"required": ["username", "password", "token"]}), &[]));
    cases.push(of_json(
        "a schema",
        json!({"properties": {"password": {"type": "string"}, "api_key": {"type": "string"}}}),
        &[],
    ));
    cases.push(of_json(
        "names of secrets",
        json!({"secrets": [{"name": "db-password-1", "id": "a1b2c3d4"}], "passwords": ["required", "the old one"]}),
        &[],
    ));
    cases.push(of_json("a program without a password", json!({"args": ["mysql", "-p", "-h", "db-1"]}), &[]));
    cases.push(of_json("a pair of other things", json!({"value": "a1b2c3d4e5", "tags": {"name": "API_SECRET"}}), &[]));
    cases.push(of_json("labels", json!({"password": "Enter your password", "token": "Token"}), &[]));
    cases.push(of_json("a reference", json!({"password": "${DB_PASSWORD}", "api_key": "<api key>"}), &[]));
    cases.push(of_json(
        "a key of a map",
        json!({"key": "user-settings-page-2", "cache_key": fake(82, "hex", 40)}),
        &[],
    ));
    cases.push(case("the key of a cache", &format!("key: linux-cargo-{}", fake(85, "hex", 64)), &[]));
    cases.push(case("an address of Sentry", &format!("https://{}@o1.ingest.sentry.io/12", fake(86, "hex", 32)), &[]));
    cases.push(case(
        "a public key",
        &format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n{}\n-----END PUBLIC KEY-----",
            fake(87, "base64", 64),
            fake(88, "base64", 40)
        ),
        &[],
    ));
    cases.push(of_json(
        "pages",
        json!({"nextPageToken": fake(83, "alnum", 40), "next_token": fake(84, "alnum", 40)}),
        &[],
    ));
    cases
}

#[test]
fn every_secret_of_the_corpus_is_hidden_and_hardly_anything_else() {
    let redactor = Redactor::new(&[]).unwrap();
    let (truths, innocents) = (truths(), innocents());
    assert!(truths.len() + innocents.len() >= 300, "{} cases", truths.len() + innocents.len());
    let (mut secrets, mut hidden, mut wrong) = (0_u64, 0_u64, Vec::new());
    let mut missed = Vec::new();
    for case in &truths {
        let mut counts = Counts::new();
        let out = redactor.json(&case.json, &mut counts).into_owned();
        assert!(serde_json::from_str::<Value>(&out).is_ok(), "{}: {out}", case.what);
        for secret in &case.secrets {
            secrets += 1;
            match out.contains(secret.as_str()) || !case.json.contains(secret.as_str()) && !out.contains("[REDACTED") {
                true => missed.push(format!("{}: {}", case.what, case.json)),
                false => hidden += 1,
            }
        }
    }
    for case in &innocents {
        let mut counts = Counts::new();
        let out = redactor.json(&case.json, &mut counts);
        if out != case.json {
            wrong.push(format!("{}: {out}", case.what));
        }
    }
    let precision = hidden as f64 / (hidden as f64 + wrong.len() as f64);
    assert!(missed.is_empty(), "{} of {secrets} secrets are not hidden:\n{}", missed.len(), missed.join("\n"));
    assert!(precision >= 0.97, "precision {precision:.3}; hidden without reason:\n{}", wrong.join("\n"));
}
