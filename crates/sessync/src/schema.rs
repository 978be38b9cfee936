//! The SQL that creates the table, the view without duplicates, and the view of usage.

use crate::outside::bigquery::Table;
use crate::usage::prices::{CACHE_HOUR, CACHE_MINUTES, CACHE_READ, PRICES};

/// A column of the table.
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub required: bool,
    pub description: &'static str,
}

const fn column(name: &'static str, kind: &'static str, required: bool, description: &'static str) -> Column {
    Column { name, kind, required, description }
}

/// The columns, in this order.
pub const COLUMNS: &[Column] = &[
    column("uuid", "STRING", true, "the entry; nearly always unique"),
    column("timestamp", "TIMESTAMP", true, "when the entry was written"),
    column("session_id", "STRING", true, "the session"),
    column("agent_id", "STRING", false, "the agent, in a side chain"),
    column("is_sidechain", "BOOL", false, "whether an agent wrote it"),
    column("parent_uuid", "STRING", false, "the entry before it"),
    column("user_type", "STRING", false, ""),
    column("type", "STRING", true, "user, assistant, system, ..."),
    column("slug", "STRING", false, "the session's name"),
    column("request_id", "STRING", false, "the API request"),
    column("cwd", "STRING", false, "the working directory"),
    column("git_branch", "STRING", false, ""),
    column("version", "STRING", false, "of Claude Code"),
    column("message", "JSON", false, "what was said"),
    column("tool_use_result", "JSON", false, "what a tool returned"),
    column("developer_id", "STRING", true, "from the config"),
    column("hostname", "STRING", true, "the machine"),
    column("user_email", "STRING", true, "from the config"),
    column("project_name", "STRING", true, "from the config"),
    column("upload_batch_id", "STRING", true, "the batch: what sessync asks for when it is uncertain"),
    column("source_file", "STRING", true, "the log file, below the directory of all logs"),
    column("uploaded_at", "TIMESTAMP", true, "when the batch was made"),
];

/// The statements that create the table, partitioned by day and clustered by session and developer, and its views.
pub(crate) fn ddl(table: &Table) -> [String; 3] {
    let columns: Vec<String> = COLUMNS
        .iter()
        .map(|column| {
            let required = if column.required { " NOT NULL" } else { "" };
            let options = match column.description {
                "" => String::new(),
                text => format!(" OPTIONS (description = \"{text}\")"),
            };
            format!("  `{}` {}{required}{options}", column.name, column.kind)
        })
        .collect();
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {} (\n{}\n)\nPARTITION BY DATE(timestamp)\nCLUSTER BY session_id, developer_id\nOPTIONS (description = \"Session logs, uploaded by sessync\")",
        table.sql(),
        columns.join(",\n")
    );
    // Two rows of the same line differ at most in where and when they were uploaded. The content is part of the key
    // because some entries share a uuid. The timestamp is part of it so that a filter on it still selects partitions.
    let view = format!(
        "CREATE OR REPLACE VIEW {} AS\nSELECT * FROM {}\nWHERE TRUE\nQUALIFY ROW_NUMBER() OVER (\n  PARTITION BY timestamp, uuid, type, TO_JSON_STRING(message), TO_JSON_STRING(tool_use_result)\n  ORDER BY uploaded_at\n) = 1",
        view(table).sql(),
        table.sql(),
    );
    [create, view, usage_ddl(table)]
}

/// The view of usage: one row per message and request, with the usage of its last line. It does what `usage` does for
/// `sessync report`, with the same prices.
fn usage_ddl(table: &Table) -> String {
    let prices: Vec<String> = PRICES
        .iter()
        .map(|price| {
            let dollars = |thousandths: u64| format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            let (input, output) = (dollars(price.input), dollars(price.output));
            format!(
                "    STRUCT('{}' AS name, TIMESTAMP '{} 00:00:00+00' AS since, {input} AS input, {output} AS output)",
                price.model, price.since
            )
        })
        .collect();
    let tokens = |path: &str| format!("IFNULL(SAFE_CAST(JSON_VALUE(message, '$.usage.{path}') AS INT64), 0)");
    let share = |hundredths: u64| format!("{}.{:02}", hundredths / 100, hundredths % 100);
    format!(
        "CREATE OR REPLACE VIEW {view} AS
WITH responses AS (
  SELECT
    timestamp, session_id, developer_id, user_email, hostname, project_name, agent_id,
    IFNULL(is_sidechain, FALSE) OR agent_id IS NOT NULL AS is_subagent,
    IFNULL(JSON_VALUE(message, '$.id'), uuid) AS message_id,
    IFNULL(request_id, '') AS request_id,
    IFNULL(JSON_VALUE(message, '$.model'), 'unknown') AS model,
    {input} AS input_tokens,
    {output} AS output_tokens,
    {read} AS cache_read_tokens,
    COALESCE(SAFE_CAST(JSON_VALUE(message, '$.usage.cache_creation_input_tokens') AS INT64), {minutes} + {hour}) AS cache_creation_tokens,
    {hour} AS cache_hour_tokens
  FROM {table}
  WHERE type = 'assistant'
    AND JSON_QUERY(message, '$.usage') IS NOT NULL
    AND IFNULL(JSON_VALUE(message, '$.model'), '') != '<synthetic>'
  QUALIFY ROW_NUMBER() OVER (PARTITION BY message_id, request_id ORDER BY timestamp DESC, output_tokens DESC) = 1
),
prices AS (
  SELECT * FROM UNNEST([
{prices}
  ])
),
named AS (
  SELECT
    *,
    REGEXP_REPLACE(IFNULL(REGEXP_EXTRACT(model, r'claude-[a-z0-9-]+'), model), r'(-[0-9]{{8}}.*|-v[0-9]+|-latest|-0)$', '') AS name
  FROM responses
)
SELECT
  named.* EXCEPT (name),
  (
    SELECT
      (named.input_tokens * price.input
        + (named.cache_creation_tokens - LEAST(named.cache_hour_tokens, named.cache_creation_tokens)) * price.input * {five}
        + LEAST(named.cache_hour_tokens, named.cache_creation_tokens) * price.input * {sixty}
        + named.cache_read_tokens * price.input * {reading}
        + named.output_tokens * price.output) / 1000000
    FROM prices AS price
    WHERE price.name = named.name
    ORDER BY price.since <= named.timestamp DESC, IF(price.since <= named.timestamp, price.since, NULL) DESC, price.since
    LIMIT 1
  ) AS cost_usd
FROM named",
        view = usage(table).sql(),
        table = table.sql(),
        input = tokens("input_tokens"),
        output = tokens("output_tokens"),
        read = tokens("cache_read_input_tokens"),
        minutes = tokens("cache_creation.ephemeral_5m_input_tokens"),
        hour = tokens("cache_creation.ephemeral_1h_input_tokens"),
        prices = prices.join(",\n"),
        five = share(CACHE_MINUTES),
        sixty = share(CACHE_HOUR),
        reading = share(CACHE_READ),
    )
}

/// The view of usage beside the table.
pub(crate) fn usage(table: &Table) -> Table {
    Table { table: format!("{}_usage", table.table), ..table.clone() }
}

/// The view beside the table.
pub(crate) fn view(table: &Table) -> Table {
    Table { table: format!("{}_once", table.table), ..table.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_columns_it_promises_in_order() {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(
            names.join(", "),
            "uuid, timestamp, session_id, agent_id, is_sidechain, parent_uuid, user_type, type, slug, request_id, cwd, \
             git_branch, version, message, tool_use_result, developer_id, hostname, user_email, project_name, \
             upload_batch_id, source_file, uploaded_at"
        );
    }

    #[test]
    fn the_table_is_partitioned_by_day_and_clustered_by_session_and_developer() {
        let table = Table { project: "p".into(), dataset: "d".into(), table: "t".into(), location: "US".into() };
        let [create, view, usage] = ddl(&table);
        assert!(create.contains("PARTITION BY DATE(timestamp)\nCLUSTER BY session_id, developer_id"), "{create}");
        assert!(view.starts_with("CREATE OR REPLACE VIEW `p.d.t_once`"), "{view}");
        assert!(usage.starts_with("CREATE OR REPLACE VIEW `p.d.t_usage`"), "{usage}");
        assert!(usage.contains("PARTITION BY message_id, request_id ORDER BY timestamp DESC"), "{usage}");
        for price in PRICES {
            assert!(
                usage.contains(&format!("'{}' AS name, TIMESTAMP '{}", price.model, price.since)),
                "{}",
                price.model
            );
        }
    }

    #[test]
    fn the_ready_queries_use_the_partition_and_the_view() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let sql = std::fs::read_to_string(&path).unwrap();
            assert!(
                sql.contains("FROM `PROJECT.DATASET.TABLE_once`") || sql.contains("FROM `PROJECT.DATASET.TABLE_usage`"),
                "{}",
                path.display()
            );
            // A sum over lines counts tokens several times.
            assert!(!sql.contains("message.usage"), "{}", path.display());
            assert!(sql.contains("WHERE timestamp >= TIMESTAMP_SUB("), "{}", path.display());
            names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
        names.sort();
        assert_eq!(names, ["activity", "developers", "errors", "messages", "sessions", "tools", "usage"]);
    }
}
